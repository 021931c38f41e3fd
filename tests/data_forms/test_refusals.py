"""What `fit` and `predict` refuse: each error names the array, the column or the task, in these words."""

import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from data_forms.reading import CLASSES, TASKS, N, X, Y, fitted, put, query, read

DAYS = pd.date_range("2020-01-01", periods=N)
HALF = N // 2
GRAMS = np.stack([X @ X.T, np.eye(N)], axis=2)


def frame(**columns):
    return pd.DataFrame(X, columns=list("abc")).assign(**columns)


def but_first(values, dtype):
    return pd.array([None, *list(values)[1:]], dtype=dtype)


# The first words of scikit-learn's long message.
INFINITE = r"Input X contains infinity or a value too large for dtype\('float64'\)\.$"
ENCODE = "pass a data frame to KinRegressor or KinClassifier, or encode it with TableEncoder in a pipeline$"
TEXT = rf"could not convert string to float: 'tall': {ENCODE}"
NAN = rf"Input X contains NaN(\.$|: {ENCODE})"

ROWS = {
    "one dimension": (X[:, 0], r"Expected 2D array, got 1D array instead:"),
    "three dimensions": (X[:, :, None], r"X: Found array with dim 3(, while dim|\. Reader expected) <= 2.*\.$"),
    "ragged": ([[1.0, 2.0]] * (N - 1) + [[1.0]], r"X is not an array: setting an array element with a sequence\. .*"),
    "no columns": (X[:, :0], r"X: Found array with 0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is"),
    "NaN": (put(X, (3, 1), np.nan), rf"X, column 1: {NAN}"),
    "infinity": (put(X, (3, 1), -np.inf), rf"X, column 1: {INFINITE}"),
    "text inside": (put(X, (3, 1), "tall", object), rf"X, column 1: {TEXT}"),
    "beyond all floats": (put(X, (3, 1), 10**400, object), r"X, column 1: int too large to convert to float$"),
    "a date of Python": (put(X, (3, 1), date(2020, 1, 1), object), r"X, column 1 holds dates or times \(object\), not"),
    "dates": (
        X.astype("datetime64[s]"),
        r"X, column 0 holds dates or times \(datetime64\[s\]\), not numbers: pass a data frame ",
    ),
    "complex": (X + 1j, r"X: Complex data not supported\n"),
    "masked": (np.ma.masked_greater(X, 0.5), r"X has masked values: fill them in or leave them out$"),
    "sparse": (csr_array(X), r"Sparse data was passed for X, but dense data is required\. Use '\.toarray\(\)'"),
    "too large": (1e160 * X, r"X has values of size 2\.33e\+160; above 1\.34e\+151 a fit overflows: rescale X$"),
    "a column of text beside one with NaN": (frame(a=np.nan, b="tall"), rf"X, column 'b': {TEXT}"),
    "a column of dates": (
        frame(b=DAYS),
        r"X, column 'b' holds dates or times \(datetime64\[\w+\]\), not numbers: pass a data frame ",
    ),
    "a column of categories": (
        frame(b=pd.Categorical(X[:, 1] > 0)),
        r"X, column 'b' holds categories \(category\), not",
    ),
    "a sparse column": (
        frame(b=pd.arrays.SparseArray(X[:, 1])),
        r"X, column 'b' holds sparse values \(Sparse\[float64",
    ),
    "names of mixed types": (
        pd.DataFrame(X, columns=["a", 1, "b"]),
        r"Feature names are only supported if all input f",
    ),
}

REGRESSION = {
    "None": (None, r"This estimator requires y to be passed, but the target y is None: pass the target of each row"),
    "too short": (Y[:-1], r"X has 12 rows, but y has 11$"),
    "a number": (3, r"y must have shape \(n,\) or \(n, n_tasks\), not \(\)$"),
    "no columns": (np.zeros((N, 0)), r"y has no columns; every column must be a task$"),
    "two NaN": (put(Y, [3, 7], np.nan), r"Input y contains NaN in row 3, and 1 more \(counted from 0\)"),
    "infinity": (put(Y, 3, np.inf), r"Input y contains infinity in row 3 "),
    "sparse": (csr_array(Y[:, None]), r"Sparse data was passed for y, but dense data is required: use y\.toarray\(\)$"),
    "text": (
        CLASSES,
        r"Unknown label type: y holds text, not numbers\. Maybe you are trying to fit a regressor, which e",
    ),
    "dates": (DAYS, r"y holds dates or times, not numbers$"),
    "too large": (1e150 * Y, r"y has values of size \d\.\d+e\+150; above 1e\+150 a fit overflows: rescale y$"),
    "a column without a name": (
        pd.DataFrame({"p": Y, None: Y}),
        r"the columns of y must have one name each, which labels the task; got 'p', (nan|None)$",
    ),
    "columns of several levels": (
        pd.DataFrame(np.column_stack([Y, Y]), columns=pd.MultiIndex.from_tuples([("p", 1), ("p", 2)])),
        r"the columns of y must have one name each, which labels the task; got \('p', 1\), \('p', 2\)$",
    ),
    "a task without labels": (
        np.column_stack([Y, np.nan * Y]),
        r"task 1 has no samples \(n_samples=0\) with a label and a positive weight; a task needs two or more$",
    ),
}

