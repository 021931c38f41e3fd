"""Held-out rows with their predictions, their scores, and the gain of one model over another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

RMSE, R2, WITHIN = "RMSE", "R²", "R² within groups"
LOG_LOSS, AUC, ACCURACY = "log loss", "AUC", "accuracy"
WITHIN_MEANS = (
    "R² within groups is the predicted share of the variance around each group's own mean. It ignores differences "
    "between group levels, so it is at most R²; below 0, errors are larger than this variance"
)
# Minimum number of test rows for a group to have its own score.
LEAST_ROWS = 5
# Differences in R² or log loss below this are irrelevant, however certain.
LEAST_GAIN = 0.002
# Level of the intervals of scores, and coverage of the intervals of targets.
LEVEL, COVERAGE = 0.95, 0.9


def score_rows(y: np.ndarray, predicted: np.ndarray, codes: np.ndarray, classes: Any = None) -> dict[str, float]:
    """Return scores over all test rows, the most important first; NaN if a score is not defined.

    For targets y (n,) and predicted means (n,) of rows with group `codes` (n,): RMSE, R² and R² within groups. For
    `classes` (C,) and predicted probabilities (n, C): log loss, AUC (two classes) and accuracy.
    """
    if classes is None:
        error = float(np.mean((y - predicted) ** 2))
        _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
        # Unbiased, so that the true levels alone have a score of zero; rows that are alone in their group do not count.
        n = np.where(counts > 1, counts, np.nan)[place]
        within = np.nansum((y - (np.bincount(place, y) / counts)[place]) ** 2 * n / (n - 1.0))
        of_several = np.sum((y - predicted)[n > 1] ** 2)
        return {RMSE: error**0.5, R2: _r2(error, y.var()), WITHIN: _r2(of_several, within)}
    found = {LOG_LOSS: float(row_losses(y, predicted, classes).mean())}
    if len(classes) == 2:
        both = len(np.unique(y)) == 2
        found[AUC] = float(roc_auc_score(y == classes[1], predicted[:, 1])) if both else float("nan")
    found[ACCURACY] = float(np.mean(np.asarray(classes)[predicted.argmax(axis=1)] == y))
    return found


def _r2(error: float, variance: float) -> float:
    return 1.0 - error / float(variance) if variance > 0 else float("nan")


def row_losses(y: np.ndarray, predicted: np.ndarray, classes: Any = None) -> np.ndarray:
    """Return the squared error of each row (n,), or minus the log of the probability of its class."""
    if classes is None:
        return (y - predicted) ** 2
    known = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    p = predicted[np.arange(len(y)), [known[label] for label in y.tolist()]]
    return -np.log(np.clip(p, 1e-6, 1.0))


@dataclass(frozen=True)
class HeldOutRows:
    """Targets and predictions in the original units. On wide data, each known target counts as a row."""

    tasks: np.ndarray  # (T,) labels
    codes: np.ndarray  # (n,) the task of each row
    y: np.ndarray  # (n,) numbers or classes
    values: np.ndarray  # (n,) predicted means, or probabilities (n, C) in the order of `classes`
    source: str  # description of where the rows come from
    # (n, 2) intervals of coverage `COVERAGE`; None for classes, and for new groups of the paper's models.
    ends: np.ndarray | None = None
    classes: np.ndarray | None = None  # (C,) labels; None for numbers
    wide: bool = False  # whether tasks are columns of y, which may have different units

    def of_tasks(self) -> list[np.ndarray]:
        """Return the positions of the rows of each task."""
        counts = np.bincount(self.codes, minlength=len(self.tasks))
        return np.split(np.argsort(self.codes, kind="stable"), np.cumsum(counts)[:-1])

    def scores(self, *, within: bool = True, draw: Any = slice(None)) -> dict[str, float]:
        """Return the scores over all rows, or over the rows `draw`; wide targets are standardised.

        `within` is False for new groups: their levels are unknown, so scores within groups are not informative.
        """
        y, values, codes = self.y[draw], self.values[draw], self.codes[draw]
        if self.wide and self.classes is None:
            parts = [self.y[rows] for rows in self.of_tasks()]
            spread = np.array([part.std() or 1.0 for part in parts])[codes]
            means = np.array([part.mean() for part in parts])[codes]
            y, values = (y - means) / spread, (values - means) / spread
        found = score_rows(y, values, codes, self.classes)
        return {name: score for name, score in found.items() if name != WITHIN or (within and not self.wide)}

    def group_scores(self) -> np.ndarray:
        """Return the RMSE, the accuracy or, for wide targets, R² of each task (T,).

        It is NaN for tasks with fewer than five test rows, and R² also for a single value.
        """
        found = np.full(len(self.tasks), np.nan)
        for t, rows in enumerate(self.of_tasks()):
            if len(rows) < LEAST_ROWS:
                continue
            if self.classes is not None:
                found[t] = np.mean(self.predicted[rows] == self.y[rows])
            else:
                error = np.mean((self.y[rows] - self.values[rows]) ** 2)
                found[t] = _r2(error, self.y[rows].var()) if self.wide else np.sqrt(error)
        return found

    @property
    def group_score(self) -> str:
        """The name of the scores of groups."""
        return ACCURACY if self.classes is not None else R2 if self.wide else RMSE

    @property
    def covered(self) -> float | None:
        """The share of targets in their intervals; None without intervals."""
        return None if self.ends is None else float(np.mean((self.ends[:, 0] <= self.y) & (self.y <= self.ends[:, 1])))

    @property
    def predicted(self) -> np.ndarray:
        """The predicted number or class of each row (n,)."""
        return self.values if self.classes is None else self.classes[self.values.argmax(axis=1)]


class Gain(NamedTuple):
    """Gain of one model over another over all test rows, in R² or in log loss, with an interval; above 0: better."""

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero and the gain is large enough to matter; otherwise 0."""
        return 0 if abs(self.mean) < LEAST_GAIN else int(self.low > 0) - int(self.high < 0)

    @classmethod
    def of(cls, difference: np.ndarray, codes: np.ndarray, by_group: bool) -> Gain:
        """Compute the gain from the difference (n,) and the group of each row.

        With `by_group`, groups are sampled instead of rows, for groups that were not in training.
        """
        mean, n = float(difference.mean()), len(difference)
        rest = np.bincount(codes, difference - mean) if by_group else difference - mean
        used = len(np.unique(codes)) if by_group else n
        error = np.sqrt(float(np.square(rest).sum()) * used / max(used - 1, 1)) / n
        reach = float(norm.ppf(0.5 + LEVEL / 2.0) * error)
        return cls(mean, mean - reach, mean + reach)


def as_text(value: float | None, decimals: int = 3, name: str = "") -> str:
    """Return a number as text: some decimals, fewer for large ones, or four digits of an RMSE; "-" if not defined."""
    if value is None or not np.isfinite(value):
        return "-"
    if isinstance(value, int):
        return str(value)
    if abs(value) < 100:
        return f"{value:#.4g}" if name == RMSE and 0 < value < 1 else f"{value:.{decimals}f}"
    return f"{value:.4g}" if not 1e4 <= abs(value) < 1e7 else f"{value:.0f}"
