"""The definitions: splits of the right shape, metrics of the right value, and the authors' stock figures."""

import os

import numpy as np
import pytest
from sklearn.utils import Bunch

from experiments import EXPERIMENTS, find_protocol, landmine, sarcos
from experiments.engine import list_units, run_protocol, run_unit
from experiments.metrics import AUC, EXPLAINED, MSE1000, NMSE, score_by_task
from experiments.store import Store
from kernelkin.datasets import make_related_tasks

needs_data = pytest.mark.skipif(
    not os.environ.get("KERNELKIN_DATA"), reason="KERNELKIN_DATA does not name a folder with the data sets"
)


def test_normalised_error_is_relative_to_the_variance_and_undefined_without_any():
    rng = np.random.default_rng(0)
    y, prediction = rng.normal(size=30), rng.normal(size=30)
    assert NMSE.function(y, prediction) == pytest.approx(np.mean((y - prediction) ** 2) / y.var())
    assert EXPLAINED.function(y, prediction) == pytest.approx(1 - NMSE.function(y, prediction))
    assert MSE1000.function(y, prediction) == pytest.approx(1000 * np.mean((y - prediction) ** 2))
    assert np.isnan(NMSE.function(np.ones(3), np.zeros(3))) and np.isnan(EXPLAINED.function(np.ones(3), np.ones(3)))


def test_scores_are_of_each_task_and_undefined_ones_are_left_out():
    y, value = np.array([0, 1, 1, 1]), np.array([0.1, 0.9, 0.3, 0.4])
    tasks = np.array(["a", "a", "b", "b"])
    assert score_by_task(AUC, y, value, tasks, ["a", "b", "c"]) == {"a": 1.0}
    wide = score_by_task(NMSE, np.eye(3), np.eye(3), None, ["x", "y", "z"])
    assert wide == {"x": 0.0, "y": 0.0, "z": 0.0}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_the_rows_it_must_have(name):
    protocol = find_protocol(name)
    names = protocol.model_names()
    assert len(names) == len(set(names))
    for setting in protocol.settings:
        roles = [model.role for model in protocol.models(setting)]
        assert roles.count("ours") == 1
    assert {model for _, model in protocol.paper} <= set(names)
    assert {setting for setting, _ in protocol.paper} <= {setting.name for setting in protocol.settings}
    if name in ("flowers", "caltech"):
        assert {"AVG", "MKL-SA", "MK-MTFL", "MK-MTRL", "MK-MTRL, two-stage"} == set(names) and protocol.goals
    elif name in ("stock", "landmine", "sarcos", "school"):  # the paper's tables
        assert {"AVG", "STL", "IMKL", "MK-MTRL (paper)", "MK-MTRL (optimum)"} <= set(names)
        assert protocol.runs == 10 and protocol.goals
        assert protocol.metric.decisions or "Mean" in names


def test_landmine_split_on_a_stand_in(monkeypatch):
    rng = np.random.default_rng(0)
    tasks = np.repeat(["a", "b"], 100)
    y = np.tile((np.arange(100) < 10).astype(int), 2)
    data = Bunch(data=3 + rng.normal(size=(200, 9)), target=y, tasks=tasks, task_names=np.array(["a", "b"]))
    monkeypatch.setattr(landmine, "_data", lambda variant: data)
    setting = landmine.SETTINGS[0]
    split = landmine.split(setting, 0)
    assert split.X.shape == (60, 9) and split.X_test.shape == (140, 9)
    for task in ("a", "b"):
        assert split.y[split.tasks == task].sum() == 3
    assert np.allclose(split.X.mean(axis=0), 0) and np.allclose(split.X.std(axis=0), 1)
    assert not np.allclose(split.X_test.mean(axis=0), 0, atol=1e-3)
    again, other = landmine.split(setting, 0), landmine.split(setting, 1)
    assert np.array_equal(split.X, again.X) and not np.array_equal(split.X, other.X)


def test_sarcos_split_shares_its_rows_among_sizes(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 21))
    data = Bunch(data=X, target=X[:, :7] + 1.0, target_names=[f"torque{j}" for j in range(1, 8)])
    monkeypatch.setattr(sarcos, "_data", lambda: data)
    small, large = (sarcos.split(s, 3) for s in sarcos.PROTOCOL.settings[:2])
    assert small.X.shape == (15, 21) and small.X_test.shape == (1985, 21)
    assert large.X.shape == (50, 21) and large.y_test.shape == (1950, 7)
    assert np.allclose(large.y.mean(axis=0), 0) and np.allclose(large.y.std(axis=0), 1)


def test_landmine_models_run_on_related_tasks(monkeypatch):
    """Every model of the table, on data of our own."""
    made = make_related_tasks(n_tasks=5, n_groups=1, n_kernels=3, n_samples=60, random_state=0, regression=False)
    names, codes = np.unique(made.tasks, return_inverse=True)
    fields = np.array([f"field{6 * t + 1:02d}" for t in range(len(names))])  # of both terrains
    data = Bunch(data=made.data, target=(made.target > 0).astype(int), tasks=fields[codes], task_names=fields)
    monkeypatch.setattr(landmine, "_data", lambda variant: data)
    protocol = find_protocol("landmine-quick")
    results = [run_unit(protocol, unit) for unit in list_units(protocol, 1)]
    assert [r.model for r in results] == protocol.model_names()
    for result in results:
        assert 0.0 <= result.score <= 1.0 and len(result.scores) == 5
    ours = results[-1]
    assert ours.model == protocol.ours == "KinClassifier"
    assert ours.chosen["members"] and ours.relative_gap is None


@needs_data
def test_stock_as_published(tmp_path):
    """The table that the authors' program prints, to the digit, and what is left without its faults."""
    protocol = find_protocol("stock-as-published")
    results = {r.model: r for r in run_protocol(protocol, Store(tmp_path), runs=1)}
    expected = {
        "Mean": 0.691,
        "STL (with the fault)": 0.756,
        "STL (done right)": 0.920,
        "IMKL": 0.675,
        "MK-MTFL (with the fault)": 0.677,
        "MK-MTFL (optimum)": 0.695,
        "MK-MTRL (with the threshold)": 0.651,
        "MK-MTRL (without it)": 0.667,
        "MK-MTRL (optimum)": 0.667,
    }
    assert {name: result.score for name, result in results.items()} == pytest.approx(expected, abs=6e-4)
    threshold = "MK-MTRL (with the threshold)"
    printed = {task: float(figure) for (task, model), figure in protocol.paper_tasks.items() if model == threshold}
    assert {task: round(score, 2) for task, score in results[threshold].scores.items()} == printed
    assert results["MK-MTRL (optimum)"].effective_rank == pytest.approx(1.0, abs=1e-6)


@needs_data
@pytest.mark.parametrize("name", ["stock", "landmine", "sarcos", "school"])
def test_cheap_rows_on_the_real_data(name, tmp_path):
    protocol = find_protocol(f"{name}-quick")
    results = run_protocol(protocol, Store(tmp_path), runs=1, models=["Mean", "AVG"])
    assert results[-1].model == "AVG"
    assert results[-1].seconds > 0 and results[-1].chosen
    better = protocol.metric.larger_is_better
    if len(results) == 2:
        mean, average = (r.score for r in results)
        assert name == "stock" or (average > mean if better else average < mean)
