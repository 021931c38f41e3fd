"""The picture of the comparison: losses relative to Kin, one row a contender."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .predict_models import KIN
from .predict_summary import Estimate, Results, relative_loss

LOW, HIGH = 0.5, 8.0


def draw(results: Results, path: Path) -> None:
    """Dots are data sets, diamonds geometric means with 95% intervals where there are two sources or more.

    What is beyond the ends of the axis is drawn at the end. No colour is needed to read it.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    rows = sorted(_rows(results), key=lambda row: row[2].mean)
    figure = Figure(figsize=(7.5, 0.34 * len(rows) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    rng = np.random.default_rng(0)
    for place, (_, dots, mean) in enumerate(rows):
        shift = place - rng.uniform(0.14, 0.36, len(dots))  # above the interval
        inside = np.clip(dots, LOW, HIGH)
        axes.scatter(inside, shift, s=12, color="0.6", linewidths=0, zorder=2)
        if np.isfinite(mean.high):
            axes.plot(np.clip([mean.low, mean.high], LOW, HIGH), [place, place], color="black", lw=1.5, zorder=3)
        axes.scatter([np.clip(mean.mean, LOW, HIGH)], [place], s=34, marker="D", color="black", zorder=4)
    axes.axvline(1.0, color="black", lw=1, ls=(0, (4, 2)), zorder=1)
    axes.set(xscale="log", xlim=(LOW / 1.03, HIGH * 1.03), ylim=(len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ticks = [0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("loss relative to Kin (log scale)")
    axes.grid(axis="x", color="0.9", lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _rows(results: Results) -> list[tuple[str, np.ndarray, Estimate]]:
    found = []
    for model in results.models:
        mean = relative_loss(results, model)
        if model == KIN or mean is None:
            continue
        ours, theirs = results.losses([KIN, model]).T
        ratios = theirs / ours
        dots = ratios[np.isfinite(ratios)]
        found.append((f"{model} ({len(dots)})", dots, mean))
    return found
