"""The figure of the demo: scores of all models, and the sales of two shops over the year as predicted by two models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .demo import DemoResult

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#9a9a9a"


def draw_demo(result: DemoResult, ours: str, other: str) -> Figure:
    """Draw bars of mean scores, and for two shops sales over the year: true, and by the models `ours` and `other`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    bars, *seasons = figure.subplots(1, 3, gridspec_kw={"width_ratios": [1.2, 1, 1]})
    _draw_scores(bars, result, ours)
    gains = result.scores[ours][0] - result.scores[other][0]
    order = np.argsort(gains)
    # A typical shop, and the one with the smallest gain, which may be a loss.
    shops = {"median": int(order[len(order) // 2]), "smallest": int(order[0])}
    for axes, (which, shop) in zip(seasons, shops.items(), strict=True):
        _draw_season(axes, result, shop, ours, other, f"{which} gain in R²: {gains[shop]:+.2f}")
    seasons[0].set_ylabel("sales")
    figure.legend(*seasons[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_scores(axes: Axes, result: DemoResult, ours: str) -> None:
    means = result.means()
    names = sorted(means, key=lambda name: means[name])
    colors = [BLUE if name == ours else GREY for name in names]
    axes.barh([name.replace(", ", ",\n", 1) for name in names], [means[name] for name in names], color=colors)
    for i, name in enumerate(names):
        axes.text(max(means[name], 0) + 0.01, i, f"{means[name]:.2f}", va="center")
    axes.set(xlabel="mean R² of the shops, held-out days", title="How well sales are predicted")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_season(axes: Axes, result: DemoResult, shop: int, ours: str, other: str, note: str) -> None:
    """Sales over the year at the training means of the other columns, and the training days of the shop."""
    data = result.data
    name = data.task_names[shop]
    own = data.tasks == name
    grid = np.repeat(data.data.mean(axis=0)[np.newaxis], 200, axis=0)
    grid[:, 0] = np.linspace(1, 365, 200)
    # Temperature follows the season, as in the data.
    slope = np.polyfit(np.cos(2 * np.pi * data.data[:, 0] / 365), data.data[:, 1], 1)
    grid[:, 1] = np.polyval(slope, np.cos(2 * np.pi * grid[:, 0] / 365))
    tasks = np.repeat(name, len(grid))
    axes.plot(grid[:, 0], data.functions(grid)[:, shop], color="black", linewidth=1.5, label="expected sales")
    axes.plot(grid[:, 0], _values(result, ours, grid, tasks), color=BLUE, linewidth=2.5, label=ours)
    axes.plot(grid[:, 0], _values(result, other, grid, tasks), color=ORANGE, linestyle="--", label=other)
    axes.plot(data.data[own, 0], data.target[own], "o", color=GREY, markersize=5, label="training days of the shop")
    axes.set(xlabel="day of the year", title=f"{name}\n{note}")
    axes.spines[["top", "right"]].set_visible(False)


def _values(result: DemoResult, name: str, X: np.ndarray, tasks: np.ndarray) -> Any:
    return result.models[name].predict(X, tasks=tasks)
