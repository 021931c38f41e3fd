"""Standard scores of predictions, and the gain of one model over another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

RMSE, R2, WITHIN = "RMSE", "R²", "R² within groups"
LOG_LOSS, AUC, ACCURACY = "log loss", "AUC", "accuracy"
WITHIN_MEANS = (
    "R² within groups is the predicted share of the variance around each group's own mean. It ignores differences "
    "between group levels, so it is lower than R²"
)
# Minimum number of test rows for a group to have its own score.
LEAST_ROWS = 5
# Differences in R² or log loss below this are irrelevant, however certain.
LEAST_GAIN = 0.002
# Level of intervals.
LEVEL = 0.95


def score_rows(y: np.ndarray, predicted: np.ndarray, codes: np.ndarray, classes: Any = None) -> dict[str, float]:
    """Return scores over all test rows, the most important first; NaN if a score is not defined.

    For targets y (n,) and predicted means (n,) of rows with group `codes` (n,): RMSE, R² and R² within groups. For
    `classes` (C,) and predicted probabilities (n, C): log loss, AUC (two classes) and accuracy.
    """
    if classes is None:
        error = float(np.mean((y - predicted) ** 2))
        _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
        within = float(np.mean((y - (np.bincount(place, y) / counts)[place]) ** 2))
        return {RMSE: error**0.5, R2: _r2(error, y.var()), WITHIN: _r2(error, within)}
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


def score_groups(
    y: np.ndarray, predicted: np.ndarray, codes: np.ndarray, n_groups: int, classes: Any = None
) -> np.ndarray:
    """Return R² or accuracy of each group (T,); NaN for groups with fewer than five test rows, or a single value."""
    found = np.full(n_groups, np.nan)
    for t in np.flatnonzero(np.bincount(codes, minlength=n_groups) >= LEAST_ROWS).tolist():
        rows = codes == t
        if classes is not None:
            found[t] = float(np.mean(np.asarray(classes)[predicted[rows].argmax(axis=1)] == y[rows]))
        else:
            found[t] = _r2(float(np.mean((y[rows] - predicted[rows]) ** 2)), y[rows].var())
    return found


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


def as_text(value: float | None) -> str:
    """Return a number as text: three decimals, fewer for large numbers; "-" if it is not defined."""
    if value is None or not np.isfinite(value):
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"
