"""The relationship penalty against cone programmes, brute force and the models it reduces to."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelkin.paper.penalties import RelationPenalty, effective_rank
from kernelkin.paper.penalties.relation import water_fill
from tasks import in_turn

LIMITS = [(0.1, 1.0), (0.0, 1.0), (0.0, 2.0), (0.3, 1.7), (0.02, 3.5), (1.0, 1.0), (0.0, 5.0)]


def spread_prior(J):
    X = np.random.default_rng(99).normal(size=(J, 2 * J))
    return X @ X.T


PRIORS = {"identity": None, "prior": spread_prior(5)}


def limits_and_priors(*limits):
    """Each tuple of limits with one of the priors in turn."""
    return [pytest.param(*each, PRIORS[prior], id=f"{each}, {prior}") for each, prior in in_turn(limits, PRIORS)]


def scaled_roots(prior):
    values, vectors = np.linalg.eigh(prior * len(prior) / np.trace(prior))
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T


def psi_of(penalty, B, prior):
    inverse_root = np.eye(B.shape[1]) if prior is None else scaled_roots(prior)[1]
    return inverse_root @ penalty.relation(B).matrix() @ inverse_root


def solve(objective, limits):
    problem = cp.Problem(cp.Minimize(objective), limits)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


# water-filling


@pytest.mark.parametrize(("low", "rank"), LIMITS)
def test_water_filling_solves_its_cone_programme(low, rank):
    n, high = 5, 5 / rank
    s = np.array([1.0, 0.6, 0.6, 0.05])
    tau, rest = water_fill(s, n, low, high)
    x = cp.Variable(n)
    reference = solve(
        sum(cp.quad_over_lin(s[i], x[i]) for i in range(4)), [x >= low, x <= high, cp.sum(x) <= n, x >= 1e-9]
    )
    np.testing.assert_allclose((s**2 / tau).sum(), reference, rtol=1e-6)
    np.testing.assert_allclose(tau.sum() + rest, n, rtol=1e-14)
    assert min(tau.min(), rest) >= low
    assert max(tau.max(), rest) <= high


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.just(1.0) | st.floats(1e-6, 1e3), min_size=1, max_size=29),
    st.integers(0, 20),
    st.floats(0.0, 0.99),
    st.floats(0.0, 1.0),
)
@example([1.0], 1, 1.8e-149, 0.0)  # the rest is zero by rounding
def test_water_filling_is_optimal_for_many(singular_values, n_unused, low, rank_share):
    s = np.sort(singular_values)[::-1]
    n = len(s) + n_unused
    high = n / (1 + rank_share * (n - 1))
    tau, rest = water_fill(s, n, low, high)
    np.testing.assert_allclose(tau.sum() + n_unused * rest, n, rtol=1e-12)
    assert low <= rest <= high * (1 + 1e-14)
    # Stationary: one level for those between the limits, none at the floor above it, none at the cap below it.
    slope = s / tau
    inside = (tau > low * (1 + 1e-9)) & (tau < high * (1 - 1e-9))
    at_cap = tau >= high * (1 - 1e-9)
    level = slope[inside].mean() if inside.any() else slope[at_cap].min() if at_cap.any() else slope.max()
    np.testing.assert_allclose(slope[inside], level, rtol=1e-9)
    assert (slope[tau <= low * (1 + 1e-9)] <= level * (1 + 1e-9)).all()
    assert (slope[at_cap] >= level * (1 - 1e-9)).all()


def test_water_filling_where_the_limits_leave_one_answer():
    # 1 x 2.5 + 3 x 0.5 = 4 on a whole interval of levels.
    tau, rest = water_fill(np.array([1.0, 1e-3, 1e-3, 1e-3]), 4, 0.5, 2.5)
    np.testing.assert_allclose(tau, [2.5, 0.5, 0.5, 0.5], rtol=1e-12)
    tau, rest = water_fill(np.array([1.0, 1e-3, 1e-3]), 4, 0.5, 2.5)
    np.testing.assert_allclose([*tau, rest], [2.5, 0.5, 0.5, 0.5], rtol=1e-12)


# value


@pytest.mark.parametrize(
    ("shrinkage", "min_rank", "K", "prior"),
    [
        (0.1, 1.0, 2, None),
        (0.0, 1.0, 6, spread_prior(4)),
        (0.0, 2.5, 2, None),
        (0.3, 2.0, 6, spread_prior(4)),
        (1.0, 1.0, 2, spread_prior(4)),
    ],
)
def test_value_is_the_minimum_over_relations(prior, shrinkage, min_rank, K):
    J = 4
    B = np.random.default_rng(K).exponential(size=(K, J))
    inverse_root = np.eye(J) if prior is None else scaled_roots(prior)[1]
    Psi = cp.Variable((J, J), symmetric=True)
    reference = solve(
        cp.matrix_frac((B @ inverse_root).T, Psi),
        [Psi >> shrinkage / J * np.eye(J), Psi << np.eye(J) / min_rank, cp.trace(Psi) <= 1],
    )
    value = RelationPenalty(J, prior, shrinkage, min_rank).value(B)
    np.testing.assert_allclose(value, reference, rtol=1e-6)


@pytest.mark.parametrize(("shrinkage", "min_rank", "prior"), limits_and_priors(*LIMITS))
def test_relation_attains_the_value_within_its_limits(prior, shrinkage, min_rank):
    J = 5
    penalty = RelationPenalty(J, prior, shrinkage, min_rank)
    for K in (1, 3, 5, 8):  # fewer kernels than components, as many, and more
        B = np.random.default_rng(K).exponential(size=(K, J))
        Psi = psi_of(penalty, B, prior)
        eigenvalues = np.linalg.eigvalsh(Psi)
        np.testing.assert_allclose(np.trace(Psi), 1.0, rtol=1e-10)
        assert eigenvalues[0] >= shrinkage / J - 1e-12
        assert eigenvalues[-1] <= 1 / min_rank + 1e-12
        # 1e-9: the pseudo-inverse has to leave out the directions that Omega does not use.
        attained = np.trace(B @ np.linalg.pinv(penalty.relation(B).matrix(), rcond=1e-9, hermitian=True) @ B.T)
        np.testing.assert_allclose(attained, penalty.value(B), rtol=1e-8)


def test_value_where_singular_values_differ_by_orders_of_magnitude():
    """Squares of small singular values are lost in rounding; without shrinkage R is the square of the sum of all."""
    for shrinkage in [0.0, 1e-7, 0.1]:
        J, rng = 6, np.random.default_rng(2)
        U, V = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, J))
        s = np.array([1.0, 1e-4, 1e-9])
        tau, _ = water_fill(s, J, shrinkage, float(J))
        value = RelationPenalty(J, shrinkage=shrinkage).value((U * s) @ V.T)
        np.testing.assert_allclose(value, J * (s**2 / tau).sum(), rtol=1e-12)


# gradient


def test_gradient_is_smooth_at_repeated_singular_values_and_low_rank():
    penalty, step = RelationPenalty(4, shrinkage=0.2, min_rank=1.5), 1e-6
    for B in (np.eye(4), np.eye(4)[:2], np.ones((3, 4)), np.diag([2.0, 1.0, 1.0, 0.0])):
        D = np.random.default_rng(2).normal(size=B.shape)
        slope = (penalty.value(B + step * D) - penalty.value(B - step * D)) / (4 * step)
        np.testing.assert_allclose((penalty.value_and_gradient(B)[1] * D).sum(), slope, rtol=1e-5)


# reductions


def test_a_fixed_relation_is_the_two_norm():
    for shrinkage, min_rank, K in [(1.0, 1.0, 3), (0.0, 7.0, 12), (0.4, 7.0, 3)]:
        J, rng = 7, np.random.default_rng(0)
        B, Q, mu = rng.exponential(size=(K, J)), rng.exponential(size=(K, J)), 0.3
        penalty = RelationPenalty(J, shrinkage=shrinkage, min_rank=min_rank)
        value, gradient = penalty.value_and_gradient(B)
        np.testing.assert_allclose(value, J * (B**2).sum(), rtol=1e-13)
        np.testing.assert_allclose(gradient, J * B, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(penalty.relation(B).matrix(), np.eye(J) / J, atol=1e-15)
        np.testing.assert_allclose(penalty.bound(Q, Q, mu), -(Q**2).sum() / (2 * mu * J), rtol=1e-13)
        assert penalty.ladder() == (penalty,)


def test_full_shrinkage_to_a_prior_is_that_relation():
    prior = spread_prior(4)
    B = np.random.default_rng(0).exponential(size=(3, 4))
    penalty = RelationPenalty(4, prior, shrinkage=1.0)
    Omega = prior / np.trace(prior)
    np.testing.assert_allclose(penalty.relation(B).matrix(), Omega, rtol=1e-10)
    np.testing.assert_allclose(penalty.value(B), np.trace(B @ np.linalg.inv(Omega) @ B.T), rtol=1e-10)
    np.testing.assert_allclose(penalty.value(B), RelationPenalty(4, 10 * prior, shrinkage=1.0).value(B), rtol=1e-12)


def test_no_shrinkage_is_the_trace_norm_and_its_bound_the_spectral_norm():
    for K in [3, 9]:
        rng = np.random.default_rng(0)
        B, Q, mu = rng.exponential(size=(K, 6)), rng.exponential(size=(K, 6)), 0.3
        penalty = RelationPenalty(6, shrinkage=0.0)
        np.testing.assert_allclose(penalty.value(B), np.linalg.norm(B, "nuc") ** 2, rtol=1e-12)
        np.testing.assert_allclose(penalty.bound(Q, np.zeros_like(Q), mu), -(np.linalg.norm(Q, 2) ** 2) / (2 * mu))
        root = np.linalg.svd(B, full_matrices=False)
        expected = (root[2].T * root[1]) @ root[2] / root[1].sum()
        np.testing.assert_allclose(penalty.relation(B).matrix(), expected, atol=1e-12)


def test_one_component():
    B = np.array([[3.0], [4.0]])
    for shrinkage in (0.0, 0.4, 1.0):
        penalty = RelationPenalty(1, prior=np.array([[7.0]]), shrinkage=shrinkage)
        np.testing.assert_allclose(penalty.value(B), 25.0, rtol=1e-14)
        np.testing.assert_allclose(penalty.value_and_gradient(B)[1], B, rtol=1e-14)
        np.testing.assert_allclose(penalty.relation(B).matrix(), [[1.0]], rtol=1e-14)
        np.testing.assert_allclose(penalty.bound(B, B, 1.0), -12.5, rtol=1e-14)


def test_relation_of_zero_weights_is_the_prior():
    for shrinkage in [0.0, 0.1, 1.0]:
        prior = spread_prior(4)
        penalty = RelationPenalty(4, prior, shrinkage, min_rank=2.0)
        np.testing.assert_allclose(penalty.relation(np.zeros((3, 4))).matrix(), prior / np.trace(prior), rtol=1e-10)


def test_unused_directions_share_what_is_left():
    # Rank one under a cap of 1/2: the other half goes evenly to the three directions that B does not use.
    v = np.full(4, 0.5)
    Omega = RelationPenalty(4, shrinkage=0.1, min_rank=2.0).relation(np.outer([1.0, 2.0, 3.0], v)).matrix()
    np.testing.assert_allclose(Omega, np.outer(v, v) / 2 + (np.eye(4) - np.outer(v, v)) / 6, atol=1e-14)


# bound


def minimise_with_reward(Q, mu, prior, shrinkage, min_rank):
    """Minimum and minimiser of (mu/2) R(B) - <B, Q> over B >= 0."""
    K, J = Q.shape
    inverse_root = np.eye(J) if prior is None else scaled_roots(prior)[1]
    B, Psi = cp.Variable((K, J), nonneg=True), cp.Variable((J, J), symmetric=True)
    minimum = solve(
        mu / 2 * cp.matrix_frac((B @ inverse_root).T, Psi) - cp.sum(cp.multiply(B, Q)),
        [Psi >> shrinkage / J * np.eye(J), Psi << np.eye(J) / min_rank, cp.trace(Psi) <= 1],
    )
    return minimum, np.maximum(B.value, 0)


@pytest.mark.parametrize("prior", [None, spread_prior(5)], ids=["identity", "prior"])
@pytest.mark.parametrize(("shrinkage", "min_rank"), [(0.1, 1.0), (0.3, 2.5), (1.0, 1.0)])
def test_bound_is_tight_at_the_minimiser(prior, shrinkage, min_rank):
    Q, mu = np.random.default_rng(5).exponential(size=(3, 5)) ** 2, 0.8
    Q /= np.linalg.norm(Q, 2)
    minimum, B = minimise_with_reward(Q, mu, prior, shrinkage, min_rank)
    bound = RelationPenalty(5, prior, shrinkage, min_rank).bound(Q, B, mu)
    np.testing.assert_allclose(bound, minimum, rtol=2e-5)


@pytest.mark.parametrize("prior", [None, spread_prior(5)], ids=["identity", "prior"])
@pytest.mark.parametrize("min_rank", [1.0, 2.0, 3.0])
def test_bound_without_shrinkage_is_tight_down_the_ladder(prior, min_rank):
    Q, mu = np.random.default_rng(5).exponential(size=(3, 5)) ** 2, 0.8
    Q /= np.linalg.norm(Q, 2)
    minimum, _ = minimise_with_reward(Q, mu, prior, 0.0, min_rank)
    penalty = RelationPenalty(5, prior, 0.0, min_rank)
    rung = penalty.ladder()[1]  # further down the cone solver's own error shows
    _, B = minimise_with_reward(Q, mu, prior, rung.shrinkage, min_rank)
    np.testing.assert_allclose(penalty.bound(Q, B, mu), minimum, rtol=5e-5)


def test_bound_uses_the_weights_where_some_are_zero():
    # The sign constraint binds with this prior, so Q alone is not enough.
    J, mu = 3, 1.0
    prior = np.array([[1.0, -0.8, 0.0], [-0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    penalty = RelationPenalty(J, prior, shrinkage=1.0)
    Q = np.array([[1.0, 0.1, 0.5]])
    # Component 2 stays at zero: the problem on the others is a plain quadratic.
    inverse = np.linalg.inv(prior / np.trace(prior))
    used = [0, 2]
    b = np.linalg.solve(mu * inverse[np.ix_(used, used)], Q[0, used])
    B = np.zeros((1, J))
    B[0, used] = b
    assert mu * (B @ inverse)[0, 1] > Q[0, 1]
    minimum = -(b @ Q[0, used]) / 2
    np.testing.assert_allclose(penalty.bound(Q, B, mu), minimum, rtol=1e-12)
    assert penalty.bound(Q, np.zeros((1, J)), mu) < 1.05 * minimum


# the fixed-Omega inverse, the ladder, the effective rank


def test_inverse_of_a_nearly_singular_relation_is_bounded():
    """Without shrinkage a direction of B of size 1e-12 has a value of 1e-12: its inverse would be lost in rounding."""
    B = np.diag([1.0, 1e-12, 0.0])
    inverse = RelationPenalty(3, shrinkage=0.0).inverse_relation(B).matrix()
    np.testing.assert_allclose(np.linalg.eigvalsh(inverse)[1:], 3e8, rtol=1e-6)


def test_inverse_relation_inverts():
    for prior in [None, spread_prior(5)]:
        for K in [2, 8]:
            B = np.random.default_rng(6).exponential(size=(K, 5))
            penalty = RelationPenalty(5, prior, shrinkage=0.05, min_rank=1.5)
            inverse = penalty.inverse_relation(B).matrix()
            np.testing.assert_allclose(inverse @ penalty.relation(B).matrix(), np.eye(5), atol=1e-10)
            np.testing.assert_allclose(B @ inverse, penalty.value_and_gradient(B)[1], rtol=1e-10, atol=1e-10)


def test_inverse_of_a_singular_relation_is_that_of_a_feasible_one():
    for min_rank in [1.0, 3.0]:
        B = np.random.default_rng(7).exponential(size=(2, 5))
        penalty = RelationPenalty(5, shrinkage=0.0, min_rank=min_rank)
        inverse = penalty.inverse_relation(B).matrix()
        np.testing.assert_allclose(np.trace(np.linalg.inv(inverse)), 1.0, rtol=1e-6)
        np.testing.assert_allclose(np.trace(B @ inverse @ B.T), penalty.value(B), rtol=1e-6)
        # Leaving the row space of B is dear where Omega is singular.
        outside = np.linalg.svd(B)[2][-1]
        assert outside @ inverse @ outside > (1e6 if min_rank == 1 else 1)


def test_ladder_falls_to_no_shrinkage_with_the_same_prior():
    penalty = RelationPenalty(4, spread_prior(4), shrinkage=0.0, min_rank=2.0)
    *rungs, last = penalty.ladder()
    shrinkages = [rung.shrinkage for rung in rungs]
    assert shrinkages == sorted(shrinkages, reverse=True)
    assert min(shrinkages) > 0
    assert last is penalty
    assert penalty.shrinkage == 0
    B = np.random.default_rng(8).exponential(size=(3, 4))
    expected = RelationPenalty(4, spread_prior(4), shrinkages[1], min_rank=2.0)
    assert rungs[1].value(B) == expected.value(B)


def test_effective_rank():
    np.testing.assert_allclose(effective_rank(3 * np.eye(4)), 4.0)
    np.testing.assert_allclose(effective_rank(np.outer([1.0, 2.0], [1.0, 1.0, 3.0])), 1.0, rtol=1e-12)
    np.testing.assert_allclose(effective_rank(np.diag([3.0, 1.0])), 4 / 3**0.75)
    assert effective_rank(np.zeros((2, 3))) == 0


# refusals


def test_arguments_outside_their_range():
    for arguments, message in [
        ({"prior": np.eye(4)}, r"prior has shape \(4, 4\), not \(3, 3\)"),
        (
            {"prior": np.array([[1, 0, 0], [0.5, 1, 0], [0, 0, 1]])},
            r"prior is not symmetric: it differs from its transpose by up to 0\.5",
        ),
        ({"prior": np.diag([1.0, 1.0, -0.25])}, r"prior is not positive definite: its smallest eigenvalue is -0\.25"),
        ({"prior": np.ones((3, 3))}, r"prior is not positive definite: its smallest eigenvalue is -?\d.+"),
        ({"prior": np.full((3, 3), np.nan)}, "prior has entries that are not finite"),
        ({"shrinkage": -0.1}, r"shrinkage must be in \[0, 1\], got -0.1"),
        ({"shrinkage": np.nan}, r"shrinkage must be in \[0, 1\], got nan"),
        ({"min_rank": 0.5}, r"min_rank must be in \[1, 3\] \(the number of components\), got 0\.5"),
        ({"min_rank": 3.5}, r"min_rank must be in \[1, 3\] \(the number of components\), got 3.5"),
        ({"n_components": 0}, "n_components must be at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            RelationPenalty(**({"n_components": 3} | arguments))
