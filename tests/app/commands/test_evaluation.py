import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score, roc_auc_score

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.app.commands.evaluation import HeldOut, folds, holdout, metric_of, values_for

rng = np.random.default_rng(0)
TASKS = np.repeat(["a", "b"], [40, 24])
X = rng.normal(size=(64, 2))
Y = np.sin(X[:, 0])


def test_a_share_of_every_task_and_class_is_held_out():
    y = np.r_[np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [23, 1])]
    held = holdout(TASKS, y, 0.25, 0, classification=True)
    assert [(held & (t == TASKS) & (y == c)).sum() for t, c in (("a", 0), ("a", 1), ("b", 0), ("b", 1))] == [8, 3, 6, 0]
    assert holdout(TASKS, Y, 0.25, 0, classification=False).sum() == 16
    assert not np.array_equal(held, holdout(TASKS, y, 0.25, 1, classification=True))


def test_folds_hold_out_every_row_once_and_never_the_only_one_of_a_class():
    y = np.r_[np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [23, 1])]
    fold = folds(TASKS, y, 5, 0, classification=True)
    assert (fold == -1).sum() == 1
    assert y[fold == -1] == [1]
    counts = [((fold == f) & (TASKS == "a") & (y == 1)).sum() for f in range(5)]
    assert counts == [2] * 5


def test_scores_are_those_of_scikit_learn():
    held = holdout(TASKS, Y, 0.5, 0, classification=False)
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    model = MKMTRLRegressor().fit(X[train], Y[train], tasks=TASKS[train])
    metric = metric_of("r2", classification=False)
    found = HeldOut.empty(TASKS, Y, metric)
    found.record(values_for(model, X[test], TASKS[test], metric), test)
    for task, score in found.scores(metric).items():
        own = test[TASKS[test] == task]
        assert_allclose(score, r2_score(Y[own], model.predict(X[own], tasks=TASKS[own])))


@pytest.mark.parametrize("labels", [{"a": (0, 1), "b": (0, 1)}, {"a": (0, 1), "b": (3, 2)}])
def test_ranks_are_those_of_each_task_s_second_class(labels):
    y = np.array([labels[t][int(value > 0)] for t, value in zip(TASKS, Y + 0.5 * rng.normal(size=64), strict=True)])
    model = MKMTRLClassifier().fit(X, y, tasks=TASKS)
    metric = metric_of("roc_auc", classification=True)
    found = HeldOut.empty(TASKS, y, metric)
    found.record(values_for(model, X, TASKS, metric), np.arange(64))
    decided = model.functions_.values(X, (TASKS == "b").astype(int))[:, 0]
    for task, score in found.scores(metric).items():
        own = task == TASKS
        assert_allclose(score, roc_auc_score(y[own] == y[own].max(), decided[own]))
        assert score > 0.5


def test_the_jackknife_of_a_mean_is_its_standard_error():
    metric = metric_of("neg_mean_squared_error", classification=False)
    found = HeldOut(np.repeat("a", 30), np.zeros(30), rng.normal(size=30), np.arange(30) % 5)
    errors = -np.array([np.mean(found.values[found.fold == f] ** 2) for f in range(5)])
    value, error = found.jackknife(metric)
    assert_allclose([value, error], [errors.mean(), errors.std(ddof=1) / np.sqrt(5)])
