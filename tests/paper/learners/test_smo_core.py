"""The compiled parts of the SMO solver one by one: pair steps, Newton steps, the best intercept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learners.problems import box, dual_value, random_machine
from numba import njit

from kernelkin.paper.learners import SVM, SVR, Machine, smo_core
from kernelkin.paper.learners.smo_core import DIAGONAL, DOWN, HI, LO, N_ARRAYS, SLOPE, UP, A, P
from tasks import in_turn

BOX_LEARNERS = [SVM(), SVR(0.0), SVR(0.3)]


@njit
def take_steps(gram, w, starts, epsilon, fraction, floor, limit):
    return smo_core.take_steps(gram, w, starts, epsilon, fraction, floor, limit)


@njit
def newton_steps(gram, w, starts, epsilon, budget):
    return smo_core.newton_steps(gram, w, starts, epsilon, budget)


@njit
def best_intercept(w, first, last, epsilon):
    return smo_core.best_intercept(w, first, last, epsilon)


def state(learner, gram, machine, a):
    """The arguments (w, starts, epsilon) of the solver at a (n,), for a machine with sorted groups."""
    epsilon = learner.epsilon if isinstance(learner, SVR) else 0.0
    w = np.empty((N_ARRAYS, len(a)))
    w[DIAGONAL], w[P], w[A], w[SLOPE] = np.diag(gram), machine.y[:, 0], a, machine.y[:, 0] - gram @ a
    w[LO], w[HI] = (side[:, 0] for side in box(learner, machine))
    w[UP] = np.where(a >= w[HI], -np.inf, np.where(a >= 0, -epsilon, epsilon))
    w[DOWN] = np.where(a <= w[LO], np.inf, np.where(a > 0, -epsilon, epsilon))
    starts = np.searchsorted(machine.groups, np.arange(machine.n_groups + 1)) if machine.n_groups else np.zeros(1)
    return w, starts.astype(np.uint64), epsilon


def sorted_machine(learner, seed, n_groups):
    gram, machine = random_machine(learner, seed=seed, n_groups=n_groups)
    order = np.argsort(machine.groups, kind="stable")
    machine = Machine(machine.y[order], machine.C[order], machine.groups[order], n_groups)
    return np.ascontiguousarray(gram[np.ix_(order, order)]), machine


@pytest.mark.parametrize(("learner", "n_groups"), in_turn(BOX_LEARNERS + BOX_LEARNERS[:1], [3, 1, 0, 0]))
def test_every_step_gains_what_it_reports(learner, n_groups):
    """From a random point, where steps of the epsilon-insensitive loss also stop at zero."""
    gram, machine = sorted_machine(learner, 1, n_groups)
    lo, hi = (side[:, 0] for side in box(learner, machine))
    w, starts, epsilon = state(learner, gram, machine, np.random.default_rng(1).uniform(lo, hi))
    sums = np.bincount(machine.groups, weights=w[A])
    for _ in range(60):
        before = dual_value(learner, gram, machine, w[A][:, None])
        steps, gain, _ = take_steps(gram, w, starts, epsilon, 0.0, 0.0, 1)
        after = dual_value(learner, gram, machine, w[A][:, None])
        assert steps == 1 and gain > 0
        np.testing.assert_allclose(after - before, gain, rtol=1e-6, atol=1e-11 * abs(after))
        assert np.all(w[A] >= lo) and np.all(w[A] <= hi)
        np.testing.assert_allclose(w[SLOPE], w[P] - gram @ w[A], atol=1e-11)
        if n_groups:
            np.testing.assert_allclose(np.bincount(machine.groups, weights=w[A]), sums, atol=1e-12)


@pytest.mark.parametrize("n_groups", [0, 1])
def test_steps_end_at_the_requested_violation(n_groups):
    gram, machine = sorted_machine(SVM(), 2, n_groups)
    w, starts, epsilon = state(SVM(), gram, machine, np.zeros(len(gram)))
    first = 1.0 if n_groups == 0 else 2.0  # at a = 0 the derivatives are the labels
    steps, _, violation = take_steps(gram, w, starts, epsilon, 1e-2, 0.0, 10_000)
    assert 0 < steps < 10_000 and violation <= 1e-2 * first
    assert take_steps(gram, w, starts, epsilon, 0.0, violation, 10_000)[0] == 0


def interior_point(learner, machine):
    """A point inside the box, apart from some rows at their bounds."""
    rng = np.random.default_rng(1)
    lo, hi = (side[:, 0] for side in box(learner, machine))
    return np.where(rng.random(len(lo)) < 0.3, np.where(rng.random(len(lo)) < 0.5, lo, hi), rng.uniform(lo, hi))


@pytest.mark.parametrize(("learner", "n_groups"), in_turn(BOX_LEARNERS + BOX_LEARNERS[:1], [3, 1, 0, 0]))
def test_free_rows_are_optimal_among_themselves_after_newton_steps(learner, n_groups):
    gram, machine = sorted_machine(learner, 1, n_groups)
    w, starts, epsilon = state(learner, gram, machine, interior_point(learner, machine))
    newton_steps(gram, w, starts, epsilon, 0.0)  # without work it makes the point feasible
    before = dual_value(learner, gram, machine, w[A][:, None])
    work, useful = newton_steps(gram, w, starts, epsilon, np.inf)
    assert work > 0 and useful
    assert dual_value(learner, gram, machine, w[A][:, None]) > before
    assert np.all(w[A] >= w[LO]) and np.all(w[A] <= w[HI])
    np.testing.assert_allclose(w[SLOPE], w[P] - gram @ w[A], atol=1e-11)
    if n_groups:
        np.testing.assert_allclose(np.bincount(machine.groups, weights=w[A]), 0.0, atol=1e-12)
    free = (w[A] > w[LO]) & (w[A] < w[HI]) & ((w[A] != 0) | (epsilon == 0))
    assert free.sum() > 2
    derivative = (w[SLOPE] - epsilon * np.sign(w[A]))[free]
    for group in range(max(n_groups, 1)):
        own = derivative[machine.groups[free] == group]
        np.testing.assert_allclose(own, own[-1] if n_groups else 0.0, atol=1e-8)


def test_newton_steps_keep_to_their_budget():
    gram, machine = sorted_machine(SVM(), 1, 0)
    w, starts, epsilon = state(SVM(), gram, machine, interior_point(SVM(), machine))
    a = w[A].copy()
    assert newton_steps(gram, w, starts, epsilon, 10.0) == (0.0, False)
    np.testing.assert_array_equal(w[A], a)


def slow_machine(learner, n_groups, n=24):
    """Three features of size 1e4 and random targets: dual variables must go to 1e3 by pair steps of 1e-8."""
    rng = np.random.default_rng(0)
    X = 1e4 * rng.normal(size=(n, 3))
    y = rng.normal(size=(n, 1))
    groups = np.repeat(np.arange(max(n_groups, 1)), n // max(n_groups, 1))
    return X @ X.T, Machine(np.sign(y) if isinstance(learner, SVM) else y, np.full((n, 1), 1e3), groups, n_groups)


@pytest.mark.parametrize(("learner", "n_groups"), in_turn(BOX_LEARNERS + BOX_LEARNERS[:1], [2, 1, 0, 0]))
def test_machines_with_tiny_pair_steps_are_solved(learner, n_groups):
    """Pair steps alone leave a relative gap above one half after ten million. Rounding alone makes one of 3e-4."""
    gram, machine = slow_machine(learner, n_groups)
    solution = learner.solve(gram, machine, tol=1e-4)
    assert 0 <= solution.gap <= 1e-3 * solution.primal
    # 1/2 a'Ga is the rest of terms of 1e14.
    np.testing.assert_allclose(solution.dual, dual_value(learner, gram, machine, solution.a), rtol=1e-4)


def intercept_of(residual, lo, hi, epsilon):
    w = np.zeros((N_ARRAYS, len(residual) + 2))  # rows outside the range do not count
    w[SLOPE] = w[HI] = 100.0
    w[SLOPE, 1:-1], w[LO, 1:-1], w[HI, 1:-1] = residual, lo, hi
    return best_intercept(w, np.uint64(1), np.uint64(len(residual) + 1), epsilon)


def total_loss(residual, lo, hi, epsilon, c):
    r = residual - c
    return np.sum(hi * np.maximum(0, r - epsilon) - lo * np.maximum(0, -r - epsilon))


# Residuals that are often equal, with the lower and upper bounds of their rows.
ROWS = st.lists(
    st.tuples(st.integers(-3, 3).map(lambda k: k / 2) | st.floats(-3, 3), st.integers(0, 2), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(ROWS, st.sampled_from([0.0, 0.4]))
def test_no_breakpoint_has_a_smaller_loss_than_the_best_intercept(rows, epsilon):
    residual, down, hi = np.array(rows, dtype=float).T
    lo = -down
    c = intercept_of(residual, lo, hi, epsilon)
    candidates = np.concatenate([residual - epsilon, residual + epsilon])
    best = min(total_loss(residual, lo, hi, epsilon, candidate) for candidate in candidates)
    np.testing.assert_allclose(total_loss(residual, lo, hi, epsilon, c), best, atol=1e-12)


def test_best_intercept_is_the_midpoint_of_the_interval_of_minimisers():
    ones = np.ones(4)
    assert intercept_of([3.0, 0.0, 1.0, 7.0], -ones, ones, 0.0) == 2.0
    assert intercept_of([0.0, 1.0], -ones[:2], ones[:2], 2.0) == 0.5


def test_best_intercept_is_the_finite_end_of_a_half_line_and_zero_without_loss():
    zeros, ones = np.zeros(2), np.ones(2)
    assert intercept_of([3.0, 1.0], zeros, ones, 0.5) == 2.5
    assert intercept_of([3.0, 1.0], -ones, zeros, 0.5) == 1.5
    assert intercept_of([3.0, 1.0], zeros, zeros, 0.5) == 0.0
