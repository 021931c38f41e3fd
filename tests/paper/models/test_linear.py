"""MRCE, FES, Lasso, OLS and the mean: optimality, closed forms, reductions, and what they refuse."""

import cvxpy as cp
import numpy as np
import pytest
from models.convex import trace_norm
from sklearn.linear_model import Lasso, LinearRegression

from kernelkin.paper import FESRegressor, LassoRegressor, MeanRegressor, MRCERegressor, OLSRegressor
from kernelkin.paper.models.linear import mrce_objective, shrink_singular_values, trace_norm_regression


def wide(seed=0, n=40, d=5, T=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    B = rng.normal(size=(d, 2)) @ rng.normal(size=(2, T))
    errors = rng.normal(size=(n, T)) @ (np.eye(T) + 0.5 * rng.normal(size=(T, T)))
    return X, 3 + X @ B + errors


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_fes_reaches_the_conic_optimum(alpha):
    X, Y = wide()
    model = FESRegressor(alpha=alpha, tol=1e-8).fit(X, Y)
    assert model.objective_ == pytest.approx(trace_norm(X, Y, alpha), rel=1e-7)
    assert model.duality_gap_ <= 1e-8 * model.objective_


def test_fes_on_orthogonal_rows_shrinks_the_singular_values():
    """With X'X = n I the coefficients are the least-squares ones, their singular values less alpha (Yuan et al.)."""
    X, Y = wide(1)
    X = np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(len(X))
    model = FESRegressor(alpha=0.7, tol=1e-10).fit(X, Y)
    least = LinearRegression().fit(X, Y).coef_
    np.testing.assert_allclose(model.coef_, shrink_singular_values(least, 0.7), atol=1e-6)


def test_without_a_penalty_fes_and_mrce_are_ols():
    X, Y = wide(2)
    ols = OLSRegressor().fit(X, Y)
    for model in (FESRegressor(alpha=0), MRCERegressor(alpha=0, alpha_precision=0)):
        model.fit(X, Y)
        np.testing.assert_allclose(model.coef_, ols.coef_, rtol=1e-8)
        np.testing.assert_allclose(model.intercept_, ols.intercept_, rtol=1e-8)


def test_a_strong_penalty_leaves_the_mean():
    X, Y = wide(3)
    mean = MeanRegressor().fit(X, Y).predict(X)
    np.testing.assert_allclose(FESRegressor(alpha=100).fit(X, Y).predict(X), mean)
    np.testing.assert_allclose(MRCERegressor(alpha=1000).fit(X, Y).predict(X), mean)
    np.testing.assert_allclose(LassoRegressor(alpha=100).fit(X, Y).predict(X), mean)


def test_each_block_of_mrce_is_optimal_given_the_other():
    X, Y = wide(4)
    model = MRCERegressor(alpha=0.2, alpha_precision=0.1, tol=1e-7, max_iter=500).fit(X, Y)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    B, P = model.coef_.T, model.precision_
    assert model.objective_ == pytest.approx(mrce_objective(x, y, B, P, 0.2, 0.1))
    b, L = cp.Variable(B.shape), np.linalg.cholesky(P)
    fit = cp.sum_squares((y - x @ b) @ L) / len(x)
    given = mrce_objective(x, y, np.zeros_like(B), P, 0.2, 0.1) - float(np.sum((y @ L) ** 2)) / len(x)
    best = cp.Problem(cp.Minimize(fit + 0.2 * cp.sum(cp.abs(b)))).solve(solver=cp.CLARABEL) + given
    assert model.objective_ == pytest.approx(best, rel=1e-5)
    S = (y - x @ B).T @ (y - x @ B) / len(x)
    p = cp.Variable(P.shape, PSD=True)
    off = cp.sum(cp.abs(cp.multiply(1 - np.eye(len(P)), p)))
    best = cp.Problem(cp.Minimize(cp.trace(S @ p) - cp.log_det(p) + 0.1 * off)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best + 0.2 * np.abs(B).sum(), rel=1e-5)


def test_the_objective_of_mrce_never_rises():
    X, Y = wide(5)
    trace = MRCERegressor(alpha=0.3, alpha_precision=0.2, tol=1e-6, max_iter=500).fit(X, Y).history_["objective"]
    assert len(trace) > 2
    assert (np.diff(trace) <= 1e-6).all()


def test_mrce_with_independent_errors_of_one_variance_is_the_lasso():
    """With P = I/s the block of B is each task's lasso, of alpha s/2."""
    from kernelkin.paper.models.linear import best_coefficients

    X, Y = wide(6)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    B = best_coefficients(x, y, np.eye(4) / 2.0, 0.3, 1e-10)
    there = np.column_stack([Lasso(0.3, fit_intercept=False, tol=1e-10).fit(x, column).coef_ for column in y.T])
    np.testing.assert_allclose(B, there, atol=1e-6)


def test_mrce_has_an_optimum_where_a_target_is_fitted_without_error():
    """A millionth of each variance counts as error, so that the precision is at most a million times its inverse."""
    X, _ = wide(7)
    Y = X[:, :2]
    model = MRCERegressor(alpha=0, alpha_precision=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-10)
    np.testing.assert_allclose(model.precision_, np.diag(1e6 / Y.var(axis=0)), rtol=1e-6, atol=1.0)


@pytest.mark.parametrize("model", [FESRegressor(), MRCERegressor()])
def test_multivariate_models_say_what_they_need(model):
    X, Y = wide(8)
    with pytest.raises(ValueError, match=r"multivariate model.*the tasks have different rows"):
        model.fit(X, Y[:, 0], tasks=np.arange(40) % 2)
    Y[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"multivariate model.*labels are missing"):
        model.fit(X, Y)


def test_lasso_and_ols_are_those_of_each_task():
    rng = np.random.default_rng(9)
    X, tasks = rng.normal(size=(60, 4)), rng.choice(["a", "b"], size=60)
    y, weight = X[:, 0] + rng.normal(size=60), rng.uniform(0.5, 2, size=60)
    for ours, theirs in ((OLSRegressor(), LinearRegression()), (LassoRegressor(alpha=0.2), Lasso(0.2))):
        model = ours.fit(X, y, tasks=tasks, sample_weight=weight)
        for t, label in enumerate(model.tasks_):
            mine = tasks == label
            theirs.fit(X[mine], y[mine], sample_weight=weight[mine])
            np.testing.assert_allclose(model.coef_[t], theirs.coef_)
            np.testing.assert_allclose(model.predict(X[mine], tasks=tasks[mine]), theirs.predict(X[mine]))


def test_the_lower_bound_of_fes_holds_far_from_the_optimum():
    X, Y = wide(10)
    x, y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    early = trace_norm_regression(x, y, alpha=0.3, tol=1e-12, max_iter=3)[1]["history_"]
    optimum = trace_norm(X, Y, 0.3)
    assert early["bound"].max() <= optimum <= early["objective"].min()


@pytest.mark.filterwarnings("ignore:Objective did not converge")  # so scikit-learn says of its inner lasso, first
def test_a_graphical_lasso_that_fails_says_what_to_raise():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=(8, 20))  # more targets than rows: their covariance is singular
    with pytest.raises(ValueError, match="graphical lasso of MRCE failed; raise alpha_precision") as failed:
        MRCERegressor(alpha_precision=1e-8).fit(X, Y)
    assert isinstance(failed.value.__cause__, FloatingPointError)
    assert np.isfinite(MRCERegressor(alpha_precision=0.1).fit(X, Y).objective_)
