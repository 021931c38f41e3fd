"""Tasks of one row or one class: learned where they can borrow, refused by name where they cannot."""

import numpy as np
import pytest

from kernelkin import (
    IMKLRegressor,
    KinClassifier,
    MKMTRLClassifier,
    MKMTRLClassifierCV,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    gaussian_kernels,
)
from kernelkin.data.forms import read_training
from kernelkin.paper.fitting.targets import classes_of_outputs, link_machines, task_classes
from kernelkin.paper.learners import Machine

KERNELS = gaussian_kernels((1.0, 3.0))


def make_tasks(sizes=(20, 20, 20, 1, 2), seed=0):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(list("abcde")[: len(sizes)], sizes)
    X = rng.normal(size=(len(tasks), 2))
    return X, np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1], tasks


def make_classes():
    """Task d has one row of class no, e two of class yes."""
    X, _, tasks = make_tasks()
    X[tasks == "d"], X[tasks == "e"] = [-1.0, -0.5], [[1.0, 0.5], [0.5, 1.0]]
    return X, np.where(np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] > 0, "yes", "no"), tasks


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_a_task_of_one_row_borrows_the_shape_of_its_function(loss):
    X, y, tasks = make_tasks()
    model = MKMTRLRegressor(KERNELS, C=10.0, loss=loss, couplings="common").fit(X, y, tasks=tasks)
    new, truth, _ = make_tasks((200,), seed=1)
    assert np.corrcoef(model.predict(new, tasks=np.full(200, "d")), truth)[0, 1] > 0.9
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert np.isfinite(model.score(X, y, tasks=tasks)) and np.isnan(model.score_tasks(X, y, tasks=tasks)["d"])


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_a_task_of_one_class_has_the_intercept_of_another(loss):
    X, labels, tasks = make_classes()
    model = MKMTRLClassifier(KERNELS, C=10.0, loss=loss, couplings="common").fit(X, labels, tasks=tasks)
    assert model.intercept_[3] == model.intercept_[4] and model.intercept_[3] in model.intercept_[:3]
    assert all(classes.tolist() == ["no", "yes"] for classes in model.task_classes_)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    new, truth, _ = make_tasks((200,), seed=1)
    for task in "de":
        assert np.mean(model.predict(new, tasks=np.full(200, task)) == np.where(truth > 0, "yes", "no")) > 0.7


def test_the_intercept_is_that_of_the_most_similar_task():
    def machine(y):
        y = np.array(y, dtype=float)[:, np.newaxis]
        return Machine(y, np.ones_like(y), np.zeros(len(y), dtype=np.intp), 1)

    class Link:
        def __init__(self, factor):
            self.factor = factor

    both = [machine([1, -1]), machine([1, -1, 1]), machine([1, 1])]
    labels = np.array(["a", "b", "c"])
    (common,) = link_machines(both, [Link(np.ones((3, 1)))], labels)
    assert common.n_groups == 2 and common.groups.tolist() == [0, 0, 1, 1, 1, 1, 1]  # b has more rows
    near = Link(np.array([[1.0, 0.0], [0.6, 0.8], [0.9, 0.43589]]))
    (linked,) = link_machines(both, [near], labels)
    assert linked.groups.tolist() == [0, 0, 1, 1, 1, 0, 0] or near.factor[2] @ near.factor[1] > 0.9
    assert link_machines(both, [near], labels, classes=False)[0].n_groups == 3  # numbers, not classes


def test_tasks_that_share_nothing_are_refused_with_advice():
    X, y, tasks = make_tasks()
    advice = r"; Kin, and models with couplings='common', learn it together with other tasks; or leave out its rows$"
    one_row = (
        r"^task 'd' has one sample only \(n_samples=1\) with a label and a positive weight; a task needs two or more"
    )
    for model in (MKMTRLRegressor(), IMKLRegressor(), MKMTRLRegressor(couplings={"g": list("uuuvu")})):
        with pytest.raises(ValueError, match=one_row + advice):
            model.fit(X, y, tasks=tasks)
    X, labels, tasks = make_classes()
    with pytest.raises(
        ValueError, match=r"^task 'e' has one class only \('yes'\); a classifier needs two" + ".*" + advice
    ):
        MKMTRLClassifier().fit(X[tasks != "d"], labels[tasks != "d"], tasks=tasks[tasks != "d"])


@pytest.mark.parametrize("model", [MKMTRLClassifier(KERNELS, couplings="common"), KinClassifier(KERNELS)])
def test_tasks_that_all_have_one_class_have_nothing_to_share(model):
    X, _, tasks = make_tasks()
    for labels in (np.zeros(len(X), dtype=int), (tasks == "a").astype(int)):
        with pytest.raises(ValueError, match=r"^every task has one class only; at least one task needs two"):
            model.fit(X, labels, tasks=tasks)


def test_cross_validation_keeps_tiny_tasks_in_training():
    X, y, tasks = make_tasks()
    grid = {"C": [0.1, 10.0]}
    search = MKMTRLRegressorCV(KERNELS, grid=grid, couplings="common", cv=3, random_state=0).fit(X, y, tasks=tasks)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    X, labels, tasks = make_classes()
    for scoring in ("accuracy", "roc_auc"):
        search = MKMTRLClassifierCV(KERNELS, grid=grid, couplings="common", cv=3, random_state=0, scoring=scoring)
        search.fit(X, labels, tasks=tasks)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_params_ == {"C": 10.0} or scoring == "roc_auc"


def test_kin_learns_tiny_tasks():
    X, labels, tasks = make_classes()
    model = KinClassifier(cv=2, random_state=0).fit(X, labels, tasks=tasks)
    assert np.isfinite(model.search_results_["error"]).all()
    # Both are predicted as the others are: of one row, and of one class.
    for task in "de":
        probabilities = model.predict_proba(X, tasks=np.full(len(X), task))
        assert set(model.classes_[probabilities.argmax(axis=1)]) == {"no", "yes"}


def test_classes_of_tasks():
    labels = [["x", "y"], ["x"], ["x", "y", "z"], ["z"]]
    tasks = np.repeat(list("abcd"), [len(each) for each in labels])
    y = np.concatenate(labels)
    data = read_training(np.zeros((7, 1)) + 1, y, tasks, classification=True)
    alone = [classes.tolist() for classes in task_classes(data)]
    assert alone[0] == ["x", "y"] and alone[2:] == [["x", "y", "z"]] * 2 and len(alone[1]) > 1
    assert all(classes.tolist() == ["x", "y", "z"] for classes in task_classes(data, [np.arange(4)]))
    # A task of one class has those of most tasks that have it.
    many = read_training(np.ones((7, 1)), list("xyxzxzx"), np.array(list("aabbccd")), classification=True)
    assert task_classes(many)[3].tolist() == ["x", "z"]
    every = [np.unique(each) for each in labels]
    assert classes_of_outputs(np.array(["x"]), every, 1).tolist() == ["x", "y"]
    assert classes_of_outputs(np.array(["x", "y"]), every, 3).tolist() == ["x", "y", "z"]
    assert classes_of_outputs(np.array(["x", "y"]), every, 1).tolist() == ["x", "y"]
