"""The p-norm penalties against closed forms and a general-purpose minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelkin.paper.penalties import LpPenalty, SharedLpPenalty
from kernelkin.paper.solvers.joint import variables


def power_mean(x, p):
    return (x**p).sum() ** (1 / p)


def test_value_is_the_sum_of_squared_norms_and_the_shared_value_that_of_the_largest():
    for p in [1.0, 1.5, 3.0]:
        B = np.random.default_rng(0).exponential(size=(4, 3))
        expected = sum(power_mean(b, p) ** 2 for b in B.T)
        np.testing.assert_allclose(LpPenalty(p).value(B), expected, rtol=1e-12)
        np.testing.assert_allclose(SharedLpPenalty(p).value(B), power_mean(B.max(axis=1), p) ** 2, rtol=1e-12)


@pytest.mark.parametrize("penalty", [LpPenalty(1.5), LpPenalty(4.0), SharedLpPenalty(1.5), SharedLpPenalty(4.0)])
def test_bound_is_the_minimum(penalty):
    Q, mu = np.random.default_rng(1).uniform(0.5, 2.0, size=(4, 3)), 0.6
    start, make, pull = variables(penalty, np.ones((4, 3)), False)

    def objective(x):
        B = make(x)
        value, gradient = penalty.value_and_gradient(B)
        return mu / 2 * value - (B * Q).sum(), pull(x, mu * gradient - Q)

    options = {"ftol": 1e-15, "gtol": 1e-10}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options)
    np.testing.assert_allclose(penalty.bound(Q, np.zeros((4, 3)), mu), found.fun, rtol=1e-8)


def test_bound_for_p_one_takes_the_best_kernel_alone():
    Q = np.array([[1.0, 5.0], [3.0, 2.0]])
    np.testing.assert_allclose(LpPenalty(1.0).bound(Q, Q, 2.0), -(9.0 + 25.0) / 4)
    np.testing.assert_allclose(SharedLpPenalty(1.0).bound(Q, Q, 2.0), -36.0 / 4)


def test_gradient_for_p_one_is_the_norm_also_at_zero_entries():
    B = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(LpPenalty(1.0).value_and_gradient(B)[1], np.array([[3.0, 0.0]] * 3))


def test_large_p_is_the_largest_entry():
    B = np.array([[1.0, 1e-3], [3.0, 2e-3], [0.0, 0.0]])
    value, gradient = LpPenalty(1e6).value_and_gradient(B)
    np.testing.assert_allclose(value, 9.0 + 4e-6, rtol=1e-5)
    np.testing.assert_allclose(gradient, [[0, 0], [3.0, 2e-3], [0, 0]], rtol=1e-5)
    np.testing.assert_allclose(LpPenalty(1e6).bound(B, B, 1.0), -(16.0 + 9e-6) / 2, rtol=1e-4)


def test_zero_columns_take_no_part():
    for p in [1.0, 1.2]:
        B = np.array([[1.0, 0.0], [2.0, 0.0]])
        value, gradient = LpPenalty(p).value_and_gradient(B)
        assert value == LpPenalty(p).value(B[:, :1])
        np.testing.assert_array_equal(gradient[:, 1], 0)


def test_relations_are_the_identity_and_where_weights_are_shared_ones():
    B = np.ones((2, 4))
    np.testing.assert_array_equal(LpPenalty().relation(B).matrix(), np.eye(4) / 4)
    np.testing.assert_allclose(SharedLpPenalty().relation(B).matrix(), np.full((4, 4), 0.25), rtol=1e-15)


def test_power_outside_its_range():
    for p in [0.5, np.inf, np.nan]:
        message = rf"^p must be in \[1, inf\), got {p}$"
        with pytest.raises(ValueError, match=message):
            LpPenalty(p)
        with pytest.raises(ValueError, match=message):
            SharedLpPenalty(p)
