"""The door: what each form of data becomes, and what is turned away."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.data import encode_tasks, listing, read_queries, read_training

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = RNG.normal(size=N)
LABELS = np.tile([0, 1, 1], 4)
TASKS = np.repeat([30, 10, 20], 4)


def read(X=X, y=Y, tasks=None, sample_weight=None, classification=False, **params):
    model = (MKMTRLClassifier if classification else MKMTRLRegressor)(**params)
    return read_training(model, X, y, tasks, sample_weight, classification=classification)


def fitted(**arguments):
    """An estimator that has seen data, as far as queries need it."""
    params = {"task_column": arguments.pop("task_column", None)}
    model = MKMTRLRegressor(**params)
    arguments = {"X": X, "y": Y, "tasks": None, "sample_weight": None, **arguments}
    data = read_training(model, **arguments, classification=False)
    model.tasks_, model.data_form_ = data.labels, data.form
    return model


def assert_long(data):
    """The tasks 10, 20, 30 (or their names) of TASKS, whatever form they came in."""
    assert data.form == "long"
    assert data.n_tasks == 3
    for rows, y, expected in zip(data.rows, data.y, ([4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3]), strict=True):
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(y, Y[expected])
    np.testing.assert_array_equal(data.X, X)


# Forms


@pytest.mark.parametrize(
    ("tasks", "labels"),
    [
        (TASKS, [10, 20, 30]),
        (TASKS.tolist(), [10, 20, 30]),
        (TASKS[:, None], [10, 20, 30]),
        (TASKS.astype(float), [10, 20, 30]),
        (TASKS / 4, [2.5, 5.0, 7.5]),
        (np.char.add("t", TASKS.astype(str)), ["t10", "t20", "t30"]),
        (np.char.add("t", TASKS.astype(str)).astype(object), ["t10", "t20", "t30"]),
        (pd.Series(TASKS, index=np.arange(N)[::-1]), [10, 20, 30]),
        (pd.Categorical(TASKS, categories=[30, 20, 10, 5]), [10, 20, 30]),
        (pd.Series(TASKS, dtype="Int64"), [10, 20, 30]),
        (pd.Series(TASKS).astype(str).astype("string"), ["10", "20", "30"]),
    ],
)
def test_task_labels_of_any_kind(tasks, labels):
    data = read(tasks=tasks)
    assert_long(data)
    assert data.labels.tolist() == labels


@pytest.mark.parametrize("position", [0, 2, -1])
def test_task_column_of_an_array(position):
    where = position % 4
    data = read(np.insert(X, where, TASKS, axis=1), task_column=position)
    assert_long(data)
    assert data.labels.tolist() == [10, 20, 30]
    assert data.feature_names is None


def test_task_column_of_an_array_of_objects():
    names = np.char.add("t", TASKS.astype(str)).astype(object)
    data = read(np.column_stack([names, X.astype(object)]), task_column=0)
    assert_long(data)
    assert data.X.dtype == np.float64
    assert data.labels.tolist() == ["t10", "t20", "t30"]


@pytest.mark.parametrize("column", ["task", 1, -3, np.int64(1)])
def test_task_column_of_a_frame(column):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.insert(1, "task", pd.Categorical(TASKS.astype(str)))
    data = read(frame, task_column=column)
    assert_long(data)
    assert data.labels.tolist() == ["10", "20", "30"]
    assert data.feature_names == ("a", "b", "c")
    assert list(frame.columns) == ["a", "task", "b", "c"]


def test_a_column_called_by_a_number_is_found_by_name_first():
    frame = pd.DataFrame(np.column_stack([X, TASKS]), columns=[3, 4, 5, 0])
    assert_long(read(frame, task_column=0))


def test_one_task():
    data = read()
    assert data.form == "single"
    assert data.labels.tolist() == [0]
    np.testing.assert_array_equal(data.rows[0], np.arange(N))


def test_wide():
    targets = np.column_stack([Y, -Y, 2 * Y])
    targets[3, 0] = targets[5, 2] = targets[6, 2] = np.nan
    data = read(y=targets)
    assert data.form == "wide"
    assert data.labels.tolist() == [0, 1, 2]
    for t, absent in enumerate(([3], [], [5, 6])):
        np.testing.assert_array_equal(data.rows[t], np.setdiff1d(np.arange(N), absent))
        np.testing.assert_array_equal(data.y[t], targets[data.rows[t], t])


MISSING_FIRST = [None, *["u"] * 5, *["v"] * 6]


@pytest.mark.parametrize(
    "y",
    [
        np.array([MISSING_FIRST, MISSING_FIRST], dtype=object).T,
        pd.DataFrame({"p": MISSING_FIRST, "q": MISSING_FIRST}),
        pd.DataFrame({"p": pd.Categorical(MISSING_FIRST), "q": MISSING_FIRST}),
        pd.DataFrame({"p": MISSING_FIRST, "q": MISSING_FIRST}, dtype="string"),
    ],
)
def test_wide_classes_with_missing_labels(y):
    data = read(y=y, classification=True)
    assert data.labels.tolist() == (["p", "q"] if isinstance(y, pd.DataFrame) else [0, 1])
    for rows, labels in zip(data.rows, data.y, strict=True):
        np.testing.assert_array_equal(rows, np.arange(1, N))
        assert labels.tolist() == MISSING_FIRST[1:]
        assert labels.dtype.kind == "U"


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("kind", ["object", "Int64", "Float64"])
def test_wide_numbers_with_missing_labels(kind, classification):
    values = [None, *[1] * 5, *[0] * 6]
    y = pd.DataFrame({"p": pd.array(values, dtype=kind), "q": pd.array(values[::-1], dtype=kind)})
    data = read(y=y, classification=classification)
    assert [len(rows) for rows in data.rows] == [N - 1, N - 1]
    assert data.y[0].tolist() == values[1:]
    assert data.y[0].dtype.kind in "if"


def test_rows_of_no_weight_belong_to_no_task():
    weight = np.ones(N)
    weight[[0, 5]] = 0
    assert [len(rows) for rows in read(tasks=TASKS, sample_weight=weight).rows] == [3, 4, 3]
    assert [len(rows) for rows in read(y=np.column_stack([Y, Y]), sample_weight=weight).rows] == [N - 2, N - 2]


def test_float32_stays_and_everything_else_becomes_float64():
    assert read(X.astype(np.float32), tasks=TASKS).X.dtype == np.float32
    assert read(np.arange(N * 2).reshape(N, 2), tasks=TASKS).X.dtype == np.float64


def test_the_estimator_learns_its_columns():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(task=TASKS)
    model = MKMTRLRegressor(task_column="task")
    read_training(model, frame, Y, None, None, classification=False)
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "task"]


def test_a_column_vector_with_tasks_is_taken_with_a_warning():
    from sklearn.exceptions import DataConversionWarning

    with pytest.warns(DataConversionWarning):
        assert_long(read(y=Y[:, None], tasks=TASKS))


def test_precomputed_grams_keep_their_kernels():
    grams = np.stack([X @ X.T, np.eye(N)], axis=2)
    assert read(grams, tasks=TASKS, kernels="precomputed").X.shape == (N, N, 2)
    assert read(X @ X.T, tasks=TASKS, kernels="precomputed").X.shape == (N, N, 1)


# Queries


def test_queries_of_each_form():
    some = X[:4]
    np.testing.assert_array_equal(read_queries(fitted(tasks=TASKS), some, [30, 10, 10, 20]).codes, [2, 0, 0, 1])
    np.testing.assert_array_equal(read_queries(fitted(tasks=TASKS), some, [30.0, 10, 10, 20]).codes, [2, 0, 0, 1])
    assert read_queries(fitted(y=np.column_stack([Y, Y])), some, None).codes is None
    np.testing.assert_array_equal(
        read_queries(fitted(y=np.column_stack([Y, Y])), some, [1, 1, 0, 1]).codes, [1, 1, 0, 1]
    )
    np.testing.assert_array_equal(read_queries(fitted(), some, None).codes, np.zeros(4))
    np.testing.assert_array_equal(read_queries(fitted(tasks=["a"] * N), some, None).codes, np.zeros(4))
    by_column = fitted(X=np.column_stack([X, TASKS]), task_column=-1)
    np.testing.assert_array_equal(
        read_queries(by_column, np.column_stack([some, [20, 20, 10, 30]]), None).codes, [1, 1, 0, 2]
    )


def test_an_unknown_task_is_named_beside_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown tasks 7, 'x'; this model knows 10, 20, 30"):
        encode_tasks(np.array([10, 7, 7, "x"], dtype=object), np.array([10, 20, 30]))
    with pytest.raises(ValueError, match=r"unknown task 'c'; this model knows 'a', 'b'\."):
        read_queries(fitted(tasks=["a"] * 6 + ["b"] * 6), X[:2], ["a", "c"])
    with pytest.raises(ValueError, match=r"unknown task 1; this model knows 0, 2, .*, \.\.\. \(20 in all\)"):
        encode_tasks(np.array([1]), np.arange(0, 40, 2))


def test_queries_without_tasks_say_what_is_missing():
    with pytest.raises(
        ValueError, match=r"fitted on 3 tasks \(10, 20, 30\) and needs the task of each row: pass tasks="
    ):
        read_queries(fitted(tasks=TASKS), X, None)


def test_listing():
    assert listing([1, "a"]) == "1, 'a'"
    assert listing(np.arange(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listing(np.arange(9)) == "0, 1, 2, 3, 4, 5, 6, 7, ... (9 in all)"


# What is turned away


def spoil(array, value):
    array = array.astype(float)
    array.flat[5] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, r"requires y to be passed"),
        ({"X": spoil(X, np.nan)}, r"Input X contains NaN"),
        ({"X": spoil(X, np.inf)}, r"Input X contains infinity"),
        ({"y": spoil(Y, np.nan)}, r"Input y contains NaN"),
        ({"y": spoil(Y, np.inf)}, r"Input y contains infinity"),
        ({"y": spoil(np.column_stack([Y, Y]), np.inf), "tasks": None}, r"Input y contains infinity"),
        ({"y": spoil(LABELS, np.nan), "classification": True}, r"Input y contains NaN or infinity"),
        ({"y": np.array([None, *LABELS[1:]]), "classification": True}, r"Input y contains NaN or infinity"),
        (
            {"y": spoil(np.column_stack([LABELS, LABELS]), np.inf), "tasks": None, "classification": True},
            r"Input y contains NaN or infinity",
        ),
        ({"y": Y[:-1]}, r"X has 12 rows, but y has 11"),
        ({"tasks": TASKS[:-1]}, r"X has 12 rows, but tasks has 11"),
        ({"sample_weight": np.ones(3)}, r"sample_weight.shape == \(3,\), expected \(12,\)"),
        ({"sample_weight": -np.ones(N)}, r"Negative values in data passed to `sample_weight`"),
        ({"y": np.ones((N, 2, 2))}, r"y must have shape \(n,\) or \(n, n_tasks\), not \(12, 2, 2\)"),
        ({"y": np.column_stack([Y, Y])}, r"y has 2 columns and the task of each row is given too"),
        ({"X": X[:, 0]}, r"Expected 2D array, got 1D array"),
        ({"X": np.ones((N, 3, 2))}, r"dim 3"),
        ({"tasks": "ab"}, r"tasks must be one label for each row, not an array of shape \(\)"),
        ({"tasks": np.ones((N, 2))}, r"tasks must be one label for each row, not an array of shape \(12, 2\)"),
        ({"tasks": [*TASKS[:-1], np.nan]}, r"the task of row 11 is NaN or infinite"),
        ({"tasks": [*"ab" * 5, None, "a"]}, r"the task of row 10 is missing"),
        ({"tasks": pd.Series([*"ab" * 5, None, "a"], dtype="string")}, r"the task of row 10 is missing"),
        ({"tasks": np.array([1] * 6 + ["a"] * 6, dtype=object)}, r"task labels are of mixed types: int, str"),
        ({"tasks": [1] * 11 + [7]}, r"task 7 has one sample only"),
        ({"sample_weight": np.repeat([1, 0, 1], 4)}, r"task 10 has no samples"),
        ({"tasks": None, "y": np.column_stack([Y, Y * np.nan])}, r"task 1 has no samples"),
        ({"tasks": None, "X": X[:1], "y": Y[:1]}, r"the data has one sample only"),
        ({"y": np.repeat([0, 1, 0], 4), "classification": True}, r"task 10 has one class only \(1\)"),
        ({"y": np.repeat(["u", "v", "u"], 4), "classification": True}, r"task 10 has one class only \('v'\)"),
        ({"tasks": None, "y": np.zeros(N), "classification": True}, r"the data has one class only \(0.0\)"),
        (
            {"tasks": None, "y": pd.DataFrame({"p": ["u", "v"] * 6, "q": [0, 1] * 6}), "classification": True},
            r"the classes of task 'p' are text, those of task 'q' numbers",
        ),
        # As scikit-learn would say it.
        ({"classification": True}, r"Unknown label type: continuous.* expects discrete classes on a regression target"),
        (
            {"tasks": None, "y": np.column_stack([LABELS, Y]), "classification": True},
            r"Unknown label type: continuous.* expects discrete classes on a regression target",
        ),
        ({"y": np.array(["u", "v"] * 6)}, r"Unknown label type.* fit a regressor.* on a classification target"),
        # The task column
        ({"task_column": 0}, r"the task of each row is given twice: by tasks= and by task_column=0"),
        ({"tasks": None, "task_column": 3}, r"task_column=3 is not a column of X, an array of shape \(12, 3\)"),
        ({"tasks": None, "task_column": "t"}, r"task_column='t' is not a column of X, an array of shape \(12, 3\)"),
        (
            {"X": pd.DataFrame(X, columns=["a", "b", "c"]), "tasks": None, "task_column": "t"},
            r"task_column='t' is not a column of X, which has 'a', 'b', 'c'",
        ),
        ({"X": TASKS[:, None], "tasks": None, "task_column": 0}, r"0 feature\(s\)"),
        # Precomputed Grams
        ({"X": np.ones((N, 3, 2)), "kernels": "precomputed"}, r"must be square, but X has shape \(12, 3, 2\)"),
        (
            {"X": np.ones((N, N, 2, 2)), "kernels": "precomputed"},
            r"shape \(n_query, n_train, n_kernels\), not \(12, 12",
        ),
    ],
)
def test_bad_data_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        read(**{"tasks": TASKS, **arguments})


@pytest.mark.parametrize("task_column", [None, 0])
def test_sparse_data_are_refused(task_column):
    with pytest.raises(TypeError, match="dense data is required"):
        read(csr_array(X), task_column=task_column)
