"""One move of the kernel weights, functions and relation fixed, against a cone solver and in closed cases."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkin.paper.solvers.alternating import WEIGHT_STEPS, _prox, closed_form_step, newton_step, row_objective

K, T = 3, 5
MINIMISERS = ("newton", "fista")


def random_step(seed, condition=20.0, sparse=False):
    """Weights B and forms Q (K, T), inv(Omega) and Omega (T, T) with correlations of both signs, mu."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.normal(size=(T, T)))[0]
    values = np.geomspace(1.0, condition, T) / condition
    Omega = (V * (values / values.sum())) @ V.T
    B, Q = rng.uniform(0.1, 2.0, size=(K, T)), rng.exponential(size=(K, T))
    if sparse:
        Q[rng.random((K, T)) < 0.4] = 0.0
    return B, Q, np.linalg.inv(Omega), Omega, rng.uniform(0.1, 3.0)


def conic_rows(W, P, mu):
    """Each row's minimum by Clarabel."""
    root = np.linalg.cholesky(P).T
    values = []
    for w in W:
        b = cp.Variable(T, pos=True)
        value = sum(wt / 2 * cp.inv_pos(bt) for wt, bt in zip(w, b, strict=True) if wt > 0)
        problem = cp.Problem(cp.Minimize(value + mu / 2 * cp.sum_squares(root @ b)))
        values.append(problem.solve(solver=cp.CLARABEL))
    return np.array(values)


@pytest.mark.parametrize("name", MINIMISERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_reaches_the_minimum_of_every_row(name, sparse):
    B, Q, P, Omega, mu = random_step(int(sparse), sparse=sparse)
    W = 2 * B**2 * Q
    moved = WEIGHT_STEPS[name](B, Q, P, Omega, mu)
    assert moved.min() > 0
    np.testing.assert_allclose(row_objective(moved, W, P, mu), conic_rows(W, P, mu), rtol=1e-6)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_newton_solves_the_optimality_conditions(condition):
    B, Q, P, Omega, mu = random_step(5, condition)
    W = 2 * B**2 * Q
    moved = newton_step(B, Q, P, Omega, mu)
    pull = 0.5 * W / moved**2
    np.testing.assert_allclose(mu * moved @ P, pull, rtol=1e-5, atol=1e-5 * pull.max())


@pytest.mark.parametrize("name", MINIMISERS)
def test_unrelated_tasks_have_a_closed_form(name):
    """Omega = I/T: every weight is the cube root of W / (2 mu T)."""
    B, Q, *_ = random_step(6)
    moved = WEIGHT_STEPS[name](B, Q, T * np.eye(T), np.eye(T) / T, 0.7)
    np.testing.assert_allclose(moved, np.cbrt(2 * B**2 * Q / (2 * 0.7 * T)), rtol=1e-6)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(name=st.sampled_from(MINIMISERS), seed=st.integers(0, 2**32 - 1), condition=st.sampled_from([1.0, 1e4, 1e8]))
def test_no_row_rises(name, seed, condition):
    B, Q, P, Omega, mu = random_step(seed, condition)
    W = 2 * B**2 * Q
    before, after = row_objective(B, W, P, mu), row_objective(WEIGHT_STEPS[name](B, Q, P, Omega, mu), W, P, mu)
    assert after.sum() <= before.sum()
    if name == "newton":
        assert (after <= before * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", WEIGHT_STEPS)
def test_every_step_keeps_minima_scales_and_leaves_its_arguments(name):
    # Where Q = mu B inv(Omega), B is the minimiser for its own functions.
    B, mu = np.random.default_rng(7).uniform(0.9, 1.1, size=(K, T)), 0.7
    P = np.linalg.inv(Omega := np.eye(T) / T + 0.1)
    Q = mu * B @ P
    assert Q.min() > 0
    np.testing.assert_allclose(WEIGHT_STEPS[name](B, Q, P, Omega, mu), B, rtol=1e-6)

    # Weights in other units: with mu/s for mu, s B for B and Q as it is, the answer is s times as large.
    B, Q, P, Omega, mu = random_step(8)
    moved = WEIGHT_STEPS[name](B, Q, P, Omega, mu)
    for scale in (1e-8, 1e8):
        scaled = WEIGHT_STEPS[name](scale * B, Q, P, Omega, mu / scale)
        np.testing.assert_allclose(scaled, scale * moved, rtol=1e-5)

    # Zero forms give zero weights.
    B, Q, P, Omega, mu = random_step(9)
    assert not WEIGHT_STEPS[name](B, np.zeros_like(Q), P, Omega, mu).any()
    assert not WEIGHT_STEPS[name](np.zeros_like(B), np.zeros_like(Q), P, Omega, mu).any()

    # Steps from weights of which some are zero are finite.
    B, Q, P, Omega, mu = random_step(10)
    B[0], B[1, 2] = 0.0, 0.0
    moved = WEIGHT_STEPS[name](B, Q, P, Omega, mu)
    assert np.isfinite(moved).all()
    assert moved.min() >= 0
    assert moved.max() > 0

    # Arguments are not modified.
    arguments = random_step(11)
    before = [np.copy(argument) for argument in arguments]
    WEIGHT_STEPS[name](*arguments)
    for argument, kept in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(argument, kept)


def test_the_closed_form_goes_along_Q_Omega_as_far_as_is_best():
    B, Q, _, Omega, mu = random_step(12)
    Omega = np.abs(Omega) @ np.abs(Omega) + 0.01 * np.eye(T)
    P = np.linalg.inv(Omega)
    moved = closed_form_step(B, Q, P, Omega, mu)
    direction = Q @ Omega
    np.testing.assert_allclose(moved / moved.max(), direction / direction.max(), rtol=1e-12)
    W = 2 * B**2 * Q
    values = [row_objective(factor * moved, W, P, mu).sum() for factor in (0.99, 1.0, 1.01)]
    assert values[1] == min(values)


def test_the_closed_form_projects_what_is_negative():
    B, Q, P, Omega, mu = random_step(13)
    direction = Q @ Omega
    assert direction.min() < 0
    moved = closed_form_step(B, Q, P, Omega, mu)
    np.testing.assert_array_equal(moved == 0, direction <= 0)


def test_prox_is_the_root():
    rng = np.random.default_rng(14)
    v, c = rng.normal(size=200) * 10 ** rng.uniform(-6, 6, 200), 10 ** rng.uniform(-12, 6, 200)
    b = _prox(v, c)
    assert b.min() > 0
    np.testing.assert_allclose(c / b**2, b - v, rtol=1e-6, atol=1e-9 * np.abs(v).max())
