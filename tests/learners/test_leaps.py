"""Leaps: the free rows stand best among themselves after one, and a machine on which steps creep is solved."""

import numpy as np
import pytest

from kernelkin.learners import SVM, SVR, Machine
from kernelkin.learners.leaps import leap
from learners.problems import box, dual_value, random_machine
from learners.test_steps import start

LEARNERS = [SVM(), SVR(0.0), SVR(0.3)]


def middle(learner, machine, seed=1):
    """A point inside the box, apart from some rows at their bounds; sums are whatever they are."""
    rng = np.random.default_rng(seed)
    lo, hi = (side[:, 0] for side in box(learner, machine))
    return np.where(rng.random(len(lo)) < 0.3, np.where(rng.random(len(lo)) < 0.5, lo, hi), rng.uniform(lo, hi))


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("n_groups", [0, 1, 3])
def test_free_rows_stand_best_among_themselves_after_a_leap(learner, n_groups):
    gram, machine = random_machine(learner, seed=1, n_groups=n_groups)
    order = np.argsort(machine.groups, kind="stable")
    gram = np.ascontiguousarray(gram[np.ix_(order, order)])
    machine = Machine(machine.y[order], machine.C[order], machine.groups[order], n_groups)
    starts = np.searchsorted(machine.groups, np.arange(n_groups + 1)) if n_groups else np.zeros(1, dtype=int)
    state = start(learner, gram, machine, middle(learner, machine))._replace(starts=starts)
    sums = np.bincount(machine.groups, weights=state.a)
    before = dual_value(learner, gram, machine, state.a[:, None])
    assert leap(state, np.inf) > 0
    after = dual_value(learner, gram, machine, state.a[:, None])
    assert after > before
    lo, hi = (side[:, 0] for side in box(learner, machine))
    assert np.all(state.a >= lo) and np.all(state.a <= hi)
    np.testing.assert_allclose(state.slope, machine.y[:, 0] - gram @ state.a, atol=1e-11)
    if n_groups:
        np.testing.assert_allclose(np.bincount(machine.groups, weights=state.a), sums, atol=1e-12)
    free = (state.a > lo) & (state.a < hi) & ((state.a != 0) | (state.epsilon == 0))
    slope = (state.slope - state.epsilon * np.sign(state.a))[free]
    for group in np.unique(machine.groups[free]) if n_groups else [None]:
        mine = slope[machine.groups[free] == group] if n_groups else np.append(slope, 0.0)
        np.testing.assert_allclose(mine, mine[-1], atol=1e-8)


def test_a_leap_keeps_to_its_budget():
    gram, machine = random_machine(SVM(), seed=1)
    state = start(SVM(), gram, machine, middle(SVM(), machine))
    kept = state.a.copy()
    assert leap(state, 10.0) == 0
    np.testing.assert_array_equal(state.a, kept)


def creeping(learner, n_groups, n=24):
    """Three features of size 1e4 and no function in them: dual variables must go to 1e3 by steps of 1e-8."""
    rng = np.random.default_rng(0)
    X = 1e4 * rng.normal(size=(n, 3))
    y = rng.normal(size=(n, 1))
    groups = np.repeat(np.arange(max(n_groups, 1)), n // max(n_groups, 1))
    return X @ X.T, Machine(np.sign(y) if isinstance(learner, SVM) else y, np.full((n, 1), 1e3), groups, n_groups)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("n_groups", [0, 1, 2])
def test_a_machine_on_which_steps_creep_is_solved(learner, n_groups):
    """Steps alone leave a relative gap above one half after ten million. Rounding alone makes one of 3e-4."""
    gram, machine = creeping(learner, n_groups)
    solution = learner.solve(gram, machine, tol=1e-4)
    assert 0 <= solution.gap <= 1e-3 * solution.primal
    # 1/2 a'Ga is the rest of terms of 1e14.
    np.testing.assert_allclose(solution.dual, dual_value(learner, gram, machine, solution.a), rtol=1e-4)
