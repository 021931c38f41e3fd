"""MRCE (Rothman, Levina and Zhu): sparse multivariate linear regression with a sparse inverse covariance of the errors.

    minimise over B (d, T) and P (T, T) > 0:
        tr(S P) - log det P + alpha_precision sum_{s != t} |P_st| + alpha sum |B_jt|

in centred X and Y, with S = (Y - XB)' (Y - XB) / n + N. N is diagonal, a millionth of the variance of each target: the
authors have none, and then there is no optimum where a target is fitted without error. For fixed B this is the
graphical lasso, for fixed P a lasso; both are scikit-learn's. It is convex in each block but not in both, so the
alternation finds a point where each is optimal given the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from ..data import TaskData
from ..exceptions import warn_user
from .linear_base import NOT_NEGATIVE, MultivariateTasks

# How accurately each block is solved, relative to the change that stops the alternation.
_SHARPER = 0.01
# The share of a target's variance that is taken for error, however well it is fitted.
_NOISE = 1e-6


@dataclass(eq=False, repr=False, kw_only=True)
class MRCERegressor(MultivariateTasks):
    """MRCE: multivariate linear regression with covariance estimation.

    Coefficients and the inverse covariance of the errors are both sparse, and are estimated in turn. The objective
    never rises; it is not convex, and starts from the lasso of each task. Needs wide y, with every label of every row.

    Parameters
    ----------
    alpha : float
        Strength of the 1-norm on the coefficients. With 0 the coefficients are those of least squares.
    alpha_precision : float
        Strength of the 1-norm on the inverse covariance, its diagonal aside.
    fit_intercept : bool
        Whether each task has an intercept.
    task_column : int or str, optional
        The column of X that holds the task of each row; of use for one task only.
    tol : float
        Stop when a round lowers the objective by less than this.
    max_iter : int
        Rounds of the two blocks.

    Attributes
    ----------
    coef_ : array (T, d)
    intercept_ : array (T,)
    tasks_ : array (T,)
    precision_ : array (T, T), the inverse covariance of the errors.
    task_relationship_ : array (T, T), the covariance of the errors, of trace one.
    objective_, n_iter_ : the objective, rounds taken.
    history_ : dict of arrays `iteration`, `objective`.

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

    alpha: float = 0.1
    alpha_precision: float = 0.1
    tol: float = 1e-4
    max_iter: int = 100

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultivariateTasks._parameter_constraints,
        "alpha": NOT_NEGATIVE,
        "alpha_precision": NOT_NEGATIVE,
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    _mostly: ClassVar[str] = "the lasso of all coefficients at once"
    _instead: ClassVar[str] = "use fewer columns or tasks, or FES: the lasso has a column for each coefficient"

    def _work(self, data: TaskData) -> int:
        (n, d), T = data.X.shape, data.n_tasks
        design = T * min(n, d) * T * d
        return 8 * (3 * n * d + 3 * n * T + max(n * d, 3 * design))

    def _fit_table(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        accuracy = _SHARPER * self.tol
        B = best_coefficients(X, Y, np.eye(Y.shape[1]), self.alpha, accuracy)
        trace: list[float] = []
        for _ in range(self.max_iter):
            P = best_precision(X, Y, B, self.alpha_precision, accuracy)
            B = best_coefficients(X, Y, P, self.alpha, accuracy, start=B)
            trace.append(mrce_objective(X, Y, B, P, self.alpha, self.alpha_precision))
            if len(trace) > 1 and trace[-2] - trace[-1] <= self.tol:
                break
        else:
            warn_user(
                f"MRCERegressor: stopped at max_iter={self.max_iter}; raise max_iter or loosen tol.",
                ConvergenceWarning,
            )
        self.precision_ = P
        covariance = np.linalg.inv(P)
        self.task_relationship_ = covariance / np.trace(covariance)
        self.objective_ = trace[-1]
        self.history_ = {"iteration": np.arange(1, len(trace) + 1), "objective": np.array(trace)}
        self.n_iter_ = len(trace)
        return B


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
        return np.linalg.inv(S)
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
        return np.linalg.lstsq(X, Y, rcond=None)[0]
    L = np.linalg.cholesky(P)
    Q, R = qr(X, mode="economic", check_finite=False)
    design, target = np.kron(L.T, R / np.sqrt(len(X))), (Q.T @ Y @ L / np.sqrt(len(X))).T.ravel()
    model = Lasso(alpha / (2 * len(design)), fit_intercept=False, tol=tol, max_iter=100_000, warm_start=True)
    if start is not None:
        model.coef_ = start.T.ravel().copy()
    return model.fit(design, target).coef_.reshape(Y.shape[1], X.shape[1]).T
