"""What every kernel family, and every other way to name a kernel, must satisfy."""

import functools
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.metrics.pairwise import laplacian_kernel

from kernelkin.kernels.families import KERNEL_FAMILIES, NAMED_KERNELS, resolve_kernels
from kernelkin.kernels.grams import check_gram
from kernelkin.kernels.kernel import diagonals, evaluate, fit_kernels

ARGUMENTS = {
    "gaussian": [
        {"bandwidths": [0.3, 2.0], "relative": False},
        {"per_feature": True},
        {"bandwidths": 1.0, "columns": ["a", 2, 1]},
    ],
    "polynomial": [{"degrees": [1, 2, 3]}, {"degrees": 2, "coef0": 0.0, "columns": slice(1, 3)}],
    "linear": [{"per_feature": True}, {"columns": ["b", "c"]}],
    "tanimoto": [{"powers": [1, 2, 5]}, {"columns": ["a", "c"]}],
    "view": [{"views": {"left": ["a", "b"], "right": slice(2, None)}, "kernel": ["rbf", "poly", "laplacian"]}],
    "default": [{}],
}
FAMILIES = {name: [k for kw in ARGUMENTS[name] for k in family(**kw)] for name, family in KERNEL_FAMILIES.items()}
OTHERS = {
    "names": resolve_kernels([*NAMED_KERNELS, "laplacian", "chi2", "cosine"]),
    "callables": resolve_kernels([laplacian_kernel, functools.partial(laplacian_kernel, gamma=2.0)]),
}
NAMES = ["a", "b", "c", "d"]


class Shell(BaseEstimator):
    def __init__(self, kernels=None):
        self.kernels = kernels


@pytest.fixture
def X():
    # Not negative, because chi2 refuses that; away from the origin, where expanded squares lose digits.
    X = np.random.default_rng(0).uniform(1.0, 5.0, size=(40, 4))
    before = X.copy()
    yield X
    np.testing.assert_array_equal(X, before, err_msg="a kernel modified the rows")


@pytest.fixture(params=["families", "names", "callables"])
def kernels(request):
    return OTHERS.get(request.param) or resolve_kernels(list(FAMILIES.values()))


def test_every_family_is_here():
    assert set(ARGUMENTS) == set(KERNEL_FAMILIES)


def test_gram_is_symmetric_psd_and_keeps_the_precision(kernels, X):
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        fitted = fit_kernels(kernels, rows, NAMES)
        grams = evaluate(fitted, rows)
        assert grams.dtype == dtype and grams.shape == (len(fitted), 40, 40)
        for kernel, G in zip(fitted, grams, strict=True):
            np.testing.assert_array_equal(G, G.T)
            check_gram(kernel.name, G, known_psd=False)


def test_kernels_evaluated_together_are_those_evaluated_alone_and_after_pickling(kernels, X):
    fitted = fit_kernels(kernels, X, NAMES)
    restored = pickle.loads(pickle.dumps(fitted))
    assert [kernel.name for kernel in restored] == [kernel.name for kernel in fitted]
    for Y in (None, X[:7]):
        together = evaluate(fitted, X, Y)
        np.testing.assert_array_equal(evaluate(restored, X, Y), together)
        for k, kernel in enumerate(fitted):
            np.testing.assert_allclose(together[k], kernel(X, Y), rtol=1e-14, atol=1e-15, err_msg=kernel.name)


def test_fitting_together_is_fitting_one_by_one(X):
    for kernels in (resolve_kernels(None), OTHERS["names"], FAMILIES["view"]):
        assert fit_kernels(kernels, X, NAMES) == [kernel.fit(X, NAMES) for kernel in kernels]


def test_pairs_and_diagonals_are_entries_of_the_matrix(kernels, X):
    i, j = np.random.default_rng(1).integers(40, size=(2, 150))
    for dtype, rtol in ((np.float32, 2e-4), (np.float64, 1e-11)):
        rows = X.astype(dtype)
        fitted = fit_kernels(kernels, rows, NAMES)
        grams, values = evaluate(fitted, rows), evaluate(fitted, rows, at=(i, j))
        assert values.dtype == dtype
        np.testing.assert_allclose(values, grams[:, i, j], rtol=rtol, atol=rtol)
        np.testing.assert_allclose(diagonals(fitted, rows), np.diagonal(grams, axis1=1, axis2=2), rtol=rtol)


def test_cross_matrix_is_a_block_of_the_gram(kernels, X):
    fitted = fit_kernels(kernels, X, NAMES)
    grams = evaluate(fitted, X)
    np.testing.assert_allclose(evaluate(fitted, X[:9], X), grams[:, :9], rtol=1e-11, atol=1e-13)


def test_repeating_a_row_equals_weighting_it(kernels, X):
    weight = np.random.default_rng(2).integers(0, 4, size=40)
    weighted = fit_kernels(kernels, X, NAMES, weight.astype(float))
    assert weighted == fit_kernels(kernels, np.repeat(X, weight, axis=0), NAMES)


def test_kernels_are_compared_hashed_and_cloned_by_value():
    # Not the callables: Python compares two functools.partial by identity.
    kernels = resolve_kernels([*FAMILIES.values(), OTHERS["names"]])
    assert len({(kernel.name, kernel.per_feature) for kernel in kernels}) == len(set(kernels)) == len(kernels)
    assert pickle.loads(pickle.dumps(kernels)) == kernels
    copy = clone(clone(Shell(kernels)))
    assert copy.kernels == kernels and copy.kernels is not kernels
