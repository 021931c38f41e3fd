"""KinClassifier: probabilities, tasks with one class, several classes, and weights."""

import numpy as np
import pytest

from kernelkin import KinClassifier
from kernelkin.kin.functions import fit_link, log_odds
from kin.problems import classes, folds

X, Y, TASKS = classes()
CV = folds(len(X))
QUERIES = np.random.default_rng(9).normal(size=(6, 2))
ASKED = np.array([*"abcde", "new"])


@pytest.fixture(scope="module")
def fitted():
    return KinClassifier(cv=CV).fit(X, Y, tasks=TASKS)


def check_probabilities(model, rows, tasks):
    p = model.predict_proba(rows, tasks=tasks)
    np.testing.assert_allclose(p.sum(-1), 1.0)
    assert p.min() >= 0
    assert (model.predict(rows, tasks=tasks) == model.classes_[p.argmax(-1)]).all()
    return p


def test_probabilities_sum_to_one_and_predict_is_the_most_probable_class(fitted):
    p = check_probabilities(fitted, QUERIES, ASKED)
    f = fitted.decision_function(QUERIES, tasks=ASKED)
    np.testing.assert_allclose(f, np.log(p[:, 1] / p[:, 0]), rtol=1e-6)
    assert fitted.score(X, Y, tasks=TASKS) > 0.8
    assert np.isclose(sum(fitted.variance_components_.values()), 1.0)
    assert fitted.variance_components_["noise"] > 0.1


def test_classes_swapped_are_probabilities_swapped(fitted):
    other = KinClassifier(cv=CV).fit(X, np.where(Y == "yes", "a", "b"), tasks=TASKS)
    found = other.predict_proba(QUERIES, tasks=ASKED)
    np.testing.assert_allclose(found[:, ::-1], fitted.predict_proba(QUERIES, tasks=ASKED), atol=1e-4)


def test_the_order_of_rows_and_names_of_tasks_change_nothing(fitted):
    order = np.random.default_rng(1).permutation(len(X))
    place = np.argsort(order)
    names = dict(zip("abcde", "ecdba", strict=True)) | {"new": "new"}
    model = KinClassifier(cv=[(place[train], place[test]) for train, test in CV])
    model.fit(X[order], Y[order], tasks=[names[task] for task in TASKS[order]])
    found = model.predict_proba(QUERIES, tasks=[names[task] for task in ASKED])
    np.testing.assert_allclose(found, fitted.predict_proba(QUERIES, tasks=ASKED), atol=1e-4)


def test_tasks_with_one_class_or_one_row_lean_to_it():
    rows, tasks = np.vstack([X, np.zeros((6, 2))]), np.concatenate([TASKS, ["all yes"] * 5, ["one no"]])
    y = np.concatenate([Y, ["yes"] * 5, ["no"]])
    model = KinClassifier(cv=3, random_state=0).fit(rows, y, tasks=tasks)
    p = check_probabilities(model, np.zeros((3, 2)), ["all yes", "one no", "new"])
    assert p[0, 1] > p[2, 1] > p[1, 1]
    assert 0.02 < p[1, 1] < p[0, 1] < 0.98


def test_class_weights_move_probabilities(fitted):
    model = KinClassifier(cv=CV, class_weight={"no": 10.0, "yes": 1.0}).fit(X, Y, tasks=TASKS)
    assert (model.predict_proba(QUERIES, tasks=ASKED)[:, 0] > fitted.predict_proba(QUERIES, tasks=ASKED)[:, 0]).all()


def three_classes():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(72, 2))
    tasks = np.repeat(list("abcdef"), 12)
    kinds = np.array(["blue", "green", "red"])
    y = kinds[np.digitize(rows[:, 0] + 0.2 * rng.normal(size=72), [-0.5, 0.5])]
    return rows, y, tasks


def test_balanced_classes_of_a_task_have_the_same_total_weight():
    weight = 1.0 + np.arange(len(X)) % 3
    even = weight.copy()
    for task in np.unique(TASKS):
        own = task == TASKS
        labels = np.unique(Y[own])
        for each in (own & (label == Y) for label in labels):
            even[each] *= weight[own].sum() / len(labels) / weight[each].sum()
    found = KinClassifier(cv=CV, class_weight="balanced").fit(X, Y, tasks=TASKS, sample_weight=weight)
    by_hand = KinClassifier(cv=CV).fit(X, Y, tasks=TASKS, sample_weight=even)
    np.testing.assert_allclose(*(m.predict_proba(QUERIES, tasks=ASKED) for m in (found, by_hand)), rtol=1e-5)


def test_three_classes():
    rows, y, tasks = three_classes()
    model = KinClassifier(cv=2, random_state=0).fit(rows, y, tasks=tasks)
    assert model.predict_proba(QUERIES, tasks=ASKED).shape == (6, 3)
    check_probabilities(model, rows, tasks)
    assert model.score(rows, y, tasks=tasks) > 0.75
    # Regression on labels of both signs, so that a value of zero is even odds.
    assert set(np.unique(model.functions_.members[0].model.parts[0].z)) == {-1.0, 1.0}


