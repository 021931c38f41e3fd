"""What every norm of functions promises: its conjugate is the maximum that Fenchel and Young define."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkin.paper.penalties import NORMS, MixedNorm, SpectralNorm
from kernelkin.paper.penalties.norms import unit_root

# The norm, and the shape of the sizes that it is one of.
CASES = {
    "mixed 2": (MixedNorm(2.0), (4, 3)),
    "mixed 3": (MixedNorm(3.0), (4, 3)),
    "mixed inf": (MixedNorm(np.inf), (4, 3)),
    "spectral, trace norm": (SpectralNorm(0.0, 2.0), (6,)),
    "spectral": (SpectralNorm(1.0, 0.5), (6,)),
    "spectral, mostly Frobenius": (SpectralNorm(3.0, 0.01), (6,)),
}


def test_every_registered_norm_is_tested():
    assert {type(norm) for norm, _ in CASES.values()} == set(NORMS.values())


# Entries of a point and of a dual point, of which many are zero or equal.
ENTRIES = st.lists(st.just(0.0) | st.just(1.0) | st.floats(1e-3, 1e3), min_size=24, max_size=24)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(ENTRIES)
def test_fenchel_young_holds_everywhere(name, entries):
    norm, shape = CASES[name]
    x, v = np.array(entries)[: 2 * np.prod(shape)].reshape(2, *shape)
    # The best multiple of x is the hardest.
    if norm.value(x) > 0:
        x = x * float(np.vdot(x, v)) / (2 * norm.value(x))
    assert norm.value(x) + norm.conjugate(v) >= float(np.vdot(x, v)) * (1 - 1e-12)


def by_cones(norm, x):
    """The value (a cvxpy expression) at variables x."""
    if isinstance(norm, SpectralNorm):
        return norm.l1 / 2 * cp.sum_squares(x) + norm.l2 / 2 * cp.square(cp.sum(x))
    p = "inf" if np.isinf(norm.p) else norm.p
    return cp.square(sum(cp.pnorm(x[k], p) for k in range(x.shape[0]))) / 2


@pytest.mark.parametrize("name", CASES)
def test_the_conjugate_is_the_maximum_of_a_cone_solver_and_both_are_homogeneous(name):
    # The conjugate is the maximum of a cone solver.
    norm, shape = CASES[name]
    v, x = np.random.default_rng(1).uniform(0.2, 2.0, size=shape), cp.Variable(shape, nonneg=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(v, x)) - by_cones(norm, x)))
    problem.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(norm.conjugate(v), problem.value, rtol=1e-6)
    np.testing.assert_allclose(norm.value(x.value), by_cones(norm, x).value, rtol=1e-9)

    # Both are homogeneous of degree two.
    norm, shape = CASES[name]
    x = np.random.default_rng(3).uniform(size=shape)
    assert norm.value(x) > 0
    np.testing.assert_allclose(norm.value(1e-70 * x), 1e-140 * norm.value(x), rtol=1e-12)
    np.testing.assert_allclose(norm.conjugate(1e70 * x), 1e140 * norm.conjugate(x), rtol=1e-12)


def test_the_shares_are_best_on_their_sphere():
    """lambda minimises sum_t Q_t / lambda_t at a norm of one; the value is N, and no other lambda is below."""
    for p in [3.0, 6.0, np.inf]:
        rng = np.random.default_rng(3)
        Q, norm = rng.uniform(size=(4, 5)), MixedNorm(p)
        conjugate = 1.0 if np.isinf(p) else p / (p - 2)
        best = norm.shares(Q)
        np.testing.assert_allclose((best**conjugate).sum(axis=1), 1)
        np.testing.assert_allclose((Q / best).sum(axis=1), norm.dual_terms(Q))
        for _ in range(20):
            other = best * np.exp(0.1 * rng.normal(size=Q.shape))
            other /= (other**conjugate).sum(axis=1, keepdims=True) ** (1 / conjugate)
            assert ((Q / other).sum(axis=1) >= norm.dual_terms(Q) - 1e-12).all()


def test_shares_of_tasks_that_do_not_use_a_kernel_are_not_zero():
    """Weights are gamma/lambda: they have to be finite."""
    shares = MixedNorm(4.0).shares(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert (shares > 0).all() and shares[0, 1] < 1e-3 < shares[0, 0]


def test_the_metric_attains_the_norm_at_the_best_covariance():
    """The minimum over D of tr(W' inv(A) W)/2 is the norm of W's singular values, at D = (WW')^(1/2) / tr."""
    for l1, l2 in [(0.0, 2.0), (1.0, 0.5)]:
        rng, norm = np.random.default_rng(10), SpectralNorm(l1, l2)
        W = rng.normal(size=(4, 6))
        value = norm.value(np.linalg.svd(W, compute_uv=False))

        def at(D, W=W, norm=norm):
            return 0.5 * np.trace(W.T @ np.linalg.solve(norm.metric(D), W))

        np.testing.assert_allclose(at(unit_root(W @ W.T)), value, rtol=1e-10)
        for _ in range(20):
            F = rng.normal(size=(4, 4))
            assert at(F @ F.T / np.trace(F @ F.T)) >= value * (1 - 1e-12)


def test_the_adjoint_of_the_metric_is_its_slope():
    for l1, l2 in [(0.0, 2.0), (1.0, 0.5)]:
        rng = np.random.default_rng(10)
        norm, F = SpectralNorm(l1, l2), rng.normal(size=(4, 4))
        D = F @ F.T / np.trace(F @ F.T)
        G, E = rng.normal(size=(2, 4, 4))
        G, E, step = G + G.T, E + E.T, 1e-6
        slope = (np.vdot(G, norm.metric(D + step * E)) - np.vdot(G, norm.metric(D - step * E))) / (2 * step)
        assert slope == pytest.approx(np.vdot(norm.metric_adjoint(D, G), E), rel=1e-6)


def test_the_unit_root_does_not_depend_on_the_scale():
    for scale in [1e-200, 1e200]:
        F = np.random.default_rng(11).normal(size=(3, 3))
        np.testing.assert_allclose(unit_root(scale * (F @ F.T)), unit_root(F @ F.T), atol=1e-12)


def test_arguments_outside_their_range():
    with pytest.raises(ValueError, match=r"p must be in \[2, inf\], got 1.5"):
        MixedNorm(1.5)
    with pytest.raises(ValueError, match=r"l1 must be in \[0, inf\) and l2 in \(0, inf\), got 1.0 and 0.0"):
        SpectralNorm(1.0, 0.0)
