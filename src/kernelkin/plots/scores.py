"""Plots of scores of each task, and of prediction intervals and their coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import missing
from ..data.checks import first_labels
from ..kin.losses import LOSSES
from ._axes import COLORS, FEW_TASKS, MARKERS, Display, add_legend, new_axes, task_axes

# With more rows, only intervals that miss their target are drawn.
MANY_ROWS = 400


class TaskScoresDisplay(Display):
    """Scores per task of one or more models, with tasks ordered by the gain of the first model over the second.

    Parameters
    ----------
    scores : dict of str to array (T,)
        The scores of each model; the second model is the baseline.
    tasks : sequence of T labels
    score_name : str, default "score"

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row, from the bottom; by score if there is one model.
    points_ : dict of str to the points drawn for each model.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import TaskScoresDisplay
    >>> display = TaskScoresDisplay({"MK-MTRL": [0.9, 0.7], "average": [0.6, 0.7]}, ["a", "b"])
    >>> display.order_.tolist()
    [1, 0]
    """

    def __init__(self, scores: Mapping[str, Any], tasks: Sequence[Any], *, score_name: str = "score") -> None:
        self.tasks, self.score_name = np.asarray(tasks), score_name
        self.scores = {model: np.asarray(values, dtype=np.float64) for model, values in scores.items()}
        for model, values in self.scores.items():
            if values.shape != self.tasks.shape:
                raise ValueError(f"model {model!r} has scores of shape {values.shape} for {len(self.tasks)} tasks")
        first, *others = self.scores.values()
        self.order_ = np.argsort(first - others[0] if others else first, kind="stable")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        tasks: Any = None,
        baselines: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the task scores of a fitted estimator and of baselines.

        Parameters
        ----------
        estimator : fitted estimator with `score_tasks`
        X, y, tasks : as for `score_tasks`
        baselines : dict from names to fitted estimators, optional
            Models to compare with.
        ax : matplotlib axes, optional
        """
        models = {type(estimator).__name__: estimator, **(baselines or {})}
        found = {name: model.score_tasks(X, y, tasks) for name, model in models.items()}
        labels = list(next(iter(found.values())))
        scores = {name: [of_task[label] for label in labels] for name, of_task in found.items()}
        loss = LOSSES.get(getattr(estimator, "loss", ""))
        name = "accuracy" if is_classifier(estimator) else "R²" if loss is None or loss.is_linear else "D²"
        return cls(scores, labels, score_name=name).plot(ax)

    def _draw(self, ax: Any) -> None:
        first, *others = self.scores
        label = f"{self.score_name} (tasks by gain of {first})" if others else self.score_name
        self.ax_ = task_axes(ax, self.tasks[self.order_], label, "task")
        self.points_: dict[str, Any] = {}
        stack, y = np.stack(list(self.scores.values()))[:, self.order_], np.arange(len(self.tasks))
        self.ax_.hlines(y, stack.min(axis=0), stack.max(axis=0), color="0.8", zorder=0)
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
        style = {"markersize": 6.0, **edge} if len(self.tasks) <= FEW_TASKS else {"markersize": 3.0}
        for i, (model, values) in enumerate(zip(self.scores, stack, strict=True)):
            mean, color, marker = float(np.nanmean(values)), COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]
            label = f"{model} (mean {mean:.3f})"
            (self.points_[model],) = self.ax_.plot(values, y, marker, color=color, label=label, **style)
            self.ax_.axvline(mean, color=color, linewidth=0.8, linestyle=":", zorder=0)
        add_legend(self.ax_, 2)


