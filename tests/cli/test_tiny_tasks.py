"""Tasks of one row or one class on the command line: kept where tasks share, left out elsewhere."""

import json

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model

REGRESSION = ["--task", "shop", "--target", "sales", "--drop", "busy"]
CLASSES = ["--task", "shop", "--target", "busy", "--drop", "sales"]


@pytest.fixture
def table(sales, tmp_path):
    """The shops, and one that opened yesterday."""
    pd.concat([sales, sales.head(1).assign(shop="east")]).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_a_task_of_one_row_is_left_out_where_tasks_share_nothing(run, table, tmp_path):
    out = run("fit", table, *REGRESSION, "--model", "MK-MTRL", "-o", tmp_path / "m.kin")
    assert "Left out 1 group with only one row: 'east'." in out
    assert load_model(tmp_path / "m.kin").model.tasks_.tolist() == ["north", "south", "west"]


def test_a_task_of_one_row_is_learned_where_tasks_share(run, table, tmp_path):
    argv = ["--set", "couplings=common", "-o", tmp_path / "m.kin"]
    out = run("fit", table, *REGRESSION, *argv, compares=True)
    assert "1 group with only one row: 'east', learned from the shared part." in out
    assert "Recommendation: " in out  # the comparison without sharing is made on the other tasks
    run("predict", tmp_path / "m.kin", table, "--interval", "0.9", "-o", tmp_path / "p.csv")
    last = pd.read_csv(tmp_path / "p.csv").iloc[-1]
    assert last["shop"] == "east"
    assert last["prediction_low"] < last["prediction"] < last["prediction_high"]


def test_a_task_of_one_class_is_learned_where_tasks_share(run, sales, tmp_path):
    one_class = sales.where(sales.shop != "west", sales.assign(busy="no"))
    # Numbers of tasks, which are text in the file and in the model.
    one_class["shop"] = one_class.shop.map({"north": 3.0, "south": 2.0, "west": 10.0})
    one_class.to_csv(tmp_path / "t.csv", index=False)
    argv = ["--set", "couplings=common", "--json", "-o", tmp_path / "m.kin"]
    assert "10.0" in json.loads(run("fit", tmp_path / "t.csv", *CLASSES, *argv))["tasks"]
    run("predict", tmp_path / "m.kin", tmp_path / "t.csv", "--proba", "-o", tmp_path / "p.csv")
    probabilities = pd.read_csv(tmp_path / "p.csv").query("shop == 10.0")[["probability_no", "probability_yes"]]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_every_task_with_one_row_is_refused(run, sales, tmp_path):
    sales.assign(shop=sales.id).to_csv(tmp_path / "t.csv", index=False)
    error = run("fit", tmp_path / "t.csv", *REGRESSION, "-o", tmp_path / "m.kin", fails=True)
    assert f"{tmp_path}/t.csv: every group has only one row: is 'shop' the right --task column?" in error
