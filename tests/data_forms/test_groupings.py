"""Several groupings of the same rows: the first has the tasks, the others come along."""

import numpy as np
import pandas as pd
import pytest

from data_forms.reading import TASKS, N, X, Y
from kernelkin import MKMTRLRegressor
from kernelkin.data.forms import read_queries, read_training
from kernelkin.relations import LinearMixedModel

CLASSES = np.tile(["u", "v", "w"], 4)
TABLE = pd.DataFrame({"school": TASKS, "class": CLASSES})


def read(X=X, tasks=None, **options):
    return read_training(X, Y, tasks, classification=False, **options)


def test_columns_are_groupings():
    for given, name in [
        ({"tasks": TABLE}, "class"),
        ({"tasks": TABLE.to_dict("list")}, "class"),
        ({"tasks": pd.MultiIndex.from_frame(TABLE)}, "class"),
        ({"tasks": TABLE.to_numpy()}, 1),
        ({"X": pd.DataFrame(X).set_axis(list("abc"), axis=1).join(TABLE), "task_column": ["school", "class"]}, "class"),
        ({"X": np.column_stack([X, TASKS, np.tile([7, 8, 9], 4)]), "task_column": [-2, -1]}, 4),
    ]:
        data = read(**given)
        assert (data.form, data.labels.tolist(), data.X.shape) == ("long", [10, 20, 30], (N, 3))
        (grouping,) = data.groupings
        assert grouping.name == name and grouping.labels.tolist() in (["u", "v", "w"], [7, 8, 9])
        np.testing.assert_array_equal(grouping.codes, np.tile([0, 1, 2], 4))


def test_one_column_is_no_further_grouping():
    assert read(tasks=TABLE[["school"]]).groupings == read(tasks=TASKS).groupings == ()
    assert read(tasks={"school": TASKS}).labels.tolist() == [10, 20, 30]
    known = read(tasks=TABLE[["school"]])
    options = {"known": known.labels, "form": "long", "task_name": known.task_name}
    asked = TABLE[["school"]].rename(columns={"school": "School"})
    np.testing.assert_array_equal(read_queries(X, asked, **options).codes, np.repeat([2, 0, 1], 4))
    assert read(tasks=TABLE[["school"]]).task_name == "school" and read(tasks=TASKS).task_name is None


def test_a_group_may_be_new_in_one_grouping_and_known_in_another():
    known = read(tasks=TABLE)
    asked = pd.DataFrame({"school": [20, 99], "class": ["x", "v"]})
    options = {"known": known.labels, "form": "long", "groupings": known.groupings}
    found = read_queries(X[:2], asked, allow_unknown=True, **options)
    np.testing.assert_array_equal(found.codes, [1, -1])
    np.testing.assert_array_equal(found.groupings[0], [-1, 1])
    with pytest.raises(ValueError, match="unknown task 99"):
        read_queries(X[:2], asked, **options)
    with pytest.raises(ValueError, match=r"fitted on 2 \('school', 'class'\), but got one"):
        read_queries(X[:2], [20, 10], task_name=known.task_name, **options)
    with pytest.raises(ValueError, match="needs the task of each row"):
        read_queries(X[:2], None, **options)


@pytest.mark.parametrize("names", [["school", "class"], ["class", "school"]])
def test_columns_of_groups_may_come_in_any_order(names):
    """By position, all rows of a table with its columns in another order would be of new groups."""
    known = read(tasks=TABLE)
    options = {"known": known.labels, "form": "long", "groupings": known.groupings, "allow_unknown": True}
    found = read_queries(X, TABLE[names], task_name=known.task_name, **options)
    np.testing.assert_array_equal(found.codes, known.labels.searchsorted(TASKS))
    np.testing.assert_array_equal(found.groupings[0], known.groupings[0].codes)
    by_position = read_queries(X, TABLE.to_numpy(), task_name=known.task_name, **options)
    np.testing.assert_array_equal(by_position.groupings[0], known.groupings[0].codes)
    swapped = TABLE.to_numpy()[:, ::-1]
    with pytest.raises(ValueError, match="column 0 of tasks has labels of another grouping: is the order that of the"):
        read_queries(X, swapped, task_name=known.task_name, **options)
    # If groupings have labels in common, a new group may be called like a group of another grouping.
    alike = read(tasks=np.column_stack([TASKS, TASKS // 10 + 9]))
    options = {"known": alike.labels, "form": "long", "groupings": alike.groupings, "allow_unknown": True}
    assert (read_queries(X, np.full((N, 2), 11), **options).codes == -1).all()
    options |= {"known": known.labels, "groupings": known.groupings}
    with pytest.raises(ValueError, match=r"fitted on 2 \('school', 'class'\), but got 2 \('school', 'room'\)"):
        read_queries(X, TABLE.rename(columns={"class": "room"}), task_name=known.task_name, **options)
    mixed = LinearMixedModel().fit(X, Y, TABLE)
    np.testing.assert_array_equal(mixed.predict(X, TABLE[names]), mixed.predict(X, TABLE))


def test_missing_labels_name_the_column():
    with pytest.raises(ValueError, match=r"tasks is a dict .* 'class': \(12, 2\)}"):
        read(tasks={"school": TASKS, "class": [[1, 2]] * 12})
    with pytest.raises(ValueError, match=r"tasks is a dict .* {'school': \(12,\), 'class': \(3,\)}. A dict holds col"):
        read(tasks={"school": TASKS, "class": [1, 2, 3]})


def test_models_of_the_paper_refuse_further_groupings_by_name():
    with pytest.raises(ValueError, match=r"MKMTRLRegressor takes one grouping of rows, .*: leave out 'class'"):
        MKMTRLRegressor().fit(X, Y, tasks=TABLE)
