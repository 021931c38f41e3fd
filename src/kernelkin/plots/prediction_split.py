"""Plot of the contribution of each kernel to a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import listing
from ._axes import COLORS, Display, extent, label_ticks, labels_extent, new_axes

# Number of kernels with their own bar; the others are added up.
SHOWN = 12


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
    >>> display.bars
    (['intercept', 'linear', 'rbf', 'total'], [0.2, -1.0, 0.5, -0.3])
    """

    def __init__(
        self, parts: Any, kernels: Sequence[str], *, intercept: float = 0.0, value_name: str = "prediction"
    ) -> None:
        self.parts, self.kernels = np.asarray(parts, dtype=np.float64), np.asarray(kernels)
        self.intercept, self.value_name = float(intercept), value_name
        if self.parts.shape != self.kernels.shape:
            raise ValueError(f"parts of shape {self.parts.shape} for {len(self.kernels)} kernels")

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
        t = known.index(task) if wide else _task_of(estimator, row, of_row)
        parts, intercept = (part[(0, t) if wide else 0] for part in (split.parts, split.intercept))
        parts, intercept = parts.reshape(len(parts), -1), np.atleast_1d(intercept)
        output = int(np.nanargmax(parts.sum(axis=0) + intercept))
        name = "prediction"
        if is_classifier(estimator):
            classes = estimator.task_classes_[t]
            name = f"decision value of class {classes[1 if len(classes) == 2 else output]}"
        return cls(parts[:, output], split.kernels, intercept=intercept[output], value_name=name).plot(ax)

    @property
    def bars(self) -> tuple[list[str], list[float]]:
        """The labels and values of the bars, from top to bottom."""
        order = np.argsort(-np.abs(self.parts), kind="stable")
        own, rest = (order, order[:0]) if len(order) <= SHOWN + 1 else (order[:SHOWN], order[SHOWN:])
        labels, values = self.kernels[own].tolist(), self.parts[own].tolist()
        if len(rest):
            labels.append(f"{len(rest)} other kernels")
            values.append(float(self.parts[rest].sum()))
        total = float(self.parts.sum() + self.intercept)
        return ["intercept", *labels, "total"], [self.intercept, *values, total]

    def _draw(self, ax: Any) -> None:
        self.labels_, self.values_ = self.bars
        n = len(self.labels_)
        height = extent(n, 0.32, 1.2, 6.0)
        self.ax_ = new_axes(ax, 5.0, height, (0.2 + labels_extent(self.labels_, height), 0.8))
        values = np.array(self.values_)
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


def _task_of(estimator: Any, row: Any, tasks: Any) -> int:
    """Return the position of a row's task in `tasks_`."""
    codes = getattr(estimator, "best_estimator_", estimator).read_queries(row, tasks).codes
    return 0 if codes is None else int(codes[0])
