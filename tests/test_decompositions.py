"""Decompositions whose fast routine fails fall back to slower ones with the same result."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from kernelkin import decompositions


def fail(*arguments, **options):
    raise np.linalg.LinAlgError("did not converge")


@pytest.fixture
def fast_routines_fail(monkeypatch):
    for name in ("svd", "eigh", "eigvalsh", "cholesky", "inv", "lstsq", "solve"):
        monkeypatch.setattr(np.linalg, name, fail)


def random_matrices():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(5, 7))
    return F, F @ F.T


def test_results_are_those_of_the_fast_routines(fast_routines_fail):
    A, S = random_matrices()
    U, s, Vt = decompositions.svd(A)
    np.testing.assert_allclose((U * s) @ Vt, A, atol=1e-13)
    assert U.shape == (5, 5) and Vt.shape == (5, 7) and (np.diff(s) <= 0).all()
    np.testing.assert_allclose(decompositions.singular_values(A), s, rtol=1e-13)
    values, vectors = decompositions.eigh(S)
    np.testing.assert_allclose((vectors * values) @ vectors.T, S, atol=1e-13)
    np.testing.assert_allclose(decompositions.eigvalsh(S), values, rtol=1e-12)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(decompositions.pseudo_inverse(A), scipy.linalg.pinv(A), atol=1e-12)


def test_singular_values_by_a_gram_matrix():
    for shape in [(5, 40), (40, 5), (6, 6)]:
        A = np.random.default_rng(1).exponential(size=shape)
        for scale in (1e-200, 1.0, 1e200):
            U, s, Vt = decompositions.gram_svd(scale * A)
            np.testing.assert_allclose(s, scale * np.linalg.svd(A, compute_uv=False), atol=1e-8 * s[0])
            np.testing.assert_allclose((U * (s / scale)) @ Vt, A, rtol=1e-12)
        # Of low rank: the values below rounding are of no use, but the product is still the matrix.
        low = np.outer(A[:, 0], A[0])
        U, s, Vt = decompositions.gram_svd(low)
        np.testing.assert_allclose((U * s) @ Vt, low, rtol=1e-12)
        assert (s > 0).all() and (s[1:] < 1e-6 * s[0]).all()
        assert [part.shape for part in decompositions.gram_svd(np.zeros(shape))] == [(shape[0], 0), (0,), (0, shape[1])]


def test_factors_inverses_and_solutions_are_made_from_eigenvalues_where_routines_fail(fast_routines_fail, monkeypatch):
    A, S = random_matrices()
    L = decompositions.cholesky(S)
    np.testing.assert_allclose(L @ L.T, S, atol=1e-13)
    assert not np.triu(L, 1).any() and (np.diag(L) > 0).all()
    np.testing.assert_allclose(decompositions.inverse(S) @ S, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(decompositions.least_squares(A.T, A.T @ S), S, atol=1e-10)
    stack = np.array([S, 2 * S])
    np.testing.assert_allclose(decompositions.inverse(stack) @ stack, [np.eye(5)] * 2, atol=1e-10)
    L = decompositions.cholesky(stack)
    np.testing.assert_allclose(L @ np.swapaxes(L, 1, 2), stack, atol=1e-12)


def test_a_matrix_of_low_rank_has_a_cholesky_factor():
    F = np.random.default_rng(1).normal(size=(6, 2))
    L = decompositions.cholesky(F @ F.T - 1e-15 * np.eye(6))
    np.testing.assert_allclose(L @ L.T, F @ F.T, atol=1e-13)


def test_matrices_are_decomposed_nowhere_else():
    """Factors are computed elsewhere only to see whether there is one, and QR, triangles and norms cannot fail.

    Covariances V of mixed models are inverted where they are positive definite, and other parameters tried where not.
    """
    robust = (
        r"LinAlgError|cholesky as|cho_solve|cho_factor, (cho_solve|lapack)|solve_triangular|qr\b|blas|slogdet|norm\b"
        r"|lapack$|lapack import|lapack\.|(cholesky|inv)\(V\)"
    )
    package = Path(decompositions.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text().splitlines()
        # torch's fall back where they are called.
        if path.name != "decompositions.py"
        and re.search(rf"(?<!torch\.)(?<!xp\.)linalg(\.| import )(?!{robust})", line)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_where_both_routines_fail_once_the_matrix_is_moved_by_its_rounding(monkeypatch, name):
    _, S = random_matrices()
    fast, calls = getattr(np.linalg, name), []

    def fails_once(X, **options):
        calls.append(X)
        return fail() if len(calls) == 1 else fast(X, **options)

    monkeypatch.setattr(np.linalg, name, fails_once)
    monkeypatch.setattr(f"scipy.linalg.{name}", fail)
    found = getattr(decompositions, name)(S)
    left, values = (found[0], found[1]) if name == "svd" else (found[1], found[0])
    right = found[2] if name == "svd" else left.T
    np.testing.assert_allclose((left * values) @ right, S, atol=1e-13)
    assert np.array_equal(calls[1], calls[1].T) and not np.array_equal(calls[1], S)


def test_entries_that_are_not_finite_are_refused_by_name():
    for name in ["svd", "eigh"]:
        with pytest.raises(ValueError, match="a matrix to decompose has entries that are not finite"):
            getattr(decompositions, name)(np.full((2, 2), np.nan))


def test_singular_systems_have_least_squares_solutions():
    A = np.stack([np.eye(2), np.ones((2, 2))])
    b = np.array([[1.0, 2.0], [2.0, 2.0]])
    found = np.einsum("kij,kj->ki", decompositions.inverse(A), b)
    np.testing.assert_allclose(found, [[1.0, 2.0], [1.0, 1.0]], atol=1e-14)
