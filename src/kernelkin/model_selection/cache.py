"""Finished lines of candidates on disk, so that a search that was killed continues where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Fold, TaskData
from ..io.cache import ResultCache, fingerprint
from .fold_fits import Outcome
from .grid import Line


class Cache:
    """The outcomes of each finished line on each fold. Without a folder, nothing is kept."""

    def __init__(self, folder: Any, data: TaskData) -> None:
        self._results = None if folder is None else ResultCache(folder)
        self._data = "" if folder is None else fingerprint(data)

    def load(self, line: Line, fold: Fold) -> list[Outcome] | None:
        """Return what was stored of this line on this fold."""
        stored = None if self._results is None else self._results.load(self._key(line, fold))
        if stored is None:
            return None
        widths, sizes = stored["widths"], [len(held) for held in fold.held]
        ends = np.cumsum(widths * sizes)[:-1]
        facts = zip(stored["converged"].tolist(), stored["seconds"].tolist(), strict=True)
        return [
            Outcome([part.reshape(-1, m) for part, m in zip(np.split(flat, ends), widths, strict=True)], *fact)
            for flat, fact in zip(stored["values"], facts, strict=True)
        ]

    def store(self, line: Line, fold: Fold, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a line on a fold."""
        if self._results is None:
            return
        self._results.store(
            self._key(line, fold),
            widths=np.array([part.shape[1] for part in outcomes[0].values]),
            values=np.array([np.concatenate([part.ravel() for part in outcome.values]) for outcome in outcomes]),
            converged=np.array([outcome.converged for outcome in outcomes]),
            seconds=np.array([outcome.seconds for outcome in outcomes]),
        )

    def _key(self, line: Line, fold: Fold) -> str:
        specifications = [step.specification for step in line.steps]
        return fingerprint(self._data, fold.kept, fold.held, specifications)
