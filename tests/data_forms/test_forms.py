"""What each form of data becomes, for training and for prediction."""

from datetime import datetime
from fractions import Fraction

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from sklearn.exceptions import DataConversionWarning

from data_forms.reading import CLASSES, TASKS, N, Reader, X, Y, assert_same, fitted, put, query, read
from kernelkin import KinRegressor, MKMTRLRegressor
from kernelkin.data.arrays import in_order, listing, shorten
from kernelkin.data.checks import encode_tasks, read_groupings
from kernelkin.paper import AverageRegressor, MTRLRegressor, TwoStageMKMTRLRegressor
from kernelkin.paper.model_selection import MKMTRLRegressorCV

LABELS = np.tile([0, 1, 1], 4)


def assert_long(data):
    """The tasks 10, 20, 30 (or their names) of TASKS, whatever form they came in."""
    assert data.form == "long"
    assert data.n_tasks == 3
    for rows, y, expected in zip(data.rows, data.y, ([4, 5, 6, 7], [8, 9, 10, 11], [0, 1, 2, 3]), strict=True):
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(y, Y[expected])
    np.testing.assert_array_equal(data.X, X)


# Forms


def test_task_labels_of_any_kind():
    for tasks, labels in [
        (TASKS, [10, 20, 30]),
        (TASKS.tolist(), [10, 20, 30]),
        (TASKS.astype(float), [10, 20, 30]),
        (TASKS / 4, [2.5, 5.0, 7.5]),
        (np.char.add("t", TASKS.astype(str)).astype(object), ["t10", "t20", "t30"]),
        (pd.Categorical(TASKS, categories=[30, 20, 10, 5]), [10, 20, 30]),
        (pd.Series(TASKS).astype(str).astype("string"), ["10", "20", "30"]),
    ]:
        data = read(tasks=tasks)
        assert_long(data)
        assert data.labels.tolist() == labels


def test_task_column_of_an_array():
    for position in [0, -1]:
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


def test_task_column_of_a_frame():
    for column in ["task", -3]:
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


def test_every_column_of_wide_targets_is_a_task_of_its_labelled_rows():
    targets = np.column_stack([Y, -Y, 2 * Y])
    targets[3, 0] = targets[5, 2] = targets[6, 2] = np.nan
    data = read(y=targets)
    assert data.form == "wide"
    assert data.labels.tolist() == [0, 1, 2]
    for t, absent in enumerate(([3], [], [5, 6])):
        np.testing.assert_array_equal(data.rows[t], np.setdiff1d(np.arange(N), absent))
        np.testing.assert_array_equal(data.y[t], targets[data.rows[t], t])


MISSING_FIRST = [None, *["u"] * 5, *["v"] * 6]


def test_wide_classes_with_missing_labels():
    for y in [
        np.array([MISSING_FIRST, MISSING_FIRST], dtype=object).T,
        pd.DataFrame({"p": MISSING_FIRST, "q": MISSING_FIRST}),
        pd.DataFrame({"p": pd.Categorical(MISSING_FIRST), "q": MISSING_FIRST}),
    ]:
        data = read(y=y, classification=True)
        assert data.labels.tolist() == (["p", "q"] if isinstance(y, pd.DataFrame) else [0, 1])
        for rows, labels in zip(data.rows, data.y, strict=True):
            np.testing.assert_array_equal(rows, np.arange(1, N))
            assert labels.tolist() == MISSING_FIRST[1:]
            assert labels.dtype.kind == "U"


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("kind", ["object", "Int64"])
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
    model = Reader(task_column="task")
    model.training_data(frame, Y)
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "task"]


def test_a_column_vector_with_tasks_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        assert_long(read(y=Y[:, None], tasks=TASKS))


def test_precomputed_grams_keep_their_kernels():
    grams = np.stack([X @ X.T, np.eye(N)], axis=2)
    assert read(grams, tasks=TASKS, precomputed=True).X.shape == (N, N, 2)
    assert read(X @ X.T, tasks=TASKS, precomputed=True).X.shape == (N, N, 1)


