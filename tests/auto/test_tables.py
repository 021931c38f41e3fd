"""KinRegressor and KinClassifier on tables of mixed columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin import KinClassifier, KinRegressor, TableEncoder, gaussian_kernels, load_model, save_model
from kernelkin.auto.standard import Standard
from kernelkin.data import read_training
from kernelkin.kernels import AutoKernels

GROUPS = {"drinks": ["colour", "size"], "weather": ["warm"]}


def table(n=60, seed=0):
    """Two shops; the target depends on a text and on a number, of which some are missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "shop": np.repeat(["a", "b"], n // 2),
            "colour": rng.choice(["red", "blue", "green"], n),
            "size": rng.normal(50, 10, n),
            "warm": rng.normal(size=n),
            "receipt": [f"r{i}" for i in range(n)],
        }
    )
    y = 2.0 * (frame.colour == "red") + 0.1 * frame["size"] + 0.05 * rng.normal(size=n)
    frame.loc[::7, "size"] = np.nan
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def fitted():
    frame, y = table()
    return KinRegressor(GROUPS, cv=2, task_column="shop", random_state=0).fit(frame, y)


def test_a_mixed_table_goes_straight_in(fitted):
    frame, y = table(seed=1)
    known = frame["size"].notna().to_numpy()
    residuals = (y - fitted.predict(frame))[known]
    assert residuals.var() < 0.1 * y[known].var()
    assert "receipt: left out" in fitted.encoder_.describe()
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()


def test_shares_are_by_the_names_of_groups_and_columns(fitted):
    assert set(fitted.column_shares_) == {"all columns together", "drinks", "weather"}
    assert sum(fitted.column_shares_.values()) == pytest.approx(1.0)
    assert fitted.column_shares_["drinks"] > fitted.column_shares_["weather"]
    assert "drinks" in fitted.explain()


@pytest.mark.filterwarnings("ignore:no tasks were given")
def test_it_is_the_encoder_that_makes_the_numbers():
    frame, y = table()
    own = KinRegressor("linear", cv=2, random_state=0).fit(frame.drop(columns="shop"), y, tasks=frame.shop)
    encoded = TableEncoder().fit(frame.drop(columns="shop")).encode(frame)
    other = KinRegressor("linear", cv=2, random_state=0).fit(encoded, y, tasks=frame.shop)
    assert other.encoder_ is None
    assert_array_equal(own.predict(frame.drop(columns="shop"), frame.shop), other.predict(encoded, frame.shop))
    short = KinRegressor("linear", encoder=TableEncoder(drop=["warm"]), cv=2).fit(frame, y)
    assert [column.name for column in short.encoder_.columns_] == ["shop", "colour", "size"]
    assert short.fit(frame[["size"]].fillna(0).to_numpy(), y).encoder_ is None


def test_the_encoder_is_saved_with_the_model(fitted, tmp_path):
    frame, _ = table(seed=2)
    save_model(fitted, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    assert loaded.model.encoder_.describe() == fitted.encoder_.describe()


def test_classes_are_learned_from_a_mixed_table():
    frame, y = table()
    labels = np.where(y > np.median(y), "much", "little")
    model = KinClassifier("linear", cv=2, task_column="shop", random_state=0).fit(frame, labels)
    assert model.score(frame, labels) > 0.8


def test_positions_of_columns_are_refused():
    frame, y = table()
    kernels = [*gaussian_kernels(1.0), *gaussian_kernels(1.0, columns=[0])]
    with pytest.raises(ValueError, match=r"^kernels: columns of a table are given by name, not by position$"):
        KinRegressor(kernels, task_column="shop").fit(frame, y)


def encoded_data():
    frame, y = table()
    encoded = TableEncoder().fit(frame.drop(columns="shop")).encode(frame)
    return read_training(encoded, y, frame.shop, None, classification=False)


def test_the_features_of_a_column_are_one_group_of_kernels():
    names = [kernel.name for kernel in AutoKernels(whole=False).fit(encoded_data())]
    assert names == ["linear", "rbf(1 x median)[colour]", "rbf(1 x median)[size]", "rbf(1 x median)[warm]"]


def test_a_category_is_scaled_as_one_column():
    data = encoded_data()
    standard = Standard.fit(data, classification=False)
    variances = standard.apply(data).X.var(axis=0)
    columns = np.array([column for column, _ in data.feature_origins])
    for column in ("colour", "size", "warm"):
        assert_allclose(variances[columns == column].sum(), 1.0)
