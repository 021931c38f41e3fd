"""Plots of the convergence of a fit, and of the contribution of each kernel to a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ..data.arrays import listing
from ._axes import COLORS, Display, extent, label_ticks, labels_extent, new_axes

# The scale of the objective is set by the iterations whose relative gap is below this.
NEAR = 0.5
# Number of kernels with their own bar; the others are added up.
SHOWN = 12


class ConvergenceDisplay(Display):
    """The objective, its lower bound, and the relative gap between them, per iteration.

    Parameters
    ----------
    primal, bound, relative_gap : arrays (n_iter,)
        The lowest objective, the highest bound and the relative gap so far.
    tol : float, optional
        The relative gap to reach.

    Attributes
    ----------
    primal_line_, bound_line_, gap_line_ : the lines.
    objective_ax_, gap_ax_ : the axes of the objective (above) and of the gap (below).
    ax_, figure_ : the outer axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import ConvergenceDisplay
    >>> display = ConvergenceDisplay([3.0, 2.0, 1.9], [-5.0, 1.0, 1.8], [2.7, 0.5, 0.05], tol=0.1)
    """

    def __init__(self, primal: Any, bound: Any, relative_gap: Any, *, tol: float | None = None) -> None:
        self.primal, self.bound, self.relative_gap = (np.asarray(v, float) for v in (primal, bound, relative_gap))
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the `history_` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `history_`
        ax : matplotlib axes, optional
        """
        check_is_fitted(estimator, "history_")
        history = estimator.history_
        return cls(history["primal"], history["bound"], history["relative_gap"], tol=estimator.tol).plot(ax)

    def _draw(self, ax: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_ = new_axes(ax, 5.0, 4.0)
        self.ax_.axis("off")
        self.gap_ax_ = below = self.ax_.inset_axes((0.0, 0.0, 1.0, 0.46))
        self.objective_ax_ = above = self.ax_.inset_axes((0.0, 0.54, 1.0, 0.46), sharex=below)
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
        x = np.arange(1, len(self.primal) + 1)
        (self.primal_line_,) = above.plot(x, self.primal, "o-", color=COLORS[0], markersize=3, label="objective")
        (self.bound_line_,) = above.plot(x, self.bound, "D--", color=COLORS[1], markersize=3, label="lower bound")
        above.fill_between(x, self.bound, self.primal, color="0.85", linewidth=0, label="where the optimum is")
        # The first iterates can be off by factors of thousands, which would hide all later ones.
        near = np.argmax(self.relative_gap <= NEAR)
        low, high = self.bound[near:].min(), self.primal[near:].max()
        margin = 0.1 * (high - low)
        above.set(ylabel="objective", ylim=(low - margin, high + margin) if high > low else None)
        above.tick_params(labelbottom=False)
        above.legend(frameon=False)
        # A logarithmic axis cannot show zero, so gaps are raised to the rounding error.
        gap = np.maximum(self.relative_gap, np.finfo(float).eps)
        (self.gap_line_,) = below.semilogy(x, gap, "s-", color="black", markersize=3)
        if self.tol is not None:
            below.axhline(self.tol, color="0.5", linestyle=":")
            below.text(0.01, self.tol, f"tol = {self.tol:g}", transform=below.get_yaxis_transform(), va="bottom")
        below.set(xlabel="iteration", ylabel="relative gap")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))


