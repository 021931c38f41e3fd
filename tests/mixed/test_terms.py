"""One contract for all terms: covariances, their diagonals, and derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from kernelkin.mixed.arrays import SparseRows
from kernelkin.mixed.batch import covariance, features
from kernelkin.mixed.model import flatten, unflatten
from kernelkin.mixed.rows import Pairs, batches_of
from kernelkin.mixed.terms import Curves, matern
from mixed.problems import BY_FEATURES, finite_differences, layout_of, make_model, make_rows, terms_of

ROWS = make_rows()
TERMS = terms_of(ROWS)
DENSE = layout_of(ROWS, dense=True).pairs[0]


def parameters(term, seed=0):
    rng = np.random.default_rng(seed)
    return {key: value + 0.3 * rng.normal(size=len(value)) for key, value in term.start().items()}


@pytest.mark.parametrize("name", TERMS)
def test_blocks_are_symmetric_and_positive_semi_definite(name):
    term = TERMS[name]
    K = term.block(parameters(term), DENSE)[0][0]
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-9 * np.trace(K)


def test_smooths_of_groups_are_evaluated_once_at_each_pair_of_one_group():
    term, pairs = TERMS["own additive"], layout_of(ROWS, dense=True).pairs[0]
    K, (used, saved) = term.block(parameters(term), pairs)
    sizes = np.bincount(ROWS.groups[0])
    count = int((sizes * (sizes - 1)).sum() / 2)
    assert count < K.size / 4
    assert {values.shape for values in (used, *(part for both in saved for part in both))} == {(count,)}
    # The gaps of all pairs, which are larger, are not computed.
    assert "own_gaps" in vars(pairs) and "all_gaps" not in vars(pairs)
    # The pairs of rows of different sets are not symmetric, and have the same covariance.
    np.testing.assert_allclose(term.block(parameters(term), Pairs(pairs.A, replace(pairs.A), 1.0))[0], K, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in TERMS if not name.startswith("given")])
def test_the_diagonal_is_that_of_the_block(name):
    term = TERMS[name]
    p = parameters(term)
    expected = np.diagonal(term.block(p, DENSE)[0][0])
    np.testing.assert_allclose(term.diagonal(p, DENSE.A, 1.0)[0], expected, atol=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_gradients_of_blocks_are_finite_differences(name):
    term, start = TERMS[name], {"term": parameters(TERMS[name])}
    if not start["term"]:
        assert term.block_gradient({}, DENSE, DENSE.same[0], None) == {}
        return
    W = np.random.default_rng(1).normal(size=DENSE.same[0].shape)
    W += np.swapaxes(W, 1, 2)
    p = start["term"]
    found = term.block_gradient(p, DENSE, W, term.block(p, DENSE)[1])
    expected = finite_differences(
        lambda x: np.vdot(W, term.block(unflatten(x, start)["term"], DENSE)[0]), flatten(start)
    )
    np.testing.assert_allclose(flatten({"term": {key: found[key] for key in p}}), expected, atol=1e-6)


@pytest.mark.parametrize("name", BY_FEATURES)
def test_features_and_blocks_together_are_the_dense_block(name):
    term = TERMS[name]
    p = parameters(term)
    K = np.zeros((len(ROWS.X), len(ROWS.X)))
    layout = layout_of(ROWS, dense=False)
    Phi = features([term], {term.name: p}, DENSE.A).full()[0]
    for table, pairs in zip(layout.tables, layout.pairs, strict=True):
        for rows, values in zip(table, covariance([term], {term.name: p}, pairs), strict=True):
            own = rows[rows >= 0]
            K[np.ix_(own, own)] += values[: len(own), : len(own)]
    np.testing.assert_allclose(K + Phi @ Phi.T, term.block(p, DENSE)[0][0], atol=2e-5)
    own = np.diagonal(K) + np.square(Phi[:, term.n_dense :]).sum(1)
    np.testing.assert_allclose(term.diagonal(p, DENSE.A, 0.0)[0], own, atol=1e-12)


@pytest.mark.parametrize("name", BY_FEATURES)
def test_gradients_in_blocks_with_features_are_finite_differences(name):
    terms = terms_of(ROWS, landmarks=ROWS.X[:6], knots=(ROWS.X[:4, 0], ROWS.X[:5, 1]))
    model = make_model(ROWS, [terms["mean"], terms[name]], dense=False)
    expected = finite_differences(lambda x: model.objective(x)[0], model.x_)
    np.testing.assert_allclose(model.objective(model.x_)[1], expected, atol=1e-5)


def test_curves_have_about_the_covariance_of_a_matern_kernel():
    x = np.linspace(-2.0, 2.0, 9)[:, None]
    curves = Curves(np.zeros(1, int), 1, columns=np.array([0]), low=x.min(0), high=x.max(0))
    for length in (1.0, 1.5):
        p = {"variances": np.log([0.7]), "lengths": np.log([length])}
        Phi = curves.inputs(x) * np.exp(0.5 * curves.log_variances(p))
        np.testing.assert_allclose(Phi @ Phi.T, 0.7 * matern(((x - x.T) / length) ** 2)[0], atol=0.06)
    # Constant beyond the range of the training rows.
    np.testing.assert_allclose(curves.inputs(np.array([[9.0]])), curves.inputs(x[-1:]))


@pytest.mark.parametrize("rows", [3, 200])
def test_products_of_sparse_features_do_not_depend_on_how_they_are_computed(rows):
    rng = np.random.default_rng(0)
    index = np.sort(rng.permuted(np.tile(np.arange(40), (2, rows, 1)), axis=2)[:, :, :3], axis=2)
    some = SparseRows(index, rng.normal(size=index.shape), 40)
    Z, M, V = some.full(), rng.normal(size=(40, 40)), rng.normal(size=(2, rows, rows))
    np.testing.assert_allclose(some.between(M), Z @ M @ np.swapaxes(Z, 1, 2), atol=1e-9)
    np.testing.assert_allclose(some.sums_between(V), (np.swapaxes(Z, 1, 2) @ V @ Z).sum(0), atol=1e-9)


def test_batches_hold_every_row_once_in_the_block_of_its_group():
    codes = ROWS.groups[0]
    tables = batches_of(codes)
    assert any((table < 0).any() for table in tables)
    assert len(tables) > 1
    found = np.concatenate([table[table >= 0] for table in tables])
    assert sorted(found) == list(range(len(codes)))
    for table in tables:
        for rows in table:
            own = rows[rows >= 0]
            assert (codes[own] == codes[own[0]]).all()
            assert len(own) == (codes == codes[own[0]]).sum()
