"""The paper's Algorithm 1: it descends, and the duality gap shows how near to the optimum it stops."""

import numpy as np
import pytest

from kernelkin.paper.penalties import LpPenalty, RelationPenalty
from kernelkin.paper.solvers import Alternating, Joint, Status
from kernelkin.paper.solvers.alternating import WEIGHT_STEPS
from tasks import LOSSES, in_turn, make_problem, random_prior, random_problem, watch

T = 4
PENALTY_CASES = {
    "plain": RelationPenalty(T),
    "prior, min_rank": RelationPenalty(T, random_prior(0, T), 0.1, 1.5),
    "no shrinkage": RelationPenalty(T, shrinkage=0.0),
    "no shrinkage, prior": RelationPenalty(T, random_prior(0, T), 0.0),
    "no shrinkage, min_rank": RelationPenalty(T, shrinkage=0.0, min_rank=2.0),
}


def small_problem(loss, name, seed=0):
    return make_problem(*random_problem(seed, loss, T), loss, PENALTY_CASES[name], C=2.0, mu=0.5)


@pytest.mark.parametrize(
    ("name", "loss", "step"),
    [(*pair, ("newton", "fista")[i % 2]) for i, pair in enumerate(in_turn(PENALTY_CASES, LOSSES))],
)
def test_the_objective_never_rises(loss, name, step):
    tol = 1e-3
    problem = small_problem(loss, name)
    solution, seen = watch(problem, Alternating(step), tol, max_iter=15)
    values = solution.history["objective"]
    # Machines are solved to a hundredth of tol; ridge regression exactly.
    slack = 1e-12 if loss == "squared" else 0.01 * tol
    assert len(values) > 10
    assert (np.diff(values) <= slack * values[:-1]).all()
    assert values[-1] < 0.99 * values[0]
    # With shrinkage there is no ridge, and the last value is F at the weights found.
    if problem.penalty.shrinkage > 0:
        np.testing.assert_allclose(values[-1], problem.evaluate(seen[-1].B, tol=1e-8).primal, rtol=tol)


@pytest.mark.parametrize("step", ["newton", "fista"])
def test_ends_at_the_optimum_of_a_smooth_problem(step):
    problem = small_problem("squared", "plain")
    best, _ = watch(problem, Joint(), 1e-7)
    solution, _ = watch(problem, Alternating(step, change=1e-6), 1e-5, max_iter=200)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.primal, best.primal, rtol=1e-5)
    np.testing.assert_allclose(solution.B, best.B, atol=1e-2 * best.B.max())


def test_stops_above_the_tolerance_without_shrinkage_and_reports_it():
    solution, _ = watch(small_problem("squared", "no shrinkage"), Alternating(), 1e-5, max_iter=100)
    assert solution.status is Status.STATIONARY
    assert "joint" in solution.status.value
    assert solution.relative_gap > 1e-5


def test_the_optimum_is_a_fixed_point_of_the_closed_form():
    """Eq. 8 is the optimum's own equation, so it stays there, though it need not get there."""
    problem = small_problem("squared", "plain")
    best, _ = watch(problem, Joint(), 1e-9)
    solution, seen = watch(problem, Alternating("closed_form", inner_iter=1), 1e-4, B=best.B, max_iter=1)
    np.testing.assert_allclose(seen[0].B, best.B, rtol=1e-12)
    assert solution.status is Status.CONVERGED
    penalty, mu = problem.penalty, problem.mu
    moved = WEIGHT_STEPS["closed_form"](
        best.B,
        problem.evaluate(best.B).Q,
        penalty.inverse_relation(best.B).matrix(),
        penalty.relation(best.B).matrix(),
        mu,
    )
    np.testing.assert_allclose(moved, best.B, atol=1e-3 * best.B.max())


@pytest.mark.parametrize(("name", "loss"), in_turn(PENALTY_CASES, LOSSES))
def test_the_closed_form_never_sets_all_weights_to_zero(loss, name):
    """The projection to B >= 0 must keep a positive weight: no later step could move away from zero."""
    _, seen = watch(small_problem(loss, name), Alternating("closed_form"), max_iter=30)
    assert all(iterate.B.max() > 0 and np.isfinite(iterate.B).all() for iterate in seen)


def test_the_first_relation_is_the_prior():
    """Until B has been moved, Omega is the prior's, as in the paper: the penalty is T |B|_F^2 without one."""
    problem = small_problem("squared", "plain")
    _, seen = watch(problem, Alternating(inner_iter=2), max_iter=1)
    first = seen[0]
    upper = problem.evaluate(first.B).upper
    np.testing.assert_allclose(first.objective, upper + 0.5 * problem.mu * T * (first.B**2).sum(), rtol=1e-12)


def test_other_penalties_are_refused():
    problem = make_problem(*random_problem(0, "squared", T), "squared", LpPenalty())
    with pytest.raises(
        ValueError, match="solver 'alternating' cannot solve a Problem with the lp penalty; use solver='joint'"
    ):
        watch(problem, Alternating())


def test_an_unknown_step_is_refused():
    with pytest.raises(ValueError, match="weight_step must be one of 'newton', 'fista', 'closed_form', not 'gradient'"):
        Alternating("gradient")
