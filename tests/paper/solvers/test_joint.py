"""The joint solver against a cone solver, and against the models it contains."""

import dataclasses

import numpy as np
import pytest

from conic import conic_optimum
from kernelkin.paper.penalties import LpPenalty, RelationPenalty, SharedLpPenalty, effective_rank
from kernelkin.paper.solvers import Certificate, Joint, Status
from tasks import LOSSES, in_turn, make_problem, random_prior, random_problem, watch

C, MU = 2.0, 0.5
# Relative error of the cone solver: where the best relationship has rank one, its value was 1.1e-6 above ours, which
# has a gap of 5e-9.
ERROR = 3e-6


def check_against_cone(loss, seed, T, K, n, prior, shrinkage, min_rank, evenness=0.0):
    stacks, ys = random_problem(seed, loss, T, K, n)
    penalty = RelationPenalty(T, prior, shrinkage, min_rank, evenness)
    solution, _ = watch(make_problem(stacks, ys, loss, penalty, C, MU), Joint(), tol=1e-5)
    optimum, *_ = conic_optimum(stacks, ys, C, MU, loss, prior, shrinkage, min_rank, evenness)
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap <= 1e-5
    np.testing.assert_allclose(solution.primal, optimum, rtol=1e-5)
    assert solution.primal >= optimum * (1 - ERROR)
    assert solution.bound <= optimum * (1 + ERROR)
    assert solution.primal - optimum <= solution.primal - solution.bound + ERROR * optimum


@pytest.mark.parametrize(
    ("loss", "size", "with_prior", "shrinkage", "min_rank"),
    [
        ("hinge", (0, 4, 4, 20), False, 0.1, 1.0),
        ("squared", (0, 4, 4, 20), False, 0.1, 1.0),
        ("hinge", (3, 6, 6, 40), False, 0.0, 1.0),
        ("squared", (0, 4, 4, 20), False, 0.0, 1.0),
        ("hinge", (2, 3, 6, 24), False, 0.0, 2.0),
        ("squared", (1, 6, 3, 15), False, 0.0, 2.0),
        ("hinge", (1, 6, 3, 15), True, 0.1, 1.5),
        ("squared", (4, 2, 2, 30), True, 0.0, 1.0),
        ("hinge", (0, 4, 4, 20), True, 0.0, 1.0),
        ("squared", (0, 4, 4, 20), False, 1.0, 1.0),
    ],
)
def test_optimum_is_that_of_a_cone_solver(loss, size, with_prior, shrinkage, min_rank):
    seed, T, *_ = size
    check_against_cone(loss, *size, random_prior(seed, T) if with_prior else None, shrinkage, min_rank)


@pytest.mark.parametrize(("shrinkage", "min_rank"), [(0.1, 1.0), (0.0, 2.0)])
def test_optimum_is_that_of_a_cone_solver_with_the_epsilon_insensitive_loss(shrinkage, min_rank):
    check_against_cone("epsilon_insensitive", 0, 4, 4, 20, None, shrinkage, min_rank)


@pytest.mark.parametrize(
    ("loss", "with_prior", "shrinkage", "min_rank"),
    [("hinge", False, 0.1, 1.0), ("squared", True, 0.1, 1.5), ("squared", False, 0.0, 1.0)],
)
def test_optimum_is_that_of_a_cone_solver_with_evenness(loss, with_prior, shrinkage, min_rank):
    check_against_cone(loss, 2, 3, 6, 24, random_prior(2, 3) if with_prior else None, shrinkage, min_rank, 0.4)


def test_evenness_tends_to_the_average_kernel():
    """Every task ends with one weight for all its kernels."""
    problem = make_problem(*random_problem(3, "squared"), "squared", RelationPenalty(4, evenness=1 - 1e-6), C, MU)
    solution, _ = watch(problem, Joint(), tol=1e-6)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.B, np.broadcast_to(solution.B.mean(axis=0), solution.B.shape), rtol=1e-3)
    assert np.ptp(solution.B.mean(axis=0)) > 1e-2 * solution.B.max()


