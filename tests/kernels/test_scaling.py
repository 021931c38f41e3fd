import pickle

import numpy as np
import pytest
from sklearn.preprocessing import KernelCenterer

from kernelkin.kernels.families import gaussian_kernels, linear_kernels, polynomial_kernels
from kernelkin.kernels.grams import SCALINGS, fit_diagonal_scaling, fit_scaling
from kernelkin.kernels.kernel import diagonals, evaluate, fit_kernels

TOLERANCE = {np.float32: 2e-4, np.float64: 1e-12}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def X(rng):
    return rng.normal(size=(25, 3)) + 0.5


@pytest.fixture
def fitted(X):
    return fit_kernels([*polynomial_kernels(), *linear_kernels(), *gaussian_kernels([0.5, 2])], X)


@pytest.fixture(params=SCALINGS, ids=str)
def normalize(request):
    return request.param


def mean_diagonal(grams, weight=None):
    return np.average(np.diagonal(grams, axis1=1, axis2=2), axis=1, weights=weight)


def test_trace_gives_mean_diagonal_one(fitted, X, rng):
    G = evaluate(fitted, X)
    np.testing.assert_allclose(mean_diagonal(fit_scaling("trace", G)[1]), 1, rtol=1e-13)
    weight = rng.uniform(size=25)
    scaled = fit_scaling("trace", G, weight)[1]
    np.testing.assert_allclose(mean_diagonal(scaled, weight), 1, rtol=1e-13)
    np.testing.assert_allclose(scaled / scaled[:, :1, :1], G / G[:, :1, :1], rtol=1e-12)


def test_cosine_gives_unit_diagonal(fitted, X):
    G = evaluate(fitted, X)
    scaled = fit_scaling("cosine", G)[1]
    np.testing.assert_allclose(np.diagonal(scaled, axis1=1, axis2=2), 1, rtol=1e-13)
    norm = np.sqrt(np.diagonal(G, axis1=1, axis2=2))
    np.testing.assert_allclose(scaled, G / norm[:, :, None] / norm[:, None, :], rtol=1e-12)


def test_center_has_zero_feature_mean_and_mean_diagonal_one(fitted, X, rng):
    weight = rng.uniform(size=25)
    scaled = fit_scaling("center", evaluate(fitted, X), weight)[1]
    np.testing.assert_allclose(scaled @ weight, 0, atol=1e-12)
    np.testing.assert_allclose(mean_diagonal(scaled, weight), 1, rtol=1e-12)


