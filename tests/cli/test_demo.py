import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from kernelkin.cli import demo
from kernelkin.cli.main import main
from kernelkin.cli.terminal import Terminal
from kernelkin.datasets import make_shops


def quick_models(n_jobs=None):
    """In place of the models of the demo, of which some take long."""
    from kernelkin import KinRegressor

    return {
        demo.OURS: KinRegressor(cv=2, random_state=0),
        demo.POOLED: demo.OneModelPerTask(LinearRegression()),
        "mean": demo.OneModelPerTask(DummyRegressor()),
    }


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return a demo of few shops and two draws: what it returned, and where it wrote."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "make_models", quick_models)
        return demo.run_demo(Terminal(), folder, n_shops=3, n_days=10, n_draws=2), folder


def test_every_model_is_scored_on_every_draw(outcome):
    result, _ = outcome
    assert set(result.scores) == set(quick_models())
    assert all(np.shape(scores) == (2, 3) for scores in result.scores.values())
    assert all(np.all(mean <= 0) for mean in result.scores["mean"])


def test_scores_are_of_days_that_were_held_out(outcome):
    result, _ = outcome
    data = make_shops(3, 10, test_size=demo.TEST_DAYS, random_state=0)
    values = result.models[demo.OURS].predict(data.data_test, tasks=data.tasks_test)
    for t, shop in enumerate(data.task_names):
        held = data.tasks_test == shop
        assert_allclose(result.scores[demo.OURS][0][t], r2_score(data.target_test[held], values[held]))


def test_figure_and_scores_are_written(outcome):
    result, folder = outcome
    assert (folder / "shops.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((folder / "results.json").read_text())
    assert stored["n_days"] == 10
    assert_allclose(stored["scores"][demo.OURS], np.mean(result.scores[demo.OURS], axis=1))


def test_the_table_is_ordered_by_score():
    result = demo.DemoResult()
    for name, level in ((demo.OURS, 0.8), ("other", 0.9), ("third", 0.7)):
        result.scores[name] = [np.full(4, level), np.full(4, level + 0.02)]
        result.seconds[name] = [1.0, 3.0]
    assert demo.table_rows(result) == [
        ["other", "0.910", "0.010", "-0.100 ± 0.000", "2.0"],
        [demo.OURS, "0.810", "0.010", "", "2.0"],
        ["third", "0.710", "0.010", "+0.100 ± 0.000", "2.0"],
    ]


def test_one_model_per_task_sees_the_rows_of_its_task_alone():
    X, tasks = np.arange(6.0)[:, np.newaxis], np.array(["b", "a"] * 3)
    y = np.where(tasks == "a", 2 * X[:, 0], -X[:, 0])
    model = demo.OneModelPerTask(LinearRegression()).fit(X, y, tasks)
    assert_allclose(model.predict(X, tasks), y, atol=1e-12)


def test_targets_are_standardised_by_task_and_come_back_in_their_units():
    rng = np.random.default_rng(0)
    X, tasks = np.tile(rng.normal(size=(20, 2)), (2, 1)), np.repeat(["a", "b"], 20)
    y = np.where(tasks == "a", 1000 + 50 * X[:, 0], 1 + 0.1 * X[:, 0])
    seen = {}

    class Recorder(LinearRegression):
        def fit(self, X, y, tasks):
            seen["y"] = y
            return super().fit(X, y)

        def predict(self, X, tasks):
            return super().predict(X)

    model = demo.StandardTargets(Recorder(), columns=True).fit(X, y, tasks)
    for task in ("a", "b"):
        assert_allclose([seen["y"][tasks == task].mean(), seen["y"][tasks == task].std()], [0, 1], atol=1e-9)
    values = model.predict(X, tasks)
    assert all(r2_score(y[tasks == task], values[tasks == task]) > 0.9 for task in ("a", "b"))


def test_the_pooled_model_gets_the_task_as_a_category(monkeypatch):
    monkeypatch.setattr(demo, "BOOSTING_GRID", {"max_iter": [2]})
    data = make_shops(3, 30, random_state=0)
    model = demo.make_models()[demo.POOLED].fit(data.data, data.target, data.tasks)
    boosting = model.model_.model_.best_estimator_
    assert boosting.is_categorical_.tolist() == [False] * 7 + [True]


def test_the_command_passes_its_arguments_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(demo, "run_demo", lambda terminal, folder, **sizes: seen.update(sizes, folder=folder))
    assert main(["demo", "-o", "here", "--shops", "5", "--days", "30", "--draws", "2"]) == 0
    assert seen == {"folder": "here", "n_shops": 5, "n_days": 30, "n_draws": 2}


def test_no_shops_are_refused_in_one_line(capsys, tmp_path):
    assert main(["demo", "--shops", "0", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("kernelkin: error: n_shops and n_days must be positive")
