"""Machines plus penalty: the gradient is the slope of the value, and bounds hold however badly machines are solved."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from learners.problems import dual_value, primal_value

from kernelkin.engines.threads import serially
from kernelkin.paper.grams.stack import BATCH_BYTES, GramStack, SharedGrams, TaskGrams
from kernelkin.paper.learners import LEARNERS, DualSolution
from kernelkin.paper.penalties import (
    PENALTIES,
    FixedWeights,
    LpPenalty,
    RelationPenalty,
    SharedLpPenalty,
    SimplexPenalty,
)
from kernelkin.paper.problems import MachineList, Problem
from kernelkin.paper.problems.machines import SolvedMachines
from kernelkin.paper.solvers.joint import variables
from tasks import LOSSES, in_turn, make_machine, make_problem, random_prior, random_problem

T, K = 3, 4
PENALTY_CASES = {
    "relation": RelationPenalty(T),
    "relation, prior": RelationPenalty(T, random_prior(0, T), 0.1, 1.5),
    "relation, no shrinkage": RelationPenalty(T, shrinkage=0.0),
    "relation, min_rank": RelationPenalty(T, shrinkage=0.0, min_rank=2.0),
    "lp": LpPenalty(1.5),
    "shared": SharedLpPenalty(),
}


def test_every_learner_and_penalty_is_tested():
    assert {type(learner) for learner in LOSSES.values()} == set(LEARNERS.values())
    assert {type(penalty) for penalty in PENALTY_CASES.values()} == set(PENALTIES.values()) - {
        FixedWeights,
        SimplexPenalty,
    }


def small_problem(loss, penalty=PENALTY_CASES["relation"], seed=0, C=2.0, mu=0.7):
    return make_problem(*random_problem(seed, loss, T, K, n=15), loss, penalty, C, mu)


def random_weights(rng, penalty):
    B = rng.uniform(0.1, 2.0, size=(K, T))
    return np.repeat(B.max(axis=1, keepdims=True), T, axis=1) if penalty.shared else B


@pytest.mark.parametrize(("name", "loss"), in_turn(PENALTY_CASES, LOSSES))
def test_gradient_is_the_slope_of_the_value(loss, name):
    penalty = PENALTY_CASES[name]
    problem, B = small_problem(loss, penalty), random_weights(np.random.default_rng(1), penalty)

    (x, make, pull), step, slopes = variables(penalty, B, False), 1e-4, []

    def value(x):
        return problem.evaluate(make(x), tol=1e-13).loss + problem.mu / 2 * penalty.value(make(x))

    for move in step * np.eye(len(x)):
        # Four points: the error is of fourth order in the step, which rounding allows to be this large.
        near, far = value(x + move) - value(x - move), value(x + 2 * move) - value(x - 2 * move)
        slopes.append((8 * near - far) / (12 * step))
    gradient = pull(x, problem.mu * penalty.value_and_gradient(B)[1] - problem.evaluate(B, tol=1e-13).Q)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


@dataclasses.dataclass(frozen=True)
class Rough:
    """A learner that stops short: a share of the solution's dual variables, which is feasible, and honest values."""

    exact: Any
    share: float

    def solve(self, gram, machine, a0=None, tol=1e-3):
        solution = self.exact.solve(gram, machine, a0, tol)
        a, quad = self.share * solution.a, self.share**2 * solution.quad
        primal = primal_value(self.exact, gram, machine, a, solution.intercept)
        return DualSolution(a, solution.intercept, dual_value(self.exact, gram, machine, a) + quad, quad, primal)


def roughly(problem, share):
    return dataclasses.replace(problem, learner=Rough(problem.learner, share))


@pytest.mark.parametrize(("name", "loss"), in_turn(PENALTY_CASES, LOSSES))
def test_every_bound_is_below_every_primal(loss, name):
    # Each evaluation, however rough, bounds one and the same optimum from both sides.
    penalty, rng = PENALTY_CASES[name], np.random.default_rng(2)
    evaluations = [
        roughly(small_problem(loss, penalty), share).evaluate(scale * random_weights(rng, penalty))
        for scale in (0.03, 0.3, 1.0, 10.0)
        for share in (0.0, 0.5, 0.99, 1.0)
    ]
    primals, bounds = [e.primal for e in evaluations], [e.bound for e in evaluations]
    assert max(bounds) <= min(primals)


