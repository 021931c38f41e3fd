"""The paper's figure on images: accuracy and training time against training images of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from .protocol import Protocol
from .store import Result

_MARKERS = "ovs^D"
SECONDS = "processor seconds of the fit"


def fit_seconds(results: Sequence[Result]) -> dict[tuple[str, str], float]:
    """(setting, model) -> processor seconds of a fit, without the search, on average over runs."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in results:
        found.setdefault((result.setting, result.model), []).append(result.chosen[SECONDS])
    return {key: float(np.mean(values)) for key, values in found.items()}


def draw_accuracy_and_time(protocol: Protocol, results: Sequence[Result]) -> bytes:
    """A PNG: accuracy on the left, time of a fit on the right, one line for each model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from .summary import summarise

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    cells, seconds = summarise(protocol, results), fit_seconds(results)
    _lines(left, protocol, {key: cell.mean for key, cell in cells.items()})
    _lines(right, protocol, seconds)
    left.set(xlabel="training images of a class", ylabel=protocol.metric.name, title=protocol.title)
    right.set(xlabel="training images of a class", ylabel="processor seconds of a fit", yscale="log")
    left.legend(fontsize=8)
    png = BytesIO()
    figure.savefig(png, format="png", dpi=130)
    return png.getvalue()


def _lines(axes: Any, protocol: Protocol, values: Mapping[tuple[str, str], float]) -> None:
    for place, model in enumerate(protocol.model_names()):
        points = [(s.size, values[s.name, model]) for s in protocol.settings if (s.name, model) in values]
        if points:
            axes.plot(*zip(*points, strict=True), label=model, color=f"C{place}", marker=_MARKERS[place % 5])
    axes.set_xticks([setting.size for setting in protocol.settings])
    axes.grid(alpha=0.3)
