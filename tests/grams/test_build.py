"""From data and kernels to scaled stacks, for every form of data and every scaling."""

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.data import read_training
from kernelkin.grams import SharedGrams, TaskGrams, build_grams, plan_grams, task_functions
from kernelkin.grams.build import raw_grams, scale_grams
from kernelkin.functions.expansion import make_expansion
from kernelkin.kernels import SCALINGS, evaluate, fit_kernels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(18, 3)) + 1
TASKS = RNG.permutation(np.repeat([0, 1, 2], [8, 6, 4]))
KERNELS = fit_kernels([*gaussian_kernels([0.5, 2.0], relative=False), *linear_kernels()], X)
WEIGHT = RNG.uniform(0.5, 2, size=18)


def long_data(**params):
    return read_training(MKMTRLRegressor(**params), X, X[:, 0], TASKS, WEIGHT, classification=False)


def wide_data():
    Y = X[:, :2].copy()
    Y[:5, 1] = np.nan
    return read_training(MKMTRLRegressor(), X, Y, None, WEIGHT, classification=False)


def one_kernel(grams, k, machine):
    weights = np.zeros((grams.n_kernels, grams.n_components))
    weights[k] = 1
    return grams.combine(weights, range(machine, machine + 1))[0]


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
    assert (grams.n_kernels, grams.n_machines, len(bank.scalings)) == (3, 3, 3)
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
    assert (grams.n_kernels, grams.n_machines, len(bank.scalings)) == (3, 2, 1)
    for t, rows in enumerate(data.rows):
        for k, kernel in enumerate(KERNELS):
            gram = expected(kernel(X), WEIGHT, normalize)
            np.testing.assert_allclose(one_kernel(grams, k, t), gram[np.ix_(rows, rows)], atol=1e-12)


