"""What every problem promises: its two bounds hold at any point, against the optimum of a cone solver."""

from types import SimpleNamespace

import numpy as np
import pytest

from conic import conic_fixed, conic_lp, conic_mixed, conic_optimum, conic_simplex, conic_spectral
from kernelkin.paper.grams.stack import GramStack, TaskGrams
from kernelkin.paper.penalties import (
    FixedWeights,
    LpPenalty,
    MixedNorm,
    RelationPenalty,
    SharedLpPenalty,
    SimplexPenalty,
    SpectralNorm,
)
from kernelkin.paper.problems import PROBLEMS, MachineList, Problem
from kernelkin.paper.problems.problem import FeatureForm, GramForm, MixedNormProblem, SpectralProblem, WorstTaskProblem
from kernelkin.paper.solvers import find_solver, solve
from tasks import LOSSES, make_machine, random_problem

T, K, C, MU = 3, 3, 2.0, 0.5
LOSS = "squared"
# Of the cone solver's value.
ERROR = 2e-6
STACKS, YS = random_problem(0, LOSS, T, K, n=12)
MACHINES = MachineList(make_machine(y, C) for y in YS)
GRAMS = TaskGrams([GramStack(stack) for stack in STACKS])
GIVEN = np.random.default_rng(1).uniform(0.1, 1.0, size=(K, T))
PHI = np.random.default_rng(2).normal(size=(3 * 12, 4)) / 2
ROWS = [np.arange(12 * t, 12 * (t + 1)) for t in range(T)]


def on_simplex(rng):
    return np.repeat(rng.dirichlet(np.ones(K))[:, np.newaxis], T, axis=1)


def mixed_weights(p):
    norm = MixedNorm(p)
    return lambda rng: on_simplex(rng) / norm.shares(rng.exponential(size=(K, T)))


def covariance(size):
    def draw(rng):
        F = rng.normal(size=(size, size))
        return F @ F.T / np.trace(F @ F.T)

    return draw


def penalised(penalty):
    return Problem(GRAMS, MACHINES, LOSSES[LOSS], penalty, MU)


def spectral(form, *strengths):
    return SpectralProblem(form, form.machines, LOSSES[LOSS], SpectralNorm(*strengths))


GRAM_FORM = GramForm(PHI @ PHI.T, ROWS, MACHINES)
FEATURE_FORM = FeatureForm(SimpleNamespace(Phi=PHI), ROWS, MACHINES)
# The problem, a random point of it, and its optimum by a cone solver.
CASES = {
    "relation": (
        penalised(RelationPenalty(T)),
        lambda rng: rng.exponential(size=(K, T)),
        lambda: conic_optimum(STACKS, YS, C, MU, LOSS)[0],
    ),
    "lp": (
        penalised(LpPenalty(1.5)),
        lambda rng: rng.exponential(size=(K, T)),
        lambda: conic_lp(STACKS, YS, C, MU, LOSS, 1.5),
    ),
    "shared": (
        penalised(SharedLpPenalty(3.0)),
        lambda rng: np.repeat(rng.exponential(size=(K, 1)), T, axis=1),
        lambda: conic_lp(STACKS, YS, C, MU, LOSS, 3.0, shared=True),
    ),
    "fixed": (penalised(FixedWeights(GIVEN)), lambda rng: GIVEN, lambda: conic_fixed(STACKS, YS, C, LOSS, GIVEN)),
    "simplex": (penalised(SimplexPenalty()), on_simplex, lambda: conic_simplex(STACKS, YS, C, LOSS)),
    "mixed norm, p=2": (
        MixedNormProblem(GRAMS, MACHINES, LOSSES[LOSS], MixedNorm(2.0)),
        mixed_weights(2.0),
        lambda: conic_mixed(STACKS, YS, C, LOSS, 2.0),
    ),
    "mixed norm, p=4": (
        MixedNormProblem(GRAMS, MACHINES, LOSSES[LOSS], MixedNorm(4.0)),
        mixed_weights(4.0),
        lambda: conic_mixed(STACKS, YS, C, LOSS, 4.0),
    ),
    "worst task": (
        WorstTaskProblem(GRAMS, MACHINES, LOSSES[LOSS]),
        on_simplex,
        lambda: conic_simplex(STACKS, YS, C, LOSS, worst=True),
    ),
    "features": (
        spectral(FEATURE_FORM, 0.0, 1.0),
        covariance(4),
        lambda: conic_spectral(PHI, ROWS, YS, C, LOSS, 0.0, 1.0),
    ),
    "tasks": (spectral(GRAM_FORM, 1.0, 0.5), covariance(T), lambda: conic_spectral(PHI, ROWS, YS, C, LOSS, 1.0, 0.5)),
}


