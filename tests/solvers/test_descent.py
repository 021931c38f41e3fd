"""The bounded minimiser against scipy's, and against the conditions of an optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelkin.penalties import RelationPenalty
from kernelkin.solvers.descent import descend


def quadratic(seed, n=30, condition=1e4):
    """A convex parabola whose minimiser over x >= 0 has zeros, and a start of mean one."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = (basis * np.geomspace(1.0, condition, n)) @ basis.T
    target = rng.normal(size=n)

    def function(x):
        image = A @ (x - target)
        return 0.5 * float((x - target) @ image), image

    return function, rng.uniform(0.5, 1.5, size=n)


def spectral(seed, K=4, T=6):
    """The relationship penalty less a linear term: its minimiser has zeros where the term is negative."""
    rng = np.random.default_rng(seed)
    penalty, Q = RelationPenalty(T, shrinkage=0.5), rng.normal(0.0, 1.0, size=(K, T))

    def function(x):
        R, slope = penalty.value_and_gradient(x.reshape(K, T))
        return 0.5 * R - float(x @ Q.ravel()), (slope - Q).ravel()

    return function, rng.uniform(0.5, 1.5, size=K * T)


def by_scipy(function, x):
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10**4, "maxfun": 10**5, "maxcor": 30}
    return minimize(function, x, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(x), options=options)


@pytest.mark.parametrize("make", [quadratic, spectral])
@pytest.mark.parametrize("seed", range(4))
def test_minimum_is_that_of_scipy(make, seed):
    function, start = make(seed)
    found, fall = descend(function, start, 1e-8)
    best = by_scipy(function, start)
    assert (best.x == 0).any()
    assert (best.x > 0).any()
    np.testing.assert_allclose(function(found)[0], best.fun, rtol=1e-9, atol=1e-9 * abs(function(start)[0]))
    assert fall == function(start)[0] - function(found)[0]
    np.testing.assert_array_equal(found > 1e-9, best.x > 1e-9)


@pytest.mark.parametrize("forcing", [0.5, 0.03, 1e-4])
def test_projected_gradient_falls_by_what_is_asked_for(forcing):
    function, start = quadratic(1)
    found, fall = descend(function, start, forcing)
    before, after = (np.abs(np.minimum(function(x)[1], x)).max() for x in (start, found))
    assert after <= forcing * before
    assert (found >= 0).all()
    assert fall > 0


def test_minimiser_at_zero_is_found_exactly():
    start = np.array([1.0, 0.5, 0.0])
    found, fall = descend(lambda x: (0.5 * float((x + 1.0) @ (x + 1.0)), x + 1.0), start, 1e-12)
    np.testing.assert_array_equal(found, 0.0)
    np.testing.assert_allclose(fall, 0.5 * (4.0 + 2.25 + 1.0 - 3.0))


def test_a_start_that_is_best_stays():
    start = np.array([0.0, 2.0])
    found, fall = descend(lambda x: (float(x[0] + (x[1] - 2.0) ** 2), np.array([1.0, 2 * x[1] - 4.0])), start, 0.1)
    np.testing.assert_array_equal(found, start)
    assert fall == 0


def test_rounding_ends_the_descent():
    """A goal below the rounding of the function is not chased forever."""
    calls = 0
    parabola, start = quadratic(2)

    def function(x):
        nonlocal calls
        calls += 1
        value, gradient = parabola(x)
        return value + 1e12, gradient

    descend(function, start, 1e-14)
    assert calls < 1000


def test_no_more_evaluations_than_allowed():
    calls = []
    function, start = quadratic(3)
    descend(lambda x: calls.append(x) or function(x), start, 1e-12, limit=7)
    assert len(calls) <= 7 + 1
