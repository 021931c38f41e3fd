"""Classes of tasks: how they are coded, decided, predicted and weighted."""

import numpy as np
import pytest
from models.problems import NAMES, long_data, wide_data
from sklearn.base import clone
from sklearn.svm import SVC

from kernelkin import MKMTRLClassifier, gaussian_kernels
from kernelkin.data.forms import read_training
from kernelkin.paper.fitting.targets import Classification, Regression, task_classes

LOSSES = ("hinge", "squared")


def mixed_classes(seed=0):
    """Tasks of two, three and two classes, of which some are shared."""
    X, _, ranks, tasks = long_data(seed, classes=3, n=18)
    names = {
        "ada": np.array(["cat", "dog", "dog"]),
        "bea": np.array(["ant", "bee", "cat"]),
        "cyd": np.array(["ant", "dog", "dog"]),
    }
    return X, np.array([names[task][rank] for task, rank in zip(tasks, ranks, strict=True)]), tasks


@pytest.mark.parametrize("loss", LOSSES)
def test_tasks_may_have_classes_of_their_own(loss):
    X, y, tasks = mixed_classes()
    model = MKMTRLClassifier(loss=loss, C=10.0).fit(X, y, tasks=tasks)
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert [classes.tolist() for classes in model.task_classes_] == [
        ["cat", "dog"],
        ["ant", "bee", "cat"],
        ["ant", "dog"],
    ]
    prediction, decision = model.predict(X, tasks=tasks), model.decision_function(X, tasks=tasks)
    assert decision.shape == (len(X), 4)
    np.testing.assert_array_equal(prediction, model.classes_[decision.argmax(axis=1)])
    for t, name in enumerate(NAMES):
        mine = decision[tasks == name]
        known = np.isin(model.classes_, model.task_classes_[t])
        assert np.isfinite(mine[:, known]).all()
        assert np.isneginf(mine[:, ~known]).all()
        if known.sum() == 2:
            np.testing.assert_allclose(mine[:, known][:, 0], -mine[:, known][:, 1])
    assert (prediction == y).mean() > 0.9
    assert [a.shape[1] for a in model.dual_coef_] == [1, 3, 1]
    assert [len(c) for c in model.intercept_] == [1, 3, 1]


def test_one_kernel_and_three_classes_is_one_svc_against_the_rest_each():
    X, _, y, _ = long_data(1, classes=3)
    model = MKMTRLClassifier("rbf", C=3.0, tol=1e-8).fit(X, y)
    gram = model.kernel_weights_[0, 0] * model.kernels_[0](X)
    decision = model.decision_function(X)
    for label in range(3):
        svc = SVC(C=3.0, kernel="precomputed", tol=1e-8).fit(gram, y == label)
        np.testing.assert_allclose(decision[:, label], svc.decision_function(gram), atol=2e-4)


def test_wide_tasks_of_two_classes_each(loss="hinge"):
    X, Y = wide_data(2)
    signs = (np.median(Y, axis=0) < Y).astype(int)
    Y = np.column_stack([signs[:, 0], 5 + signs[:, 1], signs[:, 2]])
    model = MKMTRLClassifier(loss=loss, C=10.0).fit(X, Y)
    decision = model.decision_function(X)
    assert decision.shape == (20, 3)
    np.testing.assert_array_equal(model.predict(X), np.where(decision > 0, [1, 6, 1], [0, 5, 0]))
    np.testing.assert_array_equal(model.predict(X, tasks=[1] * 20), model.predict(X)[:, 1])


