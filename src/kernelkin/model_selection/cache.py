"""Finished lines on disk, so that a search that was killed goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import TaskData
from ..fingerprint import fingerprint
from ..storage import Folder
from .fold_fits import Outcome
from .folds import Fold
from .grid import Line


class Cache:
    """One file for each finished (fold, line). Without a folder, nothing is kept."""

    def __init__(self, folder: Any, data: TaskData) -> None:
        self._folder = None if folder is None else Folder(folder)
        if self._folder is not None:
            self._folder.prepare()
            self._data = fingerprint(data)

    def load(self, line: Line, fold: Fold) -> list[Outcome] | None:
        """What was stored of this line on this fold."""
        stored = None if self._folder is None else self._folder.read_arrays(self._name(line, fold))
        if stored is None:
            return None
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
        if self._folder is None:
            return
        self._folder.write_arrays(
            self._name(line, fold),
            widths=np.array([part.shape[1] for part in outcomes[0].values]),
            values=np.array([np.concatenate([part.ravel() for part in outcome.values]) for outcome in outcomes]),
            converged=np.array([outcome.converged for outcome in outcomes]),
            seconds=np.array([outcome.seconds for outcome in outcomes]),
        )

    def _name(self, line: Line, fold: Fold) -> str:
        specifications = [step.specification for step in line.steps]
        return f"{fingerprint(self._data, fold.kept, fold.held, specifications)}.npz"
