"""Plot of the scores of each task, for one or more models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ._axes import COLORS, MARKERS, Display, add_legend, label_ticks, task_axes

# Above this many tasks the points are drawn small.
FEW_TASKS = 40


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
    order_ : array (T,), the task drawn in each row, from the bottom.
    points_ : dict of str to the points drawn for each model.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import TaskScoresDisplay
    >>> display = TaskScoresDisplay({"MK-MTRL": [0.9, 0.7], "average": [0.6, 0.7]}, ["a", "b"])
    >>> display.order.tolist()
    [1, 0]
    """

    def __init__(self, scores: Mapping[str, Any], tasks: Sequence[Any], *, score_name: str = "score") -> None:
        self.tasks, self.score_name = np.asarray(tasks), score_name
        self.scores = {model: np.asarray(values, dtype=np.float64) for model, values in scores.items()}
        for model, values in self.scores.items():
            if values.shape != self.tasks.shape:
                raise ValueError(f"model {model!r} has scores of shape {values.shape} for {len(self.tasks)} tasks")

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
        return cls(scores, labels, score_name="accuracy" if is_classifier(estimator) else "R²").plot(ax)

    @property
    def order(self) -> np.ndarray:
        """The tasks, ordered by the gain of the first model over the second, or by score if there is one model."""
        first, *others = self.scores.values()
        return np.argsort(first - others[0] if others else first, kind="stable")

    def _draw(self, ax: Any) -> None:
        self.ax_, self.order_ = task_axes(ax, self.tasks), self.order
        self.points_: dict[str, Any] = {}
        first, *others = self.scores
        stack = np.stack(list(self.scores.values()))[:, self.order_]
        self.ax_.hlines(np.arange(stack.shape[1]), stack.min(axis=0), stack.max(axis=0), color="0.8", zorder=0)
        few = len(self.tasks) <= FEW_TASKS
        for i, (model, values) in enumerate(zip(self.scores, stack, strict=True)):
            mean, color = float(np.nanmean(values)), COLORS[i % len(COLORS)]
            (self.points_[model],) = self.ax_.plot(
                values,
                np.arange(len(values)),
                label=f"{model} (mean {mean:.3f})",
                color=color,
                linestyle="none",
                marker=MARKERS[i % len(MARKERS)],
                markersize=6.0 if few else 3.0,
                markeredgecolor="white" if few else color,
                markeredgewidth=0.5 if few else 0.0,
            )
            self.ax_.axvline(mean, color=color, linewidth=0.8, linestyle=":", zorder=0)
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        by = f"gain of {first} on {others[0]}" if others else self.score_name
        self.ax_.set(xlabel=self.score_name, ylabel=f"task, by {by}", ylim=(-0.7, len(self.tasks) - 0.3))
        add_legend(self.ax_, 2)
