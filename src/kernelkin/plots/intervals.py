"""Predictions with their intervals, and how often these contain the target in each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import missing, read_rows, split_task_columns
from ._axes import COLORS, LONGEST, MARKERS, extent, label_ticks, labels_extent, new_axes

# More rows than these are drawn without intervals but for those that miss their target.
MANY_ROWS = 400


def _flat(
    estimator: Any, X: Any, y: Any, tasks: Any, coverage: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return predictions (N,), ends (N, 2), targets (N,) and tasks (N,) of rows with a target."""
    predicted, ends = np.asarray(estimator.predict(X, tasks)), estimator.predict_interval(X, tasks, coverage)
    y = np.asarray(y, dtype=np.float64)
    column = getattr(estimator, "task_column", None)
    if predicted.ndim == 2:
        labels = np.broadcast_to(estimator.tasks_, predicted.shape)
    elif tasks is None and column is not None:
        labels = next(iter(split_task_columns(read_rows(X), column)[1].values()))
    else:
        labels = np.full(len(y), "all rows") if tasks is None else np.asarray(tasks)
    known = ~missing(y)
    return predicted[known], ends[known], y[known], labels[known]


class IntervalsDisplay:
    """Targets against predictions, with intervals; those that do not contain their target stand out.

    Parameters
    ----------
    predicted, target : arrays (n,)
    ends : array (n, 2)
        Lower and upper ends.
    coverage : float
        Share of targets that the intervals should contain.

    Attributes
    ----------
    is_covered_ : array (n,) of bool
    ax_, figure_ : where it is drawn.

    Examples
    --------
    >>> from kernelkin.plots import IntervalsDisplay
    >>> display = IntervalsDisplay([1.0, 2.0], [1.1, 5.0], [[0.5, 1.5], [1.5, 2.5]], coverage=0.9)
    >>> display.is_covered_.tolist()
    [True, False]
    """

    def __init__(self, predicted: Any, target: Any, ends: Any, *, coverage: float) -> None:
        self.predicted, self.target = np.asarray(predicted, dtype=float), np.asarray(target, dtype=float)
        self.ends, self.coverage = np.asarray(ends, dtype=float), coverage
        if self.ends.shape != (len(self.target), 2):
            raise ValueError(f"ends must have shape ({len(self.target)}, 2), got {self.ends.shape}")
        self.is_covered_ = (self.ends[:, 0] <= self.target) & (self.target <= self.ends[:, 1])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, coverage: float = 0.9, ax: Any = None
    ) -> IntervalsDisplay:
        """Draw the predictions of a fitted regressor on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_interval`
        X, y, tasks : as for `score_tasks`
        coverage : float, default 0.9
            Share of targets that the intervals should contain.
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        predicted, ends, target, _ = _flat(estimator, X, y, tasks, coverage)
        return cls(predicted, target, ends, coverage=coverage).plot(ax)

    def plot(self, ax: Any = None) -> IntervalsDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        self.ax_ = new_axes(ax, 5.0, 4.5)
        self.figure_ = self.ax_.figure
        low, high = (float(end(self.predicted)) for end in (np.min, np.max))
        self.ax_.plot([low, high], [low, high], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        many = len(self.target) > MANY_ROWS
        share = self.is_covered_.mean()
        names = f"in the interval ({share:.1%}; nominal {self.coverage:.0%})", f"outside ({1 - share:.1%})"
        for i, (rows, name) in enumerate(zip((self.is_covered_, ~self.is_covered_), names, strict=True)):
            x = self.predicted[rows]
            if not (many and i == 0):
                self.ax_.vlines(x, *self.ends[rows].T, color=COLORS[i], linewidth=0.6, alpha=0.6, zorder=1 + i)
            size = 5 if many else 16
            self.ax_.scatter(x, self.target[rows], s=size, color=COLORS[i], marker=MARKERS[i], label=name, zorder=3 + i)
        self.ax_.set(xlabel="predicted", ylabel="actual")
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return self


class CoverageDisplay:
    """How often intervals contain the target, task by task.

    Parameters
    ----------
    covered, counts : arrays (T,)
        Rows whose interval contains the target, and all rows.
    tasks : sequence of T labels
    coverage : float
        Share of targets that the intervals should contain.

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row, from the bottom.
    shares_ : array (T,), the coverage of each task.
    ax_, figure_ : where it is drawn.

    Examples
    --------
    >>> from kernelkin.plots import CoverageDisplay
    >>> CoverageDisplay([9, 5], [10, 10], ["a", "b"], coverage=0.9).shares_.tolist()
    [0.9, 0.5]
    """

    def __init__(self, covered: Any, counts: Any, tasks: Sequence[Any], *, coverage: float) -> None:
        self.covered, self.counts = np.asarray(covered), np.asarray(counts)
        self.tasks, self.coverage = np.asarray(tasks), coverage
        if self.covered.shape != self.tasks.shape or self.counts.shape != self.tasks.shape:
            raise ValueError(f"{len(self.tasks)} tasks have {len(self.covered)} numbers of covered rows")
        self.shares_ = self.covered / self.counts

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, coverage: float = 0.9, ax: Any = None
    ) -> CoverageDisplay:
        """Draw the coverage of each task by a fitted regressor on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_interval`
        X, y, tasks : as for `score_tasks`
        coverage : float, default 0.9
            Share of targets that the intervals should contain.
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        _, ends, target, labels = _flat(estimator, X, y, tasks, coverage)
        names, codes = np.unique(labels, return_inverse=True)
        inside = (ends[:, 0] <= target) & (target <= ends[:, 1])
        return cls(np.bincount(codes, inside), np.bincount(codes), names.tolist(), coverage=coverage).plot(ax)

    def plot(self, ax: Any = None) -> CoverageDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        T = len(self.tasks)
        height = extent(T, 0.32, 1.6, LONGEST)
        self.ax_ = new_axes(ax, 5.5, height, (0.5 + labels_extent(self.tasks, height), 1.0))
        self.figure_, self.order_ = self.ax_.figure, np.argsort(self.shares_, kind="stable")
        shares, counts = self.shares_[self.order_], self.counts[self.order_]
        # What chance does to the coverage of so many rows where the intervals are right.
        reach = 2 * np.sqrt(self.coverage * (1 - self.coverage) / counts)
        ends = np.maximum(self.coverage - reach, 0.0), np.minimum(self.coverage + reach, 1.0)
        self.ax_.hlines(np.arange(T), *ends, color="0.85", linewidth=200 / max(T, 40), zorder=0)
        total = self.covered.sum() / self.counts.sum()
        self.ax_.plot(
            shares,
            np.arange(T),
            color=COLORS[0],
            marker=MARKERS[0],
            linestyle="none",
            markersize=6.0 if T <= 40 else 3.0,
            label=f"coverage ({total:.1%} of all rows)",
        )
        self.ax_.axvline(
            self.coverage, color=COLORS[2], linewidth=0.8, linestyle="--", label="nominal; grey: by chance"
        )
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        self.ax_.set(xlabel="share of targets in their intervals", ylabel="task", ylim=(-0.7, T - 0.3))
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return self
