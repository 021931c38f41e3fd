"""The least value of a smooth function of variables that are not negative, by SciPy's L-BFGS-B."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Value and gradient (n,) at x (n,).
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def minimise_bounded(function: Function, x: np.ndarray, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """From x (n,) >= 0 to where the projected gradient is `forcing` times that at x: that point, and the fall to it.

    At most `limit` evaluations are made; where rounding forbids further progress it ends earlier.
    """
    from scipy.optimize import Bounds, minimize

    value, gradient = function(x)
    goal = forcing * float(np.abs(np.minimum(gradient, x)).max())
    if goal == 0.0:
        return x, 0.0
    options = {"maxcor": 10, "ftol": 0.0, "gtol": goal, "maxiter": limit, "maxfun": limit, "maxls": 20}
    found = minimize(function, x, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, np.inf), options=options)
    return (found.x, value - found.fun) if found.fun < value else (x, 0.0)
