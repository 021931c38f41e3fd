import numpy as np
import pytest

from kernelkin.kernels import kernel as kernel_module
from kernelkin.kernels.families import GaussianKernel, gaussian_kernels, polynomial_kernels, resolve_kernels
from kernelkin.kernels.grams import mirror
from kernelkin.kernels.kernel import evaluate, fit_kernels, median_distance


def brute_median(X, repeats=None):
    X = X if repeats is None else np.repeat(X, repeats, axis=0)
    found = [np.linalg.norm(X[i] - X[j]) for i in range(len(X)) for j in range(i)]
    return np.median([distance for distance in found if distance > 0])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def brute_squares(X, Y):
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


@pytest.mark.parametrize("d", [1, 7])
def test_squared_distances(rng, d, offset=1e6):
    X, Y = rng.normal(size=(23, d)) + offset, rng.normal(size=(9, d)) + offset
    out = np.empty((23, 9))
    GaussianKernel(1.0).matrix(X, Y, out, "")
    # Without moving the origin, an offset of 1e6 would leave four digits.
    np.testing.assert_allclose(out, brute_squares(X, Y), rtol=1e-9, atol=1e-13)


def test_squared_distances_of_equal_rows_are_never_negative(rng):
    X = np.repeat(rng.normal(size=(40, 5)) * 1e3, 2, axis=0)
    out = np.empty((80, 80))
    GaussianKernel(1.0).matrix(X, X.copy(), out, "")
    assert out.min() >= 0
    GaussianKernel(1.0).matrix(X, None, out, "")
    assert out.min() >= 0 and (out.diagonal() == 0).all()
    np.testing.assert_array_equal(out, out.T)


@pytest.mark.parametrize("n", [1, 6, 7, 20])
def test_mirror_copies_the_upper_triangle(rng, n):
    G = rng.normal(size=(n, n))
    upper = np.triu(G)
    mirror(G, block=6)
    np.testing.assert_array_equal(G, upper + np.triu(upper, 1).T)


def test_median_distance_is_that_of_all_pairs_apart(rng):
    X = rng.integers(0, 3, size=(25, 2)).astype(float)
    assert median_distance(X) == pytest.approx(brute_median(X), rel=1e-14)
    assert median_distance(X.astype(np.float32)) == pytest.approx(brute_median(X), rel=1e-14)
    weight = rng.integers(0, 4, size=25)
    assert median_distance(X, weight) == pytest.approx(brute_median(X, weight), rel=1e-14)


def test_median_distance_without_any_distance():
    assert median_distance(np.ones((5, 2))) == 1.0
    assert median_distance(np.ones((1, 2))) == 1.0
    assert median_distance(np.array([[0.0], [3.0]]), np.array([1.0, 0.0])) == 1.0


def test_median_distance_of_many_rows_looks_at_every_third(rng):
    X = rng.normal(size=(2500, 2))
    assert median_distance(X) == median_distance(X[::3])
    assert median_distance(X[:1000]) != median_distance(X[:1000:2])


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(20, 3))


def test_distances_and_medians_are_computed_once_per_set_of_columns(X, monkeypatch):
    calls = {"matrix": 0, "median_distance": 0}

    def counted(module, name):
        original = getattr(module, name)

        def call(*args):
            calls[name] += 1
            return original(*args)

        monkeypatch.setattr(module, name, call)

    counted(GaussianKernel, "matrix")
    counted(kernel_module, "median_distance")
    kernels = [*gaussian_kernels(per_feature=True), *gaussian_kernels(), *polynomial_kernels()]
    evaluate(fit_kernels(kernels, X), X)
    assert calls == {"matrix": 4, "median_distance": 4}


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


def test_one_dimension_is_refused(X):
    with pytest.raises(ValueError, match=r"two-dimensional array of rows and columns; got shape \(20,\)"):
        fit_kernels(resolve_kernels(None), X[:, 0])


def test_a_callable_that_returns_the_wrong_shape_is_named(X):
    def narrow(A, B):
        return (A @ B.T)[:, :2]

    (kernel,) = fit_kernels(resolve_kernels(narrow), X)
    with pytest.raises(ValueError, match=r"kernel 'narrow' returned values of shape \(20, 2\), expected \(20, 20\)"):
        kernel(X)


def test_a_callable_that_returns_nan_is_named_also_between_other_rows(X):
    def broken(A, B):
        return np.where(A[:, :1] > B[:, 0], 1.0, np.nan)

    (kernel,) = fit_kernels(resolve_kernels(broken), X)
    with pytest.raises(ValueError, match="kernel 'broken' has NaN"):
        kernel(X[:4], X)
    with pytest.raises(ValueError, match="kernel 'broken' has NaN"):
        evaluate([kernel], X, at=([0, 1], [1, 0]))


def test_what_scikit_learn_refuses_is_named(X):
    (kernel,) = fit_kernels(resolve_kernels("chi2"), X)
    with pytest.raises(ValueError, match=r"kernel 'chi2': .*negative"):
        kernel(X)


def test_an_infinite_median_is_named(X):
    with pytest.raises(ValueError, match=r"kernel 'rbf\(1 x median\)': .* got inf"):
        fit_kernels(resolve_kernels("rbf"), X * 1e200)