class PredictionSplitDisplay(Display):
    """One prediction as a sum of the intercept and the contribution of each kernel.

    Parameters
    ----------
    parts : array (K,)
        The contribution of each kernel.
    kernels : sequence of K names
    intercept : float, default 0.0
    value_name : str, default "prediction"
        The name of the total.

    Attributes
    ----------
    labels_, values_ : the bars from top to bottom: the intercept, the largest kernels, the other kernels, the total.
    bars_ : the bars.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import PredictionSplitDisplay
    >>> display = PredictionSplitDisplay([0.5, -1.0], ["rbf", "linear"], intercept=0.2)
    >>> display.labels_, display.values_
    (['intercept', 'linear', 'rbf', 'total'], [0.2, -1.0, 0.5, -0.3])
    """

    def __init__(
        self, parts: Any, kernels: Sequence[str], *, intercept: float = 0.0, value_name: str = "prediction"
    ) -> None:
        parts, self.value_name = np.asarray(parts, dtype=np.float64), value_name
        order = np.argsort(-np.abs(parts), kind="stable").tolist()
        own, rest = (order, []) if len(order) <= SHOWN + 1 else (order[:SHOWN], order[SHOWN:])
        labels, values = [str(kernels[k]) for k in own], parts[own].tolist()
        if rest:
            labels.append(f"{len(rest)} other kernels")
            values.append(float(parts[rest].sum()))
        self.labels_ = ["intercept", *labels, "total"]
        self.values_ = [float(intercept), *values, float(parts.sum() + intercept)]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, task: Any = None, ax: Any = None) -> Self:
        """Draw the prediction of a fitted estimator for the first row of X.

        For a task with more than two classes, it is the value of the predicted class.

        Parameters
        ----------
        estimator : fitted estimator with kernels
        X : as for `predict`
        task : label, optional
            One of `tasks_`; not needed if there is one task or X has a task column.
        ax : matplotlib axes, optional
        """
        row, known = X[:1], estimator.tasks_.tolist()
        if task is not None and task not in known:
            raise ValueError(f"unknown task {task!r}; this model knows {listing(known)}")
        wide = estimator.data_form_ == "wide"
        if wide and task is None:
            raise ValueError(f"every row has {len(known)} predictions: pass task=, one of {listing(known)}")
        of_row = None if wide or task is None else [task]
        split = estimator.predict(row, tasks=of_row, split=True)
        if wide:
            t = known.index(task)
        else:
            codes = getattr(estimator, "best_estimator_", estimator).read_queries(row, of_row).codes
            t = 0 if codes is None else int(codes[0])
        parts, intercept = (part[(0, t) if wide else 0] for part in (split.parts, split.intercept))
        parts, intercept = parts.reshape(len(parts), -1), np.atleast_1d(intercept)
        output = int(np.nanargmax(parts.sum(axis=0) + intercept))
        name = "prediction"
        if is_classifier(estimator):
            classes = estimator.task_classes_[t]
            name = f"decision value of class {classes[1 if len(classes) == 2 else output]}"
        return cls(parts[:, output], split.kernels, intercept=intercept[output], value_name=name).plot(ax)

    def _draw(self, ax: Any) -> None:
        n, values = len(self.labels_), np.array(self.values_)
        height = extent(n, 0.32, 1.2, 6.0)
        self.ax_ = new_axes(ax, 5.0, height, (0.2 + labels_extent(self.labels_, height), 0.8))
        starts = np.append(np.cumsum(values[:-1]) - values[:-1], 0.0)
        self.bars_ = self.ax_.barh(np.arange(n), values, left=starts, height=0.7, edgecolor="0.2", linewidth=0.6)
        for bar, value in zip(self.bars_, values, strict=True):
            bar.set(facecolor=COLORS[1] if value < 0 else COLORS[0], hatch="///" if value < 0 else None)
        self.bars_[-1].set(facecolor="0.4")
        self.ax_.bar_label(self.bars_, [*(f"{v:+.3g}" for v in values[:-1]), f"{values[-1]:.3g}"], padding=3, size=9)
        # A thin line from the end of each bar down to where the next one starts.
        ends = (starts + values)[: n - 2]
        self.ax_.vlines(ends, np.arange(n - 2), np.arange(1, n - 1), color="0.6", linewidth=0.6)
        label_ticks(self.ax_.yaxis, self.labels_)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set(ylim=(n - 0.4, -0.6), xlabel=self.value_name)
        self.ax_.axvline(0, color="0.2", linewidth=0.8)
        self.ax_.axhline(n - 1.5, color="0.8", linewidth=0.8)
        self.ax_.use_sticky_edges = False
        self.ax_.margins(x=0.15)
        self.ax_.spines[["top", "right", "left"]].set_visible(False)
