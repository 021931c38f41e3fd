"""The relationship of the kernels: its closed form, and the problem in which it is learned (matrix-normal penalty)."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest

from conic import conic_optimum
from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.penalties.relation import KernelRelation
from kernelkin.paper.solvers import Joint, Path, Status, solve
from tasks import make_problem, random_prior, random_problem, watch

K, J = 5, 4
C, MU = 2.0, 0.5


def random_weights(seed, K=K, J=J):
    return np.random.default_rng(seed).exponential(size=(K, J))


@pytest.mark.parametrize(
    ("shrinkage", "min_rank", "evenness"), [(0.2, 1.0, 0.0), (0.05, 2.0, 0.0), (0.3, 1.5, 0.4), (0.1, 9.0, 0.2)]
)
def test_learned_relation_is_the_minimiser(shrinkage, min_rank, evenness):
    Y = random_weights(0, K, 3)
    # From a relation that is not the first one: the old one must not matter.
    old = KernelRelation(evenness).learned(random_weights(1), 0.4)
    learned = old.learned(old.whiten(Y), shrinkage, min_rank)
    values, vectors = np.linalg.eigh((1 - evenness) * np.eye(K) + evenness)
    inverse_root = (vectors / np.sqrt(values)) @ vectors.T
    Phi = cp.Variable((K, K), symmetric=True)
    limits = [Phi >> shrinkage * np.eye(K), Phi << K / min(min_rank, K) * np.eye(K), cp.trace(Phi) == K]
    problem = cp.Problem(cp.Minimize(cp.matrix_frac(inverse_root @ Y, Phi)), limits)
    problem.solve(solver=cp.CLARABEL)
    Gamma = learned.matrix(K)
    np.testing.assert_allclose(np.trace(Y.T @ np.linalg.solve(Gamma, Y)), problem.value, rtol=1e-6)
    found = inverse_root @ Gamma @ inverse_root
    np.testing.assert_allclose(np.trace(found), K, rtol=1e-10)
    assert np.linalg.eigvalsh(found)[0] >= shrinkage - 1e-10
    assert np.linalg.eigvalsh(found)[-1] <= K / min(min_rank, K) + 1e-10


def test_factors_whiten_and_colour():
    relation = KernelRelation(0.3).learned(random_weights(2), 0.1)
    Gamma, X, Y = relation.matrix(K), random_weights(3), random_weights(4)
    whitened = relation.whiten(X)
    np.testing.assert_allclose(whitened.T @ whitened, X.T @ np.linalg.solve(Gamma, X), rtol=1e-10)
    np.testing.assert_allclose((relation.whiten_adjoint(Y) * X).sum(), (Y * whitened).sum(), rtol=1e-10)
    coloured = relation.colour_adjoint(X)
    np.testing.assert_allclose(coloured.T @ coloured, X.T @ Gamma @ X, rtol=1e-10)


def test_revised_penalty_touches_the_minimum_over_both_relationships():
    """Neither relationship can be improved at B, and the value is the trace at both."""
    B = random_weights(5)
    penalty = RelationPenalty(J, kernel_shrinkage=0.2)
    revised = penalty.revised(B, 1e-9)
    assert revised.value(B) < penalty.value(B)
    assert revised.revised(B, 1e-6) is revised
    Gamma, Omega = K * revised.kernel_relation(K), revised.relation(B).matrix()
    attained = np.trace(np.linalg.solve(Gamma, B) @ np.linalg.solve(Omega, B.T))
    np.testing.assert_allclose(revised.value(B), attained, rtol=1e-10)
    values, rng = [], np.random.default_rng(0)
    for _ in range(200):
        W = 0.05 * rng.normal(size=(K, K))
        nearby = Gamma + W + W.T
        nearby *= K / np.trace(nearby)
        if np.linalg.eigvalsh(nearby)[0] >= 0.2:
            values.append(np.trace(np.linalg.solve(nearby, B) @ np.linalg.solve(Omega, B.T)))
    assert len(values) > 20
    assert min(values) >= attained * (1 - 1e-6)


def test_revised_penalty_does_not_depend_on_the_scale_of_the_weights():
    B = random_weights(6)
    for scale in (1e-120, 1e120):
        first, other = (RelationPenalty(J, kernel_shrinkage=0.1).revised(X, 1e-6) for X in (B, scale * B))
        np.testing.assert_allclose(first.kernel_relation(K), other.kernel_relation(K), rtol=1e-8)
    nothing = RelationPenalty(J, kernel_shrinkage=0.1)
    assert nothing.revised(np.zeros((K, J)), 1e-6) is nothing


def test_kernels_that_are_unrelated_by_choice_stay_so():
    B = random_weights(7)
    penalty = RelationPenalty(J)
    assert penalty.revised(B, 1e-9) is penalty
    assert penalty.kernel_relation(K) is None
    # At least as many directions as kernels leave only the identity.
    spread = RelationPenalty(8, kernel_shrinkage=0.1, min_rank=5)
    assert spread.revised(random_weights(7, K, 8), 1e-9) is spread


@pytest.mark.parametrize("kernel_shrinkage", [0.0, 1.5, float("nan")])
def test_kernel_shrinkage_must_be_in_its_range(kernel_shrinkage):
    with pytest.raises(ValueError, match=r"kernel_shrinkage must be in \(0, 1\], got "):
        RelationPenalty(J, kernel_shrinkage=kernel_shrinkage)


@pytest.mark.parametrize(("loss", "shrinkage", "min_rank"), [("squared", 0.1, 1.0), ("hinge", 0.1, 2.0)])
def test_at_a_fixed_relationship_of_kernels_the_optimum_is_that_of_a_cone_solver(loss, shrinkage, min_rank):
    stacks, ys = random_problem(0, loss, J, K, 15)
    prior = random_prior(0, J)
    start = make_problem(stacks, ys, loss, RelationPenalty(J, prior, shrinkage, min_rank, 0.0, 0.2), C, MU)
    solution = solve(start, tol=1e-5, max_iter=500)
    Gamma = K * solution.kernel_relation
    optimum, *_ = conic_optimum(stacks, ys, C, MU, loss, prior, shrinkage, min_rank, kernel_relation=Gamma)
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.primal, optimum, rtol=1e-5)
    assert solution.bound <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_the_objective_falls_with_every_round(loss):
    problem = make_problem(*random_problem(1, loss, 6, K, 20), loss, RelationPenalty(6, kernel_shrinkage=0.05), C, MU)
    first = solve(make_problem(*random_problem(1, loss, 6, K, 20), loss, RelationPenalty(6), C, MU), tol=1e-6)
    solution, seen = watch(problem, Joint(), tol=1e-6)
    ends = [a.primal for a, b in pairwise(seen) if b.bound < a.bound] + [seen[-1].primal]
    assert len(ends) >= 3
    np.testing.assert_allclose(ends[0], first.primal, rtol=2e-6)
    assert all(later < earlier for earlier, later in pairwise(ends))
    assert solution.primal == ends[-1]
    # A stationary point: the best relationship of the kernels at these weights is the one that they were fitted with.
    revised = problem.revised(solution.B, 1e-9)
    np.testing.assert_allclose(revised.kernel_relation(), solution.kernel_relation, atol=2e-3)


def test_the_papers_penalty_with_related_kernels_is_that_of_unrelated_ones_at_another_mu():
    """Without shrinkage the optimum has rank one, where both penalties are equal but for a factor of mu."""
    data, shrinkage = random_problem(2, "squared", J, K, 20), 0.1
    penalty = RelationPenalty(J, shrinkage=0.0, kernel_shrinkage=shrinkage)
    related = solve(make_problem(*data, "squared", penalty, C, MU), tol=1e-5, max_iter=500)
    largest = K - (K - 1) * shrinkage
    unrelated = solve(make_problem(*data, "squared", RelationPenalty(J, shrinkage=0.0), C, MU / largest), tol=1e-5)
    np.testing.assert_allclose(related.primal, unrelated.primal, rtol=1e-4)
    assert related.primal >= unrelated.bound
    np.testing.assert_allclose(related.B, unrelated.B, atol=0.03 * unrelated.B.max())


def test_a_path_solves_every_problem_in_rounds():
    """Also where functions no longer change with mu, and a path of unrelated kernels would solve nothing."""
    mus = np.logspace(-6, -12, 7)
    # So little is learned that the weights are nearly those of unrelated kernels.
    penalty, data = RelationPenalty(4, kernel_shrinkage=0.99), random_problem(0, "hinge", 4)
    path = Path(make_problem(*data, "hinge", penalty, 1.0, mus[0]), Joint())
    *_, last = (path.solve(mu) for mu in mus)
    alone = solve(make_problem(*data, "hinge", penalty, 1.0, mus[-1]))
    np.testing.assert_allclose(last.primal, alone.primal, rtol=5e-3)
    np.testing.assert_allclose(last.kernel_relation, alone.kernel_relation, atol=1e-3)


def test_max_iter_bounds_all_rounds_together():
    problem = make_problem(*random_problem(1, "squared", J, K), "squared", RelationPenalty(J, kernel_shrinkage=0.05))
    solution = solve(problem, tol=1e-8, max_iter=4)
    assert len(solution.history["iteration"]) <= 5
    assert solution.status is Status.MAX_ITER


def test_the_alternating_solver_refuses_related_kernels():
    problem = make_problem(*random_problem(1, "squared", J, K), "squared", RelationPenalty(J, kernel_shrinkage=0.5))
    with pytest.raises(ValueError, match=r"solver='alternating' is for unrelated kernels; use solver='joint' with "):
        solve(problem, "alternating")
