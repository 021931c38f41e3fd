"""Rows of three tasks, kernels on them, and one of the Gram matrices of a problem."""

import numpy as np

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper.grams.build import raw_grams, scale_grams

RNG = np.random.default_rng(0)
X = RNG.normal(size=(18, 3)) + 1
TASKS = RNG.permutation(np.repeat([0, 1, 2], [8, 6, 4]))
KERNELS = fit_kernels([*gaussian_kernels([0.5, 2.0], relative=False), *linear_kernels()], X)
WEIGHT = RNG.uniform(0.5, 2, size=18)


def long_data(**params):
    return MKMTRLRegressor(**params).training_data(X, X[:, 0], TASKS, WEIGHT)


def wide_data():
    Y = X[:, :2].copy()
    Y[:5, 1] = np.nan
    return read_training(X, Y, None, WEIGHT, classification=False)


def one_kernel(grams, k, machine):
    weights = np.zeros((grams.n_kernels, grams.n_components))
    weights[k] = 1
    return grams.combine(weights, range(machine, machine + 1))[0]


def build_grams(data, kernels, normalize, couplings=()):
    """The scaled Gram matrices of a fit, and its kernels; `kernels` is None for precomputed ones."""
    raw = raw_grams(data, kernels, normalize, bool(couplings))
    return scale_grams(raw, data, normalize, couplings)
