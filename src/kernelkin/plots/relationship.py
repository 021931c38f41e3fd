"""Plot of the tested relations between tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np

from ..relations.analysis import TaskRelations, task_relations
from ._axes import (
    COLORS,
    DIVERGING,
    LONGEST,
    Display,
    color_scale,
    extent,
    heatmap,
    label_ticks,
    labels_extent,
    new_axes,
    write_numbers,
)


class TaskRelationshipDisplay(Display):
    """Heatmap of the tested likeness of tasks, with outlined groups, below the tree of the tasks.

    Tasks are in the order of the tree. If the test finds no structure, all pairs have the same value and there is one
    group.

    Parameters
    ----------
    relations : TaskRelations

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row.
    image_ : the heatmap.
    outlines_ : the outlines of the groups, on the heatmap.
    tree_ax_ : the axes of the tree above the heatmap.
    ax_, figure_ : the axes of the heatmap and the figure.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, task_relations
    >>> from kernelkin.plots import TaskRelationshipDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 2)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] * np.where(tasks == "b", -1, 1) + 0.1 * rng.normal(size=90)
    >>> model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    >>> display = TaskRelationshipDisplay(task_relations(model, X, y, tasks, random_state=0))
    >>> display.title
    '2 groups (p = 0.01)'
    """

    def __init__(self, relations: TaskRelations) -> None:
        self.relations = relations
        self.tasks = np.asarray(relations.tasks)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, tasks: Any = None, ax: Any = None, random_state: Any = None
    ) -> Self:
        """Test the relations of the tasks and draw the result.

        Parameters
        ----------
        estimator : fitted estimator
        X, y, tasks : as for `task_relations`
        ax : matplotlib axes, optional
        random_state : int, RandomState or None
            Seed of the test.
        """
        return cls(task_relations(estimator, X, y, tasks, random_state=random_state)).plot(ax)

    @property
    def order(self) -> np.ndarray:
        """The tasks in the order of the tree, (T,); tasks of one group are next to each other."""
        from scipy.cluster.hierarchy import leaves_list

        linkage = self.relations.linkage
        return np.zeros(1, dtype=np.intp) if linkage is None else leaves_list(linkage).astype(np.intp)

    @property
    def title(self) -> str:
        """The title of the figure."""
        found = self.relations
        p = f"(p = {found.p_value:.3g})"
        if not found.structured:
            return f"no structure found {p}"
        if found.n_groups == 1:
            return f"tasks differ, no groups told apart {p}"
        return f"{found.n_groups} groups {p}" if found.n_groups < len(self.tasks) else f"all tasks differ {p}"

    def _draw(self, ax: Any) -> None:
        self.order_ = self.order
        side = extent(len(self.tasks), 0.36, 3.0, LONGEST)
        names = labels_extent(self.tasks, side)
        self.ax_ = new_axes(ax, side, side, (1.2 + names, 1.4 + names))
        drawn = self.relations.likeness[np.ix_(self.order_, self.order_)]
        # Signed values: zero is white, whatever the values are.
        self.image_ = heatmap(self.ax_, drawn, -1.0, 1.0, cmap=DIVERGING)
        self.texts_ = write_numbers(self.image_, drawn)
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        label_ticks(self.ax_.xaxis, self.tasks[self.order_])
        self.ax_.set(xlabel="task, in the order of the tree", ylabel="task")
        self.colorbar_ = color_scale(self.image_, "likeness of functions", 0.04)
        self._outline_groups()
        self._draw_tree()

    def _outline_groups(self) -> None:
        """Draw a frame around the tasks of each group, if there are groups."""
        from matplotlib.patches import Rectangle

        labels = self.relations.groups[self.order_]
        self.outlines_ = []
        if self.relations.n_groups < 2:
            return
        starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1, [len(labels)]])
        for start, end in pairwise(starts.tolist()):
            frame = Rectangle((start - 0.5, start - 0.5), end - start, end - start, fill=False, linewidth=1.2)
            self.outlines_.append(self.ax_.add_patch(frame))

    def _draw_tree(self) -> None:
        """Draw the tree above the heatmap: links within a group in its colour, links between groups in grey."""
        from scipy.cluster.hierarchy import dendrogram

        self.tree_ax_ = self.ax_.inset_axes((0.0, 1.01, 1.0, 0.14))
        tree = dendrogram(self.relations.linkage, no_plot=True)
        labels = self.relations.groups[self.order_]
        tallest = max(float(self.relations.linkage[:, 2].max()), 1e-9)
        for x, heights in zip(tree["icoord"], tree["dcoord"], strict=True):
            # scipy puts leaf i at 10 i + 5.
            places = (np.array(x) - 5) / 10
            under = set(labels[int(np.ceil(places.min() - 1e-9)) : int(places.max() + 1e-9) + 1].tolist())
            color = COLORS[min(under) % len(COLORS)] if len(under) == 1 else "0.6"
            # Links of height zero stay visible above the leaves.
            drawn = np.maximum(heights, np.array([0.0, 0.02, 0.02, 0.0]) * tallest)
            self.tree_ax_.plot(places, drawn, color=color, linewidth=1.0)
        self.tree_ax_.set(xlim=(-0.5, len(self.tasks) - 0.5), ylim=(0, None), title=self.title)
        self.tree_ax_.axis("off")
