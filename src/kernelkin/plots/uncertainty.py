"""Plots of prediction intervals, their coverage, and the calibration of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..data.arrays import missing
from ..data.checks import read_rows, split_task_columns
from ._axes import COLORS, MARKERS, Display, add_legend, label_ticks, new_axes, task_axes

# With more rows, only intervals that miss their target are drawn.
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


class IntervalsDisplay(Display):
    """Targets against predictions, with intervals; intervals that miss their target are highlighted.

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
        Whether the interval contains the target.
    ax_, figure_ : the axes and the figure.

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
    ) -> Self:
        """Draw the predictions of a fitted regressor on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_interval`
        X, y, tasks : as for `score_tasks`
        coverage : float, default 0.9
            Share of targets that the intervals should contain.
        ax : matplotlib axes, optional
        """
        predicted, ends, target, _ = _flat(estimator, X, y, tasks, coverage)
        return cls(predicted, target, ends, coverage=coverage).plot(ax)

    def _draw(self, ax: Any) -> None:
        self.ax_ = new_axes(ax, 5.0, 4.5)
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
        add_legend(self.ax_)


class CoverageDisplay(Display):
    """Coverage of prediction intervals for each task.

    Parameters
    ----------
    covered, counts : arrays (T,)
        Numbers of rows whose interval contains the target, and of all rows.
    tasks : sequence of T labels
    coverage : float
        Share of targets that the intervals should contain.

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row, from the bottom.
    shares_ : array (T,), the coverage of each task.
    ax_, figure_ : the axes and the figure.

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
    ) -> Self:
        """Draw the coverage of a fitted regressor in each task, on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_interval`
        X, y, tasks : as for `score_tasks`
        coverage : float, default 0.9
            Share of targets that the intervals should contain.
        ax : matplotlib axes, optional
        """
        _, ends, target, labels = _flat(estimator, X, y, tasks, coverage)
        names, codes = np.unique(labels, return_inverse=True)
        inside = (ends[:, 0] <= target) & (target <= ends[:, 1])
        return cls(np.bincount(codes, inside), np.bincount(codes), names.tolist(), coverage=coverage).plot(ax)

    def _draw(self, ax: Any) -> None:
        T = len(self.tasks)
        self.ax_ = task_axes(ax, self.tasks)
        self.order_ = np.argsort(self.shares_, kind="stable")
        shares, counts = self.shares_[self.order_], self.counts[self.order_]
        # The range of coverage expected by chance for this many rows if the intervals are correct.
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
        add_legend(self.ax_, 2)


class ReliabilityDisplay(Display):
    """Frequencies of classes against their probabilities, for all rows in bins and for each task as a whole.

    Parameters
    ----------
    probabilities : sequence of T arrays (n_t,)
        The probability of the second class for each row of a task; for more classes, the probabilities of all classes.
    happened : sequence of T arrays (n_t,) of bool
        Whether the row belongs to that class.
    tasks : sequence of T labels
    n_bins : int, default 10
        Bins of equal numbers of rows.

    Attributes
    ----------
    predicted_, observed_, errors_ : arrays (bins,)
        Mean probability, frequency, and standard error of the frequency in each bin.
    task_predicted_, task_observed_ : arrays (T,)
        Mean probability and frequency in each task.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.plots import ReliabilityDisplay
    >>> p = np.array([0.1, 0.1, 0.8, 0.8])
    >>> display = ReliabilityDisplay([p], [np.array([False, False, True, False])], ["a"], n_bins=2)
    >>> display.predicted_.tolist(), display.observed_.tolist()
    ([0.1, 0.8], [0.0, 0.5])
    """

    def __init__(
        self, probabilities: Sequence[Any], happened: Sequence[Any], tasks: Sequence[Any], *, n_bins: int = 10
    ) -> None:
        p, hit = (np.concatenate([np.ravel(part) for part in parts]) for parts in (probabilities, happened))
        if p.shape != hit.shape or len(probabilities) != len(tasks):
            raise ValueError(f"{len(tasks)} tasks have {len(p)} probabilities and {len(hit)} outcomes")
        self.tasks = np.asarray(tasks)
        bins = [part for part in np.array_split(np.argsort(p, kind="stable"), n_bins) if len(part)]
        self.predicted_ = np.array([p[part].mean() for part in bins])
        self.observed_ = np.array([hit[part].mean() for part in bins])
        # For a frequency of 0 or 1, use the standard error that a single deviating row would give.
        smoothed = np.array([(hit[part].sum() + 1) / (len(part) + 2) for part in bins])
        self.errors_ = np.sqrt(smoothed * (1 - smoothed) / [len(part) for part in bins])
        self.task_predicted_ = np.array([np.mean(part) for part in probabilities])
        self.task_observed_ = np.array([np.mean(part) for part in happened])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, n_bins: int = 10, ax: Any = None
    ) -> Self:
        """Draw the reliability of a fitted classifier on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_proba`
        X, y, tasks : as for `score_tasks`
        n_bins : int, default 10
            Bins of equal numbers of rows.
        ax : matplotlib axes, optional
        """
        p, classes = estimator.predict_proba(X, tasks), estimator.classes_
        y = np.asarray(y)
        if y.ndim == 2 and p.ndim == 2:
            p = np.stack([1.0 - p, p], axis=-1)
        if p.ndim == 3:
            parts = [(p[:, t], y[:, t]) for t in range(p.shape[1])]
            labels = estimator.tasks_.tolist()
        elif tasks is None:
            parts, labels = [(p, y)], ["all rows"]
        else:
            tasks = np.asarray(tasks)
            labels = [label for label in estimator.tasks_.tolist() if (tasks == label).any()]
            parts = [(p[tasks == label], y[tasks == label]) for label in labels]
        used = slice(1, None) if len(classes) == 2 else slice(None)
        hits = [part[:, np.newaxis] == classes for _, part in parts]
        return cls([part[:, used] for part, _ in parts], [hit[:, used] for hit in hits], labels, n_bins=n_bins).plot(ax)

    def _draw(self, ax: Any) -> None:
        self.ax_ = new_axes(ax, 4.5, 4.5)
        self.ax_.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        if len(self.tasks) > 1:
            self.ax_.scatter(
                self.task_predicted_,
                self.task_observed_,
                s=20 if len(self.tasks) <= 40 else 8,
                color=COLORS[1],
                marker=MARKERS[1],
                label=f"each of {len(self.tasks)} tasks",
                zorder=1,
            )
        self.ax_.errorbar(
            self.predicted_,
            self.observed_,
            yerr=2 * self.errors_,
            color=COLORS[0],
            marker=MARKERS[0],
            label="all rows, in bins (2 standard errors)",
            zorder=2,
        )
        self.ax_.set(xlabel="probability", ylabel="frequency", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        add_legend(self.ax_)