def test_wide_tasks_of_many_classes(loss="squared"):
    X, Y = wide_data(3, n=30)
    ranks = np.argsort(np.argsort(Y, axis=0), axis=0)
    Y = np.column_stack([ranks[:, 0] // 10, ranks[:, 1] // 15, ranks[:, 2] // 10])
    model = MKMTRLClassifier(loss=loss, C=10.0).fit(X, Y)
    decision = model.decision_function(X)
    assert decision.shape == (30, 3, 3)
    assert np.isneginf(decision[:, 1, 2]).all()
    np.testing.assert_array_equal(model.predict(X), decision.argmax(axis=2))
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("labels", [[False, True], ["no", "yes"], [np.int8(3), np.int8(7)]])
def test_labels_of_any_kind_come_back(labels):
    X, _, y, tasks = long_data(4)
    labels = np.array(labels)
    model = MKMTRLClassifier().fit(X, labels[y], tasks=tasks)
    prediction = model.predict(X, tasks=tasks)
    assert prediction.dtype == labels.dtype
    assert set(prediction.tolist()) <= set(labels.tolist())
    np.testing.assert_array_equal(prediction == labels[1], model.decision_function(X, tasks=tasks) > 0)


# Shares of kernels


def test_parts_of_two_classes_add_up_to_the_decision(loss="hinge"):
    X, _, y, tasks = long_data(5)
    model = MKMTRLClassifier(loss=loss).fit(X, y, tasks=tasks)
    split = model.predict(X, tasks=tasks, split=True)
    assert split.parts.shape == (len(X), 6)
    assert split.intercept.shape == (len(X),)
    assert split.kernels.tolist() == model.kernel_names_.tolist()
    np.testing.assert_array_equal(split.prediction, model.predict(X, tasks=tasks))
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, model.decision_function(X, tasks=tasks))


def test_parts_of_several_classes_add_up_to_the_decision():
    X, y, tasks = mixed_classes(6)
    model = MKMTRLClassifier().fit(X, y, tasks=tasks)
    split = model.predict(X, tasks=tasks, split=True)
    assert split.parts.shape == (len(X), 6, 3)
    whole = split.parts.sum(axis=1) + split.intercept
    three = tasks == "bea"
    decision = model.decision_function(X, tasks=tasks)
    np.testing.assert_allclose(whole[three], decision[three][:, :3])
    # A task of two classes has one output, that of the second class.
    np.testing.assert_allclose(whole[tasks == "ada", 0], decision[tasks == "ada", 3])
    assert np.isnan(whole[~three][:, 1:]).all()


def test_parts_on_wide_data_add_up_to_the_decision():
    X, Y = wide_data(7)
    Y = (np.median(Y, axis=0) < Y).astype(int)
    model = MKMTRLClassifier().fit(X, Y)
    split = model.predict(X, split=True)
    assert split.parts.shape == (20, 3, 6)
    np.testing.assert_allclose(split.parts.sum(axis=2) + split.intercept, model.decision_function(X))


# Weights of classes


def test_balanced_weights_are_balanced_within_each_task():
    X, _, ranks, tasks = long_data(8, classes=7)
    y = (ranks > 4) | ((ranks > 2) & (tasks == "cyd"))
    share = {name: y[tasks == name].mean() for name in NAMES}
    by_row = np.array([0.5 / (share[t] if label else 1 - share[t]) for t, label in zip(tasks, y, strict=True)])
    # Neither bandwidth nor scaling may see the weights: class weights are costs alone.
    model = MKMTRLClassifier(gaussian_kernels([0.5, 2.0], relative=False), normalize=None)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y, tasks=tasks)
    by_hand = clone(model).fit(X, y, tasks=tasks, sample_weight=by_row)
    np.testing.assert_allclose(balanced.kernel_weights_, by_hand.kernel_weights_, rtol=1e-6)
    plain = clone(model).fit(X, y, tasks=tasks)
    assert balanced.decision_function(X, tasks=tasks).mean() > plain.decision_function(X, tasks=tasks).mean()


def read(X, y, tasks=None, sample_weight=None):
    return read_training(X, y, tasks, sample_weight, classification=True)


def test_class_weights_by_label():
    X, y, tasks = mixed_classes(9)
    targets = Classification(class_weight={"dog": 3.0, "ant": 0.5})
    ada, bea, cyd = targets.machines(read(X, y, tasks), 2.0)
    for machine, name, cost in ((ada, "ada", {"dog": 6, "cat": 2}), (bea, "bea", {"ant": 1, "bee": 2, "cat": 2})):
        expected = [cost[label] for label in y[tasks == name]]
        for column in machine.C.T:
            np.testing.assert_allclose(column, expected)
    assert cyd.C.shape == (18, 1)


def test_class_weights_and_row_weights_multiply():
    X, _, y, tasks = long_data(10)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    machine = Classification(class_weight={1: 5.0}).machines(read(X, y, tasks, weight), 2.0)[0]
    mine = tasks == "ada"
    np.testing.assert_allclose(machine.C[:, 0], 2.0 * weight[mine] * np.where(y[mine] == 1, 5.0, 1.0))


def test_targets_are_coded_plus_and_minus_one():
    X, y, tasks = mixed_classes(11)
    data = read(X, y, tasks)
    classes = task_classes(data)
    for machine, labels, name in zip(Classification().machines(data, 1.0), classes, NAMES, strict=True):
        mine = y[tasks == name]
        wanted = labels if len(labels) > 2 else labels[1:]
        np.testing.assert_array_equal(machine.y, np.where(mine[:, None] == wanted, 1.0, -1.0))
        assert machine.n_groups == 1
        np.testing.assert_array_equal(machine.groups, 0)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_real_targets_are_taken_as_they_are(fit_intercept):
    X, y, _, tasks = long_data(12)
    weight = np.linspace(0.5, 2, len(X))
    data = read_training(X, y, tasks, weight, classification=False)
    machines = Regression(fit_intercept=fit_intercept).machines(data, 3.0)
    for machine, name in zip(machines, NAMES, strict=True):
        np.testing.assert_array_equal(machine.y[:, 0], y[tasks == name])
        np.testing.assert_allclose(machine.C[:, 0], 3.0 * weight[tasks == name])
        assert machine.n_groups == int(fit_intercept)
