"""Scores of tasks by several models on the same rows, and paired differences with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import TaskData
from ..paper.model_selection.scoring import METRICS

BOOTSTRAP = 300
# Differences of scores below this are of no use, however certain.
LEAST = 0.002


@dataclass(frozen=True)
class Summary:
    """A number over tasks, three ways."""

    tasks: float
    rows: float
    median: float


@dataclass(frozen=True)
class Gain:
    """What one model gains on another.

    Attributes
    ----------
    mean : Summary
        Mean over tasks, mean over rows, and median over tasks, of the difference of scores.
    low, high : Summary
        Ends of the intervals, by resampling the rows of every task.
    tasks : (T,) the gain of each task, drawn towards the mean as far as its rows leave it open; NaN: set aside.
    ahead, behind : int
        Tasks whose own interval is above, and below, zero.
    """

    mean: Summary
    low: Summary
    high: Summary
    tasks: np.ndarray
    ahead: int
    behind: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval of the mean over tasks leaves out zero, and the mean is worth it; otherwise 0."""
        if abs(self.mean.tasks) < LEAST:
            return 0
        return int(self.low.tasks > 0) - int(self.high.tasks < 0)

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Gain:
        """A gain from its fields as plain numbers and lists."""
        ends = {key: Summary(**found[key]) for key in ("mean", "low", "high")}
        return cls(**{**found, **ends, "tasks": np.asarray(found["tasks"])})


class HeldOutScores:
    """Scores (models, T) of held-out values, as they are and with the rows of every task drawn again.

    Parameters
    ----------
    data : the data
    tested : for each task, which of its rows were left out in every repetition
    values : for each model and repetition, the values of each task
    metric : "r2", "accuracy" or "roc_auc"
    min_rows : tasks with fewer tested rows are set aside
    """

    def __init__(
        self,
        data: TaskData,
        tested: Sequence[np.ndarray],
        values: dict[str, list[list[np.ndarray]]],
        metric: str,
        min_rows: int,
        rng: np.random.RandomState,
    ) -> None:
        self.names, self.metric = list(values), metric
        self.n_repeats = len(next(iter(values.values())))
        self.rows = np.array([int(mask.sum()) for mask in tested])
        self._y = [self._read(y, y)[mask] for y, mask in zip(data.y, tested, strict=True)]
        # (models, repetitions, rows) of each task.
        self._values = [
            np.array([[repetition[t][mask] for repetition in values[name]] for name in self.names])
            for t, mask in enumerate(tested)
        ]
        self.used = np.array([self._is_usable(y, min_rows) for y in self._y])
        self.scores = np.stack([self._score(t, None) for t in range(len(self._y))], axis=1)
        self.drawn = np.stack([self._resample(t, rng) for t in range(len(self._y))], axis=2)

    def _read(self, y: np.ndarray, all_y: np.ndarray) -> np.ndarray:
        return y == np.unique(all_y)[-1] if self.metric == "roc_auc" else y

    def _is_usable(self, y: np.ndarray, min_rows: int) -> bool:
        if self.metric == "roc_auc":
            return len(y) >= min_rows and min(int(y.sum()), int((~y).sum())) >= 2
        return len(y) >= min_rows and (self.metric == "accuracy" or float(np.ptp(y)) > 0)

    def _score(self, t: int, drawn: np.ndarray | None) -> np.ndarray:
        """Scores (models,) of task t on these of its rows, the mean of the repetitions."""
        y, values = self._y[t], self._values[t]
        if not self.used[t]:
            return np.full(len(values), np.nan)
        if drawn is not None:
            y, values = y[drawn], values[:, :, drawn]
        if self.metric == "r2":
            # Against the variance of all tested rows, so that a draw of rows changes the errors alone.
            return 1.0 - np.square(y - values).mean(axis=(1, 2)) / self._y[t].var()
        if self.metric == "accuracy":
            return (y == values).mean(axis=(1, 2))
        weight = np.ones(len(y))
        function = METRICS["roc_auc"].function
        return np.array([np.mean([function(y, repetition, weight) for repetition in model]) for model in values])

    def _resample(self, t: int, rng: np.random.RandomState) -> np.ndarray:
        """Scores (BOOTSTRAP, models) of task t with its rows drawn again, classes apart for AUC."""
        y = self._y[t]
        parts = [np.flatnonzero(y), np.flatnonzero(~y)] if self.metric == "roc_auc" else [np.arange(len(y))]
        if not self.used[t]:
            return np.full((BOOTSTRAP, len(self.names)), np.nan)
        draws = ([rng.choice(part, len(part)) for part in parts] for _ in range(BOOTSTRAP))
        return np.stack([self._score(t, np.concatenate(draw)) for draw in draws])

    def summary(self, scores: np.ndarray) -> Summary:
        """Scores or differences (T,) -> over the tasks that are used."""
        kept, rows = scores[self.used], self.rows[self.used]
        return Summary(float(kept.mean()), float(np.average(kept, weights=rows)), float(np.median(kept)))

    def gain(self, name: str, other: str, level: float) -> Gain:
        """What model `name` gains on `other`."""
        i, j = self.names.index(name), self.names.index(other)
        gain, drawn = self.scores[i] - self.scores[j], self.drawn[:, i] - self.drawn[:, j]
        summaries = [self.summary(values) for values in drawn]
        low, high = (
            Summary(
                *(float(np.quantile([getattr(s, part) for s in summaries], q)) for part in ("tasks", "rows", "median"))
            )
            for q in ((1 - level) / 2, (1 + level) / 2)
        )
        ends = np.nanquantile(drawn[:, self.used], [(1 - level) / 2, (1 + level) / 2], axis=0)
        return Gain(
            self.summary(gain), low, high, self._shrunk(gain, drawn), int((ends[0] > 0).sum()), int((ends[1] < 0).sum())
        )

    def _shrunk(self, gain: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """Gains (T,) drawn towards their mean by how much of their spread is noise (empirical Bayes)."""
        found = np.full(len(gain), np.nan)
        kept, noise = gain[self.used], drawn[:, self.used].var(axis=0)
        mean = np.average(kept, weights=1.0 / (noise + max(float(kept.var()), 1e-12)))
        between = max(float(kept.var(ddof=1) if len(kept) > 1 else 0.0) - float(noise.mean()), 0.0)
        found[self.used] = mean + between / np.maximum(between + noise, 1e-300) * (kept - mean)
        return found
