"""How well each task is predicted, by one model or by several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ._axes import COLORS, LONGEST, MARKERS, extent, label_ticks, labels_extent, new_axes

# Above this many tasks the points are drawn small.
FEW_TASKS = 40


class TaskScoresDisplay:
    """Scores per task of one or more models, tasks ordered by what the first model gains on the second.

    Parameters
    ----------
    scores : dict of str to array (T,)
        The scores of each model; the second one is the baseline.
    tasks : sequence of T labels
    errors : dict of str to array (T,), optional
        Half the length of the error bars, for those models that have them.
    score_name : str, default "score"

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row, from the bottom.
    points_ : dict of str to the points drawn for each model.
    ax_, figure_ : where it is drawn.

    Examples
    --------
    >>> from kernelkin.plots import TaskScoresDisplay
    >>> scores = {"MK-MTRL": [[0.9, 0.7], [0.8, 0.8]], "average": [[0.8, 0.7], [0.9, 0.7]]}
    >>> display = TaskScoresDisplay.from_runs(scores, ["a", "b"])
    >>> display.errors["MK-MTRL"].round(2).tolist()
    [0.05, 0.05]
    """

    def __init__(
        self,
        scores: Mapping[str, Any],
        tasks: Sequence[Any],
        *,
        errors: Mapping[str, Any] | None = None,
        score_name: str = "score",
    ) -> None:
        self.tasks, self.score_name = np.asarray(tasks), score_name
        self.scores = {model: np.asarray(values, dtype=np.float64) for model, values in scores.items()}
        self.errors = {model: np.asarray(values, dtype=np.float64) for model, values in (errors or {}).items()}
        for model, values in (*self.scores.items(), *self.errors.items()):
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
    ) -> TaskScoresDisplay:
        """Draw the scores of the tasks by a fitted estimator, and by baselines.

        Parameters
        ----------
        estimator : fitted estimator with `score_tasks`
        X, y, tasks : as for `score_tasks`
        baselines : dict from names to fitted estimators, optional
            Models to compare with.
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        models = {type(estimator).__name__: estimator, **(baselines or {})}
        found = {name: model.score_tasks(X, y, tasks) for name, model in models.items()}
        labels = list(next(iter(found.values())))
        scores = {name: [of_task[label] for label in labels] for name, of_task in found.items()}
        return cls(scores, labels, score_name="accuracy" if is_classifier(estimator) else "R²").plot(ax)

    @classmethod
    def from_runs(
        cls, runs: Mapping[str, Any], tasks: Sequence[Any], *, score_name: str = "score", ax: Any = None
    ) -> TaskScoresDisplay:
        """Draw the mean and the standard error of repeated runs.

        Parameters
        ----------
        runs : dict from names of models to arrays of shape (n_runs, T)
            The scores.
        tasks : sequence of length T
            Task labels.
        score_name : str, default "score"
            The label of the axis.
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        stacks = {model: np.asarray(values, dtype=np.float64) for model, values in runs.items()}
        errors = {model: v.std(axis=0, ddof=1) / np.sqrt(len(v)) for model, v in stacks.items() if len(v) > 1}
        means = {model: v.mean(axis=0) for model, v in stacks.items()}
        return cls(means, tasks, errors=errors, score_name=score_name).plot(ax)

    @property
    def order(self) -> np.ndarray:
        """The tasks by what the first model gains on the second; by score where there is one model."""
        first, *others = self.scores.values()
        return np.argsort(first - others[0] if others else first, kind="stable")

    @property
    def order_name(self) -> str:
        """What the tasks are ordered by, from the bottom."""
        first, *others = self.scores
        return f"gain of {first} on {others[0]}" if others else self.score_name

    def plot(self, ax: Any = None) -> TaskScoresDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        T = len(self.tasks)
        height = extent(T, 0.32, 1.6, LONGEST)
        self.ax_ = new_axes(ax, 5.5, height, (0.5 + labels_extent(self.tasks, height), 1.0))
        self.figure_, self.order_ = self.ax_.figure, self.order
        self.points_: dict[str, Any] = {}
        self._guide_the_eye()
        for i, model in enumerate(self.scores):
            self._draw_model(model, i)
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        self.ax_.set(xlabel=self.score_name, ylabel=f"task, by {self.order_name}", ylim=(-0.7, T - 0.3))
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return self

    def _draw_model(self, model: str, i: int) -> None:
        values = self.scores[model][self.order_]
        error = self.errors[model][self.order_] if model in self.errors else None
        mean, few = float(np.nanmean(values)), len(values) <= FEW_TASKS
        color = COLORS[i % len(COLORS)]
        # Error bars of one task would lie on each other: every model has its own height in the row.
        height = 0.5 - (i + 0.5) / len(self.scores) if self.errors else 0.0
        self.points_[model] = self.ax_.errorbar(
            values,
            np.arange(len(values)) + 0.7 * height,
            xerr=error,
            label=f"{model} (mean {mean:.3f})",
            color=color,
            linestyle="none",
            marker=MARKERS[i % len(MARKERS)],
            markersize=6.0 if few else 3.0,
            markeredgecolor="white" if few else color,
            markeredgewidth=0.5 if few else 0.0,
            elinewidth=1.0 if few else 0.4,
        )
        self.ax_.axvline(mean, color=color, linewidth=0.8, linestyle=":", zorder=0)

    def _guide_the_eye(self) -> None:
        """A line through all scores of a task, or, where error bars would hide it, a band under every second task."""
        if self.errors:
            for row in range(0, len(self.tasks), 2):
                self.ax_.axhspan(row - 0.5, row + 0.5, color="0.95", linewidth=0, zorder=-1)
            return
        stack = np.stack(list(self.scores.values()))[:, self.order_]
        self.ax_.hlines(np.arange(stack.shape[1]), stack.min(axis=0), stack.max(axis=0), color="0.8", zorder=0)
