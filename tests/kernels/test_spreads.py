import re

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, TableEncoder, TwoStageMKMTRLRegressor, linear_kernels
from kernelkin.paper.model_selection import MultiTaskCV

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) * [1000, 1]
Y, TASKS = X[:, 1] + X[:, 0] / 1000, np.repeat(["a", "b"], 20)
MESSAGE = (
    "the standard deviation of column 0 is 1.* times that of column 1, so that Gaussians on all columns depend on few"
)
MODELS = {
    "a single model": MKMTRLRegressor(),
    "two stages": TwoStageMKMTRLRegressor(n_rounds=100, random_state=0),
    "a search": MultiTaskCV(MKMTRLRegressor(), grid={"C": [1.0, 10.0]}, cv=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_columns_of_very_different_spread_are_named(name):
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
