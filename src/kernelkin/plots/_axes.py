"""Helpers for plots: axes, labels that fit, heatmaps, and colours safe for grey printing and colour blindness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data.arrays import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.image import AxesImage

# Okabe and Ito's colours without black, for dark styles; the first ones differ in lightness. The markers differ, too.
COLORS = ("#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#009E73")
MARKERS = ("o", "D", "s", "^", "v", "P")
SMALLEST_FONT, LARGEST_FONT = 5.0, 10.0
# The longest side of a plot, in inches: 139 names next to each other are readable.
LONGEST = 13.0
# A heatmap shows numbers in its cells if both sides have at most this many.
NUMBERED = 12
# Above this many tasks, points are drawn small.
FEW_TASKS = 40


class Display:
    """A plot that is drawn on the user's axes or on a new figure."""

    ax_: Axes

    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
        """
        self._draw(ax)
        self.figure_ = self.ax_.figure
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError


def new_axes(ax: Axes | None, width: float, height: float, margins: tuple[float, float] = (1.0, 1.0)) -> Axes:
    """Return the given axes, or new axes of about this size in inches, with a margin for labels."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: install kernelkin[plot]") from error
    size = width + margins[0], height + margins[1]
    # The layout moves the axes when the figure is drawn; until then, labels are fitted to the expected size.
    spacing = {"left": 0.0, "right": width / size[0], "bottom": 0.0, "top": height / size[1]}
    return plt.subplots(figsize=size, layout="constrained", gridspec_kw=spacing)[1]


def task_axes(ax: Axes | None, tasks: Sequence[Any] | np.ndarray, xlabel: str, ylabel: str) -> Axes:
    """Return axes with a labelled row for each task, from the bottom."""
    height = extent(len(tasks), 0.32, 1.6, LONGEST)
    ax = new_axes(ax, 5.5, height, (0.5 + labels_extent(tasks, height), 1.0))
    label_ticks(ax.yaxis, tasks)
    ax.set(xlabel=xlabel, ylabel=ylabel, ylim=(-0.7, len(tasks) - 0.3))
    return ax


def add_legend(ax: Axes, columns: int = 1) -> None:
    """Draw a legend without a frame above the plot, in at most so many columns, as there is room for."""
    ax.spines[["top", "right"]].set_visible(False)
    room = _length(ax.xaxis) / (0.6 * LARGEST_FONT * (4 + max(map(len, ax.get_legend_handles_labels()[1]))))
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=max(1, min(columns, int(room))))


def extent(n: int, each: float, least: float, most: float) -> float:
    """Return the length of a side of a plot, in inches, for n items next to each other."""
    return float(np.clip(n * each, least, most))


def labels_extent(labels: Sequence[Any] | np.ndarray, side: float) -> float:
    """Return the space that labels need, in inches, next to each other along a side of this length in inches."""
    size = np.clip(0.9 * 72 * side / len(labels), SMALLEST_FONT, LARGEST_FONT)
    return 0.6 * size / 72 * max(map(len, shorten(labels)))


def label_ticks(axis: XAxis | YAxis, labels: Sequence[Any] | np.ndarray) -> None:
    """Set a tick for each label at 0, 1, ...; many labels are smaller, or only every second or third is drawn."""
    pitch = 0.9 * _length(axis) / len(labels)
    step = int(np.ceil(SMALLEST_FONT / pitch))
    shown = range(0, len(labels), step)
    size = min(LARGEST_FONT, step * pitch)
    names = shorten(labels)[::step]
    upright = axis.axis_name == "x" and 0.7 * size * max(map(len, names)) > step * pitch
    axis.set_ticks(list(shown), labels=names, size=size, rotation=90 if upright else 0)
    axis.set_tick_params(length=2 if len(labels) <= NUMBERED else 0)


def _length(axis: XAxis | YAxis) -> float:
    """Return the length of an axis in points."""
    box = axis.axes.get_window_extent()
    pixels = box.width if axis.axis_name == "x" else box.height
    return pixels * 72 / axis.axes.figure.dpi


def heatmap(
    ax: Axes, values: np.ndarray, rows: np.ndarray, columns: np.ndarray, label: str, **options: Any
) -> tuple[AxesImage, list[Any]]:
    """Draw values (R, C) as coloured cells with a colour bar; return the image and the numbers in the cells.

    Numbers are drawn in a contrasting colour, if there are few cells.
    """
    drawn = ax.imshow(values, interpolation="nearest", **options)
    ax.spines[:].set_visible(False)
    label_ticks(ax.yaxis, rows)
    label_ticks(ax.xaxis, columns)
    bar = ax.figure.colorbar(drawn, cax=ax.inset_axes((1.02, 0.0, 0.035, 1.0)), label=label)
    bar.outline.set_visible(False)
    texts: list[Any] = []
    if max(values.shape) <= NUMBERED:
        size = min(LARGEST_FONT, 0.33 * _length(ax.xaxis) / values.shape[1])
        for (i, j), value in np.ndenumerate(np.round(values, 2) + 0.0):  # no -0.00
            red, green, blue, _ = drawn.cmap(drawn.norm(np.asarray(value)))
            color = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            texts.append(ax.text(j, i, f"{value:.2f}", ha="center", va="center", size=size, color=color))
    return drawn, texts
