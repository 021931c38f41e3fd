"""What a fit reached and which parameters were set, for reports and the command line."""

from __future__ import annotations

from typing import Any

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
