"""Whether events happen as often as their probabilities say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._axes import COLORS, MARKERS, new_axes


class ReliabilityDisplay:
    """Frequencies of classes against their probabilities: of all rows in bins, and of each task as a whole.

    Parameters
    ----------
    probabilities : sequence of T arrays (n_t,)
        The probability of the second class for each row of a task; of more than two classes, those of all of them.
    happened : sequence of T arrays (n_t,) of bool
        Whether the row is of that class.
    tasks : sequence of T labels
    n_bins : int, default 10
        Bins of equal numbers of rows.

    Attributes
    ----------
    predicted_, observed_, errors_ : arrays (bins,)
        Mean probability, frequency, and standard error of the frequency in each bin.
    task_predicted_, task_observed_ : arrays (T,)
        The same of each task.
    ax_, figure_ : where it is drawn.

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
        # The error of a frequency of 0 or 1 is that of one that has been missed.
        smoothed = np.array([(hit[part].sum() + 1) / (len(part) + 2) for part in bins])
        self.errors_ = np.sqrt(smoothed * (1 - smoothed) / [len(part) for part in bins])
        self.task_predicted_ = np.array([np.mean(part) for part in probabilities])
        self.task_observed_ = np.array([np.mean(part) for part in happened])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, n_bins: int = 10, ax: Any = None
    ) -> ReliabilityDisplay:
        """Draw the reliability of a fitted classifier on rows it was not fitted on.

        Parameters
        ----------
        estimator : fitted estimator with `predict_proba`
        X, y, tasks : as for `score_tasks`
        n_bins : int, default 10
            Bins of equal numbers of rows.
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        p, classes = estimator.predict_proba(X, tasks), estimator.classes_
        y = np.asarray(y)
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

    def plot(self, ax: Any = None) -> ReliabilityDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        self.ax_ = new_axes(ax, 4.5, 4.5)
        self.figure_ = self.ax_.figure
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
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return self