def test_center_is_that_of_scikit_learn(fitted, X, rng):
    queries = rng.normal(size=(6, 3))
    G, cross = evaluate(fitted, X), evaluate(fitted, queries, X)
    scaling, scaled = fit_scaling("center", G)
    scaled_cross = scaling.apply(cross)
    for k in range(len(fitted)):
        centerer = KernelCenterer().fit(G[k])
        trace = centerer.transform(G[k]).diagonal().mean()
        np.testing.assert_allclose(scaled[k], centerer.transform(G[k]) / trace, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(scaled_cross[k], centerer.transform(cross[k]) / trace, rtol=1e-9, atol=1e-12)


def test_center_of_the_linear_kernel_is_the_linear_kernel_of_centred_rows(X, rng):
    weight, queries = rng.uniform(size=25), rng.normal(size=(6, 3))
    mean = np.average(X, axis=0, weights=weight)
    scaling, _ = fit_scaling("center", (X @ X.T)[None], weight)
    expected = (queries - mean) @ (X - mean).T / np.average(((X - mean) ** 2).sum(axis=1), weights=weight)
    np.testing.assert_allclose(scaling.apply((queries @ X.T)[None])[0], expected, rtol=1e-10, atol=1e-12)


def test_none_changes_nothing(fitted, X):
    G = evaluate(fitted, X)
    scaling, scaled = fit_scaling(None, G)
    np.testing.assert_array_equal(scaled, G)
    assert scaled is not G and scaling.apply(G) is not G


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_training_rows_as_queries_give_the_training_stack(fitted, X, normalize, dtype):
    X, tol = X.astype(dtype), TOLERANCE[dtype]
    G = evaluate(fitted, X)
    scaling, scaled = fit_scaling(normalize, G, np.arange(25.0))
    again = scaling.apply(evaluate(fitted, X, X), diagonals(fitted, X))
    assert scaled.dtype == again.dtype == dtype
    np.testing.assert_allclose(again, scaled, rtol=tol, atol=tol)
    np.testing.assert_array_equal(scaled, scaled.transpose(0, 2, 1))


def test_scaled_grams_stay_positive_semi_definite(fitted, X, normalize):
    for G in fit_scaling(normalize, evaluate(fitted, X), np.arange(25.0))[1]:
        assert np.linalg.eigvalsh(G)[0] > -1e-10 * G.diagonal().mean()


def test_repeating_a_row_equals_weighting_it(fitted, X, normalize, rng):
    weight, queries = rng.integers(0, 4, size=25), rng.normal(size=(6, 3))
    repeated = np.repeat(np.arange(25), weight)
    G, cross, query_diagonal = evaluate(fitted, X), evaluate(fitted, queries, X), diagonals(fitted, queries)
    weighted, scaled = fit_scaling(normalize, G, weight)
    plain, scaled_again = fit_scaling(normalize, G[:, repeated][:, :, repeated])
    np.testing.assert_allclose(scaled[:, repeated][:, :, repeated], scaled_again, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        weighted.apply(cross, query_diagonal)[:, :, repeated],
        plain.apply(cross[:, :, repeated], query_diagonal),
        rtol=1e-10,
        atol=1e-12,
    )


def test_inputs_are_not_modified_unless_requested(fitted, X, normalize):
    G, weight = evaluate(fitted, X), np.arange(25.0)
    before, cross, query_diagonal = G.copy(), G[:, :4].copy(), diagonals(fitted, X[:4])
    scaling, scaled = fit_scaling(normalize, G, weight)
    scaled_cross = scaling.apply(cross, query_diagonal)
    np.testing.assert_array_equal(G, before)
    np.testing.assert_array_equal(cross, before[:, :4])
    np.testing.assert_array_equal(weight, np.arange(25.0))
    assert scaling.apply(cross, query_diagonal, overwrite=True) is cross
    np.testing.assert_array_equal(cross, scaled_cross)
    assert fit_scaling(normalize, G, weight, overwrite=True)[1] is G
    np.testing.assert_array_equal(G, scaled)


def test_pairs_are_entries_of_the_scaled_stack(fitted, X, normalize, rng):
    i, j = rng.integers(25, size=(2, 60))
    G = evaluate(fitted, X)
    scaling, scaled = fit_scaling(normalize, G, np.arange(25.0))
    values = G[:, i, j]
    np.testing.assert_allclose(scaling.apply_pairs(values, i, j), scaled[:, i, j], rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(values, G[:, i, j])


@pytest.mark.parametrize("normalize", ["trace", "cosine", None])
def test_the_diagonal_is_enough_where_it_can_be(fitted, X, normalize):
    G, weight = evaluate(fitted, X), np.arange(25.0)
    scaling = fit_diagonal_scaling(normalize, diagonals(fitted, X), weight)
    scaled = scaling.apply(G, diagonals(fitted, X))
    np.testing.assert_allclose(scaled, fit_scaling(normalize, G, weight)[1], rtol=1e-12)


def test_the_diagonal_is_not_enough_to_center(fitted, X):
    with pytest.raises(ValueError, match="needs the whole training Gram"):
        fit_diagonal_scaling("center", diagonals(fitted, X))


def test_selected_kernels_are_scaled_as_before(fitted, X, normalize, rng):
    queries = rng.normal(size=(6, 3))
    cross, query_diagonal = evaluate(fitted, queries, X), diagonals(fitted, queries)
    scaling, _ = fit_scaling(normalize, evaluate(fitted, X))
    chosen = [4, 1]
    np.testing.assert_array_equal(
        scaling.select(chosen).apply(cross[chosen], query_diagonal[chosen]),
        scaling.apply(cross, query_diagonal)[chosen],
    )
    restored = pickle.loads(pickle.dumps(scaling))
    np.testing.assert_array_equal(restored.apply(cross, query_diagonal), scaling.apply(cross, query_diagonal))


def test_a_zero_kernel_stays_zero(normalize, X):
    G = np.stack([np.zeros((25, 25)), X @ X.T])
    scaling, scaled = fit_scaling(normalize, G)
    assert (scaled[0] == 0).all() and np.isfinite(scaled).all() and scaled[1].any()
    cross = scaling.apply(G[:, :3], np.diagonal(G, axis1=1, axis2=2)[:, :3])
    assert (cross[0] == 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_constant_kernel_vanishes_when_centred(dtype, rng):
    # Rounding leaves some of these a positive mean diagonal, which must not be blown up to one.
    G = np.broadcast_to(10 ** rng.uniform(-6, 6, size=(50, 1, 1)), (50, 31, 31)).astype(dtype)
    scaling, scaled = fit_scaling("center", G, rng.uniform(size=31))
    assert (scaled == 0).all() and (scaling.apply(G[:, :2]) == 0).all()


def test_cosine_is_zero_where_the_diagonal_is(X):
    X[3] = 0
    scaling, scaled = fit_scaling("cosine", (X @ X.T)[None])
    assert (scaled[0, 3] == 0).all() and (scaled[0, :, 3] == 0).all() and scaled[0, 2, 2] == pytest.approx(1)
    assert (scaling.apply(np.zeros((1, 1, 25)), np.zeros((1, 1))) == 0).all()


def test_cosine_needs_the_diagonal_of_the_queries(X):
    scaling, _ = fit_scaling("cosine", (X @ X.T)[None])
    with pytest.raises(ValueError, match=r"^normalize='cosine' needs k\(x, x\) of the rows it is applied to$"):
        scaling.apply((X[:2] @ X.T)[None])


def test_negative_diagonals_unknown_names_and_zero_weights_are_refused(X):
    G = np.stack([X @ X.T, -X @ X.T])
    with pytest.raises(ValueError, match="kernel 'bad' has negative values"):
        fit_scaling("trace", G, names=["good", "bad"])
    with pytest.raises(ValueError, match="kernel 'kernel 1' has negative values"):
        fit_scaling("cosine", G)
    with pytest.raises(ValueError, match=r"normalize must be one of .*'trace'.* got 'norm'"):
        fit_scaling("norm", G)
    with pytest.raises(ValueError, match=r"^the sample weights of the training rows are all zero$"):
        fit_scaling("trace", G[:1], np.zeros(25))
