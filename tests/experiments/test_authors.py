"""The authors' procedures: what each of them ends with, on made-up targets."""

import numpy as np
import pytest

from experiments.authors import FrozenShares, KernelTimesItself, Machines, Thresholded, UnitNorm
from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels

N, T, C = 20, 3, 10.0
KERNELS = [*gaussian_kernels((0.5, 1.0), per_feature=True), *linear_kernels()]
K = 9


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    return X, np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + X[:, 1], X[:, 2]]) + 0.1 * rng.normal(size=(N, T))


@pytest.fixture
def grams():
    roots = np.random.default_rng(1).normal(size=(K, N, N))
    grams = roots @ roots.transpose(0, 2, 1)
    return grams / np.trace(grams, axis1=1, axis2=2)[:, np.newaxis, np.newaxis]


def test_the_slope_of_the_machines_is_minus_G(grams, data):
    y, B, move = data[1], np.full((K, T), 0.5), np.random.default_rng(2).normal(size=(K, T))
    ahead, behind = (Machines.at(B + step * move, grams, y, C).value for step in (1e-5, -1e-5))
    assert (ahead - behind) / 2e-5 == pytest.approx(-np.vdot(Machines.at(B, grams, y, C).G, move), rel=1e-6)


def test_unit_norm_ends_at_the_best_weights_of_norm_one(grams, data):
    """The slope is parallel to that of the norm: `G = c B^(p-1)` for each task."""
    B = UnitNorm(C=C, p=3.0)._learn(grams, data[1])
    np.testing.assert_allclose((B**3).sum(axis=0), 1.0)
    ratio = Machines.at(B, grams, data[1], C).G / B**2
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), rtol=1e-3)


def test_frozen_shares_hardly_move(grams, data):
    model = FrozenShares(C=C, p=4.0)
    B = model._learn(grams, data[1])
    within = (1 / K) / B  # of norm one over tasks, with q = p / (p - 2)
    np.testing.assert_allclose((within**2).sum(axis=1), 1.0, rtol=1e-2)
    faster = FrozenShares(C=C, p=4.0, step=0.1)._learn(grams, data[1])
    assert np.abs(1 / K / faster - within).max() > 0.1 * within.max()


def test_without_a_threshold_the_alternation_ends_near_the_optimum(data):
    X, y = data
    mu = 1e-2
    theirs = Thresholded(KERNELS, C, mu, threshold=1e-8).fit(X, y)
    ours = MKMTRLRegressor(
        KERNELS, C=C, mu=mu * N**2, shrinkage=0.0, min_rank=1.0, fit_intercept=False, tol=1e-7, max_iter=1000
    )
    with pytest.warns(match="rank"):
        ours.fit(X, y)
    np.testing.assert_allclose(theirs.weights_ / N, ours.kernel_weights_.T, atol=0.05 * ours.kernel_weights_.max())
    np.testing.assert_allclose(theirs.predict(X), ours.predict(X), atol=0.02 * np.abs(y).max())


def test_a_threshold_leaves_no_weight_below_it(data):
    model = Thresholded(KERNELS, C, 1e-2, threshold=3.0).fit(*data)
    assert (model.weights_ == 0).any() and model.weights_.any()
    assert model.weights_[model.weights_ > 0].min() >= 3.0


def test_a_kernel_times_itself_is_no_ridge_regression(data):
    X, y = data
    model = KernelTimesItself(C).fit(X, y)
    gram = X @ X.T
    np.testing.assert_allclose((gram @ gram + np.eye(N) / C) @ model.dual_coef_, y)
    np.testing.assert_allclose(model.predict(X), gram @ model.dual_coef_)
