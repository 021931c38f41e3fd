"""The conic reference against scikit-learn, on problems small enough to reduce to it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from conic import conic_optimum


def one_task(seed=0, n=16):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 2)
    return gram, X[:, 0] + 0.5 * rng.normal(size=n)


def svc_value(gram, y, C):
    svc = SVC(C=C, kernel="precomputed", tol=1e-9).fit(gram, y)
    a = np.zeros(len(y))
    a[svc.support_] = svc.dual_coef_[0]
    return y @ a - a @ gram @ a / 2


def svr_value(gram, y, C, epsilon):
    svr = SVR(C=C, epsilon=epsilon, kernel="precomputed", tol=1e-9).fit(gram, y)
    a = np.zeros(len(y))
    a[svr.support_] = svr.dual_coef_[0]
    return y @ a - epsilon * np.abs(a).sum() - a @ gram @ a / 2


def ridge_value(gram, y, C):
    a = KernelRidge(alpha=1 / C, kernel="precomputed").fit(gram, y).dual_coef_
    return y @ a - a @ a / (2 * C) - a @ gram @ a / 2


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "squared"])
def test_one_kernel_and_one_task_is_one_machine(loss):
    gram, y = one_task()
    y = np.sign(y) if loss == "hinge" else y
    C, mu = 2.0, 0.5
    machine = {
        "hinge": lambda b: svc_value(b * gram, y, C),
        "epsilon_insensitive": lambda b: svr_value(b * gram, y, C, 0.2),
        "squared": lambda b: ridge_value(b * gram, y, C),
    }[loss]
    value, B, Omega = conic_optimum([gram[None]], [y], C, mu, loss, fit_intercept=loss != "squared", epsilon=0.2)
    best = minimize_scalar(lambda b: machine(b) + mu / 2 * b**2, bounds=(1e-3, 20), options={"xatol": 1e-8})
    np.testing.assert_allclose(value, best.fun, rtol=1e-6)
    np.testing.assert_allclose(B, [[best.x]], rtol=1e-3)
    np.testing.assert_allclose(Omega, [[1.0]], rtol=1e-6)


def test_unrelated_tasks_are_solved_apart():
    grams, ys = zip(*(one_task(seed) for seed in range(3)), strict=True)
    ys = [np.sign(y) for y in ys]
    value, B, Omega = conic_optimum([gram[None] for gram in grams], ys, 2.0, 0.5, "hinge", shrinkage=1.0)
    apart = [conic_optimum([gram[None]], [y], 2.0, 1.5, "hinge") for gram, y in zip(grams, ys, strict=True)]
    np.testing.assert_allclose(value, sum(each[0] for each in apart), rtol=1e-6)
    np.testing.assert_allclose(B, np.hstack([each[1] for each in apart]), rtol=1e-3)
    np.testing.assert_allclose(Omega, np.eye(3) / 3, atol=1e-6)


def test_costs_by_row_count_like_repeated_rows():
    gram, y = one_task()
    rows = np.repeat(np.arange(len(y)), np.random.default_rng(1).integers(1, 4, size=len(y)))
    repeated, *_ = conic_optimum([gram[None][:, rows][:, :, rows]], [y[rows]], 1.5, 0.5, "squared")
    weighted, *_ = conic_optimum([gram[None]], [y], [1.5 * np.bincount(rows)], 0.5, "squared")
    np.testing.assert_allclose(weighted, repeated, rtol=1e-6)
