"""The comparison of predictions: units, folds, tuning, scores, suites, summaries, and results that are resumed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import predict
from benchmarks.predict import Job, read_results, run_jobs
from benchmarks.predict_case import auc, make_case, scores, tune
from benchmarks.predict_models import Pooled, codes, contenders
from benchmarks.predict_report import Results, differences, goals, ranks, regrets, relative_loss, suite_results, wins
from benchmarks.predict_sets import SUITES, DataSet, Problem, data_sets

SETS = data_sets()
SPREADS = SETS["made: different spreads, 20 rows"]


def a_set(suite="standardised", classification=False):
    return DataSet("a set", "a set", classification, 0, 0, lambda split: None, suite)


@pytest.fixture(scope="module")
def problem():
    return SPREADS.make(0)


@pytest.fixture(scope="module")
def case(problem):
    return make_case(problem, SPREADS, split=0)


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


@pytest.fixture
def some_groups(tmp_path, monkeypatch):
    """A small archive of the form of `grouped.zip`: two groups of 10 and 4 rows, not in the order of time."""
    from zipfile import ZipFile

    lines = ["task,target,Days"]
    lines += [f"a,{10 * day},{day}" for day in (3, 1, 2, 0, 9, 8, 7, 6, 5, 4)]
    lines += [f"b,{day},{day}" for day in (1, 0, 3, 2)]
    with ZipFile(tmp_path / "grouped.zip", "w") as archive:
        archive.writestr("sleepstudy.csv", "\n".join(lines))
        archive.writestr("splits.json", json.dumps({"sleepstudy": [[0, 1, 10], [2, 3, 11]]}))
    monkeypatch.setenv("KERNELKIN_DATA", str(tmp_path))
    from benchmarks import predict_sets

    predict_sets._read_grouped.cache_clear()
    yield
    predict_sets._read_grouped.cache_clear()


def test_rows_that_a_split_does_not_name_are_test_rows(some_groups):
    problem = SETS["sleepstudy"].make(1)
    assert sorted(problem.y.tolist()) == [0, 0, 20]
    assert len(problem.y_test) == 11
    assert problem.tasks.tolist() == ["a", "a", "b"]


def test_later_rows_follow_the_first_in_time(some_groups):
    """Of 10 rows 6 train and 3 test; of 4 rows 2 (2.4 rounded) train and 1 tests."""
    problem = SETS["sleepstudy, later"].make(0)
    for task, train, test in (("a", [0, 10, 20, 30, 40, 50], [60, 70, 80]), ("b", [0, 1], [2])):
        assert problem.y[problem.tasks == task].tolist() == train
        assert problem.y_test[problem.tasks_test == task].tolist() == test


def test_last_values_are_predicted_in_the_units_of_all_groups(some_groups):
    case = make_case(SETS["sleepstudy, later"].make(0), SETS["sleepstudy, later"], split=0)
    found = contenders()["last value"].run(case, 0)
    errors = np.array([60 - 50, 70 - 50, 80 - 50, 2 - 1]) ** 2
    expected = errors.mean() / np.var([60, 70, 80, 2])
    assert scores(case, found)["loss"] == pytest.approx(expected)


def test_targets_are_in_standard_units_of_their_task(case):
    assert [abs(y.mean()) < 1e-9 for y in case.y] == [True] * 8
    assert np.ptp(np.log([y.std() for y in case.y])) < 1.0
    assert np.ptp(np.log(case.spread)) > 4.0


def test_groups_keep_their_levels_and_kin_sees_the_data_as_they_are(problem):
    case = make_case(problem, a_set("grouped"), split=0)
    assert case.problem is problem
    assert np.concatenate(case.y).std() == pytest.approx(1.0)
    expected = [problem.y[problem.tasks == task].mean() for task in range(8)]
    np.testing.assert_allclose(
        [y.mean() * s + m for y, m, s in zip(case.y, case.location, case.spread, strict=True)], expected
    )


def test_scores_do_not_depend_on_the_units_of_a_task(problem):
    changed = replace(
        problem,
        y=np.where(problem.tasks == 2, 1e3 * problem.y, problem.y),
        y_test=np.where(problem.tasks_test == 2, 1e3 * problem.y_test, problem.y_test),
    )
    found = []
    for each in (problem, changed):
        case = make_case(each, SPREADS, split=0)
        assert scores(case, case.y_test) == {"r2": 1.0, "pooled": 1.0, "loss": 0.0}
        units = [np.concatenate([a, b]).std() for a, b in zip(case.y, case.y_test, strict=True)]
        half = [y + 0.5 * unit for y, unit in zip(case.y_test, units, strict=True)]
        found.append(scores(case, half)["loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-9) == pytest.approx(0.25, rel=0.1)


def test_grouped_losses_are_those_of_all_rows_in_their_own_units(problem):
    case = make_case(problem, a_set("grouped"), split=0)
    values = [np.full(len(y), (problem.y_test.mean() - m) / s)
              for y, m, s in zip(case.y_test, case.location, case.spread, strict=True)]  # fmt: skip
    assert scores(case, values)["loss"] == pytest.approx(1.0)


def test_classes_are_scored_within_tasks_or_over_all_rows():
    rows = np.zeros((8, 1)), np.tile([0, 1], 4), np.repeat([0, 1], 4)
    problem = Problem(*rows, *rows)
    values = [np.array([-1.0, 1.0, -1.0, 1.0]), np.array([1.0, -1.0, 1.0, -1.0])]
    case = make_case(problem, a_set(classification=True), split=0)
    assert scores(case, values) == {"auc": 0.5, "accuracy": 0.5, "loss": 0.5}
    order = [np.array([1.0, 2.0, 1.0, 2.0]), np.array([3.0, 4.0, 3.0, 4.0])]
    assert scores(case, order)["auc"] == 1.0
    pooled = make_case(problem, a_set("grouped", classification=True), split=0)
    assert scores(pooled, order)["auc"] == 0.75


def test_area_under_the_curve_counts_ties_half():
    assert auc(np.array([0, 1, 1, 0]), np.array([0.0, 0.0, 1.0, -1.0])) == pytest.approx(3.5 / 4)
    assert np.isnan(auc(np.ones(3), np.arange(3.0)))


def test_folds_spread_the_classes_of_each_task_and_hold_no_single_row_out():
    tasks, y = np.repeat([0, 1, 2], [20, 6, 1]), np.array([0, 1] * 10 + [1] + [0] * 5 + [1])
    problem = Problem(np.zeros((27, 1)), y, tasks, np.zeros((1, 1)), y[:1], tasks[:1])
    folds = make_case(problem, a_set(classification=True), split=0).folds
    assert folds[20] == folds[26] == -1  # the only row of its class, and the only one of its task
    for label in (0, 1):
        assert np.bincount(folds[:20][y[:20] == label]).tolist() == [2] * 5
    assert np.bincount(folds[21:26]).tolist() == [1] * 5


def test_pooled_models_return_to_the_units_of_each_task(case):
    predictor = Pooled(case, lambda params: Memory(), codes)
    for units in ("task", "all"):
        for found, y in zip(predictor((None, units), case.X, case.y, case.X), case.y, strict=True):
            np.testing.assert_allclose(found, y, atol=1e-6)


def test_pooled_models_see_one_scale_of_all_tasks(case):
    seen = {}

    class Record(Memory):
        def fit(self, X, y):
            seen[len(seen)] = [y[X[:, 0] == task].std() for task in range(8)]
            return super().fit(X, y)

    predictor = Pooled(case, lambda params: Record(), codes)
    for units in ("task", "all"):
        predictor((None, units), case.X, case.y, case.X)
    assert np.ptp(np.log(seen[0])) < 1.0
    assert np.ptp(np.log(seen[1])) > 4.0


def test_tuning_holds_rows_out_and_takes_the_candidate_with_the_least_error(case):
    held_rows = []

    def predictor(value, X, y, X_test):
        train = {row.tobytes() for part in X for row in part}
        held_rows.extend(row.tobytes() for part in X_test for row in part if row.tobytes() not in train)
        return [np.full(len(part), value) for part in X_test]

    found = tune(case, [2.0, 0.1, -1.0], predictor)
    assert [part[0] for part in found] == [0.1] * 8
    # Each training row is held out once for each candidate; test rows come once.
    n_test = sum(map(len, case.X_test))
    assert len(held_rows) == 3 * len(case.problem.y) + n_test
    assert len(set(held_rows)) == len(case.problem.y) + n_test


def linear_problem(classification):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(240, 3)), np.tile([0, 1], 120)
    y = X @ [1.0, -2.0, 1.0] + 0.1 * rng.normal(size=240)
    y = (y > 0).astype(int) if classification else 50 * y
    return Problem(X[:60], y[:60], tasks[:60], X[60:], y[60:], tasks[60:])


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("name", ["ridge, pooled", "ridge, a task", "SVM, a task", "AVG"])
def test_contenders_learn_a_linear_function(name, classification):
    case = make_case(linear_problem(classification), a_set(classification=classification), split=0)
    assert scores(case, contenders()[name].run(case, 0))["loss"] < 0.1


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("name", ["Kin", "ridge, a task", "ridge, group indicators", "mixed model"])
def test_contenders_learn_a_linear_function_of_groups(name, classification):
    contender = contenders()[name]
    if reason := contender.reason_not_to_run():
        pytest.skip(reason)
    case = make_case(linear_problem(classification), a_set("grouped", classification), split=0)
    assert scores(case, contender.run(case, 0))["loss"] < 0.1


def test_indicators_of_groups_are_pooled_as_much_as_it_pays():
    """Noise and levels of the same variance, three rows a group: the mean of a group is drawn to that of all."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(60), 3)
    level, X = rng.normal(size=60), np.zeros((180, 1))
    y, y_test = (level[tasks] + rng.normal(size=180) for _ in range(2))
    case = make_case(Problem(X, y, tasks, X, y_test, tasks), a_set("grouped"), split=0)
    found = scores(case, contenders()["ridge, group indicators"].run(case, 0))["loss"]
    means = [np.full(3, part.mean()) for part in case.y]
    assert found < scores(case, means)["loss"] < 1.0


