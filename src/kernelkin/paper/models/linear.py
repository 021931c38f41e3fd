"""Linear models: separate models for each task (OLS, Lasso, mean) and multivariate models (FES, MRCE).

FES (Yuan, Ekici, Lu and Monteiro) is a regression with few factors:

    minimise over B (d, T):   (1/(2n)) |Y - XB|_F^2 + alpha |B|_*

for centred X and Y. This is the penalised form of their bound on the sum of singular values. For any Theta (n, T) with
|X'Theta|_2 <= alpha, `<Y, Theta> - (n/2) |Theta|_F^2` is a lower bound on the optimum.

MRCE (Rothman, Levina and Zhu) has sparse coefficients and a sparse inverse covariance of the errors:

    minimise over B (d, T) and P (T, T) > 0:
        tr(S P) - log det P + alpha_precision sum_{s != t} |P_st| + alpha sum |B_jt|

for centred X and Y, with S = (Y - XB)' (Y - XB) / n + N. N is diagonal, with a millionth of the variance of each
target. The authors do not use N, but without it there is no optimum if a target is fitted without error. For fixed B
this is the graphical lasso, for fixed P a lasso; both are solved by scikit-learn. The problem is convex in each block
but not jointly, so alternation finds a point where each block is optimal given the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...data.forms import TaskData
from ...decompositions import cholesky, inverse, least_squares, singular_values, svd
from ...estimators import Fitted, RunOptions
from ...memory import FIXED, TASK_OBJECTS, Need
from ...parameters import COUNT, LINEAR, NOT_NEGATIVE, PARAMETERS, POSITIVE, Parameter, describe
from ..functions import LinearFunctions
from ..penalties.relation import Relation, effective_rank
from ..uncertainty import Uncertainty
from .base import PaperRegressor

# Tolerance of each block of MRCE, relative to `tol`.
_SHARPER = 0.01
# Minimum error variance in MRCE, as a share of the variance of the target.
_NOISE = 1e-6
_TINY = np.finfo(float).tiny
# Coefficients (d, T), further attributes and warnings.
Coefficients = tuple[np.ndarray, dict[str, Any], tuple[tuple[str, type[Warning]], ...]]


class LinearFit(NamedTuple):
    """Specification of a linear model, and where there is `data`, applied to it.

    Parameters
    ----------
    solve : makes the scikit-learn model of a task; of a multivariate model, takes centred X (n, d), Y (n, T) and
        returns `Coefficients`
    multivariate : the name of the estimator if it needs wide y without missing labels; otherwise None
    fit_intercept : of a multivariate model
    stacked : whether the model solves a lasso with a column for each coefficient
    """

    solve: Callable[..., Any]
    multivariate: str | None = None
    fit_intercept: bool = True
    stacked: bool = False
    data: Any = None

    def plan(self, data: TaskData) -> LinearFit:
        """Apply to data."""
        rows = data.rows[0]
        if self.multivariate and any(len(other) != len(rows) or (other != rows).any() for other in data.rows):
            reason = "some labels are missing" if data.form == "wide" else "the tasks have different rows"
            raise ValueError(
                f"{self.multivariate} is a multivariate model: it needs y of shape (n, n_tasks) without missing "
                f"labels, but {reason}"
            )
        return self._replace(data=data)

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of the fit."""
        (n, d), T = self.data.X.shape, self.data.n_tasks
        most = max(map(len, self.data.rows))
        need = FIXED + T * TASK_OBJECTS + 8 * (24 * (n + most) + 18 * d * T + 8 * most * d + 6 * most * T)
        if not self.stacked:
            return Need(need, "use fewer rows or columns")
        advice = "use fewer columns or tasks, or FESRegressor: the lasso of MRCE has a column for each coefficient"
        return Need(need + 32 * T * min(most, d) * T * d, advice)

    def run(self, options: RunOptions) -> Fitted:
        """Solve, and keep the coefficients."""
        data = self.data
        coef, intercept, others, warnings = self._shared_rows() if self.multivariate else self._task_by_task()
        attributes = {
            "tasks_": data.labels,
            "data_form_": data.form,
            "coef_": coef,
            "intercept_": intercept,
            "functions_": LinearFunctions(coef, intercept),
            "uncertainty_": Uncertainty(self._replace(data=None), data, options, classification=False),
        }
        return Fitted(attributes | others, warnings)

    def _task_by_task(self) -> tuple[np.ndarray, np.ndarray, dict[str, Any], tuple]:
        data = self.data
        models = [
            self.solve().fit(data.X[rows], y, sample_weight=data.sample_weight[rows])
            for rows, y in zip(data.rows, data.y, strict=True)
        ]
        coef, intercept = np.array([model.coef_ for model in models]), np.array([m.intercept_ for m in models], float)
        if not hasattr(models[0], "dual_gap_"):
            return coef, intercept, {}, ()
        n_iter, gap = max(int(m.n_iter_) for m in models), float(sum(max(m.dual_gap_, 0.0) for m in models))
        return coef, intercept, {"n_iter_": n_iter, "duality_gap_": gap}, ()

    def _shared_rows(self) -> tuple[np.ndarray, np.ndarray, dict[str, Any], tuple]:
        """Solve for all targets together, with centred X and Y."""
        data, rows = self.data, self.data.rows[0]
        X, Y = np.asarray(data.X[rows], dtype=np.float64), np.column_stack(data.y).astype(np.float64)
        weight = data.sample_weight[rows]
        centre = weight / weight.sum() if self.fit_intercept else np.zeros(len(X))
        x_mean, y_mean = centre @ X, centre @ Y
        # Rows are scaled so that their mean square is the weighted mean square.
        root = np.sqrt(weight * len(X) / weight.sum())[:, np.newaxis]
        B, others, warnings = self.solve(root * (X - x_mean), root * (Y - y_mean))
        return B.T.copy(), y_mean - x_mean @ B, others, warnings