@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_hold_for_float32_and_for_random_duals(loss):
    # Primal and bound are those of a float64 stack that holds the same numbers: rounding is added to neither.
    penalty, (stacks, ys) = PENALTY_CASES["relation"], random_problem(0, loss, T, K, n=15)
    single = [stack.astype(np.float32) for stack in stacks]
    B = random_weights(np.random.default_rng(1), penalty)
    one, two = (
        make_problem(grams, ys, loss, penalty, C=2.0, mu=0.7).evaluate(B, tol=1e-12)
        for grams in (single, [stack.astype(np.float64) for stack in single])
    )
    np.testing.assert_allclose([one.primal, one.bound], [two.primal, two.bound], rtol=1e-12)

    # The certificate holds for any feasible a, not only for those a machine would return.
    rng = np.random.default_rng(3)
    penalty = PENALTY_CASES["relation, no shrinkage"]
    problem = small_problem(loss, penalty)
    lowest = min(problem.evaluate(random_weights(rng, penalty), tol=1e-6).primal for _ in range(10))
    for _ in range(30):
        duals = [random_feasible(rng, loss, machine) for machine in problem.machines]
        Q = problem.grams.quadratic_forms(duals, range(T))
        lin = sum(linear_terms(loss, machine, a) for machine, a in zip(problem.machines, duals, strict=True))
        assert lin + penalty.bound(Q, random_weights(rng, penalty), problem.mu) <= lowest


