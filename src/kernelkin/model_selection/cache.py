"""Finished lines on disk, so that a search that was killed goes on where it stopped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from pickle import PicklingError
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from ..data import TaskData
from .folds import Fold
from .grid import Line
from .path import Outcome


class Cache:
    """One file for each finished (fold, line), written whole or not at all. Without a folder, nothing is kept."""

    def __init__(self, folder: Any, data: TaskData) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._data = joblib.hash([data.X, data.rows, data.y, data.sample_weight, data.labels, data.feature_names])

    def load(self, line: Line, fold: Fold) -> list[Outcome] | None:
        """What was stored of this line on this fold."""
        if self.folder is None or not (path := self._path(line, fold)).exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            widths, sizes = stored["widths"], [len(held) for held in fold.held]
            ends = np.cumsum(widths * sizes)[:-1]
            return [
                Outcome([part.reshape(-1, m) for part, m in zip(np.split(flat, ends), widths, strict=True)], *facts)
                for flat, facts in zip(
                    stored["values"],
                    zip(stored["converged"].tolist(), stored["seconds"].tolist(), strict=True),
                    strict=True,
                )
            ]

    def store(self, line: Line, fold: Fold, outcomes: Sequence[Outcome]) -> None:
        if self.folder is None:
            return
        arrays = {
            "widths": np.array([part.shape[1] for part in outcomes[0].values]),
            "values": np.array([np.concatenate([part.ravel() for part in outcome.values]) for outcome in outcomes]),
            "converged": np.array([outcome.converged for outcome in outcomes]),
            "seconds": np.array([outcome.seconds for outcome in outcomes]),
        }
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(temporary, self._path(line, fold))
        except BaseException:
            os.unlink(temporary)
            raise

    def _path(self, line: Line, fold: Fold) -> Path:
        assert self.folder is not None
        models = [_description(step.estimator) for step in line.steps]
        try:
            key = joblib.hash([self._data, fold.kept, fold.held, models])
        except (PicklingError, AttributeError) as error:
            raise ValueError(
                f"a cache needs parameters that can be pickled, such as kernels of this module: {error}"
            ) from None
        return self.folder / f"{key}.npz"


def _description(estimator: BaseEstimator) -> list[Any]:
    params = estimator.get_params(deep=False)
    return [type(estimator).__qualname__, sorted(params.items(), key=lambda item: item[0])]