@pytest.mark.parametrize("normalize", ["trace", "center", None])
def test_precomputed_grams_are_the_same_and_are_left_alone(normalize):
    raw = np.moveaxis(evaluate(KERNELS, X), 0, 2).copy()
    before = raw.copy()
    model = MKMTRLRegressor("precomputed")
    data = read_training(model, raw, X[:, 0], TASKS, WEIGHT, classification=False)
    given, bank = build_grams(data, None, normalize)
    direct, _ = build_grams(long_data(), KERNELS, normalize)
    B = RNG.uniform(size=(3, 3))
    for one, two in zip(given.combine(B, range(3)), direct.combine(B, range(3)), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_array_equal(raw, before)
    assert bank.kernels is None
    assert bank.names == ("kernel 0", "kernel 1", "kernel 2")


def test_float32_rows_make_float32_stacks():
    data = read_training(MKMTRLRegressor(), X.astype(np.float32), X[:, 0], TASKS, None, classification=False)
    grams, _ = build_grams(data, fit_kernels(gaussian_kernels([1.0]), data.X), "trace")
    assert all(stack.values.dtype == np.float32 for stack in grams.stacks)


@pytest.mark.parametrize("make", [long_data, wide_data])
def test_scaling_a_part_of_raw_stacks_is_building_from_that_part(make):
    """What cross-validation rests on: kernels are evaluated once, folds are cut from what they gave."""
    data = make()
    raw = raw_grams(data, KERNELS, "center", plan_grams(data, KERNELS, "center"))
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


# Prediction


@pytest.mark.parametrize("normalize", SCALINGS)
@pytest.mark.parametrize("make", [long_data, wide_data])
def test_functions_at_the_training_rows_are_the_grams_times_the_coefficients(make, normalize):
    data = make()
    grams, bank = build_grams(data, KERNELS, normalize)
    rng = np.random.default_rng(2)
    T = data.n_tasks
    B = rng.uniform(size=(3, T))
    B[1] = 0.0
    a = [rng.normal(size=(len(rows), 1)) * (rng.random((len(rows), 1)) < 0.6) for rows in data.rows]
    intercepts = [rng.normal(size=1) for _ in range(T)]
    functions = task_functions(data, bank, B, a, intercepts)
    combined = grams.combine(B, range(T))
    for t, rows in enumerate(data.rows):
        values = functions.values(X[rows], np.full(len(rows), t))
        np.testing.assert_allclose(values, combined[t] @ a[t] + intercepts[t], atol=1e-10)
        parts = functions.parts(X[rows], np.full(len(rows), t))
        for k in range(3):
            np.testing.assert_allclose(parts[:, k], B[k, t] * one_kernel(grams, k, t) @ a[t], atol=1e-10)
    everything = functions.values(X, None)
    assert everything.shape == (len(X), T, 1)
    for t in range(T):
        np.testing.assert_allclose(everything[:, t], functions.values(X, np.full(len(X), t)), atol=1e-12)


def test_what_does_not_count_is_not_kept():
    data = long_data()
    _, bank = build_grams(data, KERNELS, "trace")
    B = np.ones((3, 3))
    B[:, 0] = [0.0, 0.0, 2.0]
    a = [np.ones((len(rows), 1)) for rows in data.rows]
    a[0][:5] = 0.0
    functions = task_functions(data, bank, B, a, [np.zeros(1)] * 3)
    (first,) = functions.expansions[0].bundles
    assert [kernel.name for kernel in first.kernels] == ["linear"]
    np.testing.assert_array_equal(first.support, data.rows[0][5:])
    np.testing.assert_array_equal(first.rows, X[data.rows[0][5:]])


def test_repeated_support_rows_are_evaluated_once():
    rng = np.random.default_rng(8)
    rows = np.column_stack([rng.integers(3, size=40), rng.normal(size=40)])
    kernels = tuple(fit_kernels([*gaussian_kernels((1.0,), columns=0), *gaussian_kernels((1.0,), columns=1)], rows))
    a, b = rng.normal(size=(40, 2)), rng.uniform(size=(2, 2))
    scaling = SCALINGS["trace"](np.array([2.0, 3.0]))
    expansion = make_expansion(rows, np.arange(40), kernels, scaling, a, b, np.ones(2))
    assert [len(bundle.rows) for bundle in expansion.bundles] == [3, 40]
    expected = 1 + sum(scaling.factor[k] * kernels[k](rows) @ (a * b[k]) for k in range(2))
    np.testing.assert_allclose(expansion.values(rows), expected, atol=1e-12)


def test_queries_in_blocks_are_the_same(monkeypatch):
    data = wide_data()
    _, bank = build_grams(data, KERNELS, "cosine")
    rng = np.random.default_rng(3)
    a = [rng.normal(size=(len(rows), 2)) for rows in data.rows]
    functions = task_functions(data, bank, rng.uniform(size=(3, 2)), a, [np.zeros(2)] * 2)
    whole, parts = functions.values(X, None), functions.parts(X, None)
    monkeypatch.setattr("kernelkin.functions.expansion._BLOCK_BYTES", 1)
    np.testing.assert_allclose(functions.values(X, None), whole, atol=1e-12)
    np.testing.assert_allclose(functions.parts(X, None), parts, atol=1e-12)


def test_functions_without_support_are_constant():
    data = long_data()
    _, bank = build_grams(data, KERNELS, "trace")
    a = [np.zeros((len(rows), 1)) for rows in data.rows]
    functions = task_functions(data, bank, np.ones((3, 3)), a, [np.full(1, t) for t in range(3)])
    np.testing.assert_array_equal(functions.values(X, TASKS)[:, 0], TASKS)
    assert not functions.parts(X, TASKS).any()
    none = task_functions(data, bank, np.zeros((3, 3)), a, [np.full(1, t) for t in range(3)])
    np.testing.assert_array_equal(none.values(X, TASKS)[:, 0], TASKS)


def test_a_kernel_that_centring_leaves_nothing_of_is_named():
    rows = np.column_stack([X[:, 0], np.full(len(X), 3.0)])
    with pytest.raises(ValueError, match=r"kernel 'linear\[1\]' is constant on the training rows of every task"):
        MKMTRLRegressor(linear_kernels(per_feature=True), normalize="center").fit(rows, X[:, 0], tasks=TASKS)
