"""A summary of a fitted Kin model in a few sentences."""

from __future__ import annotations

from typing import Any

import numpy as np


def explain(model: Any) -> str:
    """Return sentences on shares of variance, the averaged structures, and the most important columns."""
    shares, table = model.variance_components_, model.search_results_
    T = len(model.tasks_)
    lines = []
    if "level" in shares:
        lines.append(f"{shares['level']:.0%} of the variation is between the levels of the {T} groups.")
    own = sum(share for name, share in shares.items() if name == "slopes" or name.startswith("own "))
    common = sum(share for name, share in shares.items() if name in ("linear", "additive") or name[:7] == "common ")
    if T > 1:
        lines.append(
            f"What columns do in all groups alike explains {common:.0%}, what they do in each group {own:.0%}."
        )
    else:
        lines.append(f"Columns explain {common:.0%}.")
    lines.append(f"{shares['noise']:.0%} is noise.")
    best = int(np.nanargmin(table["error"]))
    counted = "1 structure was" if len(table["error"]) == 1 else f"{len(table['error'])} structures were"
    lines.append(
        f"{counted} compared by the errors of held-out rows; the best is {table['structure'][best]}: "
        f"{table['error'][best]:.4g} ± {table['standard_error'][best]:.2g}."
    )
    if len(model.members_) > 1:
        parts = ", ".join(f"{member['name']} {member['weight']:.0%}" for member in model.members_)
        lines.append(f"Predictions are their average: {parts}.")
    if not model.is_complete_:
        lines.append("The search was not complete.")
    top = [f"{name} {share:.0%}" for name, share in list(model.column_shares_.items())[:5] if share >= 0.01]
    if top:
        lines.append(f"Columns by what they explain: {', '.join(top)}.")
    return " ".join(lines)