PENALTIES_OF_FOUR = {
    "relation": RelationPenalty(4),
    "relation, no shrinkage": RelationPenalty(4, shrinkage=0.0),
    "lp 1": LpPenalty(1.0),
    "lp 1.5": LpPenalty(1.5),
    "lp 6": LpPenalty(6.0),
    "shared 1": SharedLpPenalty(1.0),
    "shared 3": SharedLpPenalty(3.0),
}


@pytest.mark.parametrize(("name", "loss"), in_turn(PENALTIES_OF_FOUR, LOSSES))
def test_closes_the_gap_with_every_penalty(loss, name):
    penalty = PENALTIES_OF_FOUR[name]
    problem = make_problem(*random_problem(1, loss), loss, penalty, C, MU)
    solution, _ = watch(problem, Joint(), tol=1e-5)
    assert solution.status is Status.CONVERGED
    assert solution.relative_gap <= 1e-5


@pytest.mark.parametrize(("loss", "shrinkage", "min_rank"), [("hinge", 1.0, 1.0), ("squared", 0.0, 3.0)])
def test_unrelated_tasks_are_independent_mkl(loss, shrinkage, min_rank):
    """min_rank=T, or shrinkage=1: R(B) = T |B|_F^2, which is IMKL with p=2 and T mu for mu."""
    T = 3
    stacks, ys = random_problem(2, loss, T)
    penalty = RelationPenalty(T, None, shrinkage, min_rank)
    held, _ = watch(make_problem(stacks, ys, loss, penalty, C, MU), Joint(), 1e-7)
    free, _ = watch(make_problem(stacks, ys, loss, LpPenalty(2.0), C, T * MU), Joint(), 1e-7)
    np.testing.assert_allclose(held.primal, free.primal, rtol=2e-7)
    np.testing.assert_allclose(held.B, free.B, atol=2e-3 * free.B.max())
    np.testing.assert_allclose(penalty.relation(held.B).matrix(), np.eye(T) / T, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_task_is_plain_mkl(loss):
    stacks, ys = random_problem(3, loss, 1)
    together, _ = watch(make_problem(stacks, ys, loss, RelationPenalty(1), C, MU), Joint(), 1e-7)
    plain, _ = watch(make_problem(stacks, ys, loss, LpPenalty(2.0), C, MU), Joint(), 1e-7)
    np.testing.assert_allclose(together.primal, plain.primal, rtol=2e-7)
    np.testing.assert_allclose(together.B, plain.B, atol=2e-3 * plain.B.max())


def test_shared_weights_are_those_of_one_task_made_of_all():
    """One weight vector for all tasks: as one machine on block-diagonal Grams, without intercepts."""
    stacks, ys = random_problem(4, "squared", 3)
    shared, _ = watch(make_problem(stacks, ys, "squared", SharedLpPenalty(), C, MU, fit_intercept=False), Joint(), 1e-8)
    K, n = len(stacks[0]), len(ys[0])
    blocks = np.zeros((K, 3 * n, 3 * n))
    for t, stack in enumerate(stacks):
        blocks[:, t * n : (t + 1) * n, t * n : (t + 1) * n] = stack
    joined = make_problem([blocks], [np.concatenate(ys)], "squared", LpPenalty(2.0), C, MU, fit_intercept=False)
    one, _ = watch(joined, Joint(), 1e-8)
    np.testing.assert_allclose(shared.primal, one.primal, rtol=2e-8)
    np.testing.assert_allclose(shared.B, np.repeat(one.B, 3, axis=1), atol=1e-3 * one.B.max())


@pytest.mark.parametrize("loss", LOSSES)
def test_any_scale_of_mu_works(loss):
    for factor in (1e-6, 1e6):
        problem = make_problem(*random_problem(5, loss), loss, RelationPenalty(4), C, factor * MU)
        solution, _ = watch(problem, Joint(), tol=1e-4)
        assert solution.status is Status.CONVERGED


def test_a_gap_that_rounding_keeps_open_is_reported():
    """Costs so large that the box of the dual is out of all proportion: its own rounding ends the progress."""
    problem = make_problem(*random_problem(1, "hinge", 2, 2, 20), "hinge", RelationPenalty(2), 1e8, MU)
    solution, _ = watch(problem, Joint(), tol=1e-13, max_iter=10_000)
    assert solution.status is Status.STALLED
    assert 1e-13 < solution.relative_gap <= 1e-5


def test_the_optimum_without_shrinkage_has_rank_one():
    """The paper's own penalty: by Perron and Frobenius every task ends with the same mix of kernels."""
    problem = make_problem(*random_problem(6, "squared"), "squared", RelationPenalty(4, shrinkage=0.0), C, MU)
    solution, seen = watch(problem, Joint(), tol=1e-8)
    assert solution.status is Status.CONVERGED
    # The stage along such weights is what makes this fast: without it there are hundreds of evaluations.
    assert len(seen) <= 30
    assert effective_rank(solution.B) <= 1 + 1e-10
    # It is the certificate's: B = (m_1/mu) u v' for the largest singular value of Q.
    Q = problem.evaluate(solution.B, tol=1e-10).Q
    U, m, Vt = np.linalg.svd(Q)
    np.testing.assert_allclose(solution.B, m[0] / MU * np.outer(U[:, 0], Vt[0]), atol=1e-3 * solution.B.max())


def test_a_prior_may_keep_the_optimum_from_rank_one():
    """Tasks known to be opposed: the stage along rank one ends above the optimum, and the ladder goes on from there."""
    stacks, ys = random_problem(4, "squared", 2, 2, 30)
    penalty = RelationPenalty(2, np.array([[1.0, -0.9], [-0.9, 1.0]]), shrinkage=0.0)
    assert penalty.collapses
    solution, _ = watch(make_problem(stacks, ys, "squared", penalty, C, MU), Joint(), tol=1e-6)
    assert solution.status is Status.CONVERGED
    assert effective_rank(solution.B) > 1.5


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("T", [2, 20])
def test_newton_steps_are_few_whatever_the_number_of_tasks(loss, T):
    problem = make_problem(*random_problem(8, loss, T, 5, 30), loss, RelationPenalty(T), C, MU)
    solution, seen = watch(problem, Joint(), tol=1e-6)
    assert solution.status is Status.CONVERGED
    assert len(seen) <= 10


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_start_of_the_wrong_scale_costs_little(factor):
    problem = make_problem(*random_problem(8, "squared"), "squared", RelationPenalty(4), C, MU)
    solution, seen = watch(problem, Joint(), tol=1e-6, B=np.full((4, 4), factor))
    assert solution.status is Status.CONVERGED
    assert len(seen) <= 12


def first_step(loss="squared", accuracy=1e-10):
    """A run after its first evaluation, that evaluation, the first trial, and a function that evaluates."""
    problem = make_problem(*random_problem(8, loss), loss, RelationPenalty(4), C, MU)
    certificate = Certificate(1e-8)
    points = Joint().run(problem, None, certificate)

    def evaluate(point):
        evaluation = problem.evaluate(point.B, tol=accuracy, curved=True)
        certificate.add(evaluation)
        return evaluation

    here = evaluate(next(points))
    return points, here, points.send(here), certificate, evaluate


def test_a_trial_that_does_not_lower_the_objective_is_shortened():
    points, here, trial, _, evaluate = first_step()
    worse = dataclasses.replace(evaluate(trial), loss=here.loss + 1.0, R=here.R)
    shorter = points.send(worse)
    shares = (shorter.B - here.B) / (trial.B - here.B)
    np.testing.assert_allclose(shares, shares[0, 0], rtol=1e-6)
    assert 0.1 <= shares[0, 0] <= 0.5


def test_machines_too_rough_to_judge_a_step_are_solved_again_at_the_same_point():
    points, _, trial, certificate, evaluate = first_step()
    rough = evaluate(trial)
    before = certificate.accuracy
    again = points.send(dataclasses.replace(rough, upper=rough.loss + 1.0))
    np.testing.assert_array_equal(again.B, trial.B)
    assert certificate.accuracy <= 0.1 * before