@describe(LINEAR, parameters="* fit_intercept task_column")
class OLSRegressor(PaperRegressor):
    """OLS: ordinary least squares for each task, with scikit-learn's `LinearRegression`.

    Examples
    --------
    >>> from kernelkin.paper import OLSRegressor
    >>> from sklearn.datasets import make_regression
    >>> X, Y = make_regression(40, 3, n_informative=1, n_targets=2, noise=0.1, random_state=0)
    >>> OLSRegressor().fit(X, Y).coef_[:, 1].round(1)
    array([10. , 91.9])
    """

    def specification(self) -> LinearFit:
        from sklearn.linear_model import LinearRegression

        return LinearFit(partial(LinearRegression, fit_intercept=self.fit_intercept))


@describe(
    (*LINEAR, "duality_gap_", "n_iter_"),
    parameters="* alpha fit_intercept task_column tol max_iter",
    alpha=Parameter(
        "float", "Strength of the 1-norm in ``(1/(2 n_t)) |y_t - X_t w_t|^2 + alpha |w_t|_1``.", POSITIVE, 0.1
    ),
    tol=Parameter("float", "Tolerance of scikit-learn's `Lasso`.", NOT_NEGATIVE, 1e-4),
    max_iter=Parameter("int", "Maximum number of iterations of scikit-learn's `Lasso`.", COUNT, 1000),
)
class LassoRegressor(PaperRegressor):
    """Lasso: least squares with a 1-norm penalty for each task, with scikit-learn's `Lasso`.

    Examples
    --------
    >>> from kernelkin.paper import LassoRegressor
    >>> from sklearn.datasets import make_regression
    >>> X, Y = make_regression(40, 3, n_informative=1, n_targets=2, noise=0.1, random_state=0)
    >>> (LassoRegressor(alpha=0.1).fit(X, Y).coef_ != 0).tolist()
    [[False, True, False], [False, True, False]]
    """

    def specification(self) -> LinearFit:
        from sklearn.linear_model import Lasso

        options = {"fit_intercept": self.fit_intercept, "tol": self.tol, "max_iter": self.max_iter}
        return LinearFit(partial(Lasso, self.alpha, **options))


