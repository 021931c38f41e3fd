"""MK-MTRL of one kernel, or of tasks that are not related, is what scikit-learn has."""

import numpy as np
import pytest
from models.problems import NAMES, long_data, targets, values
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels


def scaled_gram(model, X, Z, task):
    """The kernel of one task, for scikit-learn: with its weight, and mean diagonal one on the training rows X."""
    t = model.tasks_.tolist().index(task)
    kernel = model.kernels_[0]
    return model.kernel_weights_[t, 0] * kernel(Z, X) / kernel(X).diagonal().mean()


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_one_kernel_is_svc(kernel):
    X, _, labels, tasks = long_data(0)
    Z = np.random.default_rng(1).normal(size=(9, 3))
    model = MKMTRLClassifier(kernel, C=2.0, mu=0.1, tol=1e-8).fit(X, labels, tasks=tasks)
    for t, name in enumerate(NAMES):
        own = X[tasks == name]
        svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(scaled_gram(model, own, own, name), labels[tasks == name])
        np.testing.assert_allclose(
            model.decision_function(Z, tasks=[name] * 9),
            svc.decision_function(scaled_gram(model, own, Z, name)),
            atol=2e-4,
        )
        np.testing.assert_allclose(model.intercept_[t], svc.intercept_[0], atol=2e-4)
        np.testing.assert_array_equal(model.predict(Z, tasks=[name] * 9), svc.predict(scaled_gram(model, own, Z, name)))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_one_kernel_is_kernel_ridge(kernel):
    X, y, _, tasks = long_data(2)
    Z = np.random.default_rng(3).normal(size=(9, 3))
    model = MKMTRLRegressor(kernel, C=5.0, fit_intercept=False).fit(X, y, tasks=tasks)
    for name in NAMES:
        own = X[tasks == name]
        ridge = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(
            scaled_gram(model, own, own, name), y[tasks == name]
        )
        expected = ridge.predict(scaled_gram(model, own, Z, name))
        np.testing.assert_allclose(model.predict(Z, tasks=[name] * 9), expected, rtol=1e-9)
        np.testing.assert_allclose(
            model.dual_coef_[model.tasks_.tolist().index(name)][:, 0], ridge.dual_coef_, rtol=1e-8, atol=1e-10
        )


def test_one_kernel_is_svr():
    X, y, _, tasks = long_data(4)
    Z = np.random.default_rng(5).normal(size=(9, 3))
    model = MKMTRLRegressor("rbf", C=5.0, loss="epsilon_insensitive", epsilon=0.05, tol=1e-8).fit(X, y, tasks=tasks)
    for name in NAMES:
        own = X[tasks == name]
        svr = SVR(C=5.0, epsilon=0.05, kernel="precomputed", tol=1e-8)
        svr.fit(scaled_gram(model, own, own, name), y[tasks == name])
        expected = svr.predict(scaled_gram(model, own, Z, name))
        np.testing.assert_allclose(model.predict(Z, tasks=[name] * 9), expected, atol=2e-4)


def test_unrelated_tasks_are_learned_apart(model):
    """min_rank=T and shrinkage=1 leave nothing to share: each task alone, with T mu for mu, learns the same."""
    X, y, labels, tasks = long_data(6)
    y = targets(model, y, labels)
    kernels = gaussian_kernels([0.5, 2.0], relative=False)
    model.set_params(kernels=kernels, tol=1e-7, mu=0.2)
    for held in (clone(model).set_params(min_rank=3), clone(model).set_params(shrinkage=1.0)):
        held.fit(X, y, tasks=tasks)
        np.testing.assert_allclose(held.task_relationship_, np.eye(3) / 3, atol=1e-12)
        for t, name in enumerate(NAMES):
            mine = tasks == name
            alone = clone(model).set_params(mu=0.6).fit(X[mine], y[mine])
            np.testing.assert_allclose(held.kernel_weights_[t], alone.kernel_weights_[0], rtol=0.01, atol=1e-3)
            np.testing.assert_allclose(values(held, X, tasks=[name] * len(X)), values(alone, X), atol=5e-3)