# Queries


def test_queries_of_each_form():
    some = X[:4]
    np.testing.assert_array_equal(query(fitted(tasks=TASKS), some, [30, 10, 10, 20]).codes, [2, 0, 0, 1])
    np.testing.assert_array_equal(query(fitted(tasks=TASKS), some, [30.0, 10, 10, 20]).codes, [2, 0, 0, 1])
    assert query(fitted(y=np.column_stack([Y, Y])), some, None).codes is None
    np.testing.assert_array_equal(query(fitted(y=np.column_stack([Y, Y])), some, [1, 1, 0, 1]).codes, [1, 1, 0, 1])
    np.testing.assert_array_equal(query(fitted(), some, None).codes, np.zeros(4))
    np.testing.assert_array_equal(query(fitted(tasks=["a"] * N), some, None).codes, np.zeros(4))
    by_column = fitted(X=np.column_stack([X, TASKS]), task_column=-1)
    np.testing.assert_array_equal(query(by_column, np.column_stack([some, [20, 20, 10, 30]]), None).codes, [1, 1, 0, 2])


def test_an_unknown_task_is_named_beside_the_known_ones():
    hint = r"New tasks need unknown_tasks='common' .*, or Kin with task_features$"
    with pytest.raises(ValueError, match=rf"^unknown tasks 7, 'x'; this model knows 10, 20, 30\. {hint}"):
        encode_tasks(np.array([10, 7, 7, "x"], dtype=object), np.array([10, 20, 30]))
    with pytest.raises(ValueError, match=rf"^unknown task 'c'; this model knows 'a', 'b'\. {hint}"):
        query(fitted(tasks=["a"] * 6 + ["b"] * 6), X[:2], ["a", "c"])
    with pytest.raises(
        ValueError, match=rf"^unknown task 1; this model knows 0, 2, 4, 6, 8, 10, 12, 14, \.\.\. \(20 in all\)\. {hint}"
    ):
        encode_tasks(np.array([1]), np.arange(0, 40, 2))


def test_unknown_tasks_are_coded_where_they_are_allowed():
    codes = query(fitted(tasks=TASKS), X[:3], [10, 7, 20], allow_unknown=True).codes
    np.testing.assert_array_equal(codes, [0, -1, 1])


