"""Dates, categories, missing and masked values: refused by the name of their column, never cast in silence."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import MKMTRLRegressor
from robustness.estimators import KERNEL, N, clean_data, fit, fitted, pairs, values
from robustness.faults import put
from robustness.kinds import DAYS, LABELS, NUMBERS, ROWS, TARGETS, WEIGHTS, frame

TABLES = {"X": ROWS, "y": TARGETS, "tasks": LABELS, "weights": WEIGHTS}
KINDS = {f"{where}: {kind}": fault for where, table in TABLES.items() for kind, fault in table.items()}

# One of each room: all have the same door.
ROOMS = [
    "MKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
    "MTRLRegressor",
    "OLSRegressor",
    "MRCERegressor",
    "MKMTRLRegressorCV",
]


def never(A, B):
    raise AssertionError("a kernel was evaluated before the input was checked")


@pytest.mark.parametrize(("kind", "name"), pairs(KINDS, lambda fault: fault.among))
def test_what_is_no_number_is_refused_by_name(kind, name):
    data = KINDS[kind].change(clean_data(name))
    lazy = {"kernels": never} if name in KERNEL else {}
    with pytest.raises((ValueError, TypeError), match=f"(?s){KINDS[kind].message}"):
        fit(name, data, **lazy)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", ["MKMTRLRegressor", "OLSRegressor"])
def test_so_it_is_among_rows_to_predict(kind, name):
    clean, data = clean_data(name), ROWS[kind].change(clean_data(name))
    model = fit(name, clean._replace(X=frame(clean.X))) if hasattr(data.X, "columns") else fitted(name)
    with pytest.raises((ValueError, TypeError), match=f"(?s){ROWS[kind].message}|feature names should match"):
        model.predict(data.X, tasks=data.tasks)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", ROOMS)
def test_what_counts_as_a_number_counts_as_the_right_one(kind, name):
    given, meant = NUMBERS[kind]
    clean = clean_data(name)
    model, other = (fit(name, clean._replace(X=change(clean.X))) for change in (given, meant))
    found = values(model, given(clean.X), clean.tasks)
    np.testing.assert_array_equal(found, values(other, meant(clean.X), clean.tasks))


class TestColumnOfTasks:
    """Columns are named as the user counts them, with the column of tasks."""

    @pytest.mark.parametrize(("taken", "named"), [(0, 2), (1, 2), (2, 1), (-1, 1), (-3, 2)])
    def test_of_an_array(self, taken, named):
        clean = clean_data("MKMTRLRegressor")
        X = np.insert(clean.X[:, :2].astype(object), taken if taken >= 0 else 3 + taken, clean.tasks, axis=1)
        X[4, named] = "tall"
        with pytest.raises(ValueError, match=f"X, column {named}: could not convert .*'tall'"):
            MKMTRLRegressor(task_column=taken).fit(X, clean.y)

    def test_of_a_data_frame(self):
        """Tasks may be dates, features may not."""
        clean = clean_data("MKMTRLRegressor")
        X = frame(clean.X).assign(task=DAYS[np.unique(clean.tasks, return_inverse=True)[1]], d=DAYS)
        model = MKMTRLRegressor(task_column="task")
        assert len(clone(model).fit(X.drop(columns="d"), clean.y).tasks_) == 3
        with pytest.raises(TypeError, match="X, column 'd' holds dates or times"):
            model.fit(X, clean.y)


def test_classes_and_tasks_may_be_dates():
    clean = clean_data("MKMTRLClassifier")
    model = fit("MKMTRLClassifier", clean._replace(y=np.where(clean.y == "yes", *DAYS[:2].to_numpy())))
    there = {"yes": DAYS[0].to_datetime64(), "no": DAYS[1].to_datetime64()}
    expected = [there[label] for label in fitted("MKMTRLClassifier").predict(clean.X, tasks=clean.tasks)]
    assert model.predict(clean.X, tasks=clean.tasks).tolist() == np.array(expected).tolist()


def test_labels_beside_no_date_are_missing():
    clean = clean_data("MKMTRLClassifier")
    y = put(np.where(clean.y == "yes", *DAYS[:2].to_numpy()), 3, "NaT")
    with pytest.raises(ValueError, match="Input y contains NaN"):
        fit("MKMTRLClassifier", clean._replace(y=y))
    assert len(y) == N
