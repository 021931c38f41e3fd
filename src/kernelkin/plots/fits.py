"""Plots of a fit: kernel weights, tested relations between tasks, and convergence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import dendrogram, leaves_list, linkage
from sklearn.utils.validation import check_is_fitted

from ..relations.analysis import TaskRelations, task_relations
from ._axes import COLORS, LONGEST, Display, extent, heatmap, labels_extent, new_axes

# With more kernels, their names would be unreadable, and groups of kernels are drawn.
MANY_KERNELS = 40
# The scale of the objective is set by the iterations whose relative gap is below this.
NEAR = 0.5


class KernelWeightsDisplay(Display):
    """Heatmap of the kernel weights of all tasks, as shares of their sum, with similar tasks next to each other.

    Parameters
    ----------
    weights : array (T, K)
        The weights, in the order of `tasks` and `kernels`.
    tasks, kernels : sequences of T and K labels

    Attributes
    ----------
    shares : array (T, K), the weights divided by the sum of each task.
    order_ : array (T,), the task drawn in each row.
    image_ : the heatmap.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import KernelWeightsDisplay
    >>> display = KernelWeightsDisplay([[9.0, 1.0], [2.0, 8.0], [4.0, 1.0]], ["a", "b", "c"], ["rbf", "linear"])
    >>> display.order_.tolist()
    [1, 2, 0]
    """

    def __init__(self, weights: Any, tasks: Sequence[Any], kernels: Sequence[str]) -> None:
        weights = np.asarray(weights, dtype=np.float64)
        self.tasks, self.kernels = np.asarray(tasks), np.asarray(kernels)
        shape = len(self.tasks), len(self.kernels)
        if weights.shape != shape:
            raise ValueError(
                f"weights of {shape[0]} tasks and {shape[1]} kernels have shape {shape}, not {weights.shape}"
            )
        totals = weights.sum(axis=1, keepdims=True)
        self.shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
        # In the order of a dendrogram.
        tree = linkage(self.shares, method="average", optimal_ordering=True) if shape[0] > 1 else None
        self.order_ = np.zeros(shape[0], dtype=np.intp) if tree is None else leaves_list(tree).astype(np.intp)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, grouped: bool | None = None) -> Self:
        """Draw the kernel weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `kernel_weights_`
        ax : matplotlib axes, optional
        grouped : bool, optional
            Whether to add up the kernels of each view, column or family. None: if there are more than 40 kernels.
        """
        check_is_fitted(estimator, "kernel_weights_")
        weights, names = grouped_weights(estimator, grouped)
        return cls(weights, estimator.tasks_, names).plot(ax)

    def _draw(self, ax: Any) -> None:
        T, K = self.shares.shape
        width, height = extent(K, 0.3, 3.0, 11.0), extent(T, 0.3, 1.8, LONGEST)
        margins = 1.3 + labels_extent(self.tasks, height), 0.6 + labels_extent(self.kernels, width)
        self.ax_ = new_axes(ax, width, height, margins)
        drawn, tasks = self.shares[self.order_], self.tasks[self.order_]
        # Lightness falls steadily from white to dark blue, so the order of values is visible without colour.
        colors: dict[str, Any] = {"cmap": "YlGnBu", "vmin": 0.0, "vmax": drawn.max() or 1.0, "aspect": "auto"}
        self.image_, self.texts_ = heatmap(self.ax_, drawn, tasks, self.kernels, "share of weights", **colors)
        self.ax_.set(xlabel="kernel", ylabel="task")
        # White lines between views, columns or families whose kernels are next to each other.
        groups = kernel_groups(self.kernels)
        ends = np.flatnonzero(groups[1:] != groups[:-1]) + 0.5
        if len(ends) + 1 == len(set(groups.tolist())) < len(groups):
            for end in ends:
                self.ax_.axvline(end, color="white", linewidth=2)
                self.ax_.axvline(end, color="0.5", linewidth=0.6)


def grouped_weights(model: Any, grouped: bool | None = None) -> tuple[np.ndarray, list[str]]:
    """Return weights (T, K) and names of kernels, or of groups of kernels; by default of groups if there are many."""
    weights, names = model.kernel_weights_, list(map(str, model.kernel_names_))
    if not (len(names) > MANY_KERNELS if grouped is None else grouped):
        return weights, names
    groups = kernel_groups(names)
    names = list(dict.fromkeys(groups.tolist()))
    return np.stack([weights[:, groups == name].sum(axis=1) for name in names], axis=1), names


def kernel_groups(names: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return the group of each kernel, read from its name: its view, else its column, else its family.

    >>> kernel_groups(["pixels: rbf(2 x median)", "rbf(1 x median)[age]", "poly3", "rbf(1 x median)"]).tolist()
    ['pixels', 'age', 'poly', 'rbf']
    """
    found = []
    for name in map(str, names):
        view, colon, _ = name.partition(": ")
        column = re.fullmatch(r".*\[(.+)\]", name)
        family = re.split(r"[\d(^]", name, maxsplit=1)[0].strip()
        found.append(view if colon else column[1] if column else family or name)
    return np.array(found, dtype=object)


