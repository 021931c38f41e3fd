"""Exact factors of low rank, against the Gram matrices they stand for."""

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels, polynomial_kernels
from kernelkin.data import read_training
from kernelkin.grams.lowrank import low_rank_kernels
from kernelkin.kernels import fit_kernels


def read(X):
    tasks = np.arange(len(X)) % 2
    return read_training(MKMTRLRegressor(), X, X[:, 0], tasks, None, classification=False)


@pytest.mark.parametrize("coef0", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_polynomial_has_its_monomials_for_a_factor(degree, coef0):
    data = read(np.random.default_rng(0).normal(size=(150, 3)))
    (kernel,) = fit_kernels(polynomial_kernels(degree, coef0=coef0), data.X)
    (factor,) = low_rank_kernels(data, [kernel], "trace").factors
    X = data.X[np.concatenate(data.rows)]
    np.testing.assert_allclose(factor @ factor.T, kernel(X), rtol=1e-10, atol=1e-10)


def test_kernels_of_few_values_and_linear_ones_have_factors():
    rng = np.random.default_rng(1)
    data = read(np.column_stack([rng.integers(3, size=90), rng.normal(size=90)]).astype(float))
    kernels = fit_kernels([*gaussian_kernels(1.0, columns=0), *linear_kernels()], data.X)
    found = low_rank_kernels(data, kernels, "trace")
    X = data.X[np.concatenate(data.rows)]
    for kernel, factor in zip(kernels, found.factors, strict=True):
        np.testing.assert_allclose(factor @ factor.T, kernel(X), atol=1e-12)
    assert found.rank == 5


def test_factors_that_do_not_pay_are_not_made():
    data = read(np.random.default_rng(2).normal(size=(60, 5)))
    for kernels in (polynomial_kernels(3), gaussian_kernels(1.0)):
        assert low_rank_kernels(data, fit_kernels(kernels, data.X), "trace") is None
