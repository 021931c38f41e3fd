"""The comparison of predictions: standard units, tuning, scores, summaries, and results that are resumed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import predict_engine
from benchmarks.predict_case import make_case, scores, tune
from benchmarks.predict_engine import Job, read_results, run_jobs
from benchmarks.predict_models import Pooled, codes, contenders
from benchmarks.predict_sets import Problem, data_sets
from benchmarks.predict_summary import Results, differences, ranks, regrets, relative_loss, wins

SETS = data_sets()
SPREADS = SETS["made: different spreads, 20 rows"]


@pytest.fixture(scope="module")
def problem():
    return SPREADS.make(0)


@pytest.fixture(scope="module")
def case(problem):
    return make_case(problem, classification=False, split=0)


class Memory:
    """A model that knows the targets of its training rows."""

    def fit(self, X, y):
        self.known = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
        return self

    def predict(self, X):
        return np.array([self.known[row.tobytes()] for row in X])


def test_made_problems_have_the_rows_they_declare_and_are_the_same_each_time():
    for name, data_set in SETS.items():
        if name.startswith("made"):
            problem, again = data_set.make(3), data_set.make(3)
            assert len(problem.y) == data_set.size
            np.testing.assert_array_equal(problem.y, again.y)
            np.testing.assert_array_equal(np.unique(problem.tasks_test, return_counts=True)[1], 200)


def test_training_and_test_rows_of_a_problem_differ():
    for name in ("diabetes", "wine", "digits", "made: 4 to 200 rows"):
        problem = SETS[name].make(0)
        train = {row.tobytes() for row in problem.X}
        assert not any(row.tobytes() in train for row in problem.X_test)


def test_targets_are_in_standard_units_of_their_task(case):
    assert [abs(y.mean()) < 1e-9 for y in case.y] == [True] * 8
    assert np.ptp(np.log([y.std() for y in case.y])) < 1.0
    assert np.ptp(np.log(case.spread)) > 4.0


def test_scores_do_not_depend_on_the_units_of_a_task(problem):
    changed = replace(
        problem,
        y=np.where(problem.tasks == 2, 1e3 * problem.y, problem.y),
        y_test=np.where(problem.tasks_test == 2, 1e3 * problem.y_test, problem.y_test),
    )
    found = []
    for each in (problem, changed):
        case = make_case(each, classification=False, split=0)
        assert scores(case, case.y_test) == {"r2": 1.0, "pooled": 1.0, "loss": 0.0}
        half = [y + 0.5 * unit for y, unit in zip(case.y_test, case.deviation, strict=True)]
        found.append(scores(case, half)["loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-9) == pytest.approx(0.25, rel=0.1)


def test_classes_are_scored_by_the_order_of_values():
    rows = np.zeros((8, 1)), np.tile([0, 1], 4), np.repeat([0, 1], 4)
    problem = Problem(*rows, *rows)
    case = make_case(problem, classification=True, split=0)
    found = scores(case, [np.array([-1.0, 1.0, -1.0, 1.0]), np.array([1.0, -1.0, 1.0, -1.0])])
    assert found == {"auc": 0.5, "accuracy": 0.5, "loss": 0.5}


def test_pooled_models_return_to_the_units_of_each_task(case):
    predict = Pooled(case, lambda params: Memory(), codes)
    for units in ("task", "all"):
        for found, y in zip(predict((None, units), case.X, case.y, case.X), case.y, strict=True):
            np.testing.assert_allclose(found, y, atol=1e-6)


def test_pooled_models_see_one_scale_of_all_tasks(case):
    seen = {}

    class Record(Memory):
        def fit(self, X, y):
            seen[len(seen)] = [y[X[:, 0] == task].std() for task in range(8)]
            return super().fit(X, y)

    predict = Pooled(case, lambda params: Record(), codes)
    for units in ("task", "all"):
        predict((None, units), case.X, case.y, case.X)
    assert np.ptp(np.log(seen[0])) < 1.0
    assert np.ptp(np.log(seen[1])) > 4.0


def test_tuning_holds_rows_out_and_takes_the_candidate_with_the_least_error(case):
    held_rows = []

    def predict(value, X, y, X_test):
        train = {row.tobytes() for part in X for row in part}
        held_rows.extend(row.tobytes() for part in X_test for row in part if row.tobytes() not in train)
        return [np.full(len(part), value) for part in X_test]

    found = tune(case, [2.0, 0.1, -1.0], predict)
    assert [part[0] for part in found] == [0.1] * 8
    # Each training row is held out once for each candidate; test rows come once.
    n_test = sum(map(len, case.X_test))
    assert len(held_rows) == 3 * len(case.problem.y) + n_test
    assert len(set(held_rows)) == len(case.problem.y) + n_test


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("name", ["ridge, pooled", "ridge, a task", "SVM, a task", "AVG"])
def test_contenders_learn_a_linear_function(name, classification):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(240, 3)), np.tile([0, 1], 120)
    y = X @ [1.0, -2.0, 1.0] + 0.1 * rng.normal(size=240)
    y = (y > 0).astype(int) if classification else 50 * y
    problem = Problem(X[:60], y[:60], tasks[:60], X[60:], y[60:], tasks[60:])
    case = make_case(problem, classification=classification, split=0)
    assert scores(case, contenders()[name].run(case, 0))["loss"] < 0.1


def test_elastic_net_runs_on_shared_rows_alone(case):
    net = contenders()["MultiTaskElasticNet"]
    assert not net.fits(case)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = X @ rng.normal(size=(3, 4))
    wide = make_case(Problem(X[:40], Y[:40], None, X[40:], Y[40:], None), classification=False, split=0)
    assert net.fits(wide)
    assert scores(wide, net.run(wide, 0))["pooled"] > 0.99


def record(data_set, split, model, loss=None, **entries):
    found = {"set": data_set, "split": split, "model": model, "s": 1.0, **entries}
    return found if loss is None else {**found, "loss": loss}


@pytest.fixture
def results():
    names = ("sarcos, 50 rows", "sarcos, 200 rows", "wine")
    table = {"Kin": (0.1, 0.2, 0.4), "AVG": (0.2, 0.4, 0.2), "MTRL": (0.3, 0.1, 0.4)}
    records = [
        record(name, split, model, losses[i] + 0.001 * split)
        for model, losses in table.items()
        for i, name in enumerate(names)
        for split in range(3)
    ]
    return Results.of(records, {name: SETS[name] for name in names}, table)


def test_ranks_and_regrets(results):
    losses = results.losses()
    np.testing.assert_array_equal(ranks(losses), [[1, 2, 3], [2, 3, 1], [2.5, 1, 2.5]])
    np.testing.assert_allclose(regrets(losses)[0], [0.0, 0.201 / 0.101 - 1, 1.0])
    assert regrets(losses).max() == 1.0


def test_sets_of_one_source_count_as_one(results):
    assert results.mean_by_source(np.array([1.0, 3.0, 4.0])) == 3.0
    assert results.mean_by_source(np.array([np.nan, 3.0, 4.0])) == 3.5
    found = relative_loss(results, "AVG")
    assert found.mean == pytest.approx(np.sqrt(2.0 * 0.5), rel=0.01)


def test_wins_go_by_the_paired_interval(results):
    assert wins(results, "AVG") == (2, 0, 1)
    assert wins(results, "MTRL") == (1, 1, 1)
    np.testing.assert_allclose(differences(results, "wine", "AVG"), -0.2)


def test_a_contender_that_missed_a_split_has_no_mean(results):
    key = ("wine", "AVG")
    missed = {**results.records, key: {**results.records[key], 1: record("wine", 1, "AVG", missed="time")}}
    found = replace(results, records=missed)
    assert np.isnan(found.mean("wine", "AVG", "loss"))
    assert found.reasons("AVG") == {"time": 1}


def test_a_contender_with_fewer_splits_is_judged_as_if_it_had_all(results):
    """A contender that loses twice what Kin does, seen on the easiest split alone, is twice as bad."""
    records = {**results.records, ("wine", "AVG"): {0: record("wine", 0, "AVG", 0.8)}}
    found = replace(results, records=records)
    assert found.mean_loss("wine", "AVG") == pytest.approx(2 * found.mean_loss("wine", "Kin"))
    assert found.mean_loss("wine", "Kin") == found.mean("wine", "Kin", "loss")


def test_jobs_with_a_record_are_not_run_again(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    path.write_text(
        json.dumps(record("wine", 0, "Kin", 0.5)) + "\n"
        + json.dumps(record("wine", 1, "Kin", missed="time")) + "\n"
        + '{"set": "wine", "split": 2, "mo'  # cut off
    )  # fmt: skip
    ran = []

    def outcomes(todo, n_workers, time_limit):
        ran.append([job.split for job in todo])
        return ((job, record(*job.key, 0.25)) for job in todo)

    monkeypatch.setattr(predict_engine, "_outcomes", outcomes)
    jobs = [Job("wine", split, "Kin", cost=float(split)) for split in range(4)]
    run_jobs(jobs, 2, 1.0, path)
    assert ran == [[3, 2]]  # the longest first
    run_jobs(jobs, 2, 1.0, path, retry=True)
    assert ran[1:] == [[1]]
    assert {r["split"]: r.get("loss") for r in read_results(path)} == {0: 0.5, 1: 0.25, 2: 0.25, 3: 0.25}
