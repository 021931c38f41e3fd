"""The paper's figure: the score against the number of training rows."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from .protocol import Protocol
from .summary import Cell

# Distinguish the lines where colours are not visible.
_MARKERS = "ovs^D<P>X*hp"


def draw_sizes(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> bytes:
    """A PNG with one line for each model and its standard errors."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    sizes_shown = sorted({setting.size for setting in protocol.settings})
    roles = {model.name: model.role for setting in protocol.settings for model in protocol.models(setting)}
    names = list(roles)
    for place, model in enumerate(names):
        style: dict[str, Any] = {"color": f"C{place % 10}", "marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
        if roles[model] == "ours":
            style = {"color": "black", "linewidth": 2.5, "marker": "o", "zorder": 3}
        points = [(s.size, cells[s.name, model]) for s in protocol.settings if (s.name, model) in cells]
        if points:
            sizes, shown = zip(*points, strict=True)
            errors = [cell.error if cell.runs > 1 else 0.0 for cell in shown]
            axes.errorbar(sizes, [c.mean for c in shown], yerr=errors, label=model, capsize=2, **style)
    axes.set(xlabel="training rows", ylabel=protocol.metric.name, xscale="log", yscale="log", title=protocol.title)
    axes.set_xticks(sizes_shown, [str(size) for size in sizes_shown])
    axes.minorticks_off()
    axes.legend(fontsize=7, ncols=2)
    png = BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()