def test_every_registered_problem_is_tested():
    assert {type(problem) for problem, *_ in CASES.values()} == set(PROBLEMS.values())


@pytest.mark.parametrize("name", CASES)
def test_the_optimum_lies_between_the_bounds_of_every_point(name):
    problem, draw, reference = CASES[name]
    optimum, rng = reference(), np.random.default_rng(3)
    for _ in range(30):
        evaluation = problem.evaluate(draw(rng))
        assert evaluation.bound <= optimum * (1 + ERROR)
        assert optimum * (1 - ERROR) <= evaluation.primal < np.inf


# The solver of the worst task is stochastic, and the simplex has none: the mixed norm with p=2 is the same problem.
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("worst task", "simplex")])
def test_the_bounds_meet_at_the_optimum(name):
    problem, _, reference = CASES[name]
    solution = solve(problem, find_solver(None, problem), tol=1e-6, max_iter=500)
    np.testing.assert_allclose([solution.primal, solution.bound], reference(), rtol=5e-6)


@pytest.mark.parametrize("name", CASES)
def test_standard_units_and_the_relation(name):
    # Standard units change nothing but the units.
    problem, draw, _ = CASES[name]
    standard, units = problem.in_standard_units()
    B = draw(np.random.default_rng(4))
    there = standard.evaluate(units.weights(B), tol=1e-12)
    one, two = problem.evaluate(B, tol=1e-12), units.restore(there)
    np.testing.assert_array_equal(two.B, one.B)
    np.testing.assert_allclose(two.Q, one.Q, rtol=1e-7, atol=1e-9 * one.Q.max())
    for field in ("primal", "bound", "loss", "upper"):
        np.testing.assert_allclose(getattr(two, field), getattr(one, field), rtol=1e-9, err_msg=field)
    for mine, other in zip(one.duals, two.duals, strict=True):
        np.testing.assert_allclose(other.a, mine.a, atol=1e-9 * np.abs(mine.a).max())
        np.testing.assert_allclose(other.intercept, mine.intercept, atol=1e-9)


@pytest.mark.parametrize("name", ["fixed", "simplex", "worst task"])
def test_weights_that_are_not_allowed_have_no_finite_primal(name):
    problem, draw, _ = CASES[name]
    assert problem.evaluate(1.5 * draw(np.random.default_rng(6))).primal == np.inf


def test_a_trace_above_one_is_paid_for():
    problem, _, reference = CASES["features"]
    optimum, D = reference(), solve(problem, tol=1e-6, max_iter=500).B
    for factor in (1.5, 3.0, 10.0):
        assert problem.evaluate(factor * D).primal >= optimum * (1 - ERROR)


def test_one_task_alone_is_solved_as_among_all():
    problem, _, _ = CASES["worst task"]
    gamma = np.array([0.5, 0.3, 0.2])
    everything = problem.evaluate(np.repeat(gamma[:, np.newaxis], T, axis=1), tol=1e-10)
    for t in range(T):
        q, dual = problem.solve_task(gamma, t, None, 1e-10)
        np.testing.assert_allclose(q, everything.Q[:, t], rtol=1e-9)
        np.testing.assert_allclose(dual.dual, everything.duals[t].dual, rtol=1e-9)


def test_the_bound_of_the_worst_task_holds_for_any_weights_of_tasks():
    problem, draw, reference = CASES["worst task"]
    optimum, rng = reference(), np.random.default_rng(7)
    for _ in range(20):
        assert problem.evaluate(draw(rng), task_weights=rng.dirichlet(np.ones(T))).bound <= optimum * (1 + ERROR)
