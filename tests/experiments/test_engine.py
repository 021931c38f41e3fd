"""The engine: seeded, stored unit by unit, the same table however it was interrupted."""

import json

import numpy as np
import pytest

from experiments import toy
from kernelkin.experiments import engine
from kernelkin.experiments.engine import list_units, run_protocol, run_unit
from kernelkin.experiments.store import Store
from kernelkin.experiments.summary import summarise
from kernelkin.experiments.tables import main_table


class Killed(Exception):
    """Stands for a kill in the middle of a unit."""


def _table(protocol, results):
    return main_table(protocol, summarise(protocol, results)).text()


def test_a_killed_run_goes_on_where_it_stopped_and_ends_with_the_same_table(tmp_path, monkeypatch):
    straight = run_protocol(toy.PROTOCOL, Store(tmp_path / "straight"), runs=3)
    done = []

    def fails_at_the_eighth(protocol, unit):
        if len(done) == 7:
            raise Killed
        done.append(unit)
        return run_unit(protocol, unit)

    store = Store(tmp_path / "killed")
    monkeypatch.setattr(engine, "run_unit", fails_at_the_eighth)
    with pytest.raises(Killed):
        run_protocol(toy.PROTOCOL, store, runs=3)
    assert len(list((tmp_path / "killed").rglob("*.json"))) == 7

    again = []
    monkeypatch.setattr(engine, "run_unit", lambda p, unit: again.append(unit) or run_unit(p, unit))
    resumed = run_protocol(toy.PROTOCOL, store, runs=3)
    assert len(again) == len(straight) - 7
    assert _table(toy.PROTOCOL, resumed) == _table(toy.PROTOCOL, straight)
    assert [r.scores for r in resumed] == [r.scores for r in straight]


def test_half_a_file_is_not_a_result(tmp_path):
    store = Store(tmp_path)
    first = run_protocol(toy.PROTOCOL, store, runs=1, models=["Mean"])
    path = store.folder.path / store.name("8 rows", "Mean", 0)
    path.write_text(path.read_text()[:30])
    assert run_protocol(toy.PROTOCOL, store, runs=1, models=["Mean"])[0].scores == first[0].scores
    assert json.loads(path.read_text())["model"] == "Mean"


def test_nothing_half_written_is_left_where_writing_fails(tmp_path, monkeypatch):
    store = Store(tmp_path)

    def no_space(*paths):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", no_space)
    with pytest.raises(OSError, match="no space"):
        run_protocol(toy.PROTOCOL, store, runs=1, models=["Mean"])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_results_of_another_definition_are_not_taken(tmp_path):
    store = Store(tmp_path)
    unit = list_units(toy.PROTOCOL, 1, ["AVG"])[0]
    store.save(run_unit(toy.PROTOCOL, unit))
    address = (unit.setting.name, unit.model.name, unit.run)
    assert store.load(*address, unit.fingerprint) is not None
    other = engine.Unit(unit.setting, toy.Model("AVG", unit.model.estimator, {"C": [1.0]}), 0)
    assert other.fingerprint != unit.fingerprint
    assert store.load(*address, other.fingerprint) is None


def test_runs_differ_and_models_of_a_run_see_the_same_rows(tmp_path):
    first, second = (toy.split(toy.PROTOCOL.settings[0], run) for run in (0, 1))
    assert not np.allclose(first.X, second.X)
    results = run_protocol(toy.PROTOCOL, Store(tmp_path), runs=2, models=["Mean", "AVG"])
    assert [r.run for r in results] == [0] * 6 + [1] * 6
    by = {(r.setting, r.model, r.run): r.score for r in results}
    assert by["8 rows", "Mean", 0] != by["8 rows", "Mean", 1]


def test_progress_counts_up_and_time_left_ends_at_zero(tmp_path):
    seen = []
    run_protocol(toy.PROTOCOL, Store(tmp_path), runs=1, models=["Mean"], progress=lambda *told: seen.append(told))
    assert [told[:2] for told in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[-1][2] == 0 and seen[0][2] >= 0


def test_processes_give_the_same_scores_as_one(tmp_path, monkeypatch):
    # Processes look definitions up by name: the quick version of an experiment that needs no choice of parameters.
    protocol = pytest.importorskip("kernelkin.experiments.as_published").PROTOCOL
    _skip_without_data()
    names = ["Mean", "STL (with the fault)", "STL (done right)"]
    one = run_protocol(protocol, Store(tmp_path / "one"), 1, names, n_jobs=1)
    two = run_protocol(protocol, Store(tmp_path / "two"), 1, names, n_jobs=2)
    assert [r.scores for r in one] == [r.scores for r in two]


def _skip_without_data():
    import os

    if not os.environ.get("KERNELKIN_DATA"):
        pytest.skip("KERNELKIN_DATA does not name a folder with the data sets")