class IntervalsDisplay(Display):
    """Targets against predictions, with intervals; intervals that miss their target are highlighted.

    Parameters
    ----------
    predicted, target : arrays (n,)
    ends : array (n, 2)
        Lower and upper ends.
    tasks : array (n,) of labels, optional
    coverage : float, default 0.9
        Share of targets that the intervals should contain.

    Attributes
    ----------
    is_covered_ : array (n,) of bool
        Whether the interval contains the target.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import IntervalsDisplay
    >>> display = IntervalsDisplay([1.0, 2.0], [1.1, 5.0], [[0.5, 1.5], [1.5, 2.5]])
    >>> display.is_covered_.tolist()
    [True, False]
    """

    def __init__(self, predicted: Any, target: Any, ends: Any, tasks: Any = None, *, coverage: float = 0.9) -> None:
        self.predicted, self.target, self.ends = (np.asarray(part, float) for part in (predicted, target, ends))
        self.tasks = np.full(len(self.target), "all rows") if tasks is None else np.asarray(tasks)
        self.coverage = coverage
        self.is_covered_ = (self.ends[:, 0] <= self.target) & (self.target <= self.ends[:, 1])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, coverage: float = 0.9, ax: Any = None
    ) -> Self:
        """Draw the intervals of a fitted regressor on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_interval`
        X, y, tasks : as for `score_tasks`
        coverage : float, default 0.9
            Share of targets that the intervals should contain.
        ax : matplotlib axes, optional
        """
        predicted, ends = np.asarray(estimator.predict(X, tasks)), estimator.predict_interval(X, tasks, coverage)
        y = getattr(estimator, "best_estimator_", estimator).read_labels(y, predicted.ndim == 2)
        own = (getattr(estimator, name, None) for name in ("task_column", "task_name_"))
        labels: Any = estimator.tasks_ if y.ndim == 2 else first_labels(X, tasks, *own)
        labels, known = np.broadcast_to("all rows" if labels is None else labels, y.shape), ~missing(y)
        return cls(predicted[known], y[known], ends[known], labels[known], coverage=coverage).plot(ax)

    def _draw(self, ax: Any) -> None:
        self.ax_ = new_axes(ax, 5.0, 4.5)
        ends = [self.predicted.min(), self.predicted.max()]
        self.ax_.plot(ends, ends, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        many, share = len(self.target) > MANY_ROWS, self.is_covered_.mean()
        names = f"in the interval ({share:.1%}; nominal {self.coverage:.0%})", f"outside ({1 - share:.1%})"
        for i, (rows, name) in enumerate(zip((self.is_covered_, ~self.is_covered_), names, strict=True)):
            x = self.predicted[rows]
            if not (many and i == 0):
                self.ax_.vlines(x, *self.ends[rows].T, color=COLORS[i], linewidth=0.6, alpha=0.6, zorder=1 + i)
            size = 5 if many else 16
            self.ax_.scatter(x, self.target[rows], s=size, color=COLORS[i], marker=MARKERS[i], label=name, zorder=3 + i)
        self.ax_.set(xlabel="predicted", ylabel="actual")
        add_legend(self.ax_)


class CoverageDisplay(IntervalsDisplay):
    """Coverage of prediction intervals for each task.

    Parameters
    ----------
    predicted, target, ends, tasks, coverage : as for `IntervalsDisplay`

    Attributes
    ----------
    labels_, counts_, shares_ : arrays (T,)
        The tasks, from the bottom, with the number of rows and the coverage of each.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import CoverageDisplay
    >>> display = CoverageDisplay([1.0, 2.0], [1.1, 5.0], [[0.5, 1.5], [1.5, 2.5]], ["a", "b"])
    >>> display.labels_.tolist(), display.shares_.tolist()
    (['b', 'a'], [0.0, 1.0])
    """

    def __init__(self, predicted: Any, target: Any, ends: Any, tasks: Any = None, *, coverage: float = 0.9) -> None:
        super().__init__(predicted, target, ends, tasks, coverage=coverage)
        labels, codes, counts = np.unique(self.tasks, return_inverse=True, return_counts=True)
        shares = np.bincount(codes, self.is_covered_) / counts
        order = np.argsort(shares, kind="stable")
        self.labels_, self.counts_, self.shares_ = labels[order], counts[order], shares[order]

    def _draw(self, ax: Any) -> None:
        T, y = len(self.labels_), np.arange(len(self.labels_))
        self.ax_ = task_axes(ax, self.labels_, "share of targets in their intervals", "task")
        # The range of coverage expected by chance for this many rows if the intervals are correct.
        reach = 2 * np.sqrt(self.coverage * (1 - self.coverage) / self.counts_)
        ends = np.clip([self.coverage - reach, self.coverage + reach], 0.0, 1.0)
        self.ax_.hlines(y, *ends, color="0.5", alpha=0.3, linewidth=200 / max(T, 40), zorder=0)
        size, label = 6.0 if T <= FEW_TASKS else 3.0, f"coverage ({self.is_covered_.mean():.1%} of all rows)"
        self.ax_.plot(self.shares_, y, MARKERS[0], color=COLORS[0], markersize=size, label=label)
        self.ax_.axvline(self.coverage, label="nominal (grey: expected by chance)", color="0.5", lw=0.8, ls="--")
        add_legend(self.ax_, 2)
