"""Kernels made from training rows: groups of columns, and a warning where columns differ much in spread."""

import re
import tracemalloc

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, TableEncoder, TwoStageMKMTRLRegressor, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.families import resolve_kernels, source_kernels
from kernelkin.kernels.sources import column_groups, group_name
from kernelkin.paper.model_selection import MultiTaskCV


def table(n=60, seed=0):
    """Numbers a, b (a copy of a with noise), c; and a category of three values as indicator columns."""
    rng = np.random.default_rng(seed)
    a, c, category = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, size=n)
    X = np.column_stack([a, a + 0.05 * rng.normal(size=n), c, *(category == k for k in range(3))]).astype(float)
    return X, np.sin(2 * c) + 0.1 * rng.normal(size=n)


def read(X, y, tasks=None):
    return read_training(X, y, tasks, None, classification=False)


def test_indicators_of_a_category_are_one_group_and_correlated_columns_a_block():
    X, _ = table()
    assert column_groups(X, 50) == [(3, 4, 5), (0,), (1,), (2,), (0, 1)]


def test_constant_columns_belong_to_no_group():
    X, _ = table()
    X[:, 2] = 7.0
    assert all(2 not in group for group in column_groups(X, 50))


def test_neighbouring_binary_columns_that_overlap_are_no_category():
    X = np.random.default_rng(1).integers(0, 2, size=(40, 3)).astype(float)
    assert column_groups(X, 50)[:3] == [(0,), (1,), (2,)]


def test_many_columns_are_joined_into_few_groups():
    rng = np.random.default_rng(2)
    factors = rng.normal(size=(50, 5))
    X = np.repeat(factors, 40, axis=1) + 0.1 * rng.normal(size=(50, 200))
    groups = column_groups(X, 5)
    assert sorted(map(sorted, groups)) == [list(range(40 * j, 40 * (j + 1))) for j in range(5)]


def test_groups_of_very_many_columns_need_no_matrix_of_all_pairs():
    """200 rows of 20,000 columns took 8 GiB."""
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(200, 40))
    X = np.repeat(factors, 500, axis=1) + 0.3 * rng.normal(size=(200, 20_000))
    tracemalloc.start()
    groups = column_groups(X, 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sorted(map(sorted, groups)) == [list(range(500 * j, 500 * (j + 1))) for j in range(40)]
    assert peak < 200 * 2**20


def test_names_of_groups():
    for group, name in [((0,), "age"), ((1, 2), "colour"), ((0, 3), "age, size"), ((0, 1, 2, 3), "age and 3 more")]:
        assert group_name(group, ["age", "colour=red", "colour=blue", "size"]) == name


def test_auto_kernels_cover_all_columns_and_each_group():
    X, y = table()
    names = [kernel.name for kernel in source_kernels("auto", read(X, y))]
    assert names[:6] == [kernel.name for kernel in resolve_kernels(None)]
    assert names[6:] == [f"rbf(1 x median)[{name}]" for name in ("3, 4, 5", "0", "1", "2", "0, 1")]


def test_named_groups():
    X, y = table()
    names = [kernel.name for kernel in source_kernels({"left": [0, 1], "right": [2]}, read(X, y))]
    assert [name for name in names if name.startswith("left")] == [
        "left: rbf(0.5 x median)", "left: rbf(1 x median)", "left: rbf(2 x median)", "left: linear",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="kernels is an empty dict: name at least one group of columns"):
        source_kernels({}, read(X, y))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) * [1000, 1]
Y, TASKS = X[:, 1] + X[:, 0] / 1000, np.repeat(["a", "b"], 20)
MESSAGE = (
    "the standard deviation of column 0 is 1.* times that of column 1, so Gaussian kernels on all columns depend mostly"
)
MODELS = {
    "a single model": MKMTRLRegressor(),
    "two stages": TwoStageMKMTRLRegressor(n_rounds=100, random_state=0),
    "a search": MultiTaskCV(MKMTRLRegressor(), grid={"C": [1.0, 10.0]}, cv=2),
}


def test_columns_of_very_different_spread_are_named():
    for name in MODELS:
        with pytest.warns(UserWarning, match=MESSAGE):
            MODELS[name].fit(X, Y, tasks=TASKS)


@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (MKMTRLRegressor(), X / [1000, 1]),
        (MKMTRLRegressor(), TableEncoder().fit(X).transform(X)),
        (MKMTRLRegressor(linear_kernels()), X),
    ],
)
def test_no_warning_where_no_distance_mixes_columns_of_different_spread(recwarn, model, rows):
    model.fit(rows, Y, tasks=TASKS)
    assert not [str(found.message) for found in recwarn if re.search("standard deviation", str(found.message))]
