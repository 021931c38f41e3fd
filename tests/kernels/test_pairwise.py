import numpy as np
import pytest

from kernelkin.kernels import evaluate, fit_kernels, gaussian_kernels, pairs, polynomial_kernels, resolve_kernels
from kernelkin.kernels import functions as functions_module


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(20, 3))


def test_distances_and_medians_are_computed_once_per_set_of_columns(X, monkeypatch):
    calls = {"squared_distances": 0, "median_distance": 0}

    def counted(name):
        original = getattr(functions_module, name)

        def call(*args):
            calls[name] += 1
            return original(*args)

        monkeypatch.setattr(functions_module, name, call)

    counted("squared_distances")
    counted("median_distance")
    kernels = [*gaussian_kernels(per_feature=True), *gaussian_kernels(), *polynomial_kernels()]
    evaluate(fit_kernels(kernels, X), X)
    assert calls == {"squared_distances": 4, "median_distance": 4}


def test_order_of_the_kernels_does_not_matter(X):
    fitted = fit_kernels(resolve_kernels(["linear", "rbf", "poly", gaussian_kernels(), "laplacian"]), X)
    order = [4, 0, 7, 2, 1, 3, 6, 5]
    np.testing.assert_array_equal(evaluate([fitted[k] for k in order], X), evaluate(fitted, X)[order])


def test_precision_is_the_wider_of_both(X):
    fitted = fit_kernels(resolve_kernels(None), X)
    assert evaluate(fitted, X.astype(np.float32), X).dtype == np.float64
    assert evaluate(fitted, X.astype(int), X.astype(int)).dtype == np.float64
    np.testing.assert_allclose(evaluate(fitted, X.astype(np.float32)), evaluate(fitted, X), rtol=1e-3, atol=1e-5)


def test_no_rows_to_predict(X):
    assert evaluate(fit_kernels(resolve_kernels(None), X), X[:0], X).shape == (6, 0, 20)


@pytest.mark.parametrize("out", [np.empty((6, 20, 19)), np.empty((6, 20, 20), dtype=np.float32)])
def test_wrong_out_is_refused(X, out):
    with pytest.raises(ValueError, match=r"out must be float64 of shape \(6, 20, 20\)"):
        evaluate(fit_kernels(resolve_kernels(None), X), X, out=out)


def test_one_dimension_is_refused(X):
    with pytest.raises(ValueError, match=r"two dimensions; got shape \(20,\)"):
        fit_kernels(resolve_kernels(None), X[:, 0])


def test_a_callable_that_returns_the_wrong_shape_is_named(X):
    def narrow(A, B):
        return (A @ B.T)[:, :2]

    (kernel,) = fit_kernels(resolve_kernels(narrow), X)
    with pytest.raises(ValueError, match=r"kernel 'narrow' gave values of shape \(20, 2\), expected \(20, 20\)"):
        kernel(X)


def test_a_callable_that_returns_nan_is_named_also_between_other_rows(X):
    def broken(A, B):
        return np.where(A[:, :1] > B[:, 0], 1.0, np.nan)

    (kernel,) = fit_kernels(resolve_kernels(broken), X)
    with pytest.raises(ValueError, match="kernel 'broken' has NaN"):
        kernel(X[:4], X)
    with pytest.raises(ValueError, match="kernel 'broken' has NaN"):
        pairs([kernel], X, [0, 1], [1, 0])


def test_what_scikit_learn_refuses_is_named(X):
    (kernel,) = fit_kernels(resolve_kernels("chi2"), X)
    with pytest.raises(ValueError, match=r"kernel 'chi2': .*negative"):
        kernel(X)


def test_an_infinite_median_is_named(X):
    with pytest.raises(ValueError, match=r"kernel 'rbf\(1 x median\)': .* got inf"):
        fit_kernels(resolve_kernels("rbf"), X * 1e200)
