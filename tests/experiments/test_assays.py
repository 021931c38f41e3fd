"""Activity of molecules in assays: labels, splits, models, and scores of some assays."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import assay_baselines, assay_data, assay_kernels, find_protocol
from experiments.assay_baselines import FingerprintSVM, Trees, some_assays
from experiments.assay_data import RANDOM, SCAFFOLD, SETTINGS, AssayData, calibration_error, read_labels
from experiments.assay_kernels import kernel_names, normal_scores
from experiments.assay_models import KernelModel
from experiments.assays import AVERAGE, all_assays
from experiments.engine import Unit, list_units, run_unit
from experiments.protocol import Model
from experiments.store import Result
from experiments.summary import summarise
from experiments.tables import time_table

N, T = 240, 4


def made_up() -> AssayData:
    """Molecules with two fingerprints; a molecule is active in all assays if it has enough of some bits."""
    rng = np.random.default_rng(0)
    bits = (rng.uniform(size=(N, 64)) < 0.3).astype(np.uint8)
    score = bits[:, :8].sum(axis=1)[:, np.newaxis] + rng.normal(scale=0.5, size=(N, T))
    labels = np.where(rng.uniform(size=(N, T)) < 0.2, np.nan, score > 2.5)
    packed = {"morgan2": np.packbits(bits, axis=1), "maccs": np.packbits(bits[:, :32], axis=1)}
    descriptors = np.column_stack([score[:, 0], rng.normal(size=N), np.ones(N)]).astype(np.float32)
    scaffold = rng.integers(60, size=N)
    return AssayData(labels, tuple("abcd"), packed, {"morgan2": 64, "maccs": 32}, descriptors, scaffold)


@pytest.fixture
def small(monkeypatch):
    data = made_up()
    for module in (assay_data, assay_kernels, assay_baselines):
        monkeypatch.setattr(module, "load", lambda name: data)
    return data


def test_rows_of_one_molecule_are_joined_and_disagreement_is_no_label(tmp_path):
    path = tmp_path / "assays.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("a,b,mol_id,smiles\n1,,x,CC\n0,1,y,C\n1,0,z,CC\n,0,w,C\n")
    smiles, assays, labels = read_labels(path)
    assert smiles == ["C", "CC"] and assays == ("a", "b")
    np.testing.assert_array_equal(labels, [[0, np.nan], [1, 0]])


def test_normal_scores_of_training_rows_do_not_depend_on_others():
    rng = np.random.default_rng(2)
    table = np.column_stack([rng.normal(size=40), np.ones(40), rng.normal(size=40)])
    table[5, 2] = np.nan
    rows = np.arange(30)
    scores = normal_scores(table, rows)
    assert scores.shape == (40, 2)
    np.testing.assert_array_equal(scores[5, 1], np.sort(scores[rows, 1])[[14, 15]].mean().round(6))
    changed = table.copy()
    changed[30:] += 5
    np.testing.assert_array_equal(normal_scores(changed, rows)[rows], scores[rows])


@pytest.mark.parametrize(
    "model",
    [
        KernelModel(grid=(0.1, 1.0)),
        KernelModel(grid=(0.1,), kind=SCAFFOLD, parts="learned", weights="learned"),
        KernelModel(grid=(0.1,), parts="equal"),
        KernelModel(grid=(0.1,), weights="maccs"),
        FingerprintSVM(grid=(1.0,)),
        Trees(grid=(40,)),
    ],
    ids=["average", "learned", "equal", "one kernel", "SVM", "forest"],
)
def test_models_rank_molecules_and_have_probabilities(small, model):
    result = run_unit(
        replace(find_protocol("tox21"), split=lambda setting, run: assay_data.split("tox21", setting, run)),
        Unit(SETTINGS[0], Model("m", model), 0),
    )
    assert set(result.scores) == set("abcd")
    assert result.score > 0.7
    assert 0 < result.figures["log loss"] < 0.68
    assert result.memory is None or result.memory > 1
    if isinstance(model, KernelModel):
        assert result.relative_gap <= 1e-2
        assert list(result.chosen["weights"]) == kernel_names("tox21")


def test_parts_of_a_split_have_all_molecules_and_no_scaffold_in_common(small):
    for setting in SETTINGS:
        part = assay_data.split("tox21", setting, 1)
        np.testing.assert_array_equal(np.sort(np.concatenate([part.X, part.X_test])), np.arange(N))
        common = set(small.scaffold[part.X]) & set(small.scaffold[part.X_test])
        assert bool(common) == (setting.name == RANDOM)


def test_calibration_error_is_zero_for_the_shares_of_bins():
    y = np.tile([0.0, 1.0, 1.0, 1.0], 20)
    assert calibration_error(y, np.full(80, 0.75), n_bins=4) == pytest.approx(0.0)
    assert calibration_error(y, np.full(80, 0.25), n_bins=4) == pytest.approx(0.5)


def _result(model, run, scores, memory=None):
    return Result(RANDOM, model, run, scores, 1.0, memory=memory)


def test_models_are_compared_on_the_assays_that_all_have():
    protocol = find_protocol("toxcast")
    results = [
        _result("SVM, Morgan", 0, {"a": 0.6, "c": 0.8}, 512.0),
        _result(AVERAGE, 0, {"a": 0.7, "b": 0.1, "c": 0.9, "d": 0.1, "e": 0.1}, 1024.0),
        # A run without the others, in which c has no score: b is left out here too.
        _result(AVERAGE, 1, {"a": 0.5, "b": 0.1, "d": 0.1, "e": 0.1}, 2048.0),
    ]
    cells = summarise(protocol, results)
    assert cells[RANDOM, "SVM, Morgan"].mean == pytest.approx(0.7)
    assert cells[RANDOM, AVERAGE].mean == pytest.approx((0.8 + 0.5) / 2)
    table = time_table(protocol, cells)
    assert table.columns == ("seconds", RANDOM, "memory (GiB)", "runs")
    assert table.rows == (("SVM, Morgan", "1.0", "0.5", "1"), (AVERAGE, "1.0", "2.0", "2"))
    _, text, whole = all_assays(protocol, results)
    assert text.endswith("4 to 5 of them.") and "SVM" not in whole and AVERAGE in whole


def test_rows_beside_the_comparison_have_fewer_runs():
    units = list_units(find_protocol("tox21"), 5)
    extra = "random forest, bits and descriptors"
    runs = {model: {unit.run for unit in units if unit.model.name == model} for model in (AVERAGE, extra)}
    assert runs == {AVERAGE: {0, 1, 2, 3, 4}, extra: {0, 1, 2}}
    assert some_assays(617, 60)[0] == 0 and some_assays(617, 60)[-1] == 616


def test_the_gallery_page_has_the_stored_figures():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "docs" / "results" / "tox21" / "results.json").read_text())
    page = (root / "examples" / "plot_molecules.py").read_text()
    rows = re.findall(r"^# (.+?) +(0\.\d{3}) +(0\.\d{3})$", page, re.MULTILINE)
    assert len(rows) == 7
    for name, *figures in rows:
        for figure, setting in zip(figures, SETTINGS, strict=True):
            units = [each for each in stored if (each["setting"], each["model"]) == (setting.name, name)]
            assert figure == f"{np.mean([Result(**unit).score for unit in units]):.3f}", (name, setting.name)
