"""The exact intercept against a search over every breakpoint."""

import numpy as np
import pytest

from kernelkin.learners.intercepts import best_intercept, piecewise_loss


def total(residual, lo, hi, epsilon, c):
    r = residual - c
    return np.sum(hi * np.maximum(0, r - epsilon) - lo * np.maximum(0, -r - epsilon))


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(20))
def test_no_breakpoint_is_better(epsilon, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 12)
    residual = rng.integers(-3, 4, size=n) / 2 if seed % 2 else rng.normal(size=n)
    lo, hi = -rng.integers(0, 3, size=n).astype(float), rng.integers(0, 3, size=n).astype(float)
    c = best_intercept(residual, lo, hi, epsilon)
    candidates = np.concatenate([residual - epsilon, residual + epsilon])
    best = min(total(residual, lo, hi, epsilon, candidate) for candidate in candidates)
    np.testing.assert_allclose(total(residual, lo, hi, epsilon, c), best, atol=1e-12)


def test_midpoint_of_the_interval_of_minimisers():
    ones = np.ones(4)
    assert best_intercept(np.array([3.0, 0.0, 1.0, 7.0]), -ones, ones, 0.0) == 2.0
    assert best_intercept(np.array([0.0, 1.0]), -ones[:2], ones[:2], 2.0) == 0.5


def test_finite_end_of_a_half_line_and_no_loss_at_all():
    residual, zeros, ones = np.array([3.0, 1.0]), np.zeros(2), np.ones(2)
    assert best_intercept(residual, zeros, ones, 0.5) == 2.5
    assert best_intercept(residual, -ones, zeros, 0.5) == 1.5
    assert best_intercept(residual, zeros, zeros, 0.5) == 0.0


def test_loss_is_the_conjugate_of_the_box():
    grid = np.linspace(-1.5, 2.5, 4001)
    for residual in (-2.0, -0.2, 0.0, 0.3, 1.7):
        expected = np.max(grid * residual - 0.25 * np.abs(grid))
        np.testing.assert_allclose(piecewise_loss(residual, -1.5, 2.5, 0.25), expected, atol=1e-12)
