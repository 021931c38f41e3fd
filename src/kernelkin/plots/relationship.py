"""How the tasks are related."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._axes import (
    COLORS,
    LONGEST,
    color_scale,
    extent,
    heatmap,
    label_ticks,
    labels_extent,
    new_axes,
    shorten,
    text_width,
    write_numbers,
)
from ._graph import layout, strongest_links
from ._order import correlation_linkage, leaf_order

# Above this many tasks the points, links and names of the graph are drawn small.
MANY_TASKS = 40


class TaskRelationshipDisplay:
    """The correlation of tasks, as a heatmap in the order of a dendrogram, or as a graph.

    Parameters
    ----------
    correlation : array (T, T)
        With unit diagonal, in the order of `tasks`.
    tasks : sequence of T labels

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row.
    image_ : the heatmap.
    positions_ : array (T, 2), where the graph has each task: the less alike, the further apart.
    edges_ : array (E, 2), the pairs of tasks that the graph links: each task to the three most correlated with it.
    ax_, figure_ : where it is drawn.

    Examples
    --------
    >>> from kernelkin.plots import TaskRelationshipDisplay
    >>> display = TaskRelationshipDisplay([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]], ["a", "b", "c"])
    >>> display.order.tolist()
    [1, 2, 0]
    """

    def __init__(self, correlation: Any, tasks: Sequence[Any]) -> None:
        self.correlation, self.tasks = np.asarray(correlation, dtype=np.float64), np.asarray(tasks)
        if self.correlation.shape != (len(self.tasks),) * 2:
            raise ValueError(f"the correlation of {len(self.tasks)} tasks is square, not {self.correlation.shape}")

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, kind: Literal["heatmap", "graph"] = "heatmap"
    ) -> TaskRelationshipDisplay:
        """Draw the `task_correlation_` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `task_correlation_`
        ax : matplotlib axes, optional
            None: those of a new figure.
        kind : {"heatmap", "graph"}
            A heatmap in the order of a dendrogram, or a graph of the strongest links.
        """
        check_is_fitted(estimator, "task_correlation_")
        return cls(estimator.task_correlation_, estimator.tasks_).plot(ax, kind=kind)

    @property
    def order(self) -> np.ndarray:
        """The tasks in the order of the dendrogram, (T,)."""
        return leaf_order(correlation_linkage(self.correlation))

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the colour scale: 0, or the quarter below the most negative correlation; and 1."""
        lowest = float(self.correlation.min())
        return (0.0 if lowest > -0.01 else np.floor(4 * lowest) / 4), 1.0

    def plot(self, ax: Any = None, *, kind: Literal["heatmap", "graph"] = "heatmap") -> TaskRelationshipDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        kind : {"heatmap", "graph"}
            A heatmap in the order of a dendrogram, or a graph of the strongest links.
        """
        if kind not in ("heatmap", "graph"):
            raise ValueError(f"kind is 'heatmap' or 'graph', not {kind!r}")
        self.order_ = self.order
        side = extent(len(self.tasks), 0.36, 3.0, LONGEST)
        return self._plot_heatmap(ax, side) if kind == "heatmap" else self._plot_graph(ax, side)

    def _plot_heatmap(self, ax: Any, side: float) -> TaskRelationshipDisplay:
        names = labels_extent(self.tasks, side)
        self.ax_ = new_axes(ax, side, side, (1.2 + names, 1.2 + names))
        self.figure_ = self.ax_.figure
        drawn = self.correlation[np.ix_(self.order_, self.order_)]
        self.image_ = heatmap(self.ax_, drawn, *self.limits)
        self.texts_ = write_numbers(self.image_, drawn)
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        label_ticks(self.ax_.xaxis, self.tasks[self.order_])
        self.ax_.set(xlabel="task", ylabel="task")
        self.colorbar_ = color_scale(self.image_, "correlation", 0.04)
        self._draw_dendrogram()
        return self

    def _draw_dendrogram(self) -> None:
        """The tree over the columns of the heatmap; scipy puts leaf i at 10 i + 5."""
        from scipy.cluster.hierarchy import dendrogram

        linkage = correlation_linkage(self.correlation)
        if linkage is None:
            return
        tree = dendrogram(linkage, no_plot=True)
        self.tree_ax_ = self.ax_.inset_axes((0.0, 1.01, 1.0, 0.14))
        for x, height in zip(tree["icoord"], tree["dcoord"], strict=True):
            self.tree_ax_.plot((np.array(x) - 5) / 10, height, color="0.3", linewidth=0.8)
        self.tree_ax_.set(xlim=(-0.5, len(self.tasks) - 0.5), ylim=(0, None))
        self.tree_ax_.axis("off")

    def _plot_graph(self, ax: Any, side: float) -> TaskRelationshipDisplay:
        from matplotlib.collections import LineCollection

        # Names stand beside the points, on the outer side.
        names = text_width(self.tasks, self._graph_font)
        self.ax_ = new_axes(ax, side + 2 * names, side, (1.0, 0.2))
        self.figure_ = self.ax_.figure
        self.positions_, self.edges_ = layout(self.correlation), strongest_links(self.correlation)
        strength = self.correlation[tuple(self.edges_.T)]
        self.lines_ = LineCollection(
            list(self.positions_[self.edges_]), array=strength, cmap="Greys", clim=(0.0, 1.0), zorder=1
        )
        self.lines_.set_linewidth((3.0 if len(self.tasks) <= MANY_TASKS else 0.8) * strength)
        self.ax_.add_collection(self.lines_)
        self._draw_tasks()
        self.ax_.set_aspect("equal")
        self.ax_.margins(0.1 + 1.2 * names / side, 0.1)
        self.ax_.axis("off")
        self.colorbar_ = self.figure_.colorbar(self.lines_, ax=self.ax_, label="correlation", shrink=0.6)
        return self

    @property
    def _graph_font(self) -> float:
        return 10.0 if len(self.tasks) <= MANY_TASKS else 6.0

    def _draw_tasks(self) -> None:
        from matplotlib.patheffects import withStroke

        few = len(self.tasks) <= MANY_TASKS
        self.points_ = self.ax_.scatter(
            self.positions_[:, 0], self.positions_[:, 1], s=70 if few else 14, color=COLORS[0], zorder=2
        )
        outward, shift = self.positions_ >= self.positions_.mean(axis=0), 6 if few else 3
        self.texts_ = [
            self.ax_.annotate(
                shorten(task),
                position,
                (shift if right else -shift, shift if above else -shift),
                textcoords="offset points",
                ha="left" if right else "right",
                va="bottom" if above else "top",
                size=self._graph_font,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )
            for task, position, (right, above) in zip(self.tasks, self.positions_, outward, strict=True)
        ]
