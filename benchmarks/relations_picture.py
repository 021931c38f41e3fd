"""The power curve of the documentation, from the kept results of `python -m benchmarks relations`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "relations_power.png"
# Colours of Okabe and Ito that differ in lightness, and line styles for printing in grey.
LOOKS = {"structured": ("#0072B2", "-", "o", "structure found"), "right": ("#E69F00", "--", "D", "right groups")}


def draw(records: list[dict[str, Any]]) -> None:
    """A panel for each number of groups; bars are 95% intervals."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
    sizes = sorted({r["rows"] for r in records if r["part"] == "functions"})
    for ax, groups in zip(axes, (2, 3), strict=True):
        of = [r for r in records if r["part"] == "functions" and r["groups"] == groups]
        for name, look in LOOKS.items():
            _draw_line(ax, of, name, *look)
        problems = {sum(r["rows"] == rows for r in of) for rows in {r["rows"] for r in of}}
        count = f"{min(problems)}" if len(problems) == 1 else f"{min(problems)} to {max(problems)}"
        ax.set_title(f"{groups} groups ({count} problems a point)", size=9)
        ax.axhline(0.05, color="0.6", linewidth=0.8, linestyle=":")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, labels=[str(size) for size in sizes])
        ax.set_xlabel("rows a task")
    axes[0].set(ylabel="share of problems", ylim=(-0.03, 1.03))
    axes[0].text(sizes[-1], 0.06, "level 5%", ha="right", va="bottom", color="0.4", size=8)
    axes[0].legend(frameon=False, loc="center right")
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


def _draw_line(
    ax: Any, records: list[dict[str, Any]], name: str, color: str, style: str, marker: str, label: str
) -> None:
    sizes = sorted({record["rows"] for record in records})
    found = [np.array([record[name] for record in records if record["rows"] == size], dtype=float) for size in sizes]
    shares = np.array([part.mean() for part in found])
    ends = np.array([_wilson(part.sum(), len(part)) for part in found])
    error = np.abs(ends.T - shares)
    ax.errorbar(
        sizes, shares, error, color=color, linestyle=style, marker=marker, label=label, capsize=2, linewidth=1.4
    )


def _wilson(hits: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    center, reach = hits + z**2 / 2, z * np.sqrt(hits * (n - hits) / n + z**2 / 4)
    return float((center - reach) / (n + z**2)), float((center + reach) / (n + z**2))
