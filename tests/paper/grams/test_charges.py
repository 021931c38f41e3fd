"""Charges of kernels: effective dimensions, and what they do to Gram matrices, fits and predictions."""

import numpy as np
import pytest

from kernelkin import IMKLRegressor, MKMTRLRegressor, MultiTaskCV, gaussian_kernels
from kernelkin.paper import IKLRegressor, MKMTFLRegressor
from kernelkin.paper.grams.build import TAU, charges_of, effective_dimensions

KERNELS = gaussian_kernels((0.3, 1.0, 3.0))


def stack(n=30, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    return np.array([np.exp(-squares / (2 * s**2)) for s in (0.3, 1.0, 3.0)])


def data(seed=0, n=30, T=3):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, 2)), np.repeat(np.arange(T), n)
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=T * n), tasks


def test_the_effective_dimension_is_the_slope_of_the_log_determinant():
    grams, weight, step = stack(), np.ones(30), 1e-6
    d = effective_dimensions([(grams, weight)])
    mean = grams.mean(axis=0) + TAU * np.eye(30)
    for k, gram in enumerate(grams):
        slope = (np.linalg.slogdet(mean + step * gram)[1] - np.linalg.slogdet(mean - step * gram)[1]) / (2 * step)
        assert d[k] == pytest.approx(slope, rel=1e-6)
    # The narrower a Gaussian, the more directions it can fit.
    assert d[0] > d[1] > d[2]


def test_repeating_a_row_equals_weighting_it():
    grams, weight = stack(), np.ones(30)
    weight[4] = 3.0
    rows = np.array([*range(30), 4, 4])
    repeated = grams[:, rows][:, :, rows]
    np.testing.assert_allclose(
        effective_dimensions([(grams, weight)]), effective_dimensions([(repeated, np.ones(32))]), rtol=1e-9
    )


def test_the_effective_dimension_of_many_rows_is_that_of_some_times_their_share(monkeypatch):
    """Rows that have nothing in common: every row counts alike."""
    monkeypatch.setattr("kernelkin.paper.grams.build.MAX_ROWS", 10)
    for n in (10, 20, 40):
        d = effective_dimensions([(np.eye(n)[np.newaxis], np.ones(n)), (np.eye(7)[np.newaxis], np.ones(7))])
        np.testing.assert_allclose(d, (n + 7) / (1 + TAU))


def test_charges_interpolate_between_one_and_the_relative_dimension():
    grams = [(stack(seed=s), np.ones(30)) for s in (0, 1)]
    d = effective_dimensions(grams)
    np.testing.assert_array_equal(charges_of(d, 0.0), 1.0)
    np.testing.assert_allclose(charges_of(d, 1.0), d / d.mean())
    np.testing.assert_allclose(charges_of(d, 0.5), np.sqrt(d / d.mean()))


@pytest.mark.parametrize("estimator", [MKMTRLRegressor, IMKLRegressor, IKLRegressor, MKMTFLRegressor])
def test_parsimony_moves_weight_to_wide_kernels_and_keeps_the_certificate(estimator):
    X, y, tasks = data()
    shares = []
    for parsimony in (0.0, 1.0):
        model = estimator(KERNELS, C=10.0, parsimony=parsimony).fit(X, y, tasks=tasks)
        assert 0 <= model.duality_gap_ <= 1e-3 * model.objective_
        # Weights are of charged Grams: what counts for the function is the weight over the charge.
        split = model.predict(X, tasks=tasks, split=True)
        shares.append(split.parts[:, 0].var() / split.parts.var(axis=0).sum())
        np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, model.predict(X, tasks=tasks))
    assert shares[1] < shares[0]


@pytest.mark.parametrize("couplings", [None, "common"])
def test_parsimony_is_a_rescaling_of_the_kernels(couplings):
    """The same charges applied by hand to precomputed Grams of one task lead to the same function."""
    X, y, _ = data(T=1, n=40)
    model = MKMTRLRegressor(KERNELS, C=3.0, parsimony=1.0, couplings=couplings, tol=1e-8, max_iter=500).fit(X, y)
    grams = np.array([kernel(X) for kernel in model.kernels_])
    charges = charges_of(effective_dimensions([(grams, np.ones(40))]), 1.0)
    charged = np.moveaxis(grams / charges[:, None, None], 0, 2)
    by_hand = MKMTRLRegressor("precomputed", C=3.0, normalize=None, couplings=couplings, tol=1e-8, max_iter=500).fit(
        charged, y
    )
    np.testing.assert_allclose(by_hand.predict(charged), model.predict(X), atol=1e-5)
    assert by_hand.objective_ == pytest.approx(model.objective_, rel=1e-6)


def test_folds_charge_by_their_own_training_rows():
    X, y, tasks = data(seed=3)
    rows = np.arange(len(X))
    cv = [(rows[rows % 3 != f], rows[rows % 3 == f]) for f in range(3)]
    kernels = gaussian_kernels((0.5, 2.0), relative=False)
    search = MultiTaskCV(MKMTRLRegressor(kernels, tol=1e-7), {"parsimony": [1.0]}, cv=cv)
    search.set_params(scoring="neg_mean_squared_error", search_tol=1e-7).fit(X, y, tasks=tasks)
    errors = []
    for train, test in cv:
        model = MKMTRLRegressor(kernels, parsimony=1.0, tol=1e-7, max_iter=300)
        model.fit(X[train], y[train], tasks=tasks[train])
        errors.append(np.mean((y[test] - model.predict(X[test], tasks=tasks[test])) ** 2))
    found = [search.cv_results_[f"split{f}_test_score"][0] for f in range(3)]
    np.testing.assert_allclose(np.negative(found), errors, rtol=1e-3)