class TaskRelationshipDisplay(Display):
    """Heatmap of the tested likeness of tasks, with outlined groups, below the tree of the tasks.

    Tasks are in the order of the tree. If the test finds no structure, all pairs have one value and there is one group.

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
        self.tasks, self.order_ = np.asarray(relations.tasks), leaves_list(relations.linkage).astype(np.intp)

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
    def title(self) -> str:
        """The title of the figure."""
        found = self.relations
        p = f"(p = {found.p_value:.3g})"
        if not found.structured:
            return f"no structure found {p}"
        if found.n_groups == 1:
            return f"tasks differ, no groups found {p}"
        return f"{found.n_groups} groups {p}" if found.n_groups < len(self.tasks) else f"all tasks differ {p}"

    def _draw(self, ax: Any) -> None:
        from matplotlib.patches import Rectangle

        side, tasks = extent(len(self.tasks), 0.36, 3.0, LONGEST), self.tasks[self.order_]
        names = labels_extent(self.tasks, side)
        self.ax_ = new_axes(ax, side, side, (1.2 + names, 1.4 + names))
        drawn = self.relations.likeness[np.ix_(self.order_, self.order_)]
        # White at zero, whatever the values are; blue above and red below, equally far from white in lightness.
        colors: dict[str, Any] = {"cmap": "RdBu", "vmin": -1.0, "vmax": 1.0}
        self.image_, self.texts_ = heatmap(self.ax_, drawn, tasks, tasks, "likeness of functions", **colors)
        self.ax_.set(xlabel="task, in the order of the tree", ylabel="task")
        labels = self.relations.groups[self.order_]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1, [len(labels)]]).tolist()
        self.outlines_ = [
            self.ax_.add_patch(Rectangle((start - 0.5,) * 2, end - start, end - start, fill=False, linewidth=1.2))
            for start, end in (pairwise(starts) if self.relations.n_groups > 1 else ())
        ]
        self._draw_tree(labels)

    def _draw_tree(self, labels: np.ndarray) -> None:
        """Draw the tree above the heatmap: links within a group in its colour, links between groups in grey."""
        self.tree_ax_ = self.ax_.inset_axes((0.0, 1.01, 1.0, 0.14))
        tree = dendrogram(self.relations.linkage, no_plot=True)
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
        above.fill_between(x, self.bound, self.primal, color="0.5", alpha=0.3, lw=0, label="where the optimum is")
        # The first iterates can be off by factors of thousands, which would hide all later ones.
        near = np.argmax(self.relative_gap <= NEAR)
        low, high = self.bound[near:].min(), self.primal[near:].max()
        margin = 0.1 * (high - low)
        above.set(ylabel="objective", ylim=(low - margin, high + margin) if high > low else None)
        above.tick_params(labelbottom=False)
        above.legend(frameon=False)
        # A logarithmic axis cannot show zero, so gaps are raised to the rounding error.
        gap = np.maximum(self.relative_gap, np.finfo(float).eps)
        (self.gap_line_,) = below.semilogy(x, gap, "s-", color=COLORS[0], markersize=3)
        if self.tol is not None:
            below.axhline(self.tol, color="0.5", linestyle=":")
            below.text(0.01, self.tol, f"tol = {self.tol:g}", transform=below.get_yaxis_transform(), va="bottom")
        below.set(xlabel="iteration", ylabel="relative gap")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
