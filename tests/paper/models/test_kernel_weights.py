"""AVG, STL, IMKL and IKL against scikit-learn, a cone solver and each other."""

import numpy as np
import pytest
from models.convex import KERNELS, long_data, lp_mkl, stacks
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from kernelkin import AverageClassifier, AverageRegressor, IMKLClassifier, IMKLRegressor, STLClassifier, STLRegressor
from kernelkin.kernels.families import NAMED_KERNELS, resolve_kernels
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper import IKLClassifier, IKLRegressor


def split(y, tasks):
    return [y[tasks == t] for t in np.unique(tasks)]


def test_average_is_svc_on_the_mean_gram():
    X, _, labels, tasks = long_data(0)
    model = AverageClassifier(KERNELS, C=3.0, tol=1e-8).fit(X, labels, tasks=tasks)
    for t, grams in enumerate(stacks(X, tasks)):
        svc = SVC(kernel="precomputed", C=3.0, tol=1e-8).fit(grams.mean(axis=0), labels[tasks == t])
        ours = model.decision_function(X[tasks == t], tasks=tasks[tasks == t])
        np.testing.assert_allclose(ours, svc.decision_function(grams.mean(axis=0)), atol=1e-4)


def test_average_is_kernel_ridge_on_the_mean_gram():
    X, y, _, tasks = long_data(1)
    model = AverageRegressor(KERNELS, C=3.0, fit_intercept=False).fit(X, y, tasks=tasks)
    assert (model.kernel_weights_ == 1 / 5).all()
    for t, grams in enumerate(stacks(X, tasks)):
        ridge = KernelRidge(alpha=1 / 3.0, kernel="precomputed").fit(grams.mean(axis=0), y[tasks == t])
        ours = model.predict(X[tasks == t], tasks=tasks[tasks == t])
        np.testing.assert_allclose(ours, ridge.predict(grams.mean(axis=0)), rtol=1e-9)


def test_stl_is_kernel_ridge_on_one_gram():
    X, y, _, tasks = long_data(2)
    model = STLRegressor(KERNELS, kernel=1, C=3.0, fit_intercept=False).fit(X, y, tasks=tasks)
    for t, grams in enumerate(stacks(X, tasks)):
        ridge = KernelRidge(alpha=1 / 3.0, kernel="precomputed").fit(grams[1], y[tasks == t])
        ours = model.predict(X[tasks == t], tasks=tasks[tasks == t])
        np.testing.assert_allclose(ours, ridge.predict(grams[1]), rtol=1e-9)


def test_stl_takes_the_kernel_that_is_meant():
    for kernels, kernel, name in [
        (None, None, "rbf(1 x median)"),
        ("linear", None, "linear"),
        ("poly", None, "poly3"),
        (None, "linear", "linear"),
        (None, "rbf", "rbf(1 x median)"),
        (None, "rbf(4 x median)", "rbf(4 x median)"),
        (None, -1, "linear"),
        *((["laplacian", name], name, kernel.name) for name, kernel in NAMED_KERNELS.items()),
    ]:
        X, y, _, tasks = long_data(3)
        assert STLRegressor(kernels, kernel=kernel).fit(X, y, tasks=tasks).kernel_names_.tolist() == [name]


def test_stl_refuses_a_kernel_that_is_not_there():
    for kernel, message in [
        ("chi2", r"^unknown kernel='chi2'; the kernels are 'rbf\(0\.25 x median\)', .+"),
        (1.5, r"^kernel=1\.5 is not the position of one of the 6 kernels$"),
    ]:
        X, y, _, tasks = long_data(3)
        with pytest.raises(ValueError, match=message):
            STLRegressor(kernel=kernel).fit(X, y, tasks=tasks)


def test_stl_on_precomputed_kernels():
    X, _, labels, _ = long_data(3)
    kernels = fit_kernels(resolve_kernels(KERNELS), X)
    stack = np.stack([kernel(X) for kernel in kernels], axis=2)
    ours = STLClassifier("precomputed", kernel=2, tol=1e-8).fit(stack, labels).decision_function(stack)
    there = STLClassifier(KERNELS, kernel=2, tol=1e-8).fit(X, labels).decision_function(X)
    np.testing.assert_allclose(ours, there, atol=1e-6)


@pytest.mark.parametrize(("p", "kind"), [(1, "hinge"), (4 / 3, "squared"), (2, "hinge"), (4, "squared")])
@pytest.mark.parametrize("shared", [False, True])
def test_learned_weights_reach_the_conic_optimum(p, kind, shared):
    X, y, labels, tasks = long_data(4)
    target = labels if kind == "hinge" else y
    names = {(False, "hinge"): IMKLClassifier, (False, "squared"): IMKLRegressor}
    names |= {(True, "hinge"): IKLClassifier, (True, "squared"): IKLRegressor}
    model = names[shared, kind](KERNELS, p=p, C=2.0, mu=0.5, tol=1e-6, max_iter=2000).fit(X, target, tasks=tasks)
    value = lp_mkl(stacks(X, tasks), split(target, tasks), 2.0, 0.5, p, kind, shared)
    assert model.objective_ == pytest.approx(value, rel=3e-6)
    assert value - 1e-6 * value <= model.objective_ <= value + model.duality_gap_ + 1e-6 * value
    if shared:
        assert np.ptp(model.kernel_weights_, axis=0).max() == 0


def test_imkl_has_the_closed_form_of_lp_mkl():
    """At the optimum b_k is proportional to |w_k|^(2/(p+1)), with |w_k|^2 = 2 b_k^2 Q_k (Kloft et al.)."""
    X, y, _, tasks = long_data(5)
    model = IMKLRegressor(KERNELS, p=1.5, C=2.0, tol=1e-9, max_iter=2000).fit(X, y, tasks=tasks)
    for t, grams in enumerate(stacks(X, tasks)):
        a, b = model.dual_coef_[t][:, 0], model.kernel_weights_[t]
        w = b * np.sqrt(np.einsum("i,kij,j->k", a, grams, a))
        form = w ** (2 / 2.5)
        np.testing.assert_allclose(b / b.sum(), form / form.sum(), atol=1e-4)


def test_imkl_and_ikl_are_the_same_for_one_task():
    X, y, _, tasks = long_data(6)
    first = tasks == 0
    own = IMKLRegressor(KERNELS, tol=1e-8, max_iter=500).fit(X[first], y[first])
    shared = IKLRegressor(KERNELS, tol=1e-8, max_iter=500).fit(X[first], y[first])
    np.testing.assert_allclose(own.kernel_weights_, shared.kernel_weights_, rtol=1e-3, atol=1e-5)
