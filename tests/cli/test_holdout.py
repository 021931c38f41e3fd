import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score, roc_auc_score

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, TableSchema
from kernelkin.cli.holdout import as_tasks, held_values, hold_out, read_metric, split_by_task
from kernelkin.paper.model_selection import Fold, Scorer

rng = np.random.default_rng(0)
TASKS = np.repeat(["a", "b"], [40, 24])
X = rng.normal(size=(64, 2))
Y = np.sin(X[:, 0])


def schema_of(y, train, *, regression):
    """The schema of some rows, and the table of all."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "task": TASKS, "y": y})
    return TableSchema.fit(frame.iloc[train], "task", "y", regression=regression), frame


def fitted(model, schema, frame):
    return model.fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))


def test_a_share_of_every_task_and_class_is_held_out():
    y = np.r_[np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [23, 1])]
    data = as_tasks(TASKS, y, classification=True)
    fold = hold_out(data, 0.25, 0, classification=True)
    counts = [np.bincount(y[held], minlength=2).tolist() for y, held in zip(data.y, fold.held, strict=True)]
    assert counts == [[8, 3], [6, 0]]
    train, test = fold.rows(data)
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(64))
    other = hold_out(data, 0.25, 1, classification=True)
    assert not np.array_equal(fold.held[0], other.held[0])


def test_scores_are_those_of_scikit_learn():
    """In the units of the table: training rows have another mean and spread than all rows."""
    data = as_tasks(TASKS, Y, classification=False)
    fold = hold_out(data, 0.5, 0, classification=False)
    train, test = fold.rows(data)
    schema, frame = schema_of(Y, train, regression=True)
    model = fitted(MKMTRLRegressor(), schema, frame.iloc[train])
    values = split_by_task(held_values(model, schema, frame.iloc[test]), data, fold, classification=False)
    metric = read_metric("r2", data, classification=False)
    scores = Scorer(data, [fold], metric, classification=False).score_tasks([values])
    for task, score in zip("ab", scores, strict=True):
        own = test[TASKS[test] == task]
        predicted = schema.restore(model.predict(schema.encode(frame.iloc[own]), tasks=TASKS[own]))
        assert_allclose(score, r2_score(Y[own], predicted))


@pytest.mark.parametrize("labels", [{"a": (0, 1), "b": (0, 1)}, {"a": (0, 1), "b": (3, 2)}])
def test_ranks_are_those_of_each_task_s_second_class(labels):
    y = np.array([labels[t][int(value > 0)] for t, value in zip(TASKS, Y + 0.5 * rng.normal(size=64), strict=True)])
    schema, frame = schema_of(y, slice(None), regression=False)
    model = fitted(MKMTRLClassifier(), schema, frame)
    data = as_tasks(TASKS, y, classification=True)
    every = tuple(np.arange(len(part)) for part in data.y)
    fold = Fold(every, every)
    metric = read_metric("roc_auc", data, classification=True)
    values = split_by_task(held_values(model, schema, frame), data, fold, classification=True)
    scores = Scorer(data, [fold], metric, classification=True).score_tasks([values])
    decided = model.functions_.values(schema.encode(frame), (TASKS == "b").astype(int))[:, 0]
    for task, score in zip("ab", scores, strict=True):
        own = task == TASKS
        assert_allclose(score, roc_auc_score(y[own] == y[own].max(), decided[own]))
        assert score > 0.5


def test_accuracy_of_tasks_with_different_numbers_of_classes():
    y = np.where(TASKS == "a", np.digitize(X[:, 0], [-0.5, 0.5]), X[:, 1] > 0)
    schema, frame = schema_of(y, slice(None), regression=False)
    model = fitted(MKMTRLClassifier(), schema, frame)
    data = as_tasks(TASKS, y, classification=True)
    every = tuple(np.arange(len(part)) for part in data.y)
    fold = Fold(every, every)
    values = split_by_task(held_values(model, schema, frame), data, fold, classification=True)
    assert [part.shape[1] for part in values] == [3, 1]
    metric = read_metric("accuracy", data, classification=True)
    scores = Scorer(data, [fold], metric, classification=True).score_tasks([values])
    assert_allclose(scores, list(model.score_tasks(schema.encode(frame), y, tasks=TASKS).values()))
    with pytest.raises(ValueError, match=r"^--scoring roc_auc: this score is for two classes, and a task has more"):
        read_metric("roc_auc", data, classification=True)
