"""The kernel between columns of a table with missing values."""

import numpy as np

from experiments.likeness import profile_kernel


def grouped(rng, n=60, missing=0.2):
    """Six columns in two groups, with levels of rows and columns, some values missing."""
    table = rng.normal(size=(n, 2))[:, [0, 0, 0, 1, 1, 1]] + 0.3 * rng.normal(size=(n, 6))
    table = table + rng.normal(size=(n, 1)) + 5 * rng.normal(size=6)
    table[rng.uniform(size=table.shape) < missing] = np.nan
    return table


def test_equals_the_plain_formula_on_a_whole_table():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 5))
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    values, vectors = np.linalg.eigh(np.corrcoef(centred.T) * 20 / 21)
    expected = (vectors * np.maximum(values - 1, 0)) @ vectors.T
    expected /= np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(profile_kernel(table), expected, atol=1e-10)


def test_is_positive_semi_definite_with_unit_diagonal():
    for missing in [0.0, 0.3, 0.8]:
        kernel = profile_kernel(grouped(np.random.default_rng(1), missing=missing))
        np.testing.assert_allclose(np.diag(kernel), 1.0)
        assert np.linalg.eigvalsh(kernel)[0] > -1e-10
        np.testing.assert_array_equal(kernel, kernel.T)


def test_finds_groups_in_any_units():
    table = grouped(np.random.default_rng(2))
    kernel = profile_kernel(table)
    assert kernel[:3, :3].min() > 0.9 and kernel[:3, 3:].max() < -0.5
    np.testing.assert_allclose(profile_kernel(1e6 * table - 3.0), kernel, atol=1e-8)


def test_columns_without_values_or_spread_are_like_no_other():
    table = grouped(np.random.default_rng(3))
    lonely = np.column_stack([table, np.full(len(table), np.nan)])
    kernel = profile_kernel(lonely)
    np.testing.assert_array_equal(kernel[-1], np.eye(7)[-1])
    np.testing.assert_allclose(kernel[:-1, :-1], profile_kernel(table), atol=1e-10)
    np.testing.assert_array_equal(profile_kernel(np.ones((4, 3))), np.eye(3))
