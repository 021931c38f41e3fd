"""The functions that a fit leaves behind, against Gram matrices times coefficients."""

import numpy as np
import pytest
from grams.rows import KERNELS, TASKS, X, build_grams, long_data, one_kernel, wide_data

from kernelkin.kernels.grams import SCALINGS
from kernelkin.paper.functions import LinearFunctions, task_functions


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
    first = functions.expansions[0]
    assert [kernel.name for kernel in first.kernels] == ["linear"]
    np.testing.assert_array_equal(first.support, data.rows[0][5:])
    np.testing.assert_array_equal(first.rows, X[data.rows[0][5:]])


def test_queries_in_blocks_are_the_same(monkeypatch):
    data = wide_data()
    _, bank = build_grams(data, KERNELS, "cosine")
    rng = np.random.default_rng(3)
    a = [rng.normal(size=(len(rows), 2)) for rows in data.rows]
    functions = task_functions(data, bank, rng.uniform(size=(3, 2)), a, [np.zeros(2)] * 2)
    whole, parts = functions.values(X, None), functions.parts(X, None)
    monkeypatch.setattr("kernelkin.paper.functions._BLOCK_BYTES", 1)
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


def test_linear_functions_of_given_tasks_and_of_all():
    rng = np.random.default_rng(5)
    coef, intercept, rows = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(6, 2))
    functions = LinearFunctions(coef, intercept)
    everything = functions.values(rows, None)
    np.testing.assert_allclose(everything[:, :, 0], rows @ coef.T + intercept)
    codes = np.array([0, 2, 1, 1, 0, 2])
    np.testing.assert_allclose(functions.values(rows, codes)[:, 0], everything[np.arange(6), codes, 0])
