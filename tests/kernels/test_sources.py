"""Kernels made from training rows, and a warning where columns differ much in spread."""

import re

import numpy as np
import pandas as pd
import pytest

from kernelkin import MKMTRLRegressor, TableEncoder, TwoStageMKMTRLRegressor, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.families import resolve_kernels, source_kernels
from kernelkin.paper.model_selection import MultiTaskCV


def read(X, y, tasks=None):
    return read_training(X, y, tasks, None, classification=False)


def test_auto_kernels_cover_all_columns_and_each_column():
    names = [kernel.name for kernel in source_kernels("auto", read(X, Y))]
    assert names == [*(kernel.name for kernel in resolve_kernels(None)), "rbf(1 x median)[0]", "rbf(1 x median)[1]"]


def test_named_groups():
    names = [kernel.name for kernel in source_kernels({"left": [0, 1], "right": [1]}, read(X, Y))]
    assert [name for name in names if name.startswith("left")] == [
        "left: rbf(0.5 x median)", "left: rbf(1 x median)", "left: rbf(2 x median)", "left: linear",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="empty: name at least one group of columns"):
        source_kernels({}, read(X, Y))


def test_kernels_of_an_encoded_table_go_by_its_columns():
    days = pd.date_range("2024-01-01", periods=40, freq="9D")
    table = pd.DataFrame({"size": np.arange(40.0) ** 2, "day": days, "kind": ["a", "b"] * 20})
    encoder = TableEncoder().fit(table)
    encoded = encoder.encode(table)
    data, origins = read(encoded, Y), encoded.origins
    (named,) = source_kernels(linear_kernels(columns=["kind", "size"]), data)
    assert [origins[p][0] for p in named.columns] == ["kind", "kind", "size"]
    each = {kernel.name: kernel.columns for kernel in source_kernels(linear_kernels(per_feature=True), data)}
    assert list(each) == [
        "linear[size]",
        "linear[day (time)]",
        "linear[day (season)]",
        "linear[day (weekday)]",
        ("linear[kind]"),
    ]
    assert [len(columns) for columns in each.values()] == [1, 1, 2, 7, 2]
    (feature,) = source_kernels(linear_kernels(columns="kind=a"), data)
    assert encoder.get_feature_names_out()[list(feature.columns)].tolist() == ["kind=a"]


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) * [1000, 1]
Y, TASKS = X[:, 1] + X[:, 0] / 1000, np.repeat(["a", "b"], 20)
MESSAGE = "the standard deviation of column 0 is 1.* times that of column 1, so kernels of distances depend mostly"
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