def random_feasible(rng, loss, machine):
    """Disjoint pairs of rows move by opposite amounts: the sum stays zero, and every row in its box."""
    a = np.zeros_like(machine.y)
    if loss == "hinge":
        up, down = rng.permutation(np.flatnonzero(machine.y[:, 0] > 0)), np.flatnonzero(machine.y[:, 0] < 0)
        up, down = up[: len(down)], down[: len(up)]
    else:
        up, down = np.split(rng.permutation(len(a))[: len(a) // 2 * 2], 2)
    step = rng.uniform(0, 1, size=len(up)) * machine.C[up, 0]
    a[up, 0], a[down, 0] = step, -step
    return a


def linear_terms(loss, machine, a):
    value = np.sum(machine.y * a)
    if loss == "squared":
        value -= np.sum(a**2 / (2 * machine.C))
    if loss == "epsilon_insensitive":
        value -= LOSSES[loss].epsilon * np.abs(a).sum()
    return value


@pytest.mark.parametrize("loss", LOSSES)
def test_values_are_those_of_the_machines_however_rough(loss):
    # Values are those of the machines.
    problem = small_problem(loss)
    B = random_weights(np.random.default_rng(4), problem.penalty)
    evaluation = problem.evaluate(B, tol=1e-10)
    stacks, _ = random_problem(0, loss, T, K, n=15)
    Q = np.array([[a @ G @ a / 2 for G in stacks[t]] for t, a in enumerate(d.a[:, 0] for d in evaluation.duals)]).T
    np.testing.assert_allclose(evaluation.Q, Q, rtol=1e-12)
    np.testing.assert_allclose(evaluation.loss, sum(dual.dual for dual in evaluation.duals), rtol=1e-10)
    np.testing.assert_allclose(evaluation.upper, evaluation.loss, rtol=1e-9)
    np.testing.assert_allclose(evaluation.primal, evaluation.upper + 0.35 * problem.penalty.value(B), rtol=1e-14)
    assert evaluation.bound <= evaluation.primal

    # Rough machines leave a gap.
    B = np.ones((K, T))
    exact, rough = (roughly(small_problem(loss), share).evaluate(B, tol=1e-10) for share in (1.0, 0.7))
    assert rough.loss < 0.99 * exact.loss
    assert rough.upper > 1.01 * exact.upper
    assert rough.primal > exact.primal


def test_warm_start_and_batches_change_nothing(monkeypatch):
    problem = small_problem("hinge")
    B = random_weights(np.random.default_rng(5), problem.penalty)
    cold = problem.evaluate(B, tol=1e-8)
    warm = problem.evaluate(B, warm=cold.duals, tol=1e-8)
    np.testing.assert_allclose(warm.primal, cold.primal, rtol=1e-9)
    monkeypatch.setattr(problem.grams, "gram_bytes", [BATCH_BYTES] * T)
    one_by_one = problem.evaluate(B, tol=1e-8)
    assert one_by_one.primal == cold.primal
    np.testing.assert_array_equal(one_by_one.Q, cold.Q)


def test_several_outputs_of_a_machine_add_up():
    """One-vs-rest outputs share the weights of their task: their values and quadratic forms are summed."""
    (stack, *_), (y, *_) = random_problem(6, "hinge", 1, K, 18)
    other = np.roll(y, 3)
    penalty = RelationPenalty(1)
    B = np.random.default_rng(6).uniform(0.5, 1, size=(K, 1))

    def evaluate(targets):
        grams = TaskGrams([GramStack(stack)])
        machines = MachineList([make_machine(targets, 1.0)])
        return Problem(grams, machines, LOSSES["hinge"], penalty, 1.0).evaluate(B, tol=1e-9)

    both = evaluate(np.column_stack([y, other]))
    apart = evaluate(y), evaluate(other)
    np.testing.assert_allclose(both.Q, apart[0].Q + apart[1].Q, rtol=1e-4)
    np.testing.assert_allclose(both.loss, apart[0].loss + apart[1].loss, rtol=1e-8)


def test_both_bounds_allow_for_the_rounding_of_the_sums():
    """Where <B, Q> and the machines' own quadratic forms differ, the optimum may lie as far outside of either value."""
    problem = small_problem("squared")
    B = random_weights(np.random.default_rng(8), problem.penalty)
    exact = problem.machines.solve(problem.grams, problem.learner, B, None, 1e-9, serially, False)
    values = exact.values.copy()
    values[1, 0] += 1e-3
    rounded = SolvedMachines(B, exact.duals, values, exact.Q)
    np.testing.assert_allclose(rounded.rounding, 1e-3, rtol=1e-6)
    near, far = problem.judge(B, exact), problem.judge(B, rounded)
    np.testing.assert_allclose([far.primal - near.primal, near.bound - far.bound], 1e-3, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_curvature_does_not_depend_on_batches_whose_grams_share_memory(loss, monkeypatch):
    stacks, ys = random_problem(3, loss, T, K)
    problem = make_problem(stacks, ys, loss, PENALTY_CASES["relation"], 2.0, 0.7)
    shared = SharedGrams(GramStack(stacks[0]), [np.arange(len(stacks[0][0]))] * T)
    problem = dataclasses.replace(problem, grams=shared)
    B = random_weights(np.random.default_rng(3), problem.penalty)
    at_once = problem.evaluate(B, tol=1e-12, curved=True).curvature
    monkeypatch.setattr(shared, "gram_bytes", [BATCH_BYTES] + [1] * (T - 1))
    assert at_once.shape == (T, K, K)
    np.testing.assert_allclose(problem.evaluate(B, tol=1e-12, curved=True).curvature, at_once, rtol=1e-6)


@pytest.mark.parametrize("enough", [True, False])
def test_curvature_is_left_out_where_all_else_is_enough(enough):
    problem, seen = small_problem("hinge"), []

    def judge(evaluation):
        seen.append(evaluation)
        return enough

    B = random_weights(np.random.default_rng(1), problem.penalty)
    evaluation = problem.evaluate(B, curved=True, enough=judge)
    assert (evaluation.curvature is None) == enough
    assert (seen[0].primal, seen[0].bound) == (evaluation.primal, evaluation.bound)
