"""Problems that differ in mu alone, each solved from the solution of the last."""

import numpy as np
import pytest

from kernelkin.penalties import RelationPenalty
from kernelkin.solvers import Path, solve
from tasks import LOSSES, make_problem, random_problem

T = 4


def follow(mus, loss="hinge", C=1.0):
    """The solutions along these mu, and the problem of each alone."""
    parts = random_problem(0, loss, T)
    problems = [make_problem(*parts, loss, RelationPenalty(T), C, mu) for mu in mus]
    path = Path(problems[0])
    return [path.solve(mu) for mu in mus], problems


@pytest.mark.parametrize("loss", LOSSES)
def test_solutions_along_a_line_are_those_of_the_problems_alone(loss):
    solutions, problems = follow(np.logspace(2, -5, 8), loss)
    for solution, problem in zip(solutions, problems, strict=True):
        alone = solve(problem, tol=1e-6)
        assert solution.relative_gap <= 1e-3
        assert solution.bound <= alone.primal
        assert alone.bound <= solution.primal <= alone.primal * (1 + 1.01e-3)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_where_functions_no_longer_change_nothing_is_solved(loss):
    solutions, problems = follow(np.logspace(-6, -12, 7), loss)
    assert not any(len(solution.history["iteration"]) for solution in solutions[3:])
    for solution, problem in zip(solutions[3:], problems[3:], strict=True):
        # The referee, from scratch: the weights are as good as they are said to be, and the machines are solved.
        judged = problem.evaluate(solution.B, tol=1e-9)
        assert judged.primal <= solution.primal * (1 + 1e-6)
        assert judged.bound >= solution.bound * (1 - 1e-3)
        assert solution.relative_gap <= 1e-3


def test_machines_with_squared_errors_are_always_solved():
    solutions, _ = follow(np.logspace(-6, -12, 7), "squared")
    assert all(len(solution.history["iteration"]) for solution in solutions)


def test_where_all_machines_are_at_their_bounds_one_evaluation_is_enough():
    solutions, _ = follow(np.logspace(10, 4, 7))
    assert [len(solution.history["iteration"]) for solution in solutions[1:]] == [1] * 6
    # The weights are what the bound a asks for at each mu, not what a rounding error left of the first.
    sizes = np.log10([solution.B.sum() for solution in solutions[1:]])
    np.testing.assert_allclose(np.diff(sizes), 1.0, atol=1e-3)
