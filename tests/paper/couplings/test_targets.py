"""Tasks that share as far as their targets are alike on the same rows."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, MultiTaskCV, linear_kernels
from kernelkin.data import make_folds, read_training
from kernelkin.kernels import profile_kernel
from kernelkin.paper.couplings import read_couplings
from kernelkin.paper.couplings.targets import label_correlation


def holes(rng, n=40):
    """Eight targets in two groups that the inputs say nothing about, one in five missing; and the whole table."""
    whole = rng.normal(size=(n, 2))[:, np.repeat([0, 1], 4)] + 0.3 * rng.normal(size=(n, 8))
    return rng.normal(size=(n, 3)), np.where(rng.uniform(size=whole.shape) < 0.2, np.nan, whole), whole


def test_the_coupling_is_the_kernel_of_the_profiles():
    X, y, _ = holes(np.random.default_rng(0))
    data = read_training(X, y, None, None, classification=False)
    (coupling,) = read_couplings("targets", data)
    np.testing.assert_allclose(coupling.matrix, profile_kernel(y), atol=1e-10)


def test_of_two_classes_it_is_the_correlation_of_labels():
    rng = np.random.default_rng(6)
    whole = (rng.normal(size=(200, 1)) + rng.normal(size=(200, 3)) > 0).astype(int)
    whole[:, 2] = 1 - whole[:, 2]
    data = read_training(rng.normal(size=(200, 2)), whole, None, None, classification=True)
    (coupling,) = read_couplings("targets", data)
    expected = np.corrcoef(whole.T) * 200 / 220
    np.testing.assert_allclose(coupling.matrix, np.where(np.eye(3) > 0, 1.0, expected), atol=1e-10)
    assert coupling.matrix[0, 1] > 0.2 > -0.2 > coupling.matrix[0, 2]


def test_correlations_are_of_the_rows_that_both_tasks_have():
    rng = np.random.default_rng(7)
    table = (rng.normal(size=(90, 1)) + 0.5 * rng.normal(size=(90, 4)) > 0.3).astype(float)
    # The last task has no row in common with others: it is alike to none.
    table[45:, :3], table[:45, 3] = np.nan, np.nan
    table[rng.uniform(size=table.shape) < 0.2] = np.nan
    kernel = label_correlation(table)
    np.testing.assert_allclose(kernel[3], [0, 0, 0, 1], atol=1e-12)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-12 and (kernel[:3, :3] > 0.2).all()


def test_missing_targets_are_predicted_from_similar_tasks():
    X, y, whole = holes(np.random.default_rng(1))
    # Rows are alike by nothing but being the same row.
    grams = np.eye(len(X))[:, :, np.newaxis]
    held = np.isnan(y)
    errors = {}
    for couplings in ("common", {"common": "common", "targets": "targets"}):
        model = MKMTRLRegressor("precomputed", C=1.0, couplings=couplings).fit(grams, y)
        errors[str(couplings)] = np.mean((model.predict(grams) - whole)[held] ** 2)
    common, targets = errors.values()
    assert targets < 0.5 * common


def test_folds_of_labels_find_the_coupling_without_what_they_hold_out():
    X, y, _ = holes(np.random.default_rng(2))
    known = np.isfinite(y)
    part = np.random.default_rng(3).integers(3, size=y.shape)
    cv = [(known & (part != p), known & (part == p)) for p in range(3)]
    model = MKMTRLRegressor(linear_kernels(), couplings="targets")
    search = MultiTaskCV(model, {"C": [0.1]}, cv=cv, scoring="neg_mean_squared_error").fit(X, y)
    errors = np.full((3, 8), np.nan)
    for p, (kept, held) in enumerate(cv):
        fitted = MKMTRLRegressor(linear_kernels(), couplings="targets", C=0.1).fit(X, np.where(kept, y, np.nan))
        squares = np.where(held, (fitted.predict(X) - np.where(held, y, 0.0)) ** 2, 0.0)
        errors[p] = squares.sum(axis=0)
    expected = -np.mean(errors.sum(axis=0) / known.sum(axis=0))
    assert search.best_score_ == pytest.approx(expected, rel=2e-3)


def test_masks_of_labels_are_checked():
    X, y, _ = holes(np.random.default_rng(4))
    data = read_training(X, y, None, None, classification=False)
    mask = np.ones(y.shape, dtype=bool)
    for wrong in (mask[:, :3], mask.astype(int)):
        with pytest.raises(ValueError, match=r"a mask of labels must be of booleans and of shape \(40, 8\)$"):
            make_folds(data, [(mask, wrong), (mask, mask)], classification=False)


def test_rows_of_their_own_and_many_classes_are_refused():
    X = np.random.default_rng(5).normal(size=(40, 3))
    message = r"^coupling 'targets' compares the targets of tasks row by row: it is for wide data"
    with pytest.raises(ValueError, match=message):
        MKMTRLRegressor(couplings="targets").fit(X, X[:, 0], tasks=np.repeat([0, 1], 20))
    with pytest.raises(ValueError, match=message):
        MKMTRLClassifier(couplings={"alike": "targets"}).fit(X, np.digitize(X[:, :2], [-0.5, 0.5]).astype(str))
