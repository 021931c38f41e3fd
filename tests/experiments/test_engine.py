"""The engine: seeded, stored unit by unit, with the same table after an interruption."""

import json
from dataclasses import asdict

import pytest

import toy_experiment as toy
from experiments import engine
from experiments.engine import list_units, run_protocol, run_unit
from experiments.store import Store
from experiments.summary import summarise
from experiments.tables import main_table


class Killed(Exception):
    """Stands for a kill in the middle of a unit."""


def _table(protocol, results):
    return main_table(protocol, summarise(protocol, results)).text()


def test_an_interrupted_run_continues_and_ends_with_the_same_table(tmp_path, monkeypatch):
    straight = run_protocol(toy.PROTOCOL, Store(tmp_path / "straight"), runs=1)
    done = []

    def fail_at_the_eighth(protocol, unit):
        if len(done) == 7:
            raise Killed
        done.append(unit)
        return run_unit(protocol, unit)

    store = Store(tmp_path / "killed")
    monkeypatch.setattr(engine, "run_unit", fail_at_the_eighth)
    with pytest.raises(Killed):
        run_protocol(toy.PROTOCOL, store, runs=1)
    assert len(list((tmp_path / "killed").rglob("*.json"))) == 7

    again = []
    monkeypatch.setattr(engine, "run_unit", lambda p, unit: again.append(unit) or run_unit(p, unit))
    resumed = run_protocol(toy.PROTOCOL, store, runs=1)
    assert len(again) == len(straight) - 7
    assert _table(toy.PROTOCOL, resumed) == _table(toy.PROTOCOL, straight)
    assert [r.scores for r in resumed] == [r.scores for r in straight]


def test_a_damaged_file_is_computed_again(tmp_path):
    store = Store(tmp_path)
    first = run_protocol(toy.PROTOCOL, store, runs=1, models=["Mean"])
    path = store.folder.path / store.name("8 rows", "Mean", 0)
    whole = path.read_text()
    path.write_text(whole[:30])
    assert run_protocol(toy.PROTOCOL, store, runs=1, models=["Mean"])[0].scores == first[0].scores
    assert '"model": "Mean"' in path.read_text()


def test_results_of_another_definition_are_not_used(tmp_path):
    store = Store(tmp_path)
    unit = list_units(toy.PROTOCOL, 1, ["AVG"])[0]
    store.save(run_unit(toy.PROTOCOL, unit))
    address = (unit.setting.name, unit.model.name, unit.run)
    assert store.load(*address, unit.fingerprint) is not None
    other = engine.Unit(unit.setting, toy.Model("AVG", unit.model.estimator, {"C": [1.0]}), 0)
    assert other.fingerprint != unit.fingerprint
    assert store.load(*address, other.fingerprint) is None


def test_progress_counts_up_and_time_left_ends_at_zero(tmp_path):
    seen = []
    run_protocol(toy.PROTOCOL, Store(tmp_path), runs=1, models=["Mean"], progress=lambda *told: seen.append(told))
    assert [told[:2] for told in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[-1][2] == 0 and seen[0][2] >= 0


def test_results_of_a_page_are_taken_over(tmp_path, monkeypatch):
    first = run_protocol(toy.PROTOCOL, Store(tmp_path / "old"), runs=1)
    store = Store(tmp_path / "new")
    store.folder.prepare()
    store.restore(json.dumps([asdict(result) for result in first]))
    monkeypatch.setattr(engine, "run_unit", lambda protocol, unit: pytest.fail(f"{unit} was run again"))
    assert [r.scores for r in run_protocol(toy.PROTOCOL, store, runs=1)] == [r.scores for r in first]
    store.restore(b"[{")
    store.restore(None)