class _Mean:
    """The weighted mean, in the form of a linear model of scikit-learn."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> _Mean:
        self.coef_, self.intercept_ = np.zeros(X.shape[1]), np.average(y, weights=sample_weight)
        return self


@describe(LINEAR, parameters="* task_column")
class MeanRegressor(PaperRegressor):
    """Predict the training mean of each task, as a baseline.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.paper import MeanRegressor
    >>> X, tasks = np.zeros((4, 1)), ["a", "a", "b", "b"]
    >>> model = MeanRegressor().fit(X, [1.0, 3.0, 5.0, 7.0], tasks=tasks)
    >>> model.predict([[0.0]], tasks=["b"])
    array([6.])
    """

    def specification(self) -> LinearFit:
        return LinearFit(_Mean)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@describe(
    (*LINEAR, "objective_", "duality_gap_", "n_iter_", "effective_rank_"),
    {"history_": ("dict of arrays", "`iteration`, `objective`, `bound` and `relative_gap`.")},
    "* alpha fit_intercept task_column tol max_iter",
    alpha=Parameter("float", "Strength of the trace norm in ``(1/(2n)) |Y - XB|^2 + alpha |B|_*``.", NOT_NEGATIVE, 0.1),
    tol=PARAMETERS["tol"]._replace(default=1e-4),
    max_iter=Parameter("int", "Maximum number of steps of accelerated proximal gradient.", COUNT, 10_000),
)
class FESRegressor(PaperRegressor):
    """FES: factor estimation and selection, multivariate linear regression with a trace norm penalty.

    The problem is convex, and `duality_gap_` is certified. It needs wide y without missing labels.

    Examples
    --------
    >>> from kernelkin.paper import FESRegressor
    >>> from sklearn.datasets import make_regression
    >>> X, Y = make_regression(40, 3, n_informative=1, n_targets=2, noise=0.1, random_state=0)
    >>> model = FESRegressor().fit(X, Y)
    >>> bool(model.effective_rank_ < 1.1)
    True
    """

    def specification(self) -> LinearFit:
        solve = partial(trace_norm_regression, alpha=self.alpha, tol=self.tol, max_iter=self.max_iter)
        return LinearFit(solve, "FESRegressor", self.fit_intercept)


def trace_norm_regression(X: np.ndarray, Y: np.ndarray, *, alpha: float, tol: float, max_iter: int) -> Coefficients:
    """Minimise the objective of FES by an accelerated proximal gradient method with restarts."""
    n = len(X)
    smoothness = max(float(singular_values(X)[0]) ** 2 / n, _TINY)
    B = Z = np.zeros((X.shape[1], Y.shape[1]))
    momentum, best, least, bound, records = 1.0, B, np.inf, -np.inf, []
    if alpha == 0:
        best = least_squares(X, Y)
        least = bound = float(np.sum((Y - X @ best) ** 2)) / (2 * n)
        records, max_iter = [(least, bound)], 0
    for _ in range(max_iter):
        value, lower = _fes_bounds(X, Y, B, alpha)
        bound = max(bound, lower)
        least, best = (value, B) if value <= least else (least, best)
        records.append((least, bound))
        if least - bound <= tol * max(least, _TINY):
            break
        ahead = shrink_singular_values(Z + X.T @ (Y - X @ Z) / (n * smoothness), float(alpha / smoothness))
        overshot = np.vdot(Z - ahead, ahead - B) > 0
        following = 1.0 if overshot else 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        Z = ahead if overshot else ahead + (momentum - 1) / following * (ahead - B)
        B, momentum = ahead, following
    objective, bounds = np.array(records).T
    gap = np.maximum(objective - bounds, 0.0) / np.maximum(objective, _TINY)
    iteration = np.arange(1, len(gap) + 1)
    attributes = {
        "history_": {"iteration": iteration, "objective": objective, "bound": bounds, "relative_gap": gap},
        "objective_": float(objective[-1]),
        "duality_gap_": max(float(objective[-1]) - float(bounds[-1]), 0.0),
        "n_iter_": len(gap),
        "effective_rank_": effective_rank(best),
    }
    text = "stopped at max_iter; raise max_iter or loosen tol."
    text = f"{text} The relative duality gap is {gap[-1]:.1e}, but tol={tol:g}."
    return best, attributes, () if gap[-1] <= tol else ((text, ConvergenceWarning),)


def shrink_singular_values(B: np.ndarray, by: float) -> np.ndarray:
    """Apply the proximal operator of the trace norm."""
    U, s, Vt = svd(B)
    return (U * np.maximum(s - by, 0.0)) @ Vt


def _fes_bounds(X: np.ndarray, Y: np.ndarray, B: np.ndarray, alpha: float) -> tuple[float, float]:
    """Return the objective at B, and the lower bound from the optimally scaled residual."""
    n, residual = len(X), Y - X @ B
    value = 0.5 / n * float(np.sum(residual**2)) + alpha * float(singular_values(B).sum())
    square = float(np.sum(residual**2)) / n
    if square == 0:
        return value, 0.0
    limit = alpha / max(float(singular_values(X.T @ residual)[0]) / n, _TINY)
    scale = float(np.clip(np.vdot(Y, residual) / n / square, -limit, limit))
    return value, scale * float(np.vdot(Y, residual)) / n - 0.5 * scale**2 * square


@describe(
    (*LINEAR, "relation_", "task_relationship_", "objective_", "n_iter_"),
    {
        "precision_": ("array of shape (T, T)", "The inverse covariance of the errors."),
        "history_": ("dict of arrays", "`iteration` and `objective`."),
    },
    "* alpha alpha_precision fit_intercept task_column tol max_iter",
    alpha=Parameter("float", "Strength of the 1-norm on the coefficients. 0 gives least squares.", NOT_NEGATIVE, 0.1),
    alpha_precision=Parameter(
        "float", "Strength of the 1-norm on the inverse covariance, without its diagonal.", NOT_NEGATIVE, 0.1
    ),
    tol=Parameter("float", "Stop if a round decreases the objective by less than this.", POSITIVE, 1e-4),
    max_iter=Parameter("int", "Maximum number of rounds; each updates both blocks.", COUNT, 100),
)
class MRCERegressor(PaperRegressor):
    """MRCE: multivariate linear regression with covariance estimation.

    Coefficients and the inverse covariance of the errors are both sparse, and are estimated in turn, starting from the
    lasso of each task. The problem is not convex, but the objective never increases. It needs wide y without missing
    labels. `task_relationship_` is the covariance of the errors, scaled to trace one.

    Examples
    --------
    >>> from kernelkin.paper import MRCERegressor
    >>> from sklearn.datasets import make_regression
    >>> X, Y = make_regression(40, 3, n_informative=1, n_targets=2, noise=0.1, random_state=0)
    >>> model = MRCERegressor().fit(X, Y)
    >>> model.precision_.shape
    (2, 2)
    """

    def specification(self) -> LinearFit:
        names = ("alpha", "alpha_precision", "tol", "max_iter")
        solve = partial(alternate, **{name: getattr(self, name) for name in names})
        return LinearFit(solve, "MRCERegressor", self.fit_intercept, stacked=True)


def alternate(
    X: np.ndarray, Y: np.ndarray, *, alpha: float, alpha_precision: float, tol: float, max_iter: int
) -> Coefficients:
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
    """Return P (T, T) for fixed B, by the graphical lasso on the covariance of the errors."""
    from sklearn.covariance import graphical_lasso

    S = _covariance(X, Y, B)
    if alpha == 0 or len(S) == 1:
        return inverse(S)
    # Its dual gap cannot be smaller than the accuracy of its inner lasso.
    try:
        return graphical_lasso(S, alpha, tol=tol, enet_tol=max(1e-4 * tol, 1e-14), max_iter=1000)[1]
    except FloatingPointError as error:
        raise ValueError(f"the graphical lasso of MRCE failed; raise alpha_precision: {error}") from error


def best_coefficients(
    X: np.ndarray, Y: np.ndarray, P: np.ndarray, alpha: float, tol: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Return B (d, T) for fixed P = LL', by a lasso of `|(Y - XB) L|^2 / n` over all entries of B."""
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
