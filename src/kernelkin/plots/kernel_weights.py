"""Plot of the kernel weights of each task."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._axes import (
    LONGEST,
    Display,
    color_scale,
    extent,
    heatmap,
    label_ticks,
    labels_extent,
    new_axes,
    weight_order,
    write_numbers,
)

# With more kernels, their names would be unreadable, and groups of kernels are drawn.
MANY_KERNELS = 40


class KernelWeightsDisplay(Display):
    """Heatmap of the kernel weights of all tasks, with similar tasks next to each other.

    Parameters
    ----------
    weights : array (T, K)
        The weights, in the order of `tasks` and `kernels`.
    tasks, kernels : sequences of T and K labels
    shares : bool, default False
        Whether the weights of each task have been scaled to sum to one.

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row.
    image_ : the heatmap.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import KernelWeightsDisplay
    >>> display = KernelWeightsDisplay([[0.9, 0.1], [0.2, 0.8], [0.8, 0.2]], ["a", "b", "c"], ["rbf", "linear"])
    >>> display.order.tolist()
    [1, 2, 0]
    """

    def __init__(self, weights: Any, tasks: Sequence[Any], kernels: Sequence[str], *, shares: bool = False) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.tasks, self.kernels, self.shares = np.asarray(tasks), np.asarray(kernels), shares
        if self.weights.shape != (len(self.tasks), len(self.kernels)):
            raise ValueError(
                f"weights of {len(self.tasks)} tasks and {len(self.kernels)} kernels have shape "
                f"{(len(self.tasks), len(self.kernels))}, not {self.weights.shape}"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, shares: bool = True, grouped: bool | None = None
    ) -> Self:
        """Draw the kernel weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `kernel_weights_`
        ax : matplotlib axes, optional
        shares : bool, default True
            Whether to scale the weights of each task to sum to one.
        grouped : bool, optional
            Whether to add up the kernels of each view, column or family. None: if there are more than 40 kernels.
        """
        check_is_fitted(estimator, "kernel_weights_")
        weights, names = estimator.kernel_weights_, estimator.kernel_names_
        if shares:
            totals = weights.sum(axis=1, keepdims=True)
            weights = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
        if len(names) > MANY_KERNELS if grouped is None else grouped:
            weights, names = _add_up(weights, kernel_groups(names))
        return cls(weights, estimator.tasks_, names, shares=shares).plot(ax)

    @property
    def order(self) -> np.ndarray:
        """The tasks in the order of a dendrogram of their weights, (T,)."""
        return weight_order(self.weights)

    def _draw(self, ax: Any) -> None:
        T, K = self.weights.shape
        width, height = extent(K, 0.3, 3.0, 11.0), extent(T, 0.3, 1.8, LONGEST)
        self.ax_ = new_axes(
            ax, width, height, (1.3 + labels_extent(self.tasks, height), 0.6 + labels_extent(self.kernels, width))
        )
        self.order_ = self.order
        drawn = self.weights[self.order_]
        self.image_ = heatmap(self.ax_, drawn, 0.0, drawn.max() or 1.0, aspect="auto")
        self.texts_ = write_numbers(self.image_, drawn)
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        label_ticks(self.ax_.xaxis, self.kernels)
        self._separate_groups()
        self.ax_.set(xlabel="kernel", ylabel="task")
        self.colorbar_ = color_scale(self.image_, "share of weights" if self.shares else "weight", 0.03)

    def _separate_groups(self) -> None:
        """Draw white lines between views, columns or families whose kernels are next to each other."""
        groups = kernel_groups(self.kernels)
        ends = np.flatnonzero(groups[1:] != groups[:-1]) + 0.5
        if len(ends) + 1 == len(set(groups.tolist())) < len(groups):
            for end in ends:
                self.ax_.axvline(end, color="white", linewidth=2)
                self.ax_.axvline(end, color="0.5", linewidth=0.6)


def kernel_groups(names: Sequence[str] | np.ndarray) -> np.ndarray:
    """Return the group of each kernel, read from its name: its view, else its column, else its family.

    >>> kernel_groups(["pixels: rbf(2 x median)", "rbf(1 x median)[age]", "poly3", "rbf(1 x median)"]).tolist()
    ['pixels', 'age', 'poly', 'rbf']
    """
    return np.array([_group(str(name)) for name in names], dtype=object)


def _group(name: str) -> str:
    view, colon, _ = name.partition(": ")
    if colon:
        return view
    column = re.fullmatch(r".*\[(.+)\]", name)
    if column:
        return column[1]
    return re.split(r"[\d(]", name, maxsplit=1)[0].strip() or name


def _add_up(weights: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the summed weights (T, G) and names of the groups, in the order of their first kernels."""
    names = list(dict.fromkeys(groups.tolist()))
    return np.stack([weights[:, groups == name].sum(axis=1) for name in names], axis=1), names
