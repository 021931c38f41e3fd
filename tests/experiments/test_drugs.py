"""Drug response: what is held out is not seen, and the figures are those that are stored."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from experiments import drugs, drugs_baselines, drugs_data, drugs_models
from experiments.drugs_baselines import LowRank, Means, Nearest
from experiments.drugs_data import CELL_LINES, DRUGS, ENTRIES, SETTINGS, DrugData
from experiments.drugs_models import Chosen, KernelModel, deal, level_weights
from experiments.drugs_worth import paired_interval
from experiments.engine import list_units, run_unit

needs_data = pytest.mark.skipif(
    not os.environ.get("KERNELKIN_DATA"), reason="KERNELKIN_DATA does not name a folder with the data sets"
)


def made_up(n=24, T=15, seed=0):
    """A small set of the same form, in which alike drugs act alike on alike cell lines."""
    rng = np.random.default_rng(seed)
    cells, agents = rng.normal(size=(n, 3)), rng.normal(size=(T, 3))
    response = 2 * agents[:, 0] + cells @ agents.T + 0.3 * rng.normal(size=(n, T))
    kernels = [(1 + part @ part.T) ** 2 for part in (cells, agents)]
    kernels = [kernel / np.sqrt(np.outer(np.diag(kernel), np.diag(kernel))) for kernel in kernels]
    kinds = tuple(f"{kind}_1" for kind in drugs_data.MEASUREMENTS)
    fold = rng.permutation(n * T).reshape(n, T) % drugs_data.RUNS
    return DrugData(response, np.array([kernels[0]] * 4), kinds, np.array([kernels[1]] * 2), ("a", "b"), fold)


@pytest.fixture
def small(monkeypatch):
    data = made_up()
    for module in (drugs_data, drugs_models, drugs_baselines):
        monkeypatch.setattr(module, "load", lambda: data)
    return data


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_test_entries_are_not_in_training_and_every_entry_is_tested_once(small, setting):
    tested = np.zeros(small.response.shape, dtype=int)
    for run in range(drugs_data.RUNS):
        split = drugs_data.split(setting, run)
        train, test = (np.zeros(small.response.shape, dtype=bool) for _ in range(2))
        train[split.X], test[split.X_test] = np.isfinite(split.y), np.isfinite(split.y_test)
        np.testing.assert_array_equal(train, ~test)
        if setting.name != ENTRIES:
            across = test.all(axis=1 if setting.name == CELL_LINES else 0)
            assert across.sum() * test.shape[1 if setting.name == CELL_LINES else 0] == test.sum()
        tested += test
    assert (tested == 1).all()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_no_prediction_depends_on_test_entries(small, monkeypatch, setting):
    """Every model of the table, with the test entries replaced by noise."""
    units = [unit for unit in list_units(drugs.PROTOCOL, 1) if unit.setting == setting and unit.model.role != "part"]
    split = drugs_data.split(setting, 0)
    held = np.zeros(small.response.shape, dtype=bool)
    held[split.X_test] = np.isfinite(split.y_test)
    small.response[held] = np.random.default_rng(1).normal(size=held.sum())
    again = drugs_data.split(setting, 0)
    for unit in units:
        predictions = []
        for part in (split, again):
            drugs_models._CHOICES.clear()
            estimator = unit.model.estimator.set_params(**_fast(unit.model.estimator))
            predictions.append(estimator.fit(part.X, part.y).predict(part.X_test))
        np.testing.assert_array_equal(*predictions, err_msg=unit.model.name)


def _fast(estimator):
    return {"grid": {name: values[:1] for name, values in estimator.grid.items()}} if "grid" in vars(estimator) else {}


@pytest.mark.parametrize("setting", [ENTRIES, CELL_LINES, DRUGS])
def test_parameters_are_chosen_on_parts_of_the_training_entries(setting):
    y = np.where(np.random.default_rng(0).uniform(size=(12, 10)) < 0.2, np.nan, 1.0)
    y[:, 3] = np.nan  # a new drug
    part = deal(y, setting, 4, seed=0)
    counted = np.unique(part[np.isfinite(y)])
    np.testing.assert_array_equal(counted, np.arange(4))
    if setting == CELL_LINES:
        assert (part == part[:, :1]).all()
    if setting == DRUGS:
        assert (part == part[:1]).all() and part[0, 3] == -1


def test_the_choice_is_the_one_of_least_held_out_error(small):
    split = drugs_data.split(SETTINGS[0], 0)
    search = Chosen(LowRank(), {"strength": [1e6, 1.0, 1e5]}, ENTRIES).fit(split.X, split.y)
    assert search.chosen_ == {"strength": 1.0}


def test_means_and_neighbours_by_hand(small):
    y = np.array([[1.0, 3.0, 2.0], [2.0, 4.0, np.nan], [3.0, 5.0, 4.0]])
    both = Means().fit(np.arange(3), y).predict(np.arange(3))
    np.testing.assert_allclose(both, np.add.outer([0, 1, 2], [1, 3, 2]), atol=1e-6)
    split = drugs_data.split(SETTINGS[2], 0)
    model = Nearest("structure", k=1).fit(split.X, split.y)
    new = int(np.flatnonzero(np.isfinite(split.y_test).any(axis=0))[0])
    likeness = np.where(np.isfinite(split.y).any(axis=0), small.drug_kernels[0][new], -1.0)
    np.testing.assert_allclose(model.predict(split.X)[:, new], split.y[:, likeness.argmax()])


def test_new_drugs_are_predicted_from_their_structure(small):
    split = drugs_data.split(SETTINGS[2], 0)
    model = KernelModel(common=True, targets=True, structure="all", C=1.0).fit(split.X, split.y)
    asked = np.isfinite(split.y_test)
    error = np.mean((model.predict(split.X_test) - split.y_test)[asked] ** 2)
    mean = Means(drug=False).fit(split.X, split.y).predict(split.X_test)
    assert error < 0.5 * np.mean((mean - split.y_test)[asked] ** 2)


def test_levels_follow_structure_where_it_says_something():
    x = np.linspace(0, 3, 10)
    kernel = np.exp(-0.5 * np.square(x[:, np.newaxis] - x))
    new = np.exp(-0.5 * np.square(np.array([[1.6]]) - x))
    assert (level_weights(kernel, new, np.sin(x)) @ np.sin(x))[0] == pytest.approx(np.sin(1.6), abs=0.02)
    noise = np.array([1.0, -1, 1, -1, 1, -1, 1, -1, 1, -1])
    assert (level_weights(kernel, new, noise) @ noise)[0] == pytest.approx(0.0, abs=1e-3)


def test_intervals_allow_for_overlapping_training_entries():
    mean, half = paired_interval([0.1, 0.3] * 5)
    assert mean == pytest.approx(0.2)
    assert half == pytest.approx(2.262157 * np.std([0.1, 0.3] * 5, ddof=1) * np.sqrt(1 / 10 + 1 / 9))


@needs_data
def test_a_fold_has_the_stored_figures():
    stored = json.loads((Path(__file__).parents[2] / "docs" / "results" / "drugs" / "results.json").read_text())
    cheap = ("drug and cell-line means", "nearest drugs, by responses", "AVG")
    units = [unit for unit in list_units(drugs.PROTOCOL, 1, cheap) if unit.setting.name == ENTRIES]
    for unit in units:
        result = run_unit(drugs.PROTOCOL, unit)
        (kept,) = [
            each for each in stored if (each["setting"], each["model"], each["run"]) == (ENTRIES, result.model, 0)
        ]
        assert result.score == pytest.approx(kept["scores"]["all"], abs=1e-3)
        assert result.figures["RMSE"] == pytest.approx(kept["figures"]["RMSE"], abs=5e-3)


def test_the_gallery_page_has_the_stored_figures():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "docs" / "results" / "drugs" / "results.json").read_text())
    page = (root / "examples" / "plot_drug_response.py").read_text()
    names = {
        "means": ("drug and cell-line means", "drug mean", "cell-line mean"),
        "the nearest": (
            "nearest drugs, by responses", "nearest cell lines, by measurements", "nearest drugs, by structure",
        ),
        "one model for each drug": ("AVG", "AVG", None),
        "everything": ("everything",) * 3,
    }  # fmt: skip
    for name, models in names.items():
        (figures,) = re.findall(rf"^# {name} +(\S+) +(\S+) +(\S+)$", page, re.MULTILINE)
        for figure, setting, model in zip(figures, SETTINGS, models, strict=True):
            units = [each for each in stored if (each["setting"], each["model"]) == (setting.name, model)]
            found = f"{np.mean([each['figures']['RMSE'] for each in units]):.2f}" if units else "-"
            assert figure == found, (name, setting.name)
