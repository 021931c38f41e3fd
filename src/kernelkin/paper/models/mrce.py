"""MRCE (Rothman, Levina and Zhu): sparse multivariate linear regression with a sparse inverse covariance of the errors.

    minimise over B (d, T) and P (T, T) > 0:
        tr(S P) - log det P + alpha_precision sum_{s != t} |P_st| + alpha sum |B_jt|

in centred X and Y, with S = (Y - XB)' (Y - XB) / n + N. N is diagonal, a millionth of the variance of each target: the
authors have none, and then there is no optimum where a target is fitted without error. For fixed B this is the
graphical lasso, for fixed P a lasso; both are scikit-learn's. It is convex in each block but not in both, so the
alternation finds a point where each is optimal given the other.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...decompositions import cholesky, inverse, least_squares
from ..fitting import LinearFit
from ..fitting.linear import Multivariate
from ..penalties import Relation
from .kinds import MultiTaskRegressor
from .parameters import COUNT, LINEAR, NOT_NEGATIVE, POSITIVE, Parameter, describe

# How accurately each block is solved, relative to the change that stops the alternation.
_SHARPER = 0.01
# The share of a target's variance that is taken for error, however well it is fitted.
_NOISE = 1e-6


@describe(
    (*LINEAR, "relation_", "task_relationship_"),
    {
        "precision_": ("array of shape (T, T)", "The inverse covariance of the errors."),
        "objective_": ("float", "The objective."),
        "n_iter_": ("int", "Rounds taken."),
        "history_": ("dict of arrays", "`iteration` and `objective`."),
    },
    alpha=Parameter(
        "float",
        "Strength of the 1-norm on the coefficients. With 0 the coefficients are those of least squares.",
        NOT_NEGATIVE,
    ),
    alpha_precision=Parameter(
        "float", "Strength of the 1-norm on the inverse covariance, its diagonal aside.", NOT_NEGATIVE
    ),
    tol=Parameter("float", "Stop when a round lowers the objective by less than this.", POSITIVE),
    max_iter=Parameter("int", "Maximum number of rounds of the two blocks.", COUNT),
)
class MRCERegressor(MultiTaskRegressor):
    """MRCE: multivariate linear regression with covariance estimation.

    Coefficients and the inverse covariance of the errors are both sparse, and are estimated in turn. The objective
    never rises; it is not convex, and starts from the lasso of each task. Needs wide y, with every label of every row.
    `task_relationship_` is the covariance of the errors, of trace one.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MRCERegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.outer(X[:, 0], [1.0, 2.0]) + 0.1 * rng.normal(size=(40, 2))
    >>> model = MRCERegressor().fit(X, Y)
    >>> model.precision_.shape
    (2, 2)
    """

    def __init__(self, *, alpha=0.1, alpha_precision=0.1, fit_intercept=True, task_column=None, tol=1e-4, max_iter=100):
        self.alpha = alpha
        self.alpha_precision = alpha_precision
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def specification(self) -> LinearFit:
        solve = partial(
            alternate, alpha=self.alpha, alpha_precision=self.alpha_precision, tol=self.tol, max_iter=self.max_iter
        )
        method = Multivariate("MRCERegressor", solve, self.fit_intercept, _bytes_for)
        return LinearFit(method, "use fewer columns or tasks, or FES: the lasso has a column for each coefficient")


def _bytes_for(n: int, d: int, T: int) -> int:
    """Bound the memory of the lasso of all coefficients at once."""
    design = T * min(n, d) * T * d
    return 8 * (4 * n * d + 4 * n * T + max(n * d, 4 * design))


def alternate(
    X: np.ndarray, Y: np.ndarray, *, alpha: float, alpha_precision: float, tol: float, max_iter: int
) -> tuple[np.ndarray, dict[str, Any], tuple[tuple[str, type[Warning]], ...]]:
    """Estimate coefficients and precision in turn, from centred X (n, d) and Y (n, T)."""
    accuracy = _SHARPER * tol
    warnings: tuple[tuple[str, type[Warning]], ...] = ()
    B = best_coefficients(X, Y, np.eye(Y.shape[1]), alpha, accuracy)
    values: list[float] = []
    for _ in range(max_iter):
        P = best_precision(X, Y, B, alpha_precision, accuracy)
        B = best_coefficients(X, Y, P, alpha, accuracy, start=B)
        values.append(mrce_objective(X, Y, B, P, alpha, alpha_precision))
        if len(values) > 1 and values[-2] - values[-1] <= tol:
            break
    else:
        warnings = ((f"stopped at max_iter={max_iter}; raise max_iter or loosen tol.", ConvergenceWarning),)
    attributes = {
        "precision_": P,
        "relation_": Relation.of_matrix(inverse(P)),
        "objective_": values[-1],
        "history_": {"iteration": np.arange(1, len(values) + 1), "objective": np.array(values)},
        "n_iter_": len(values),
    }
    return B, attributes, warnings


def mrce_objective(
    X: np.ndarray, Y: np.ndarray, B: np.ndarray, P: np.ndarray, alpha: float, alpha_precision: float
) -> float:
    """The objective at B (d, T) and P (T, T)."""
    off_diagonal = np.abs(P).sum() - np.abs(np.diag(P)).sum()
    fit = np.vdot(_covariance(X, Y, B), P) - np.linalg.slogdet(P)[1]
    return float(fit + alpha_precision * off_diagonal + alpha * np.abs(B).sum())


def _covariance(X: np.ndarray, Y: np.ndarray, B: np.ndarray) -> np.ndarray:
    """S (T, T)."""
    residual, variance = Y - X @ B, np.mean(Y**2, axis=0)
    return residual.T @ residual / len(X) + np.diag(_NOISE * np.where(variance > 0, variance, 1.0))


def best_precision(X: np.ndarray, Y: np.ndarray, B: np.ndarray, alpha: float, tol: float) -> np.ndarray:
    """P (T, T) for fixed B: the graphical lasso on the covariance of the errors."""
    from sklearn.covariance import graphical_lasso

    S = _covariance(X, Y, B)
    if alpha == 0 or len(S) == 1:
        return inverse(S)
    # Its dual gap gets no smaller than its inner lasso is accurate.
    try:
        return graphical_lasso(S, alpha, tol=tol, enet_tol=max(1e-4 * tol, 1e-14), max_iter=1000)[1]
    except FloatingPointError as error:
        raise ValueError(f"the graphical lasso of MRCE failed; raise alpha_precision: {error}") from error


def best_coefficients(
    X: np.ndarray, Y: np.ndarray, P: np.ndarray, alpha: float, tol: float, start: np.ndarray | None = None
) -> np.ndarray:
    """B (d, T) for fixed P: with P = LL', the lasso of `|(Y - XB) L|^2 / n`, which is one in the entries of B."""
    from scipy.linalg import qr
    from sklearn.linear_model import Lasso

    if alpha == 0:
        return least_squares(X, Y)
    L = cholesky(P)
    Q, R = qr(X, mode="economic", check_finite=False)
    design, target = np.kron(L.T, R / np.sqrt(len(X))), (Q.T @ Y @ L / np.sqrt(len(X))).T.ravel()
    model = Lasso(alpha / (2 * len(design)), fit_intercept=False, tol=tol, max_iter=100_000, warm_start=True)
    if start is not None:
        model.coef_ = start.T.ravel().copy()
    return model.fit(design, target).coef_.reshape(Y.shape[1], X.shape[1]).T
