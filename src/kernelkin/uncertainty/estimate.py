"""What a fitted model knows about its own errors, computed when it is first needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..engines import SingleThreadedBLAS
from .held_out import Deviations, HeldOut, HeldOutSource
from .link import TaskLink, fit_link
from .residuals import ResidualScores, fit_residuals


@dataclass(frozen=True)
class Intervals:
    """Deviations and intervals of a regressor.

    Attributes
    ----------
    residuals : the distribution of held-out residuals.
    variance : predictive deviations up to a factor; None where they are constant in each task.
    """

    residuals: ResidualScores
    variance: Deviations | None

    def deviations(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return the standard deviations of predictions (q,), or (q, T) without codes."""
        return self._scaled(X, codes, self.residuals.scales)

    def half_widths(self, X: np.ndarray, codes: np.ndarray | None, coverage: float) -> np.ndarray:
        """Return half the widths of intervals (q,), or (q, T) without codes."""
        return self._scaled(X, codes, self.residuals.quantiles(coverage))

    def _scaled(self, X: np.ndarray, codes: np.ndarray | None, factors: np.ndarray) -> np.ndarray:
        """Factors (T + 1,) of the tasks and of one that was not in training, times the deviation of each row."""
        by_row = np.repeat(factors[np.newaxis, :-1], len(X), axis=0) if codes is None else factors[codes]
        return by_row if self.variance is None else by_row * self.variance.deviations(X, codes)


class Uncertainty:
    """Held-out values of a fit, and the link or the intervals that follow from them.

    They are computed when they are first needed, or by `compute`. Until then, a pickle has what they are computed from;
    afterwards it has neither training targets nor Gram matrices.

    Parameters
    ----------
    source : what computes the held-out values
    data : training data
    classification : whether the targets are classes

    Attributes
    ----------
    source, data : the same; None once the result is there.
    """

    def __init__(self, source: HeldOutSource, data: TaskData, *, classification: bool) -> None:
        self.source: HeldOutSource | None = source
        self.data: TaskData | None = data
        self.classification = classification
        self._result: TaskLink | Intervals | None = None

    @property
    def link(self) -> TaskLink:
        """The link of a classifier."""
        found = self.compute()
        assert isinstance(found, TaskLink)
        return found

    @property
    def intervals(self) -> Intervals:
        """The intervals of a regressor."""
        found = self.compute()
        assert isinstance(found, Intervals)
        return found

    def compute(self) -> TaskLink | Intervals:
        """Return the link or the intervals; the first call computes them and gives up the training data."""
        if self._result is None:
            assert self.source is not None and self.data is not None
            with SingleThreadedBLAS():
                held = self.source.held_out()
            self._result = (_link if self.classification else _intervals)(held, self.data)
            self.source = self.data = None
        return self._result


def _link(held: HeldOut, data: TaskData) -> TaskLink:
    codes = [np.unique(y, return_inverse=True)[1] for y in data.y]
    weights = [data.sample_weight[rows] for rows in data.rows]
    return fit_link(held.values, codes, weights, held.centers, held.final_centers)


def _intervals(held: HeldOut, data: TaskData) -> Intervals:
    residuals = [y - values[:, 0] for y, values in zip(data.y, held.values, strict=True)]
    spreads = np.array([float(np.std(y)) for y in data.y])
    return Intervals(fit_residuals(residuals, held.deviations, spreads), held.variance)
