"""L-BFGS against SciPy's, and against the conditions of an optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.solvers.joint import descend, minimise_bounded


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
    """The relationship penalty less a linear term: its minimiser over x >= 0 has zeros where the term is negative."""
    rng = np.random.default_rng(seed)
    penalty, Q = RelationPenalty(T, shrinkage=0.5), rng.normal(0.0, 1.0, size=(K, T))

    def function(x):
        R, slope = penalty.value_and_gradient(x.reshape(K, T))
        return 0.5 * R - float(x @ Q.ravel()), (slope - Q).ravel()

    return function, rng.uniform(0.5, 1.5, size=K * T)


def by_scipy(function, x, bounded):
    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10**4, "maxfun": 10**5, "maxcor": 30}
    bounds = [(0.0, None)] * len(x) if bounded else None
    return minimize(function, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def run(function, start, limit=1000, **options):
    """The best point of a descent of at most so many evaluations, and all points evaluated."""
    descent, points = descend(start, **options), []
    x = next(descent)
    while len(points) < limit:
        points.append(x)
        try:
            x = descent.send(function(x))
        except StopIteration as end:
            return end.value, points
    return min(points, key=lambda x: function(x)[0]), points


def test_variables_that_are_nearly_zero_and_want_to_be_smaller_become_zero():
    found, _ = run(
        lambda x: (float(x[0] + (x[1] - 2) ** 2), np.array([1.0, 2 * x[1] - 4])), np.array([1e-7, 1.0]), bounded=True
    )
    assert found[0] == 0.0
    np.testing.assert_allclose(found[1], 2.0)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("make", [quadratic, spectral])
def test_the_minimum_is_that_of_scipy(make, bounded):
    function, start = make(0)
    found, points = run(function, start, bounded=bounded)
    best = by_scipy(function, start, bounded)
    np.testing.assert_allclose(function(found)[0], best.fun, rtol=1e-8, atol=1e-8 * abs(function(start)[0]))
    near = best.fun + 1e-8 * abs(function(start)[0])
    assert next(i for i, x in enumerate(points) if function(x)[0] <= near) <= 1.5 * best.nfev
    if bounded:
        assert (best.x == 0).any() and (best.x > 0).any()
        np.testing.assert_array_equal(found > 1e-7, best.x > 1e-7)
        assert all((x >= 0).all() for x in points)


def test_a_start_that_is_best_is_returned():
    def function(x):
        return float(x[0] + (x[1] - 2.0) ** 2), np.array([1.0, 2 * x[1] - 4.0])

    start = np.array([0.0, 2.0])
    found, points = run(function, start, bounded=True)
    np.testing.assert_array_equal(found, start)
    assert len(points) == 1


def test_rounding_ends_the_descent():
    """Progress below the rounding of the function is not chased for ever."""
    parabola, start = quadratic(2)

    def function(x):
        value, gradient = parabola(x)
        return value + 1e12, gradient

    found, points = run(function, start, limit=5000)
    assert len(points) < 5000 and function(found)[0] == min(function(x)[0] for x in points)


def test_a_line_search_has_so_many_trials_at_most():
    """A gradient that is wrong promises a fall that never comes."""
    points = run(lambda x: (float(x @ x), -2.0 * x - 1.0), np.ones(3), max_trials=4)[1]
    assert len(points) == 1 + 4


@pytest.mark.parametrize("forcing", [0.5, 0.03, 1e-4])
def test_models_are_minimised_as_far_as_requested(forcing):
    function, start = quadratic(1)
    found, fall = minimise_bounded(function, start, forcing)
    before, after = (np.abs(np.minimum(function(x)[1], x)).max() for x in (start, found))
    assert after <= forcing * before
    assert (found >= 0).all()
    assert fall == function(start)[0] - function(found)[0] > 0


def test_a_start_at_the_minimum_is_returned_with_no_decrease():
    start = np.array([0.0, 2.0])
    found, fall = minimise_bounded(lambda x: (float(x[0]), np.array([1.0, 0.0])), start, 0.1)
    np.testing.assert_array_equal(found, start)
    assert fall == 0
