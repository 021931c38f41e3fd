import numpy as np
import pytest

from kernelkin.kernels import (
    check_gram,
    check_precomputed,
    evaluate,
    fit_kernels,
    polynomial_kernels,
    precomputed_names,
    resolve_kernels,
)


@pytest.fixture
def G():
    X = np.random.default_rng(0).normal(size=(12, 4))
    return X @ X.T


def test_a_sound_gram_passes(G):
    for dtype in (np.float32, np.float64):
        check_gram("g", G.astype(dtype), known_psd=False)
    check_gram("integers", np.array([[2, 1], [1, 2]]), known_psd=False)


@pytest.mark.parametrize("known_psd", [True, False])
@pytest.mark.parametrize("shape", [(12,), (12, 11), (1, 12, 12)])
def test_a_gram_of_the_wrong_shape_is_refused(shape, known_psd):
    with pytest.raises(ValueError, match=r"kernel 'g': a Gram matrix is square, got shape"):
        check_gram("g", np.ones(shape), known_psd)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(G, value):
    G[2, 3] = value
    with pytest.raises(ValueError, match=r"kernel 'g' has NaN or infinite values, the first at \(2, 3\)"):
        check_gram("g", G, known_psd=True)


def test_overflow_is_not_silent():
    X = np.random.default_rng(0).normal(size=(6, 2)) * 1e150
    (kernel,) = fit_kernels(polynomial_kernels(3), X)
    with np.errstate(over="ignore"):
        G = evaluate([kernel], X)[0]
    with pytest.raises(ValueError, match="kernel 'poly3' has NaN or infinite values"):
        check_gram(kernel.name, G, kernel.known_psd)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-8)])
def test_asymmetry_above_the_precision_is_refused(G, dtype, tolerance):
    size = abs(G).max()
    check = G + np.triu(np.full(G.shape, 0.5 * tolerance * size), 1)
    check_gram("g", check.astype(dtype), known_psd=True)
    check = G + np.triu(np.full(G.shape, 2 * tolerance * size), 1)
    with pytest.raises(ValueError, match="kernel 'g' is not symmetric"):
        check_gram("g", check.astype(dtype), known_psd=True)


def test_a_kernel_that_is_zero_is_refused():
    with pytest.raises(ValueError, match="kernel 'g' is zero on all training rows"):
        check_gram("g", np.zeros((3, 3)), known_psd=True)


def test_the_sigmoid_kernel_is_caught():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 3
    (kernel,) = fit_kernels(resolve_kernels("sigmoid"), X)
    with pytest.raises(
        ValueError, match=r"^kernel 'sigmoid' is not positive semi-definite on the training rows: smallest"
    ):
        check_gram(kernel.name, kernel(X), kernel.known_psd)


def test_precomputed_stack(G):
    assert check_precomputed(np.stack([G, 2 * G]), "trace") == precomputed_names(2) == ["kernel 0", "kernel 1"]
    with pytest.raises(ValueError, match=r"^kernel 'kernel 1' is zero on all training rows$"):
        check_precomputed(np.stack([G, 0 * G]), "trace")
    with pytest.raises(
        ValueError, match=r"^normalize='cosine' needs k\(x, x\) of the rows to predict, which precomputed"
    ):
        check_precomputed(np.stack([G, G]), "cosine")