def test_long_lists_of_labels_are_cut():
    assert listing([1, "a"]) == "1, 'a'"
    assert listing(np.arange(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listing(np.arange(9)) == "0, 1, 2, 3, 4, 5, 6, 7, ... (9 in all)"


def test_long_labels_that_differ_only_in_the_middle_stay_different():
    names = [f"{'the first half of the name ' * 2}{k}{' and the second half' * 3}" for k in "ab"]
    found = listing(names)
    assert "…a and" in found and "…b and" in found
    assert len(found) < len(", ".join(names))


@hypothesis.given(st.lists(st.text("ab 1", min_size=25, max_size=60), unique=True, max_size=20))
def test_different_names_stay_different_if_they_are_shortened(names):
    plain = [name for name in names if name == " ".join(name.split())]
    assert len(set(shorten(plain))) == len(plain)
    alike = [f"the same beginning {name} and the same end of it" for name in plain]
    found = shorten(alike)
    assert len(set(found)) == len(alike)
    assert all(short.startswith("the same begin") and short.endswith("same end of it") for short in found)


# The same data in another form


GREEK = {10: "άλφα", 20: "βήτα 日本", 30: "🙂"}
LOCKED = X.copy()
LOCKED.setflags(write=False)
SAME = {
    "read-only": {"X": LOCKED},
    "objects": {"X": X.astype(object), "y": Y.astype(object), "tasks": TASKS.astype(object)},
    "text": {"X": np.array([[repr(float(x)) for x in row] for row in X])},
    "lists": {"X": X.tolist(), "y": Y.tolist(), "tasks": TASKS.tolist()},
    "a data frame": {"X": pd.DataFrame(X, columns=list("abc"))},
    "nullable columns": {
        "X": pd.DataFrame(X, columns=list("abc")).astype("Float64"),
        "y": pd.Series(Y, dtype="Float64"),
    },
    "text beside numbers": {"X": pd.DataFrame(X, columns=list("abc")).assign(b=[repr(x) for x in X[:, 1].tolist()])},
    "task names in other alphabets": {"tasks": [GREEK[task] for task in TASKS.tolist()]},
}


def test_the_same_data_in_another_form():
    for form in SAME:
        arguments = {"X": X, "y": Y, "tasks": TASKS, **SAME[form]}
        assert_same(read(**arguments), read(tasks=TASKS))


def test_classes_in_another_form():
    for y in [pd.Categorical(CLASSES), pd.Series(CLASSES, dtype="string"), CLASSES.tolist()]:
        assert_same(read(y=y, classification=True), read(y=CLASSES, classification=True))


def test_truths_and_fractions_count_as_numbers():
    truths = pd.DataFrame(X, columns=list("abc")).assign(b=pd.array(X[:, 1] > 0, dtype="boolean"))
    assert_same(read(truths), read(put(X, np.s_[:, 1], X[:, 1] > 0)))
    assert_same(read(put(X, (3, 1), Fraction(1, 4), object)), read(put(X, (3, 1), 0.25)))


def test_input_is_never_changed():
    arguments = {"X": X.copy(), "y": Y.copy(), "tasks": TASKS.copy(), "sample_weight": np.ones(N)}
    read(**arguments)
    for given, before in zip(arguments.values(), (X, Y, TASKS, np.ones(N)), strict=True):
        np.testing.assert_array_equal(given, before)


def test_classes_and_tasks_may_be_dates():
    days = np.arange("2020-01-01", "2020-01-04", dtype="datetime64[D]")
    data = read(y=days[LABELS], tasks=days[TASKS // 10 - 1], classification=True)
    np.testing.assert_array_equal(data.labels, days)
    np.testing.assert_array_equal(data.y[0], days[LABELS[4:8]])


def test_tasks_of_another_type_are_told():
    for known, given, types in [
        ([308, 309], "308", ("str", "int")),
        (["308", "309"], 308, ("int", "str")),
        ([0.5, 1.5], "0.5", ("str", "float")),
        ([308, 309], "308.0", ("str", "int")),
        (["308", "309"], "308.0", ("str", "str")),
        (["008", "009"], "8", ("str", "str")),
        (["Bay", "Reef"], "bay ", ("str", "str")),
        ([datetime(2024, 5, 1), datetime(2024, 5, 2)], "2024-05-01", ("str", "datetime")),
    ]:
        with pytest.raises(ValueError, match=rf"of the fit: here .+ \({types[0]}\), in the fit .* \({types[1]}\)$"):
            encode_tasks(np.array([given]), np.array(known))
        with pytest.raises(ValueError, match=r"unknown task '?7'?; .* need unknown_tasks='common'"):
            encode_tasks(np.array([7 if types[0] == "int" else "7"]), np.array(known))
        # A model that predicts new tasks would do so for all rows, without a word.
        with pytest.warns(UserWarning, match=rf"predicted as new tasks\. .*: here .+ \({types[0]}\)"):
            assert encode_tasks(np.array([given]), np.array(known), allow_unknown=True).tolist() == [-1]


def test_dates_of_any_type_are_the_same_labels():
    days = np.array(["2024-05-01", "2024-05-02"], dtype="M8[ns]")
    known = read_groupings(days)[None]
    for same in (days.astype("M8[s]"), days.astype("M8[D]").tolist(), days.astype("M8[us]").tolist(), pd.Series(days)):
        assert encode_tasks(read_groupings(same)[None], known).tolist() == [0, 1]
    later = read_groupings(days + np.timedelta64(1, "h"))[None]
    assert encode_tasks(later, known, allow_unknown=True).tolist() == [-1, -1]


def test_fit_without_targets_does_not_name_a_class_of_the_inside():
    for model in (MKMTRLRegressor(), KinRegressor(), MKMTRLRegressorCV()):
        with pytest.raises(
            ValueError, match=r"^This estimator requires y to be passed, but the target y is None: pass"
        ) as e:
            model.fit(X, tasks=TASKS)
        assert "MultiTask" not in str(e.value)


def test_search_without_tasks_warns():
    """One task is meant rarely, and is silent only where it was said."""
    with pytest.warns(UserWarning, match=r"^no tasks were given: all rows are treated as one task\. .* task_column"):
        KinRegressor().training_data(X, Y)
    assert KinRegressor().training_data(X, Y, tasks=np.zeros(N)).n_tasks == 1
    assert KinRegressor().training_data(X, np.column_stack([Y, Y])).form == "wide"


def test_labels_are_numbered_as_they_occur():
    np.testing.assert_array_equal(in_order(np.array(["b", "c", "b", "a", "c"])), [0, 1, 0, 2, 1])


def test_select_and_take():
    data = read(tasks=TASKS, sample_weight=1.0 + np.arange(len(TASKS)))
    some = data.select(np.array([2, 0]))
    np.testing.assert_array_equal(some.sample_weight[:8], 1.0 + np.arange(8))
    assert some.labels.tolist() == [30, 10]
    np.testing.assert_array_equal(np.flatnonzero(some.sample_weight), np.arange(8))
    fewer = data.take([np.array([0, 2]), np.array([1]), np.array([3, 0])])
    np.testing.assert_array_equal(fewer.rows[2], [3, 0])
    np.testing.assert_array_equal(fewer.y[0], Y[[4, 6]])
    # Kernels are fitted to rows with a weight.
    np.testing.assert_array_equal(np.flatnonzero(fewer.sample_weight), [0, 3, 4, 6, 9])


def test_take_of_wide_data_drops_rows_that_no_task_keeps():
    grams = np.stack([X @ X.T, np.eye(N)], axis=2)
    for rows, parameters in ((X, {}), (grams, {"precomputed": True})):
        data = read(rows, y=np.column_stack([Y, -Y]), **parameters)
        fewer = data.take([np.array([1, 5]), np.array([5, 7])])
        used = [1, 5, 7]
        np.testing.assert_array_equal(fewer.X, rows[used] if rows.ndim == 2 else rows[np.ix_(used, used)])
        np.testing.assert_array_equal(np.stack(fewer.rows), [[0, 1], [1, 2]])
        np.testing.assert_array_equal(fewer.y[1], -Y[[5, 7]])


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
def test_strings_of_variable_width():
    strings = np.dtypes.StringDType()
    data = read(X.astype(str).astype(strings), CLASSES.astype(strings), TASKS.astype(strings), classification=True)
    assert_same(data, read(y=CLASSES, tasks=TASKS, classification=True))
    with pytest.raises(ValueError, match=r"^Unknown label type: y holds text, not numbers\."):
        read(y=CLASSES.astype(strings))


@pytest.mark.parametrize("model", [AverageRegressor(), MTRLRegressor(), TwoStageMKMTRLRegressor(n_rounds=200)])
def test_wide_rows_without_a_label_are_as_if_left_out(model):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 3))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    Y[:5], X[:5] = np.nan, 10.0
    labelled = ~np.isnan(Y).all(axis=1)
    model.set_params(kernels=["rbf", "linear"])
    if hasattr(model, "random_state"):
        model.set_params(random_state=0)
    expected = model.fit(X[labelled], Y[labelled]).predict(X)
    np.testing.assert_allclose(model.fit(X, Y).predict(X), expected, rtol=1e-7, atol=1e-9)
