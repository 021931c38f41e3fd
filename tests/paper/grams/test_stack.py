"""One stack of Grams: combining, and quadratic forms, against the plain formulas."""

import numpy as np
import pytest

from kernelkin.engines import Workers
from kernelkin.paper.grams.stack import GramStack


def random_stack(K=4, n=30, dtype=np.float64, seed=0):
    factors = np.random.default_rng(seed).normal(size=(K, n, n // 2))
    return GramStack(np.ascontiguousarray(factors @ factors.transpose(0, 2, 1) / n, dtype=dtype))


# Of a float32 stack too: sums are added up in float64.
TOLERANCE = 200 * np.finfo(np.float64).eps


@pytest.fixture(params=["whole", "pieces"])
def shape(request, monkeypatch):
    if request.param == "pieces":
        monkeypatch.setattr("kernelkin.paper.grams.stack._SMALL", 0)
        monkeypatch.setattr("kernelkin.paper.grams.stack._PIECE", 100)
        monkeypatch.setattr("kernelkin.paper.grams.stack._BLOCK", 8)
    return 4, 30


@pytest.fixture
def stack(shape):
    stack = random_stack(*shape, dtype=np.float32)
    before = stack.values.copy()
    yield stack
    np.testing.assert_array_equal(stack.values, before, err_msg="the stack was modified")


def test_combined_grams_are_weighted_sums(stack, shape):
    assert (stack.n_kernels, stack.n_rows) == shape
    for n_used in (4, 1, 0):
        weights = np.random.default_rng(1).uniform(size=(stack.n_kernels, 3))
        weights[n_used:] = 0
        combined = stack.combine(weights)
        expected = np.einsum("km,kij->mij", weights, stack.values.astype(np.float64))
        assert combined.dtype == np.float64
        np.testing.assert_allclose(combined, expected, atol=TOLERANCE * np.abs(expected).max())
        np.testing.assert_array_equal(combined, combined.transpose(0, 2, 1))


def test_quadratic_forms(stack):
    rng = np.random.default_rng(2)
    for zeros in (0.0, 0.5, 0.8, 1.0):
        a = rng.normal(size=(stack.n_rows, 2)) * (rng.random(stack.n_rows) >= zeros)[:, None]
        expected = 0.5 * np.einsum("im,kij,jm->km", a, stack.values.astype(np.float64), a)
        np.testing.assert_allclose(stack.quadratic_forms(a), expected, rtol=TOLERANCE, atol=0)


def test_images_are_products_with_the_grams(stack):
    a = np.random.default_rng(3).normal(size=(stack.n_rows, 2))
    expected = np.einsum("kij,jm->kim", stack.values.astype(np.float64), a)
    images, forms = stack.images(a)
    np.testing.assert_allclose(forms, stack.quadratic_forms(a), rtol=TOLERANCE)
    np.testing.assert_allclose(images, expected, atol=TOLERANCE * np.abs(expected).max())


def test_quadratic_forms_are_never_negative():
    values = np.eye(5)[None] - 1e-15 - np.ones((1, 5, 5)) / 5
    forms = GramStack(np.ascontiguousarray(values)).quadratic_forms(np.ones((5, 1)))
    assert forms.min() >= 0


def test_nothing_depends_on_the_number_of_threads(stack):
    rng = np.random.default_rng(3)
    weights, a = rng.uniform(size=(stack.n_kernels, 2)), rng.normal(size=(stack.n_rows, 2))
    results = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            results.append((stack.combine(weights, workers.map), stack.quadratic_forms(a, workers.map)))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