def test_a_class_that_a_task_lacks_in_training_is_still_possible():
    rows, y, tasks = three_classes()
    lacking = (tasks == "a") & (y == "red")
    model = KinClassifier(cv=2, random_state=0).fit(rows[~lacking], y[~lacking], tasks=tasks[~lacking])
    p = check_probabilities(model, rows, tasks)
    # In the other tasks, such rows are red.
    assert lacking.sum() > 2 and (p[lacking, 2] > 0.05).all()
    same = model.predict_proba(rows[lacking], tasks=np.full(lacking.sum(), "b"))
    assert (p[lacking, 2] < same[:, 2]).all()


def test_classes_of_tasks_that_have_none_in_common_are_impossible():
    rows, y, tasks = three_classes()
    apart = np.isin(tasks, ["a", "b"])
    y = np.where(apart, np.char.add("dark ", y), y)
    # Task a lacks a class that b has.
    keep = ~((tasks == "a") & (y == "dark red"))
    rows, y, tasks, apart = rows[keep], y[keep], tasks[keep], apart[keep]
    model = KinClassifier(cv=2, random_state=0).fit(rows, y, tasks=tasks)
    dark = np.char.startswith(model.classes_, "dark")
    p = check_probabilities(model, rows, tasks)
    assert (p[np.ix_(apart, ~dark)] == 0).all() and (p[np.ix_(~apart, dark)] == 0).all()
    assert (p[np.ix_(apart, dark)] > 0).all() and (p[np.ix_(~apart, ~dark)] > 0).all()
    # Nothing is known of a new task.
    assert (model.predict_proba(rows[:3], tasks=["new"] * 3) > 0).all()


def test_tasks_with_two_classes_each_of_their_own():
    y = np.where(TASKS == "a", np.char.add(Y, " of a"), Y)
    model = KinClassifier(cv=2, random_state=0).fit(X, y, tasks=TASKS)
    p = check_probabilities(model, X, TASKS)
    of_a = np.isin(model.classes_, ["no of a", "yes of a"])
    assert (p[TASKS == "a"][:, ~of_a] == 0).all()
    assert (p[TASKS != "a"][:, of_a] == 0).all()
    assert model.score(X, y, tasks=TASKS) > 0.8


def test_wide_classes():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 2))
    y = (rows[:, :1] + 0.5 * rng.normal(size=(40, 3)) > 0).astype(int)
    model = KinClassifier(cv=2, random_state=0).fit(rows, y)
    p = model.predict_proba(QUERIES)
    assert p.shape == (6, 3)
    np.testing.assert_allclose(
        model.predict_proba(QUERIES, tasks=np.full(6, 2)), np.column_stack([1 - p[:, 2], p[:, 2]])
    )
    assert (model.predict(rows) == y).mean() > 0.75
    new = model.predict_proba(QUERIES, tasks=["new"] * 6)
    # What all tasks have in common, less certain than it is for those that are known.
    assert (np.abs(new[:, 1] - 0.5) < np.abs(p - 0.5).max(1)).all()
    assert not np.isclose(new[:, 1], p[:, 2]).any()


def test_time_that_is_over_still_gives_probabilities():
    with pytest.warns(UserWarning, match="time_limit"):
        model = KinClassifier(cv=CV, time_limit=1e-9).fit(X, Y, tasks=TASKS)
    assert not model.is_complete_
    check_probabilities(model, QUERIES, ASKED)


def test_probabilities_are_calibrated_on_held_out_rows():
    """Each row counts as both classes, weighted by its true probabilities: the best link is known."""
    true = np.tile(np.linspace(0.05, 0.95, 2000), 2)
    y = np.repeat([1.0, 0.0], 2000)
    overconfident = 1 / (1 + np.exp(-2.0 * np.log(true / (1 - true)) - 1.0))
    weight = np.where(y == 1, true, 1 - true)
    link = fit_link(overconfident, y, weight)
    np.testing.assert_allclose([link.slope, link.offset], [0.5, -0.5], atol=0.02)
    assert np.abs(link(log_odds(overconfident)) - true).max() < 0.01
    few = fit_link(overconfident[999:1001], y[999:1001], np.ones(2))
    assert abs(few.slope - 1) < 0.3
    assert abs(few.offset) < 0.3


def test_weights_of_classes_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="class_weight has unknown classes 'yess'; the classes are 'no', 'yes'"):
        KinClassifier(cv=CV, class_weight={"yess": 5.0}).fit(X, Y, tasks=TASKS)


def test_groups_that_happen_to_show_two_of_three_classes_each_share_all_three():
    """Their classes are not coded by their order within the group, which would make one class 0 here and 1 there."""
    rng = np.random.default_rng(0)
    X = np.concatenate(
        [rng.permuted([low, high]) for low, high in rng.permutation(np.repeat([[-1, 0], [0, 1], [-1, 1]], 15, 0))]
    )
    X, tasks, names = X + 0.2 * rng.normal(size=90), np.repeat(np.arange(45), 2), np.array(["a", "b", "c"])
    y = names[np.clip(np.round(X).astype(int), -1, 1) + 1]
    model = KinClassifier(cv=3, random_state=0).fit(X[:, None], y, tasks=tasks)
    predicted = model.predict(np.tile([[-1.0], [0.0], [1.0]], (45, 1)), tasks=np.repeat(np.arange(45), 3))
    assert np.mean(predicted == np.tile(names, 45)) > 0.95
