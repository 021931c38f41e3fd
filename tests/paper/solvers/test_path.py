"""Problems that differ in mu alone, solved one from the other."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.problems.machines import standard_units
from kernelkin.paper.solvers import Joint, solve
from kernelkin.paper.solvers.driver import Path, suitable_scale
from tasks import LOSSES, make_problem, random_problem, watch

T = 4


def follow(mus, loss="hinge", C=1.0):
    """The solutions along these mu, and the problem of each alone."""
    data = random_problem(0, loss, T)
    problems = [make_problem(*data, loss, RelationPenalty(T), C, mu) for mu in mus]
    path = Path(problems[0], Joint())
    return [path.solve(mu) for mu in mus], problems


@pytest.mark.parametrize("loss", LOSSES)
def test_solutions_along_a_line_are_those_of_the_problems_alone(loss):
    solutions, problems = follow(np.logspace(2, -5, 8), loss)
    for solution, problem in zip(solutions, problems, strict=True):
        alone, _ = watch(problem, Joint(), tol=1e-6)
        assert solution.relative_gap <= 1e-3
        assert solution.bound <= alone.primal
        assert alone.bound <= solution.primal <= alone.primal * (1 + 1.01e-3)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_where_functions_no_longer_change_one_evaluation_is_enough(loss):
    solutions, _ = follow(np.logspace(-6, -12, 7), loss)
    assert [len(solution.history["iteration"]) for solution in solutions[1:]] == [1] * 6


def test_a_suitable_scale_is_where_the_objective_is_least_if_functions_do_not_change():
    data = random_problem(0, "hinge", 3)
    problem = make_problem(*data, "hinge", RelationPenalty(3), 1e4, 1e-3)
    evaluation = problem.evaluate(np.full((4, 3), 30.0), tol=1e-12)
    scale = suitable_scale(1e-3, evaluation)
    best = minimize_scalar(lambda s: problem.evaluate(np.exp(s) * evaluation.B, tol=1e-12).primal, (-1.0, 1.0))
    assert abs(np.log(scale)) > 0.3
    np.testing.assert_allclose(np.log(scale), best.x, atol=1e-4)


def test_a_start_is_used_where_no_solution_is_near():
    problem = make_problem(*random_problem(0, "squared", T), "squared", RelationPenalty(T), 1.0, 1.0)
    best = solve(problem, tol=1e-6)
    path = Path(problem)
    assert len(path.solve(1.0, best.B).history["iteration"]) == 1
    # A decade away the last solution is nearer than the start, three decades away it is not.
    np.testing.assert_array_less(1.0, path.solve(0.1, 1e6 * best.B).B.sum() / best.B.sum())
    first = path.solve(1e-7, 3.0 * best.B).history
    alone = solve(dataclasses.replace(problem, mu=1e-7), start=3.0 * best.B).history
    np.testing.assert_array_equal(first["primal"], alone["primal"])


def test_solutions_are_in_the_units_of_the_user():
    problem = make_problem(*random_problem(0, "squared", T), "squared", RelationPenalty(T), 3.0, 0.2)
    standard, units = problem.in_standard_units()
    path = Path(standard, units=units, tol=1e-6)
    for mu in (0.2, 0.05):
        there, alone = (
            path.solve(standard_units(problem.machines, problem.learner, mu)[2]),
            solve(dataclasses.replace(problem, mu=mu), tol=1e-6),
        )
        np.testing.assert_allclose(there.primal, alone.primal, rtol=1e-6)
        np.testing.assert_allclose(there.B, alone.B, atol=1e-2 * alone.B.max())