CLASSIFICATION = {
    "real numbers": (
        Y,
        r"Unknown label type: continuous\. Maybe you are trying to fit a classifier, which expects dis",
    ),
    "NaN": (put(Y > 0, 3, np.nan, float), r"Input y contains NaN or None in row 3 "),
    "mixed classes": (put(CLASSES, 3, 1, object), r"the classes in y are of mixed types: int, str$"),
    "bytes": ([b"p"] * N, r"the classes in y are bytes: decode them to text$"),
    "one class": (["no"] * N, r"the data has one class only \('no'\); a classifier needs two or more$"),
    "text in one task, numbers in another": (
        pd.DataFrame({"p": ["u", "v"] * HALF, "q": [0, 1] * HALF}),
        r"the classes of task 'p' are text, those of task 'q' numbers$",
    ),
}

LABELS = {
    "too short": (TASKS[:-1], r"X has 12 rows, but tasks has 11$"),
    "a word": ("ada", r"tasks='ada' is a string, not the task of each row: .* set task_column='ada' on the estimator$"),
    "a number": (3, r"tasks must be one label for each row, not an array of shape \(\)$"),
    "values without an order": ([{}, {"a": 1}] * HALF, r"task labels of type dict cannot be sorted: use text or numb"),
    "NaN": (
        put(TASKS, 3, np.nan, float),
        r"Input tasks contains NaN or infinity in row 3 \(counted from 0\): leave these rows out$",
    ),
    "None": ([*"ab" * 5, None, "a"], r"Input tasks contains a missing label in row 10 \(counted"),
    "mixed types": ([1, *"ab" * 5, "a"], r"task labels are of mixed types: int, str$"),
    "one row": (
        [7] + [1] * (N - 1),
        r"task 7 has one sample only \(n_samples=1\) with a label and a positive weight; a",
    ),
}

WEIGHTS = {
    "too short": (np.ones(3), r"sample_weight\.shape == \(3,\), expected \(12,\)!$"),
    "two dimensions": (np.ones((N, 1)), r"sample_weight: Sample weights must be 1D array or scalar"),
    "negative": (-np.ones(N), r"Negative values in data passed to `sample_weight`"),
    "NaN": (put(np.ones(N), 3, np.nan), r"Input sample_weight contains NaN\.$"),
    "dates": (DAYS, r"sample_weight holds dates or times, not numbers$"),
    "text": (["x"] * N, r"sample_weight: could not convert string to float: 'x'$"),
    "too small": (
        1e-320 * np.ones(N),
        r"sample_weight has no value above 1e-320 in size; squares of numbers below 1\.49e-151 underflow: rescale",
    ),
    "too large": (1e155 * np.ones(N), r"sample_weight has values of size 1e\+155; above 1e\+30 a fit overflows: resc"),
    "zero for a task": (np.repeat([1, 0, 1], 4), r"task 10 has no samples \(n_samples=0\) with a label and a positive"),
}

COLUMNS = {
    "given twice": (
        {"task_column": 0, "tasks": TASKS},
        r"the task of each row is given twice: by tasks= and by task_co",
    ),
    "out of range": ({"task_column": 3}, r"task_column=3 is not a column of X, an array of shape \(12, 3\)$"),
    "unknown": ({"X": frame(), "task_column": "t"}, r"task_column='t' is not a column of X, which has 'a', 'b', 'c'$"),
    "one level of two": (
        {"X": frame().set_axis(pd.MultiIndex.from_tuples(["up", "uq", "vr"]), axis=1), "task_column": "u"},
        r"task_column='u' is not a column of X, which has \('u', 'p'\), \('u', 'q'\), \('v', 'r'\)$",
    ),
    "twice": ({"X": frame(), "task_column": ["a", "a"]}, r"task_column=\['a', 'a'\] contains a column twice$"),
    "none of a list": ({"X": frame(), "task_column": []}, r"task_column is an empty list$"),
    "the only column": ({"X": frame()[["a"]], "task_column": "a"}, r"X has no columns of features$"),
}

PRECOMPUTED = {
    "not square": (GRAMS[:, :-1], r"precomputed training Grams must be square, but X has shape \(12, 11, 2\)$"),
    "four dimensions": (
        GRAMS[..., None],
        r"a precomputed X has shape \(n_query, n_train, n_kernels\), not \(12, 12, 2, 1\)",
    ),
    "NaN": (put(GRAMS, (0, 0, 0), np.nan), NAN),
}


