"""Exact factors of low rank, against the Gram matrices they stand for."""

import numpy as np
import pytest

from kernelkin import gaussian_kernels, linear_kernels, polynomial_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.grams import fit_scaling
from kernelkin.kernels.kernel import evaluate, fit_kernels
from kernelkin.paper.grams.lowrank import low_rank_kernels


def read(X):
    tasks = np.arange(len(X)) % 2
    return read_training(X, X[:, 0], tasks, None, classification=False)


@pytest.mark.parametrize(("degree", "coef0"), [(1, 0.0), (2, 1.0), (3, 0.0), (3, 2.5)])
def test_a_polynomial_has_its_monomials_for_a_factor(degree, coef0):
    data = read(np.random.default_rng(0).normal(size=(150, 3)))
    (kernel,) = fit_kernels(polynomial_kernels(degree, coef0=coef0), data.X)
    factor = low_rank_kernels(data, [kernel], "trace").root(np.ones(1))
    X = data.X[np.concatenate(data.rows)]
    np.testing.assert_allclose(factor @ factor.T, kernel(X), rtol=1e-10, atol=1e-10)


def few_values():
    """Two tasks, three values of one column; a ladder of bandwidths on it between kernels of other kinds."""
    rng = np.random.default_rng(1)
    data = read(np.column_stack([rng.integers(3, size=90), rng.normal(size=90)]).astype(float))
    ladder = gaussian_kernels((0.3, 1.0, 5.0), relative=False, columns=0)
    return data, fit_kernels([ladder[0], *linear_kernels(), *ladder[1:], *polynomial_kernels(2, columns=1)], data.X)


def test_kernels_of_few_values_share_a_factor_and_linear_ones_have_their_own():
    data, kernels = few_values()
    found = low_rank_kernels(data, kernels, "trace")
    X = data.X[np.concatenate(data.rows)]
    V = np.random.default_rng(2).normal(size=(90, 2))
    forms = found.quadratic_forms(V)
    for k, kernel in enumerate(kernels):
        one = np.eye(len(kernels))[k]
        np.testing.assert_allclose(found.combine(one), kernel(X), atol=1e-12)
        np.testing.assert_allclose(forms[k], 0.5 * np.einsum("im,ij,jm->m", V, kernel(X), V), rtol=1e-10)
    assert [family.kernels.tolist() for family in found.families] == [[0, 2, 3], [1], [4]]
    assert found.rank == 3 + 2 + 3
    b = np.array([0.5, 0.0, 2.0, 1e-3, 1.0])
    whole = sum(w * kernel(X) for w, kernel in zip(b, kernels, strict=True))
    np.testing.assert_allclose(found.combine(b), whole, atol=1e-11)
    np.testing.assert_allclose(found.image(b, V), whole @ V, atol=1e-9)
    assert found.root(b).shape == (90, 3 + 3)


@pytest.mark.parametrize("normalize", [None, "trace"])
def test_factors_are_scaled_as_their_grams_are(normalize):
    data, kernels = few_values()
    X = data.X[np.concatenate(data.rows)]
    weight = np.random.default_rng(3).uniform(size=90)
    charges = np.linspace(1.0, 2.0, 5)
    scaling, found = low_rank_kernels(data, kernels, normalize).scaled(normalize, weight, charges)
    expected, grams = fit_scaling(normalize, evaluate(kernels, X), weight)
    np.testing.assert_allclose(scaling.factor, expected.factor / charges, rtol=1e-12)
    b = np.arange(1.0, 6.0)
    np.testing.assert_allclose(found.combine(b), np.tensordot(b / charges, grams, axes=1), rtol=1e-10, atol=1e-10)


def test_held_out_rows_meet_training_rows_through_their_factors():
    data, kernels = few_values()
    X = data.X[np.concatenate(data.rows)]
    found = low_rank_kernels(data, kernels, "trace")
    kept, held = np.arange(60), np.arange(60, 90)
    b, scale, V = np.arange(5.0), np.linspace(1.0, 2.0, 5), np.random.default_rng(4).normal(size=(60, 2))
    product = found.take(kept).image(b * scale, V, at=found.take(held))
    expected = sum(w * kernel(X[held], X[kept]) for w, kernel in zip(b * scale, kernels, strict=True)) @ V
    np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-10)


def test_a_ladder_of_bandwidths_costs_the_rank_of_one_kernel():
    data = read(np.random.default_rng(5).integers(4, size=(60, 2)).astype(float))
    for widths in ((1.0,), np.geomspace(0.1, 10.0, 30)):
        kernels = fit_kernels(gaussian_kernels(widths, relative=False, per_feature=True), data.X)
        assert low_rank_kernels(data, kernels, "trace").rank == 2 * 4


def test_factors_that_do_not_pay_are_not_made():
    data = read(np.random.default_rng(2).normal(size=(60, 5)))
    for kernels in (polynomial_kernels(3), gaussian_kernels(1.0)):
        assert low_rank_kernels(data, fit_kernels(kernels, data.X), "trace") is None
