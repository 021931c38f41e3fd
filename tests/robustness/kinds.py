"""Values of other kinds than numbers, in X, y, tasks and weights: what is refused, and what counts as which number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimators import CLASSIFIERS, LONG, TASKS, N
from robustness.faults import REGRESSORS, Refused, on_tasks, on_weight, on_X, on_y, put

DAYS = pd.date_range("2020-01-01", periods=N)


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("abc"))


def beside(column: Callable[[np.ndarray], Any]) -> Any:
    """Other values in the second column of a data frame."""
    return on_X(lambda X: frame(X).assign(b=column(X[:, 1])))


def inside(item: Any) -> Any:
    """One other value in an array of objects."""
    return on_X(lambda X: put(X, (3, 1), item, object))


def but_first(values: np.ndarray, dtype: str) -> Any:
    return pd.array([None, *values.tolist()[1:]], dtype=dtype)


ROWS = {
    "dates": Refused(on_X(lambda X: (1e3 * X).astype("datetime64[s]")), r"X holds dates or times \(datetime64\[s\]\)"),
    "times": Refused(on_X(lambda X: (1e3 * X).astype("timedelta64[s]")), r"X holds dates or times \(timedelta64\[s"),
    "a column of dates": Refused(beside(lambda x: DAYS), "X, column 'b' holds dates or times"),
    "a column of dates somewhere": Refused(beside(lambda x: DAYS.tz_localize("UTC")), "X, column 'b' holds dates"),
    "a column of times": Refused(beside(lambda x: DAYS - DAYS[0]), "X, column 'b' holds dates or times"),
    "columns of dates": Refused(on_X(lambda X: pd.DataFrame({"d": DAYS, "e": DAYS})), "X, column 'd' holds dates"),
    "a column of months": Refused(beside(lambda x: DAYS.to_period("M")), "X, column 'b' holds dates"),
    "a date among objects": Refused(inside(np.datetime64("2020-01-01")), "X, column 1 holds dates or times"),
    "a time among objects": Refused(inside(np.timedelta64(5, "D")), "X, column 1 holds dates or times"),
    "a date of Python": Refused(inside(datetime(2020, 1, 1)), "X, column 1: float.. argument must be .*datetime"),
    "a column of categories": Refused(beside(lambda x: pd.Categorical(x > 0)), "X, column 'b' holds categories"),
    "a column of intervals": Refused(beside(lambda x: pd.interval_range(0, N)), "X, column 'b' holds intervals"),
    "a column of text": Refused(
        beside(lambda x: pd.array(["tall"] * N, dtype="string")), "X, column 'b': could not convert .*'tall'"
    ),
    "a sparse column": Refused(beside(pd.arrays.SparseArray), "X, column 'b' holds sparse values"),
    "a missing truth": Refused(beside(lambda x: but_first(x > 0, "boolean")), "X, column 'b': Input X contains NaN"),
    "a missing whole number": Refused(
        beside(lambda x: but_first(np.arange(N), "Int64")), "X, column 'b': Input X contains NaN"
    ),
    "a missing number": Refused(beside(lambda x: but_first(x, "Float64")), "X, column 'b': Input X contains NaN"),
    "a missing object": Refused(inside(pd.NA), "X, column 1: float.. argument must be .*NAType"),
    "a list among objects": Refused(inside([1.0]), "X, column 1: setting an array element with a sequence"),
    "a complex object": Refused(inside(1j), "X, column 1: float.. argument must be .*complex"),
    "a whole number beyond all floats": Refused(inside(10**400), "X, column 1: int too large to convert to float"),
    "floats beyond all doubles": Refused(
        on_X(lambda X: np.longdouble(10) ** 400 * X.astype(np.longdouble)), "X, column 0: Input X contains infinity"
    ),
    "masked values": Refused(on_X(lambda X: np.ma.masked_greater(X, 1.0)), "X has masked values"),
    "a column twice": Refused(on_X(lambda X: pd.DataFrame(X, columns=["a", "b", "a"])), "X has the column 'a' twice"),
    "columns of mixed names": Refused(on_X(lambda X: pd.DataFrame(X, columns=["a", 1, "b"])), "Feature names are only"),
    "records": Refused(on_X(lambda X: np.zeros(N, dtype=[("a", float)])), "Expected 2D array, got 1D array"),
}

TARGETS = {
    "y of dates": Refused(on_y(lambda y: DAYS.to_numpy()), "y holds dates or times", REGRESSORS),
    "y of times": Refused(on_y(lambda y: np.arange(N).astype("timedelta64[D]")), "y holds dates or times", REGRESSORS),
    "a date in y": Refused(on_y(lambda y: put(y, 3, DAYS[0].to_datetime64(), object)), "y holds dates", REGRESSORS),
    "a date beside classes": Refused(
        on_y(lambda y: put(y, 3, DAYS[0].to_datetime64(), object)), "the classes in y are of mixed types", CLASSIFIERS
    ),
    "y of categories": Refused(on_y(lambda y: pd.Categorical(["p"] * N)), "y holds text, not numbers", REGRESSORS),
    "y of dicts": Refused(on_y(lambda y: [{}] * N), "Unknown label type"),
    "a missing number in y": Refused(on_y(lambda y: but_first(np.arange(N) % 2, "Int64")), "Input y contains NaN"),
    "a missing class": Refused(on_y(lambda y: but_first(y, "string")), "Input y contains NaN", CLASSIFIERS),
    "y masked": Refused(on_y(lambda y: np.ma.masked_array(np.arange(N) % 2, np.arange(N) < 3)), "y has masked values"),
    "y beyond all floats": Refused(on_y(lambda y: [10**400] * N), "y: int too large|Unknown label type: unknown"),
    "y without columns": Refused(on_y(lambda y: np.zeros((N, 0))), "y has no columns, and every column is a task"),
    "y of bytes": Refused(on_y(lambda y: [b"p"] * N), "y holds text|the classes in y are bytes"),
}

LABELS = {
    "no date": Refused(on_tasks(lambda tasks: put(DAYS.to_numpy(), 3, "NaT")), "the task of row 3 is missing"),
    "a missing whole number": Refused(
        on_tasks(lambda tasks: but_first(np.arange(N) % 3, "Int64")), "the task of row 0 is"
    ),
    "a missing text": Refused(on_tasks(lambda tasks: but_first(tasks, "string")), "the task of row 0 is missing"),
    "a missing category": Refused(
        on_tasks(lambda tasks: pd.Categorical([None, *tasks[1:]])), "the task of row 0 is missing"
    ),
    "masked": Refused(on_tasks(lambda tasks: np.ma.masked_array(tasks, np.arange(N) < 3)), "tasks has masked values"),
    "infinite": Refused(on_tasks(lambda tasks: put(np.arange(N) % 3, 3, np.inf, float)), "the task of row 3 is NaN or"),
    "too long": Refused(on_tasks(lambda tasks: np.resize(TASKS, N + 1)), "X has 36 rows, but tasks has 37", LONG),
    "pairs": Refused(on_tasks(lambda tasks: [("a", 1)] * N), r"tasks must be one label for each row, .*\(36, 2\)"),
}

WEIGHTS = {
    "text": Refused(on_weight(lambda weight: ["x"] * N), "sample_weight: could not convert string to float: 'x'"),
    "dates": Refused(on_weight(lambda weight: DAYS.to_numpy()), "sample_weight holds dates or times"),
    "complex": Refused(on_weight(lambda weight: 1j * weight), "sample_weight: Complex data not supported"),
    "infinite": Refused(on_weight(lambda weight: put(weight, 3, np.inf)), "Input sample_weight contains infinity"),
    "of two dimensions": Refused(on_weight(lambda weight: weight[:, None]), "sample_weight: .* must be 1D array"),
    "masked": Refused(on_weight(lambda weight: np.ma.masked_array(weight, np.arange(N) < 3)), "sample_weight has mask"),
    "missing": Refused(on_weight(lambda weight: but_first(weight, "Float64")), "Input sample_weight contains NaN"),
    "below all squares": Refused(on_weight(lambda weight: 1e-320 * weight), "sample_weight has no value above 1e-320"),
    "zero for a task": Refused(
        lambda data: data._replace(sample_weight=1.0 * (data.tasks != "bea")), "task 'bea' has no samples", LONG
    ),
    "zero for all of a task but a row": Refused(
        lambda data: data._replace(sample_weight=1.0 * ((data.tasks != "bea") | (np.cumsum(data.tasks == "bea") == 1))),
        "task 'bea' has one sample only",
        LONG,
    ),
}

# What counts as a number, and as which one: (X as it is given, the same in floats).
NUMBERS: dict[str, tuple[Callable[[np.ndarray], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "nullable numbers": (lambda X: frame(X).astype("Float64"), lambda X: X),
    "nullable whole numbers": (
        lambda X: frame(np.round(9 * X)).astype("Int64"),
        lambda X: np.round(9 * X),
    ),
    "columns of truths": (lambda X: frame(X).assign(b=X[:, 1] > 0), lambda X: put(X, np.s_[:, 1], X[:, 1] > 0)),
    "nullable truths": (
        lambda X: frame(X).assign(b=pd.array(X[:, 1] > 0, dtype="boolean")),
        lambda X: put(X, np.s_[:, 1], X[:, 1] > 0),
    ),
    "a data frame of objects": (lambda X: frame(X).astype(object), lambda X: X),
    "numbers written in a column": (
        lambda X: frame(X).assign(b=[repr(x) for x in X[:, 1].tolist()]),
        lambda X: X,
    ),
    "fractions": (lambda X: put(X, (3, 1), Fraction(1, 4), object), lambda X: put(X, (3, 1), 0.25)),
    "decimals": (lambda X: put(X, (3, 1), Decimal("0.25"), object), lambda X: put(X, (3, 1), 0.25)),
}
