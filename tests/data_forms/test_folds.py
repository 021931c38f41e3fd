import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, cross_val_score

from kernelkin.data.folds import TaskKFold, make_folds
from kernelkin.data.forms import read_training


def read(X, y, tasks=None, classification=True):
    return read_training(X, y, tasks, classification=classification)


def rare(seed, positives=2, n=30, T=4):
    """Tasks with a few positives each."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.permutation(np.arange(n) < positives) for _ in range(T)]).astype(int)
    return read(rng.normal(size=(T * n, 2)), y, np.repeat(np.arange(T), n))


@pytest.mark.parametrize("positives", [1, 2, 7])
def test_every_training_part_keeps_both_classes(positives):
    data = rare(0, positives)
    folds = make_folds(data, 5, classification=True, random_state=0)
    for t, y in enumerate(data.y):
        held = np.concatenate([fold.held[t] for fold in folds])
        alone = np.flatnonzero(y == 1) if positives == 1 else []
        np.testing.assert_array_equal(np.sort(held), np.setdiff1d(np.arange(len(y)), alone))
        counts = [(y[fold.held[t]] == 1).sum() for fold in folds]
        assert max(counts) - min(counts) <= 1
        sizes = [len(fold.held[t]) for fold in folds]
        assert max(sizes) - min(sizes) <= 1
        for fold in folds:
            assert set(y[fold.kept[t]]) == {0, 1}
            assert not set(fold.kept[t]) & set(fold.held[t])


def test_wide_rows_are_held_out_for_all_tasks_and_no_class_is_lost(seed=1):
    rng = np.random.default_rng(seed)
    Y = (rng.random((40, 3)) < [0.06, 0.3, 0.5]).astype(float)
    Y[:2, 0], Y[2:4, 0] = 1.0, 0.0
    Y[10:20, 1] = np.nan
    data = read(rng.normal(size=(40, 2)), Y)
    folds = make_folds(data, 5, classification=True, random_state=seed)
    for fold in folds:
        kept, held = fold.rows(data)
        assert not set(kept) & set(held)
        for t, y in enumerate(data.y):
            assert set(y[fold.kept[t]]) == {0.0, 1.0}
    sizes = [len(fold.rows(data)[1]) for fold in folds]
    assert sum(sizes) >= 38 and max(sizes) <= 12


def test_a_class_of_one_row_on_wide_data_stays_in_training():
    Y = np.column_stack([np.arange(12) == 3, np.arange(12) % 2])
    data = read(np.random.default_rng(0).normal(size=(12, 2)), Y)
    folds = make_folds(data, 4, classification=True, random_state=0)
    assert all(3 not in fold.rows(data)[1] for fold in folds)
    assert sum(len(fold.rows(data)[1]) for fold in folds) == 11


def test_regression_folds_are_even_and_seeded():
    X, y, tasks = np.zeros((23, 1)), np.arange(23.0), np.repeat(["a", "b"], [13, 10])
    data = read(X, y, tasks, classification=False)
    one, same, other = (make_folds(data, 5, classification=False, random_state=s) for s in (0, 0, 1))
    assert [len(fold.held[0]) for fold in one].count(3) == 3
    for fold, twin in zip(one, same, strict=True):
        np.testing.assert_array_equal(fold.held[0], twin.held[0])
    assert any(list(a.held[0]) != list(b.held[0]) for a, b in zip(one, other, strict=True))


def test_given_splits_are_rows_of_x():
    data = read(np.zeros((6, 1)), np.arange(6.0), np.array(list("abbaab")), classification=False)
    folds = make_folds(data, [([0, 1, 2], [3, 4, 5]), ([3, 4, 5], [0, 1, 2])], classification=False)
    np.testing.assert_array_equal(data.rows[0][folds[0].held[0]], [3, 4])
    np.testing.assert_array_equal(data.rows[1][folds[0].held[1]], [5])


def test_splits_that_lose_a_class_are_refused():
    data = rare(0)
    positive = data.rows[2][data.y[2] == 1]
    rest = np.setdiff1d(np.arange(120), positive)
    with pytest.raises(ValueError, match=r"fold 0 leaves task 2 one class only in training \(0\)"):
        make_folds(data, [(rest, positive), (positive, rest)], classification=True)


def test_one_class_for_each_row_says_so():
    for tasks in [None, [0] * 4 + [1] * 4]:
        data = read(np.arange(8.0)[:, None], np.arange(8), tasks)
        with pytest.raises(
            ValueError, match=r"no rows to hold out: every class of every task has one row.* a regressor"
        ):
            make_folds(data, 5, classification=True)


def test_one_row_for_each_task_says_so():
    data = read(np.ones((2, 1)), [0.0, 1.0], [0, 1], classification=False)
    with pytest.raises(ValueError, match="no rows to hold out: every task has one row, needed for training"):
        make_folds(data, 5, classification=False)


TASKS = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c", "d"], [12, 7, 3, 1]))


def test_task_folds_have_training_rows_of_every_task():
    splits = list(TaskKFold(5, random_state=0).split(np.zeros((23, 1)), groups=TASKS))
    assert len(splits) == 5 == TaskKFold().get_n_splits()
    for train, test in splits:
        assert set(TASKS[train]) == set("abcd") and not set(train) & set(test)
        np.testing.assert_array_equal(np.sort([*train, *test]), np.arange(23))
    held = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(held), np.flatnonzero(TASKS != "d"))  # d has one row
    for task in "abc":
        counts = [(TASKS[test] == task).sum() for _, test in splits]
        assert max(counts) - min(counts) <= 1
    assert min(len(test) for _, test in splits) >= 3


def test_task_folds_are_seeded_and_stratified_where_that_is_asked_for():
    y = (np.arange(23) % 4 == 0).astype(int)
    one, same, other = (list(TaskKFold(random_state=s).split(y, y, TASKS)) for s in (0, 0, 1))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(one, other, strict=True))
    for train, _ in TaskKFold(stratify=True, random_state=0).split(y, y, TASKS):
        assert all(set(y[train][TASKS[train] == t]) == set(y[t == TASKS]) for t in "abcd")


def test_task_folds_are_those_of_a_number():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(23, 2)), rng.normal(size=23)
    data = read(X, y, TASKS, classification=False)
    folds = make_folds(data, 3, classification=False, random_state=4)
    for fold, (train, test) in zip(folds, TaskKFold(3, random_state=4).split(X, y, TASKS), strict=True):
        for found, expected in zip(fold.rows(data), (train, test), strict=True):
            np.testing.assert_array_equal(found, expected)
    same = make_folds(data, TaskKFold(3, random_state=4), classification=False)
    assert all(np.array_equal(a.rows(data)[1], b.rows(data)[1]) for a, b in zip(folds, same, strict=True))
    with pytest.raises(ValueError, match="fold 0 leaves task 'a' no training rows"):
        make_folds(data, GroupKFold(4), classification=False)


def test_task_folds_work_with_scikit_learn_and_say_what_they_need():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(23, 2)), rng.normal(size=23)
    assert len(cross_val_score(Ridge(), X, y, groups=TASKS, cv=TaskKFold(4))) == 4
    with pytest.raises(ValueError, match=r"^TaskKFold needs groups, the task of each row$"):
        next(TaskKFold().split(X, y))
    with pytest.raises(ValueError, match=r"^TaskKFold needs y if stratify=True$"):
        next(TaskKFold(stratify=True).split(X, groups=TASKS))
    with pytest.raises(ValueError, match=r"^X has 23 rows, but groups has 2$"):
        next(TaskKFold().split(X, groups=[1, 2]))
    with pytest.raises(ValueError, match=r"^n_splits must be 2 or more, got 1$"):
        next(TaskKFold(1).split(X, groups=TASKS))


def test_masks_of_labels_hold_out_rows_for_some_tasks_only():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 2)), rng.normal(size=(12, 3))
    Y[0, 1] = np.nan
    data, part = read(X, Y, classification=False), rng.integers(0, 2, size=(12, 3))
    folds = make_folds(data, [(part != k, part == k) for k in range(2)], classification=False)
    for k, fold in enumerate(folds):
        for t, rows in enumerate(data.rows):
            np.testing.assert_array_equal(rows[fold.held[t]], [i for i in rows if part[i, t] == k])
            np.testing.assert_array_equal(rows[fold.kept[t]], [i for i in rows if part[i, t] != k])
    with pytest.raises(ValueError, match="cv: fold 0 is not a pair of training and test rows of X"):
        make_folds(data, [(part[:5] == 0, part[:5] == 1)] * 2, classification=False)


def test_folds_without_test_rows_are_refused():
    """A score of no rows would be an error in the middle of a cross-validation."""
    tasks = np.repeat([0, 1], 2)
    with pytest.raises(ValueError, match="too few rows for 5 folds: one has no test rows; lower n_splits"):
        list(TaskKFold(5, random_state=0).split(np.zeros((4, 1)), groups=tasks))
    assert len(list(TaskKFold(2, random_state=0).split(np.zeros((4, 1)), groups=tasks))) == 2


def test_folds_of_several_groupings_are_those_of_the_first():
    second = np.arange(23) % 4
    alone, both = (
        list(TaskKFold(5, random_state=0).split(np.zeros((23, 1)), tasks=tasks))
        for tasks in (TASKS, {"first": TASKS, "second": second})
    )
    assert all((a[1] == b[1]).all() for a, b in zip(alone, both, strict=True))
