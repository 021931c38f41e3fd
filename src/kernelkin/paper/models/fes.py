"""FES (Yuan, Ekici, Lu and Monteiro): multivariate linear regression with few factors.

    minimise over B (d, T):   (1/(2n)) |Y - XB|_F^2 + alpha |B|_*

in centred X and Y: the penalised form of their bound on the sum of singular values. For any Theta (n, T) with
|X'Theta|_2 <= alpha, `<Y, Theta> - (n/2) |Theta|_F^2` bounds the optimum from below.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...decompositions import least_squares, singular_values, svd
from ..fitting import LinearFit
from ..fitting.linear import Multivariate
from ..penalties import effective_rank
from .kinds import MultiTaskRegressor
from .parameters import COUNT, LINEAR, NOT_NEGATIVE, Parameter, describe


@describe(
    (*LINEAR, "objective_", "duality_gap_", "n_iter_"),
    {
        "history_": ("dict of arrays", "`iteration`, `objective`, `bound` and `relative_gap`."),
        "effective_rank_": (
            "float",
            "Exponential of the entropy of the normalised singular values of the coefficients.",
        ),
    },
    alpha=Parameter("float", "Strength of the trace norm, in ``(1/(2n)) |Y - XB|^2 + alpha |B|_*``.", NOT_NEGATIVE),
    max_iter=Parameter("int", "Maximum number of steps of accelerated proximal gradient.", COUNT),
)
class FESRegressor(MultiTaskRegressor):
    """FES: factor estimation and selection, linear regression of all tasks with a trace norm on the coefficients.

    Convex; `duality_gap_` is certified. Needs wide y, with every label of every row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import FESRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.outer(X[:, 0], [1.0, 2.0]) + 0.1 * rng.normal(size=(40, 2))
    >>> model = FESRegressor().fit(X, Y)
    >>> model.coef_.round(1)
    array([[1. , 0. , 0. ],
           [1.9, 0. , 0. ]])
    >>> bool(model.effective_rank_ < 1.1)
    True
    """

    def __init__(self, *, alpha=0.1, fit_intercept=True, task_column=None, tol=1e-4, max_iter=10_000):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def specification(self) -> LinearFit:
        solve = partial(_solve, alpha=self.alpha, tol=self.tol, max_iter=self.max_iter)
        return LinearFit(Multivariate("FESRegressor", solve, self.fit_intercept, _bytes_for))


def _bytes_for(n: int, d: int, T: int) -> int:
    return 8 * (4 * n * d + 6 * n * T + 10 * d * T)


def _solve(
    X: np.ndarray, Y: np.ndarray, *, alpha: float, tol: float, max_iter: int
) -> tuple[np.ndarray, dict[str, Any], tuple[tuple[str, type[Warning]], ...]]:
    """Return coefficients (d, T), further attributes and warnings, from centred X (n, d) and Y (n, T)."""
    B, history = trace_norm_regression(X, Y, alpha, tol, max_iter)
    objective, gap = float(history["objective"].min()), history["relative_gap"][-1]
    attributes = {
        "history_": history,
        "objective_": objective,
        "duality_gap_": max(objective - float(history["bound"].max()), 0.0),
        "n_iter_": len(history["iteration"]),
        "effective_rank_": effective_rank(B),
    }
    if gap <= tol:
        return B, attributes, ()
    message = (
        f"stopped at max_iter; raise max_iter or loosen tol. The relative duality gap reached is {gap:.1e}, and "
        f"tol={tol:g}."
    )
    return B, attributes, ((message, ConvergenceWarning),)


def trace_norm_regression(
    X: np.ndarray, Y: np.ndarray, alpha: float, tol: float, max_iter: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """B (d, T) by accelerated proximal gradient, restarted when it overshoots."""
    n = len(X)
    if alpha == 0:
        B = least_squares(X, Y)
        value = float(np.sum((Y - X @ B) ** 2)) / (2 * n)
        return B, _history([(value, value)])
    smoothness = max(float(singular_values(X)[0]) ** 2 / n, np.finfo(float).tiny)
    B = Z = np.zeros((X.shape[1], Y.shape[1]))
    momentum, best, bounds = 1.0, B, []
    for _ in range(max_iter):
        bounds.append(_bounds(X, Y, B, alpha))
        best = B if bounds[-1][0] <= min(value for value, _ in bounds) else best
        if _gap(bounds) <= tol:
            break
        ahead = shrink_singular_values(Z + X.T @ (Y - X @ Z) / (n * smoothness), float(alpha / smoothness))
        overshot = np.vdot(Z - ahead, ahead - B) > 0
        following = 1.0 if overshot else 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        Z = ahead if overshot else ahead + (momentum - 1) / following * (ahead - B)
        B, momentum = ahead, following
    return best, _history(bounds)


def shrink_singular_values(B: np.ndarray, by: float) -> np.ndarray:
    """The proximal step of the trace norm."""
    U, s, Vt = svd(B)
    return (U * np.maximum(s - by, 0.0)) @ Vt


def _bounds(X: np.ndarray, Y: np.ndarray, B: np.ndarray, alpha: float) -> tuple[float, float]:
    """The objective at B, and the lower bound from the residual, scaled to be feasible and as good as it can be."""
    n, residual = len(X), Y - X @ B
    value = 0.5 / n * float(np.sum(residual**2)) + alpha * float(singular_values(B).sum())
    square = float(np.sum(residual**2)) / n
    if square == 0:
        return value, 0.0
    limit = alpha / max(float(singular_values(X.T @ residual)[0]) / n, np.finfo(float).tiny)
    scale = float(np.clip(np.vdot(Y, residual) / n / square, -limit, limit))
    return value, scale * float(np.vdot(Y, residual)) / n - 0.5 * scale**2 * square


def _gap(bounds: list[tuple[float, float]]) -> float:
    value, bound = min(value for value, _ in bounds), max(bound for _, bound in bounds)
    return max(value - bound, 0.0) / max(value, np.finfo(float).tiny)


def _history(bounds: list[tuple[float, float]]) -> dict[str, np.ndarray]:
    values, lower = np.array(bounds).T
    best, bound = np.minimum.accumulate(values), np.maximum.accumulate(lower)
    return {
        "iteration": np.arange(1, len(values) + 1),
        "objective": best,
        "bound": bound,
        "relative_gap": np.maximum(best - bound, 0.0) / np.maximum(best, np.finfo(float).tiny),
    }
