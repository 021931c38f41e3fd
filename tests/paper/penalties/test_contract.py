"""What every penalty promises, whichever it is."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernelkin.paper.penalties import (
    PENALTIES,
    FixedWeights,
    LpPenalty,
    RelationPenalty,
    SharedLpPenalty,
    SimplexPenalty,
)
from kernelkin.paper.solvers.joint import variables

K, J = 4, 5
PRIOR = np.full((J, J), 0.3) + np.diag(np.linspace(0.5, 2.0, J))
SMOOTH = {
    "relation, prior": RelationPenalty(J, prior=PRIOR, shrinkage=0.2, min_rank=1.5),
    "relation, no shrinkage": RelationPenalty(J, shrinkage=0.0),
    "relation, even, prior": RelationPenalty(J, prior=PRIOR, shrinkage=0.0, min_rank=2.0, evenness=0.3),
    "lp 1": LpPenalty(p=1.0),
    "lp 300": LpPenalty(p=300.0),
    "shared 4": SharedLpPenalty(p=4.0),
}
INDICATORS = {"fixed": FixedWeights(np.random.default_rng(20).uniform(size=(K, J))), "simplex": SimplexPenalty()}
CASES = {**SMOOTH, **INDICATORS}
# Matrices with zeros, equal entries and entries of very different size among them.
MATRICES = arrays(np.float64, (K, J), elements=st.just(0.0) | st.floats(1e-3, 1e2))
DRAWN = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_every_registered_penalty_is_tested():
    assert {type(penalty) for penalty in CASES.values()} == set(PENALTIES.values())


@pytest.fixture(params=SMOOTH)
def penalty(request):
    return SMOOTH[request.param]


@pytest.fixture(params=INDICATORS)
def indicator(request):
    return INDICATORS[request.param]


def allowed_weights(seed, indicator):
    """A B at which the indicator is zero."""
    if isinstance(indicator, FixedWeights):
        return indicator.B
    return np.repeat(np.random.default_rng(seed).dirichlet(np.ones(K))[:, np.newaxis], J, axis=1)


def project(penalty, B):
    """A B that the penalty allows: with equal columns where weights are shared."""
    return np.repeat(B.max(axis=1, keepdims=True), J, axis=1) if penalty.shared else B


def weights(seed, penalty, sparse=False):
    """A B that the penalty allows; read-only, so that a penalty that modifies it fails."""
    rng = np.random.default_rng(seed)
    B = rng.uniform(0.2, 1.5, size=(K, J))
    B = project(penalty, B * (rng.random((K, J)) < 0.5) if sparse else B)
    B.setflags(write=False)
    return B


def test_value_gradient_relation_and_ladder(penalty):
    # Gradient is the slope of half the value.
    (x, make, pull), step = variables(penalty, weights(0, penalty), False), 1e-5
    slopes = [(penalty.value(make(x + d)) - penalty.value(make(x - d))) / (4 * step) for d in step * np.eye(len(x))]
    np.testing.assert_allclose(pull(x, penalty.value_and_gradient(make(x))[1]), slopes, rtol=1e-6, atol=1e-6)

    # Value and gradient agree.
    for B in (weights(1, penalty), weights(1, penalty, sparse=True), np.zeros((K, J))):
        value, gradient = penalty.value_and_gradient(B)
        assert value == penalty.value(B)
        # Euler: R is homogeneous of degree two.
        np.testing.assert_allclose((B * gradient).sum(), value, rtol=1e-12)
    assert value == 0 and not gradient.any()  # zero weights

    # Value gradient and relation are homogeneous.
    B = weights(2, penalty)
    value, gradient, Omega = penalty.value(B), penalty.value_and_gradient(B)[1], penalty.relation(B).matrix()
    for scale in (1e-100, 1e100):
        case = f"scale {scale}"
        np.testing.assert_allclose(penalty.value(scale * B), scale**2 * value, rtol=1e-10, err_msg=case)
        np.testing.assert_allclose(penalty.value_and_gradient(scale * B)[1], scale * gradient, rtol=1e-8, err_msg=case)
        np.testing.assert_allclose(penalty.relation(scale * B).matrix(), Omega, atol=1e-10, err_msg=case)

    # Ladder ends with the penalty and falls to its value.
    ladder = penalty.ladder()
    assert ladder[-1] is penalty
    B = weights(8, penalty)
    values = [rung.value(B) for rung in ladder]
    # Shrinkage shrinks the set that Omega is chosen from, so a smoother rung is never below.
    assert all(upper >= lower * (1 - 1e-12) for upper, lower in itertools.pairwise(values))


def test_cost_and_bound_hold_at_any_scale_and_are_tight(penalty):
    # In other units, with mu/s^2 for mu and s B for B, or mu s^2 and s Q, cost and bound are the same.
    B, Q, mu = weights(2, penalty), weights(3, penalty), 0.7
    np.testing.assert_allclose(penalty.cost(B, mu), 0.5 * mu * penalty.value(B), rtol=1e-12)
    for scale in (1e-110, 1e110):
        np.testing.assert_allclose(penalty.cost(scale * B, mu / scale**2), penalty.cost(B, mu), rtol=1e-9)
        np.testing.assert_allclose(penalty.bound(scale * Q, B, mu * scale**2), penalty.bound(Q, B, mu), rtol=1e-9)
    for small in (1e-200, 1e-110):
        # Neither underflows before the number itself does.
        assert 0 < penalty.cost(small * B, 1e90 / small) < np.inf
        assert -np.inf < penalty.bound(small * Q, small * B, 1e-90 * small) < 0

    # Bound is tight where the gradient meets q and zero where both are zero.
    # Rank one, and such that the gradient is positive with a prior and evenness too: the Q of a minimiser.
    u, v = np.random.default_rng(4).uniform(0.2, 1.5, size=(2, J))
    even = getattr(penalty, "evenness", 0.0)
    u, mu = ((1 - even) * np.eye(K) + even) @ u[:K], 0.7
    B = project(penalty, np.outer(u, PRIOR @ v))
    Q = mu * penalty.value_and_gradient(B)[1]
    assert Q.min() >= 0
    attained = mu / 2 * penalty.value(B) - (B * Q).sum()
    np.testing.assert_allclose(penalty.bound(Q, B, mu), attained, rtol=1e-10)
    assert penalty.bound(np.zeros((K, J)), np.zeros((K, J)), 1.0) == 0


@DRAWN
@given(B=MATRICES, D=MATRICES)
def test_gradient_gives_a_tangent_below(penalty, B, D):
    B, D = project(penalty, B), project(penalty, D)
    value, gradient = penalty.value_and_gradient(B)
    assert penalty.value(D) >= value + 2 * ((D - B) * gradient).sum() - 1e-10 * value


@DRAWN
@given(B=MATRICES, other=MATRICES, Q=MATRICES, mu=st.floats(0.1, 10.0))
def test_bound_holds_everywhere(penalty, B, other, Q, mu):
    bound = penalty.bound(Q, project(penalty, B), mu)
    for each in (B, other, Q):
        D = project(penalty, each)
        # The best multiple of D is the hardest for the bound.
        best = (D * Q).sum() ** 2 / (2 * mu * penalty.value(D)) if D.any() else 0.0
        assert -best >= bound - 1e-10 * abs(bound)


def assert_symmetric_and_positive(relation):
    Omega = relation.matrix()
    np.testing.assert_array_equal(Omega, Omega.T)
    assert np.linalg.eigvalsh(Omega)[0] >= -1e-14
    if relation.root is None:
        np.testing.assert_allclose(np.trace(Omega), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_relation_is_symmetric_positive_and_has_the_factors_of_its_matrix(name):
    B = allowed_weights(5, CASES[name]) if name in INDICATORS else weights(5, CASES[name])
    relation = CASES[name].relation(B)
    Omega = relation.matrix()
    if name in SMOOTH:
        assert_symmetric_and_positive(relation)
        assert_symmetric_and_positive(CASES[name].relation(weights(5, CASES[name], sparse=True)))
    assert len(relation.vectors) == len(Omega) == J
    np.testing.assert_allclose(relation.diagonal(), np.diag(Omega), rtol=1e-12)
    np.testing.assert_allclose(relation.trace(), np.trace(Omega), rtol=1e-12)
    first = relation.block(3)
    assert len(first.vectors) == 3
    np.testing.assert_allclose(first.matrix(), Omega[:3, :3], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(first.diagonal(), np.diag(Omega)[:3], rtol=1e-12)


def test_indicators_are_zero_on_their_set_and_infinite_elsewhere(indicator):
    B = allowed_weights(0, indicator)
    assert indicator.value(B) == indicator.cost(B, 1e300) == 0.0
    assert not indicator.value_and_gradient(B)[1].any()
    other = B.copy()
    other[0, 1] += 1e-6
    assert indicator.value(other) == indicator.cost(other, 1e-300) == np.inf
    assert indicator.value(1.1 * B) == np.inf


@DRAWN
@given(Q=MATRICES, seed=st.integers(0, 1000))
def test_bound_of_an_indicator_is_its_minimum_over_its_set(indicator, Q, seed):
    bound = indicator.bound(Q, allowed_weights(seed, indicator), 1.0)
    rewards = [float(np.vdot(allowed_weights(seed + i, indicator), Q)) for i in range(20)]
    assert -max(rewards) >= bound - 1e-12 * abs(bound)
    if isinstance(indicator, FixedWeights):
        assert bound == -rewards[0]
    else:
        corners = [np.repeat(corner[:, np.newaxis], J, axis=1) for corner in np.eye(K)]
        np.testing.assert_allclose(bound, -max(float(np.vdot(corner, Q)) for corner in corners), rtol=1e-8)


def test_fixed_weights_must_be_weights():
    with pytest.raises(ValueError, match="finite, non-negative numbers"):
        FixedWeights(np.array([[1.0, -1.0]]))


def test_bound_of_the_simplex_holds_for_sums_that_rounding_has_moved():
    B, Q = (1 + 5e-10) * np.repeat([[1.0], [0.0], [0.0], [0.0]], J, axis=1), np.ones((K, J))
    assert SimplexPenalty().value(B) == 0
    assert SimplexPenalty().bound(Q, B, 1.0) <= -float(np.vdot(B, Q))
