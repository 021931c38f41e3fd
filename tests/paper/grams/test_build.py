"""From data and kernels to scaled stacks, for every form of data and every scaling."""

import numpy as np
import pytest
from grams.rows import KERNELS, RNG, TASKS, WEIGHT, X, build_grams, long_data, one_kernel, wide_data

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.grams import SCALINGS
from kernelkin.kernels.kernel import evaluate, fit_kernels
from kernelkin.paper.grams.build import raw_grams, scale_grams
from kernelkin.paper.grams.stack import SharedGrams, TaskGrams


def expected(gram, weight, normalize):
    """The scaling by its definition, with weights w of sum one."""
    w = weight / weight.sum()
    if normalize == "cosine":
        return gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    if normalize == "center":
        H = np.eye(len(w)) - w
        gram = H @ gram @ H.T
    return gram if normalize is None else gram / (w @ np.diag(gram))


@pytest.mark.parametrize("normalize", SCALINGS)
def test_long_data_have_a_stack_for_each_task_scaled_by_its_own_rows(normalize):
    data = long_data()
    grams, bank = build_grams(data, KERNELS, normalize)
    assert isinstance(grams, TaskGrams)
    assert (grams.n_kernels, grams.n_components, len(bank.scalings)) == (3, 3, 3)
    assert bank.names == tuple(kernel.name for kernel in KERNELS)
    for t, rows in enumerate(data.rows):
        for k, kernel in enumerate(KERNELS):
            gram = expected(kernel(X[rows]), WEIGHT[rows], normalize)
            np.testing.assert_allclose(one_kernel(grams, k, t), gram, atol=1e-12)


@pytest.mark.parametrize("normalize", SCALINGS)
def test_wide_data_have_one_stack_scaled_by_all_rows(normalize):
    data = wide_data()
    grams, bank = build_grams(data, KERNELS, normalize)
    assert isinstance(grams, SharedGrams)
    assert (grams.n_kernels, grams.n_components, len(bank.scalings)) == (3, 2, 1)
    for t, rows in enumerate(data.rows):
        for k, kernel in enumerate(KERNELS):
            gram = expected(kernel(X), WEIGHT, normalize)
            np.testing.assert_allclose(one_kernel(grams, k, t), gram[np.ix_(rows, rows)], atol=1e-12)


@pytest.mark.parametrize("normalize", ["trace", "center", None])
def test_precomputed_grams_are_the_same_and_are_not_modified(normalize):
    raw = np.moveaxis(evaluate(KERNELS, X), 0, 2).copy()
    before = raw.copy()
    model = MKMTRLRegressor("precomputed")
    data = model.training_data(raw, X[:, 0], TASKS, WEIGHT)
    given, bank = build_grams(data, None, normalize)
    direct, _ = build_grams(long_data(), KERNELS, normalize)
    B = RNG.uniform(size=(3, 3))
    for one, two in zip(given.combine(B, range(3)), direct.combine(B, range(3)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_array_equal(raw, before)
    assert bank.kernels is None
    assert bank.names == ("kernel 0", "kernel 1", "kernel 2")


def test_float32_rows_make_float32_stacks():
    data = read_training(X.astype(np.float32), X[:, 0], TASKS, None, classification=False)
    grams, _ = build_grams(data, fit_kernels(gaussian_kernels([1.0]), data.X), "trace")
    assert all(stack.values.dtype == np.float32 for stack in grams.stacks)


@pytest.mark.parametrize("make", [long_data, wide_data])
def test_scaling_a_part_of_raw_stacks_is_building_from_that_part(make):
    """What cross-validation rests on: kernels are evaluated once, folds are cut from what they gave."""
    data = make()
    raw = raw_grams(data, KERNELS, "center")
    kept = [np.arange(0, len(rows), 2) for rows in data.rows]
    part = data.take(kept)
    cut, cut_bank = scale_grams(raw.restrict(data, kept), part, "center")
    fresh, fresh_bank = build_grams(part, KERNELS, "center")
    B = np.random.default_rng(1).uniform(size=(3, data.n_tasks))
    machines = range(data.n_tasks)
    for one, two in zip(cut.combine(B, machines), fresh.combine(B, machines), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    for one, two in zip(cut_bank.scalings, fresh_bank.scalings, strict=True):
        np.testing.assert_allclose(one.factor, two.factor)


def test_a_kernel_that_centring_leaves_nothing_of_is_named():
    rows = np.column_stack([X[:, 0], np.full(len(X), 3.0)])
    with pytest.raises(ValueError, match=r"kernel 'linear\[1\]' is constant on the training rows of every task"):
        MKMTRLRegressor(linear_kernels(per_feature=True), normalize="center").fit(rows, X[:, 0], tasks=TASKS)
