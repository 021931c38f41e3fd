import numpy as np
import pytest

from kernelkin.kernels import (
    check_gram,
    check_precomputed,
    check_precomputed_query,
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
def test_wrong_shape(shape, known_psd):
    with pytest.raises(ValueError, match=r"kernel 'g': a Gram matrix is square, got shape"):
        check_gram("g", np.ones(shape), known_psd)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(G, value):
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
def test_asymmetry(G, dtype, tolerance):
    size = abs(G).max()
    check = G + np.triu(np.full(G.shape, 0.5 * tolerance * size), 1)
    check_gram("g", check.astype(dtype), known_psd=True)
    check = G + np.triu(np.full(G.shape, 2 * tolerance * size), 1)
    with pytest.raises(ValueError, match="kernel 'g' is not symmetric"):
        check_gram("g", check.astype(dtype), known_psd=True)


def test_zero():
    with pytest.raises(ValueError, match="kernel 'g' is zero on all training rows"):
        check_gram("g", np.zeros((3, 3)), known_psd=True)


@pytest.mark.parametrize(("relative", "sound"), [(-1e-7, True), (-1e-5, False)])
def test_indefinite_beyond_rounding(relative, sound):
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
    G = (basis * np.r_[np.full(9, 10 / 9), relative]) @ basis.T
    G = (G + G.T) / 2
    if sound:
        check_gram("g", G, known_psd=False)
    else:
        with pytest.raises(ValueError, match=r"kernel 'g' is not positive semi-definite .* eigenvalue -1e-05"):
            check_gram("g", G, known_psd=False)
    check_gram("g", G, known_psd=True)


@pytest.mark.parametrize("G", [-np.eye(3), np.array([[0.0, 1.0], [1.0, 0.0]])])
def test_indefinite_without_a_positive_diagonal(G):
    with pytest.raises(ValueError, match=r"eigenvalue -1, mean of the diagonal"):
        check_gram("g", G, known_psd=False)


def test_rounding_of_single_precision_is_not_taken_for_indefinite():
    X = np.random.default_rng(0).normal(size=(600, 3)).astype(np.float32) + 10
    check_gram("g", X @ X.T, known_psd=False)


def test_many_rows_are_thinned(monkeypatch):
    seen = []
    original = np.linalg.cholesky
    monkeypatch.setattr(np.linalg, "cholesky", lambda G: seen.append(len(G)) or original(G))
    check_gram("g", np.eye(2100, dtype=np.float32), known_psd=False)
    assert seen == [700]


def test_the_sigmoid_kernel_is_caught():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 3
    (kernel,) = fit_kernels(resolve_kernels("sigmoid"), X)
    with pytest.raises(ValueError, match="kernel 'sigmoid' is not positive semi-definite"):
        check_gram(kernel.name, kernel(X), kernel.known_psd)


def test_precomputed_stack(G):
    assert check_precomputed(np.stack([G, 2 * G]), "trace") == precomputed_names(2) == ["kernel 0", "kernel 1"]
    with pytest.raises(ValueError, match="kernel 'kernel 1' is not positive semi-definite"):
        check_precomputed(np.stack([G, -G]), "trace")
    with pytest.raises(ValueError, match=r"normalize='cosine' needs .* precomputed"):
        check_precomputed(np.stack([G, G]), "cosine")


def test_precomputed_query(G):
    check_precomputed_query(np.stack([G[:3], G[:3]]), 12)
    with pytest.raises(ValueError, match=r"'kernel 0' gave values of shape \(3, 11\), expected \(3, 12\)"):
        check_precomputed_query(G[None, :3, :11], 12)
    G[1, 4] = np.nan
    with pytest.raises(ValueError, match="'kernel 1' has NaN"):
        check_precomputed_query(np.stack([np.zeros((3, 12)), G[:3]]), 12)