def test_elastic_net_runs_on_shared_rows_alone(case):
    net = contenders()["MultiTaskElasticNet"]
    assert not net.fits(case)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = X @ rng.normal(size=(3, 4))
    wide = make_case(Problem(X[:40], Y[:40], None, X[40:], Y[40:], None), a_set(), split=0)
    assert net.fits(wide)
    assert scores(wide, net.run(wide, 0))["pooled"] > 0.99


def test_all_suites_have_sets_and_kin_needs_no_other_library():
    assert {each.suite for each in SETS.values()} == set(SUITES) == set(contenders()["Kin"].suites)
    code = (
        "import sys; others = ('gpboost', 'lightgbm', 'statsmodels', 'himalaya', 'gpytorch', 'matplotlib'); "
        "sys.modules.update(dict.fromkeys(others)); "
        "from benchmarks.predict import main; main(['--list', '--contenders', 'Kin'])"
    )
    root = Path(__file__).parent.parent.parent
    found = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout
    assert "Kin (standardised, grouped, later)" in found


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
    assert relative_loss(results, "AVG")[0] == pytest.approx(np.sqrt(2.0 * 0.5), rel=0.01)


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


def test_goals_of_groups_go_by_the_splits_of_the_earlier_figures():
    """Kin has half its earlier loss on the splits 0 and 1 (radon 1.16, chick 0.0168), and another on split 2."""
    records = [record("radon", split, "Kin", loss) for split, loss in enumerate((0.5, 0.66, 0.9))]
    records += [record("chick", split, "Kin", 0.0084) for split in range(3)]
    records += [
        record(name, split, "GPBoost", loss) for name, loss in (("radon", 0.6), ("chick", 0.1)) for split in range(3)
    ]
    records += [record("chick, later", 0, model, loss) for model, loss in (("Kin", 0.41), ("mixed model, slopes", 0.3))]
    suites = {suite: suite_results(records, suite) for suite in ("standardised", "grouped", "later")}
    found = goals(suites)
    assert found[0].startswith("- Met: known groups") and "0.500 on the splits" in found[0]
    assert found[1].startswith("- Met") and "On 1 of 2: radon." in found[1]
    assert [line.split(":")[0] for line in found[2:5]] == ["- Met"] * 3
    assert "More on chick, later." in found[2] and "On chick, later." in found[3]
    assert found[5] == '- Not measured yet: Kin in the suite "standardised".'


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

    monkeypatch.setattr(predict, "_outcomes", outcomes)
    jobs = [Job("wine", split, "Kin", cost=float(split)) for split in range(4)]
    run_jobs(jobs, 2, 1.0, path)
    assert ran == [[3, 2]]  # the longest first
    run_jobs(jobs, 2, 1.0, path, retry=True)
    assert ran[1:] == [[1]]
    assert {r["split"]: r.get("loss") for r in read_results(path)} == {0: 0.5, 1: 0.25, 2: 0.25, 3: 0.25}
