"""Properties of every learner, whatever its loss."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from learners.problems import all_learners, box, conic_value, dual_value, primal_value, random_machine

from kernelkin.paper.learners import SVM, SVR, Machine, Ridge

learners = pytest.mark.parametrize("learner", all_learners(), ids=lambda learner: learner.name)
# Learners and numbers of intercepts: each of both, and not every pair (both support vector machines are one solver).
groupings = pytest.mark.parametrize(
    ("learner", "n_groups"), [(SVM(), 0), (SVM(), 3), (SVR(), 1), (Ridge(), 1), (Ridge(), 3)]
)


def test_importing_the_learners_does_not_import_numba():
    code = "import sys, kernelkin.paper.learners; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "kernelkin.paper.learners" in imported and "numba" not in imported


@groupings
def test_solutions_are_feasible_and_their_values_bound_the_optimum(learner, n_groups):
    # Primal and dual are those of the returned point.
    m = 2
    gram, machine = random_machine(learner, seed=1, m=m, n_groups=n_groups)
    solution = learner.solve(gram, machine)
    assert solution.a.shape == machine.y.shape
    assert solution.intercept.shape == (n_groups, m)
    np.testing.assert_allclose(solution.dual, dual_value(learner, gram, machine, solution.a), rtol=1e-12)
    primal = primal_value(learner, gram, machine, solution.a, solution.intercept)
    np.testing.assert_allclose(solution.primal, primal, rtol=1e-12)

    # Solution is feasible to rounding.
    tol = 0.01
    gram, machine = random_machine(learner, seed=2, m=2, n_groups=n_groups)
    a = learner.solve(gram, machine, tol=tol).a
    lo, hi = box(learner, machine)
    assert np.all(a >= lo) and np.all(a <= hi)
    for group in range(n_groups):
        part = a[machine.groups == group]
        assert np.all(np.abs(part.sum(axis=0)) <= 2e-15 * np.abs(part).sum(axis=0))

    # Primal and dual bound the true optimum.
    gram, machine = random_machine(learner, seed=3, m=2, n_groups=n_groups)
    optimum = conic_value(learner, gram, machine)
    slack = 1e-8 * abs(optimum)
    for tol in (1e-1, 1e-3, 1e-6):
        solution = learner.solve(gram, machine, tol=tol)
        assert solution.primal >= optimum - slack
        assert solution.dual <= optimum + slack
        assert -1e-13 * optimum <= solution.gap <= tol * solution.primal

    # Gap reaches the tolerance.
    tol = 1e-10
    gram, machine = random_machine(learner, seed=4, n=60, n_groups=n_groups, cost=10.0)
    solution = learner.solve(gram, machine, tol=tol)
    assert -1e-13 * solution.primal <= solution.gap <= tol * solution.primal

    # Zero tolerance stops at rounding.
    n = 220
    gram, machine = random_machine(learner, seed=4, n=n, n_groups=n_groups)
    solution = learner.solve(gram, machine, tol=0.0)
    assert abs(solution.gap) <= 2e-14 * solution.primal


@groupings
def test_a_machine_large_enough_for_shrinking(learner, n_groups, cost=100.0):
    """With a few hundred rows the solver works on a copy of the active ones; the solution is that of all rows."""
    gram, machine = random_machine(learner, seed=14, n=300, m=2, n_groups=n_groups, cost=cost)
    machine.C[::5, 0] = 0.0
    solution = learner.solve(gram, machine, tol=1e-7)
    a, lo, hi = solution.a, *box(learner, machine)
    assert np.all(a >= lo) and np.all(a <= hi)
    for group in range(n_groups):
        assert np.all(np.abs(a[machine.groups == group].sum(axis=0)) <= 2e-15 * np.abs(a).sum(axis=0))
    np.testing.assert_allclose(solution.dual, dual_value(learner, gram, machine, a), rtol=1e-10)
    np.testing.assert_allclose(solution.primal, primal_value(learner, gram, machine, a, solution.intercept), rtol=1e-10)
    assert -1e-11 * solution.primal <= solution.gap <= 1e-7 * solution.primal


@pytest.mark.parametrize(("learner", "n_groups"), [(SVM(), 3), (SVR(), 1), (Ridge(), 3)])
def test_no_other_intercept_has_a_smaller_primal(learner, n_groups):
    gram, machine = random_machine(learner, seed=5, n_groups=n_groups)
    solution = learner.solve(gram, machine, tol=1e-1)
    for group in range(n_groups):
        for shift in (-1e-1, -1e-4, 1e-4, 1e-1):
            moved = solution.intercept.copy()
            moved[group] += shift
            assert primal_value(learner, gram, machine, solution.a, moved) >= solution.primal * (1 - 1e-13)


@groupings
def test_starts_do_not_change_the_solution(learner, n_groups):
    # An optimal warm start is returned as it is.
    gram, machine = random_machine(learner, seed=6, m=2, n_groups=n_groups)
    first = learner.solve(gram, machine, tol=5e-12)
    start = first.a.copy()
    second = learner.solve(gram, machine, a0=start, tol=1e-6)
    np.testing.assert_allclose(second.a, first.a, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(start, first.a)

    # A start that is almost feasible is made feasible.
    gram, machine = random_machine(learner, seed=6, n_groups=n_groups)
    a = learner.solve(gram, machine, tol=5e-12).a
    start = a * (1 + 1e-13 * np.random.default_rng(6).random(a.shape))
    near = learner.solve(gram, machine, a0=start, tol=2e-3).a
    np.testing.assert_allclose(near, a, atol=1e-9)
    for group in range(n_groups):
        part = near[machine.groups == group]
        assert abs(part.sum()) <= 2e-15 * np.abs(part).sum()

    # Any start reaches the same value.
    gram, machine = random_machine(learner, seed=7, m=2, n_groups=n_groups)
    expected = learner.solve(gram, machine, tol=1e-9).dual
    rng = np.random.default_rng(7)
    for start in (10 * rng.normal(size=machine.y.shape), np.abs(machine.y), -5 * machine.y, 1e-9 * machine.y):
        solution = learner.solve(gram, machine, a0=start, tol=1e-9)
        assert solution.gap <= 1e-9 * solution.primal
        np.testing.assert_allclose(solution.dual, expected, rtol=2e-9)
        lo, hi = box(learner, machine)
        assert np.all(solution.a >= lo) and np.all(solution.a <= hi)


@groupings
def test_neither_the_order_of_rows_nor_rows_of_zero_cost_matter(learner, n_groups):
    # Rows of zero cost have no influence.
    gram, machine = random_machine(learner, seed=8, m=2, n_groups=n_groups)
    keep = np.arange(len(gram)) % 4 > 0
    silent = dataclasses.replace(machine, C=np.where(keep[:, None], machine.C, 0.0))
    part = Machine(machine.y[keep], machine.C[keep], machine.groups[keep], n_groups)
    whole = learner.solve(gram, silent, a0=np.ones_like(machine.y), tol=1e-9)
    alone = learner.solve(np.ascontiguousarray(gram[np.ix_(keep, keep)]), part, tol=1e-9)
    assert np.all(whole.a[~keep] == 0)
    np.testing.assert_allclose(whole.dual, alone.dual, rtol=2e-9)
    np.testing.assert_allclose(whole.a[keep], alone.a, atol=2e-3)
    np.testing.assert_allclose(whole.intercept, alone.intercept, atol=1e-3)

    # Order of rows does not matter.
    gram, machine = random_machine(learner, seed=11, m=2, n_groups=n_groups)
    order = np.random.default_rng(11).permutation(len(gram))
    mixed = Machine(machine.y[order], machine.C[order], machine.groups[order], n_groups)
    plain = learner.solve(gram, machine, tol=1e-10)
    shuffled = learner.solve(np.ascontiguousarray(gram[np.ix_(order, order)]), mixed, tol=1e-10)
    np.testing.assert_allclose(shuffled.dual, plain.dual, rtol=1e-9)
    np.testing.assert_allclose(shuffled.a, plain.a[order], atol=1e-3)
    np.testing.assert_allclose(shuffled.intercept, plain.intercept, atol=1e-3)


@learners
def test_zero_costs_empty_groups_and_inputs_that_are_read_only(learner):
    # Zero costs may differ between outputs.
    gram, machine = random_machine(learner, seed=9, m=3)
    C = machine.C.copy()
    C[:10, 0] = C[5:20, 1] = 0.0
    together = learner.solve(gram, dataclasses.replace(machine, C=C), tol=1e-9)
    single = [
        learner.solve(gram, dataclasses.replace(machine, y=machine.y[:, [k]], C=C[:, [k]]), tol=1e-9) for k in range(3)
    ]
    np.testing.assert_allclose(together.a, np.hstack([s.a for s in single]), atol=1e-12)
    np.testing.assert_allclose(together.lin, sum(s.lin for s in single), rtol=1e-12)
    np.testing.assert_allclose(together.quad, sum(s.quad for s in single), rtol=1e-12)
    np.testing.assert_allclose(together.primal, sum(s.primal for s in single), rtol=1e-12)

    # All costs zero.
    gram, machine = random_machine(learner, seed=10, n_groups=3)
    solution = learner.solve(gram, dataclasses.replace(machine, C=np.zeros_like(machine.C)))
    assert np.all(solution.a == 0)
    assert solution.primal == solution.dual == 0
    assert np.all(np.isfinite(solution.intercept))

    # An empty group has intercept zero.
    gram, machine = random_machine(learner, seed=12, n_groups=2)
    groups = np.where(machine.groups == 1, 2, 0).astype(np.intp)
    wider = learner.solve(gram, dataclasses.replace(machine, groups=groups, n_groups=3), tol=1e-6)
    plain = learner.solve(gram, machine, tol=1e-6)
    np.testing.assert_allclose(wider.intercept, np.insert(plain.intercept, 1, 0.0, axis=0), atol=1e-12)
    np.testing.assert_allclose(wider.dual, plain.dual, rtol=1e-12)

    # Inputs are not modified and may be read only.
    gram, machine = random_machine(learner, seed=13, n_groups=2)
    copies = [array.copy() for array in (gram, machine.y, machine.C, machine.groups)]
    for array in (gram, machine.y, machine.C, machine.groups):
        array.flags.writeable = False
    learner.solve(gram, machine, a0=machine.y)
    for before, after in zip(copies, (gram, machine.y, machine.C, machine.groups), strict=True):
        np.testing.assert_array_equal(before, after)