def assert_refused(message, function, *arguments, **options):
    """Call, and see that an error begins with these words."""
    with pytest.raises((ValueError, TypeError)) as caught:
        function(*arguments, **options)
    assert re.match(message, str(caught.value)), str(caught.value)


def test_bad_rows_to_learn_from_are_refused():
    for kind in ROWS:
        value, message = ROWS[kind]
        assert_refused(message, read, value)


def test_bad_rows_to_predict_are_refused():
    for kind in ["NaN", "text inside", "sparse", "too large", "dates"]:
        value, message = ROWS[kind]
        assert_refused(message, query, fitted(), value)


def test_a_column_of_text_in_a_table_to_predict_is_refused_by_name():
    value, message = ROWS["a column of text beside one with NaN"]
    assert_refused(message, query, fitted(frame()), value)


def test_bad_targets_are_refused():
    for kind in REGRESSION:
        value, message = REGRESSION[kind]
        assert_refused(message, read, y=value)


def test_bad_classes_are_refused():
    for kind in CLASSIFICATION:
        value, message = CLASSIFICATION[kind]
        assert_refused(message, read, y=value, classification=True)


def test_bad_task_labels_are_refused():
    for kind in LABELS:
        value, message = LABELS[kind]
        assert_refused(message, read, tasks=value)


def test_bad_weights_are_refused():
    for kind in WEIGHTS:
        value, message = WEIGHTS[kind]
        assert_refused(message, read, tasks=TASKS, sample_weight=value)


def test_bad_task_columns_are_refused():
    for kind in COLUMNS:
        arguments, message = COLUMNS[kind]
        assert_refused(message, read, **arguments)


def test_bad_precomputed_grams_are_refused():
    for kind in PRECOMPUTED:
        value, message = PRECOMPUTED[kind]
        assert_refused(message, read, value, precomputed=True)


def test_wide_targets_beside_tasks_are_refused():
    message = r"y has 2 columns and the task of each row is given too: pass one target for each row, or leave out"
    assert_refused(message, read, y=np.column_stack([Y, Y]), tasks=TASKS)


def test_data_without_rows_are_refused():
    assert_refused(
        r"X: Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required", read, X[:0], Y[:0]
    )


def test_a_single_row_is_refused():
    assert_refused(
        r"the data has one sample only \(n_samples=1\) with a label and a positive weight; a task", read, X[:1], Y[:1]
    )


def test_a_hundred_thousand_tasks_of_one_row_are_refused_by_the_first():
    n = 100_000
    assert_refused(r"task 0 has one sample only .{,250}$", read, np.ones((n, 2)), np.zeros(n), np.arange(n))


def test_columns_are_counted_with_that_of_the_tasks():
    for taken, named in [(0, 2), (2, 1), (-3, 2)]:
        with_tasks = np.insert(X[:, :2].astype(object), taken % 3, TASKS, axis=1)
        with_tasks[4, named] = "tall"
        assert_refused(rf"X, column {named}: {TEXT}", read, with_tasks, task_column=taken)


QUERIES = {
    "too few columns": ({"X": X[:, :2]}, r"X has 2 features, but Reader is expecting 3 features as input\.$"),
    "no rows": ({"X": X[:0]}, r"X: Found array with 0 sample\(s\)"),
    "no tasks": (
        {},
        r"this model was fitted on 3 tasks \(10, 20, 30\) and needs the task of each row: pass tasks=, or give the "
        r"estimator a task_column \(scikit-learn.s cross_val_predict .*\)$",
    ),
    "too few tasks": ({"tasks": [10]}, r"X has 12 rows, but tasks has 1$"),
    "a missing task": ({"tasks": [None] * N}, r"Input tasks contains a missing label in row 0, and 11 more"),
    "an unknown task": ({"tasks": ["eve"] * N}, r"unknown task 'eve'; this model knows 10, 20, 30\. New tasks need"),
}


def test_bad_queries_are_refused():
    for kind in QUERIES:
        arguments, message = QUERIES[kind]
        assert_refused(message, query, fitted(tasks=TASKS), **arguments)


def test_tasks_for_a_model_of_one_task_are_refused():
    assert_refused(
        r"this model was fitted on one task, without tasks: leave them out here too$", query, fitted(), tasks=TASKS
    )


def test_other_columns_than_those_of_the_fit_are_refused():
    message = r"The feature names should match those that were passed during fit\."
    assert_refused(message, query, fitted(frame()), frame()[["c", "a", "b"]])


def test_precomputed_queries_of_another_shape_are_refused():
    reader = fitted(GRAMS, precomputed=True)
    assert query(reader, GRAMS[:3]).X.shape == (3, N, 2)
    message = r"precomputed X must have shape \(n_query, 12, 2\): 12 training rows, 2 kernels; got \(3, 11, 2\)$"
    assert_refused(message, query, reader, GRAMS[:3, 1:])
