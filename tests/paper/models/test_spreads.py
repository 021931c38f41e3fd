"""Columns in very different units are named in a warning, where one distance depends on all of them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from kernelkin import KinRegressor, MKMTRLRegressor, TableEncoder, linear_kernels
from kernelkin.kernels import gaussian_kernels

rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": rng.normal(40, 10, 40), "salary": rng.normal(5e4, 1e4, 40), "same": 1.0})
Y, TASKS = FRAME.age / 10, np.repeat(["a", "b"], 20)


def test_the_widest_and_the_narrowest_column_are_named():
    with pytest.warns(UserWarning, match="column 'salary' is 1.*e\\+03 times that of column 'age', so kernels of"):
        MKMTRLRegressor().fit(FRAME, Y, tasks=TASKS)
    with pytest.warns(UserWarning, match="column 1 is 1.*e\\+03 times that of column 0, so kernels"):
        MKMTRLRegressor().fit(FRAME.to_numpy(), Y, tasks=TASKS)


@pytest.mark.parametrize(
    "model",
    [
        MKMTRLRegressor(linear_kernels()),
        MKMTRLRegressor(gaussian_kernels(1.0, per_feature=True)),
        KinRegressor("linear", cv=2),
    ],
    ids=["linear", "each column", "Kin"],
)
def test_no_warning_where_no_distance_depends_on_all_columns_or_they_are_scaled(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(FRAME.drop(columns="same"), Y, tasks=TASKS)
        MKMTRLRegressor().fit(TableEncoder().fit_transform(FRAME), Y, tasks=TASKS)
    assert not [str(warning.message) for warning in caught]


@pytest.mark.parametrize("value", [0.1, 1.0, 1e6])
def test_equal_targets_are_fitted_with_and_without_an_intercept(value):
    X, tasks = np.random.default_rng(0).normal(size=(30, 2)), np.repeat(["a", "b"], 15)
    model = MKMTRLRegressor(mu="scale").fit(X, np.full(30, value), tasks=tasks)
    np.testing.assert_allclose(model.predict(X, tasks=tasks), value, rtol=1e-12)
    model = MKMTRLRegressor(fit_intercept=False).fit(X, np.full(30, value), tasks=tasks)
    assert 0.0 < model.objective_ < 0.5 * 30 * value**2  # that of no function
    assert model.duality_gap_ <= 1e-3 * model.objective_
