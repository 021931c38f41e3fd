"""Scores: one number, and one for each task."""

import numpy as np
import pytest
from models.problems import NAMES, long_data, wide_data
from sklearn.metrics import accuracy_score, r2_score

from kernelkin import MKMTRLClassifier, MKMTRLRegressor


@pytest.fixture(scope="module")
def regressor():
    X, y, _, tasks = long_data(0)
    return MKMTRLRegressor(C=5.0).fit(X, y, tasks=tasks)


@pytest.fixture(scope="module")
def classifier():
    X, _, labels, tasks = long_data(0)
    return MKMTRLClassifier(C=0.1).fit(X, labels, tasks=tasks)


@pytest.fixture(scope="module")
def wide():
    return MKMTRLRegressor(C=5.0).fit(*wide_data(0))


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_long_data(regressor, classifier, weighted):
    X, y, labels, tasks = long_data(1)
    weight = np.random.default_rng(0).uniform(size=len(X)) if weighted else None
    for model, true, metric in ((regressor, y, r2_score), (classifier, labels, accuracy_score)):
        guess = model.predict(X, tasks=tasks)
        expected = {
            name: metric(
                true[tasks == name],
                guess[tasks == name],
                sample_weight=None if weight is None else weight[tasks == name],
            )
            for name in NAMES
        }
        scores = model.score_tasks(X, true, tasks=tasks, sample_weight=weight)
        assert scores == pytest.approx(expected)
        assert all(type(score) is float for score in scores.values())
        assert model.score(X, true, tasks=tasks, sample_weight=weight) == pytest.approx(
            np.mean(list(expected.values()))
        )


def test_scores_of_wide_data_leave_out_what_is_missing(wide):
    X, Y = wide_data(1)
    Y[:4, 1] = np.nan
    scores = wide.score_tasks(X, Y)
    guess = wide.predict(X)
    assert scores == pytest.approx(
        {0: r2_score(Y[:, 0], guess[:, 0]), 1: r2_score(Y[4:, 1], guess[4:, 1]), 2: r2_score(Y[:, 2], guess[:, 2])}
    )
    Y[:, 1] = np.nan
    assert set(wide.score_tasks(X, Y)) == {0, 2}


def test_tasks_without_rows_are_left_out(regressor):
    X, y, _, tasks = long_data(1)
    mine = tasks == "bea"
    assert set(regressor.score_tasks(X[mine], y[mine], tasks=tasks[mine])) == {"bea"}


def test_one_row_has_no_r2(regressor):
    X, y, _, tasks = long_data(1)
    few = np.concatenate([np.flatnonzero(tasks == "ada")[:1], np.flatnonzero(tasks == "bea")[:5]])
    scores = regressor.score_tasks(X[few], y[few], tasks=tasks[few])
    assert np.isnan(scores["ada"])
    assert regressor.score(X[few], y[few], tasks=tasks[few]) == scores["bea"]
    assert np.isnan(regressor.score(X[few[:1]], y[few[:1]], tasks=tasks[few[:1]]))


def test_rows_of_no_weight_do_not_count(regressor):
    X, y, _, tasks = long_data(1)
    weight = np.where(tasks == "cyd", 0.0, 1.0)
    weight[np.flatnonzero(tasks == "ada")[:3]] = 0.0
    kept = weight > 0
    expected = regressor.score_tasks(X[kept], y[kept], tasks=tasks[kept])
    assert regressor.score_tasks(X, y, tasks=tasks, sample_weight=weight) == pytest.approx(expected, rel=1e-14)


def test_bad_scores_are_refused(regressor, wide):
    X, y, _, tasks = long_data(1)
    with pytest.raises(ValueError, match="X has 42 rows, but y has 41"):
        regressor.score(X, y[:-1], tasks=tasks)
    with pytest.raises(ValueError, match="y should be a 1d array, got an array of shape"):
        regressor.score(X, np.column_stack([y, y]), tasks=tasks)
    with pytest.raises(ValueError, match=r"^Negative values in data passed to `sample_weight`"):
        regressor.score(X, y, tasks=tasks, sample_weight=-np.ones(len(X)))
    with pytest.raises(
        ValueError, match=r"y has shape \(42, 2\), but the predictions of all tasks have shape \(42, 3\)"
    ):
        wide.score(X, np.column_stack([y, y]))


def test_equal_targets_have_no_variance_though_their_mean_is_rounded():
    y = np.full(6, 0.1)
    assert y.mean() != 0.1
    X = np.arange(6.0)[:, np.newaxis]
    model = MKMTRLRegressor("linear").fit(X, X[:, 0])
    # As scikit-learn has it: 0 where equal targets are not met, 1 where they are.
    assert model.score(X, y) == 0.0
    assert model.fit(X, y).score(X, y) == 1.0
