"""Short summary of a fit, for notebooks, reports and the command line."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from .data.arrays import listing

# Parameters that do not change the model; kernels are shown elsewhere.
_SKIPPED = ("kernels", "n_jobs", "engine", "random_state", "callback", "verbose")


def relative_gap(model: Any) -> float | None:
    """Return the duality gap relative to the objective; None for models without a gap."""
    gap, objective = getattr(model, "duality_gap_", None), getattr(model, "objective_", None)
    return None if gap is None or not objective else float(max(gap, 0.0) / abs(objective))


def changed_parameters(model: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, as text."""
    default = type(model)() if not hasattr(model, "estimator") else model
    parameters, defaults = model.get_params(deep=False), default.get_params(deep=False)
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in parameters.items()
        if name not in _SKIPPED and str(value) != str(defaults[name])
    }


def fit_facts(model: Any) -> list[tuple[str, str]]:
    """Return the name and text of each fact of a fitted model; an empty list if it is not fitted."""
    if not hasattr(model, "tasks_"):
        return []
    found = [("Tasks", f"{len(model.tasks_)}: {listing(model.tasks_, 5)}")]
    if hasattr(model, "n_features_in_"):
        found.append(("Columns", str(model.n_features_in_)))
    if hasattr(model, "members_"):
        parts = [f"{member['name']} {member['weight']:.0%}" for member in model.members_]
        found.append(("Average of", "; ".join(parts)))
    quality = getattr(model, "features_", None)
    if quality:
        text = f"{quality['count']}, which miss {quality['missed_variance']:.0%} of the variance a priori"
        found.append(("Features of the common function", text))
    shares = getattr(model, "column_shares_", None)
    if shares:
        found.append(("Columns by what they explain", _shares(list(shares), np.array(list(shares.values())))))
    elif hasattr(model, "kernel_weights_"):
        found.append(("Kernel weights", _shares(model.kernel_names_, model.kernel_weights_.mean(axis=0))))
    if hasattr(model, "best_params_"):
        found.append(("Chosen", ", ".join(f"{name}={value}" for name, value in model.best_params_.items())))
    gap = relative_gap(model)
    if gap is not None:
        found.append(("Certificate", f"objective within {gap:.1e} of the optimum"))
    return found


def _shares(names: Any, weights: np.ndarray) -> str:
    """Return the four largest weights as shares of the sum, as text."""
    order = [k for k in np.argsort(-weights, kind="stable")[:4] if weights[k] > 0]
    return ", ".join(f"{names[k]} {weights[k] / weights.sum():.0%}" for k in order) or "none"


def with_facts(model: Any, diagram: str) -> str:
    """Append a table with the facts of the fit to scikit-learn's HTML diagram of a fitted estimator."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in fit_facts(model)
    )
    return f'{diagram}<table aria-label="Facts of the fit">{rows}</table>' if rows else diagram
