"""Tables and arrays of other libraries: read as the same numbers as NumPy's, or refused by the name of the column."""

from datetime import date, timedelta
from importlib import import_module

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from data_forms.reading import CLASSES, TASKS, N, X, Y, assert_same, fitted, query, read
from kernelkin import KinRegressor, MKMTRLRegressorCV, TableEncoder
from kernelkin.paper import AverageRegressor
from kernelkin.relations.sharing import NEW_ROWS
from kernelkin.report.evaluation import rows_of_arrays

NAMES = TASKS.astype(str)
DAYS = [date(2020, 1, 1) + timedelta(days=k) for k in range(N)]


def columns_of(library, columns):
    """A table of polars or Arrow from a dict of lists and arrays."""
    if library == "pyarrow":
        return pa.table(columns)
    return pytest.importorskip(library).DataFrame(columns)


def encoded(library, values):
    """Text as categories, in the way of the library."""
    if library == "polars":
        polars = import_module("polars")
        return polars.Series(values, dtype=polars.Categorical)
    return pa.array(values).dictionary_encode()


@pytest.fixture(params=["polars", "pyarrow"])
def library(request):
    pytest.importorskip(request.param)
    return request.param


@pytest.fixture
def table(library):
    """The columns of X, and the tasks as text in a column between them."""
    columns = {"a": X[:, 0], "task": NAMES.tolist(), "b": X[:, 1], "c": X[:, 2]}
    return columns_of(library, columns)


@pytest.mark.parametrize("column", ["task", -3])
def test_a_task_column_by_name_or_position(table, column):
    data = read(table, task_column=column)
    assert_same(data, read(tasks=NAMES))
    assert data.labels.tolist() == ["10", "20", "30"]
    assert data.feature_names == ("a", "b", "c")


def test_rows_to_predict(table):
    reader = fitted(table, task_column="task")
    assert reader.feature_names_in_.tolist() == ["a", "task", "b", "c"]
    queries = query(reader, table)
    np.testing.assert_array_equal(queries.X, X)
    np.testing.assert_array_equal(queries.codes, TASKS // 10 - 1)


def test_a_missing_task_column(table):
    with pytest.raises(ValueError, match=r"^task_column='tusk' is not a column of X, which has 'a', 'task', 'b', 'c'$"):
        read(table, task_column=["tusk"])


def test_wide_targets_are_named_by_their_columns(library):
    y = columns_of(library, {"p": Y, "q": [None, *Y[1:].tolist()]})
    expected = read(y=np.column_stack([Y, np.r_[np.nan, Y[1:]]]))
    assert_same(read(y=y), expected)
    assert read(y=y).labels.tolist() == ["p", "q"]


def test_wide_classes_with_missing_labels(library):
    data = read(y=columns_of(library, {"p": CLASSES.tolist(), "q": [None, *CLASSES[1:].tolist()]}), classification=True)
    assert data.y[0].tolist() == CLASSES.tolist()
    assert data.y[1].tolist() == CLASSES[1:].tolist()


def test_categories_are_labels(library):
    data = read(y=encoded(library, CLASSES.tolist()), tasks=encoded(library, NAMES.tolist()), classification=True)
    assert_same(data, read(y=CLASSES, tasks=NAMES, classification=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (DAYS, r"X, column 'd' holds dates or times \("),
        ([timedelta(days=k) for k in range(N)], r"X, column 'd' holds dates or times \("),
        (["tall"] * N, r"X, column 'd': could not convert string to float: 'tall': pass a data frame"),
        ([1, None] * 6, r"X, column 'd': Input X contains NaN: pass a data frame to KinRegressor"),
    ],
)
def test_a_column_that_holds_no_numbers(library, values, message):
    with pytest.raises((TypeError, ValueError), match="^" + message):
        read(columns_of(library, {"a": X[:, 0], "d": values}))


def test_a_column_of_categories_is_not_cast(library):
    with pytest.raises(TypeError, match=r"^X, column 'd' holds categories \(.*\), not numbers: pass a data frame"):
        read(columns_of(library, {"a": X[:, 0], "d": encoded(library, ["1", "2"] * 6)}))


@pytest.mark.parametrize("values", [[[1, 2]] * N, [{"u": 1}] * N, [b"1"] * N])
def test_a_column_of_nested_values_or_bytes(values):
    for library in ("polars", "pyarrow"):
        with pytest.raises(TypeError, match=r"^X, column 'd' holds (lists|records|bytes) \(.*\), not numbers$"):
            read(columns_of(library, {"a": X[:, 0], "d": values}))


def test_arrow_columns_in_pandas():
    """pandas keeps Arrow's types: numbers are read, categories and dates are not."""
    assert_same(read(pd.DataFrame(X, columns=list("abc")).astype("float64[pyarrow]")), read())
    categories = pd.array(["u"] * N, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    with pytest.raises(TypeError, match=r"^X, column 'd' holds categories \(dictionary<"):
        read(pd.DataFrame({"a": X[:, 0], "d": categories}))
    with pytest.raises(TypeError, match=r"^X, column 'd' holds dates or times \(date32"):
        read(pd.DataFrame({"a": X[:, 0], "d": pd.array(DAYS, dtype="date32[pyarrow]")}))


def test_arrow_data_in_several_chunks():
    """`ChunkedArray.to_numpy` would read a missing category as another one."""
    chunks = [pa.array(["x", None]).dictionary_encode(), pa.array(["y", "x"] * 5).dictionary_encode()]
    with pytest.raises(ValueError, match=r"^Input tasks contains a missing label in row 1 \(counted from 0\): leave"):
        read(tasks=pa.chunked_array(chunks))
    assert_same(
        read(pa.chunked_array([Y]).combine_chunks().to_numpy()[:, None], pa.chunked_array([Y[:5], Y[5:]])),
        read(Y[:, None]),
    )


def test_two_arrow_columns_of_one_name():
    twice = pa.Table.from_arrays([pa.array(Y), pa.array(Y)], names=["p", "p"])
    with pytest.raises(ValueError, match=r"^X has the column 'p' twice$"):
        read(twice)
    with pytest.raises(ValueError, match=r"^y has the column 'p' twice$"):
        read(y=twice)


def test_columns_of_polars_as_targets_tasks_and_weights():
    polars = pytest.importorskip("polars")
    weight = np.arange(N) + 1.0
    data = read(X, polars.Series(Y), polars.Series(NAMES.tolist()), polars.Series(weight))
    assert_same(data, read(tasks=NAMES, sample_weight=weight))


def test_a_lazy_frame_is_refused_and_not_collected():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"^X is a LazyFrame, whose rows are not in memory: collect them first$"):
        read(polars.DataFrame(X).lazy())


class TestTorch:
    """Tensors, wherever they come from."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_tensors_are_arrays(self, torch):
        tensor = torch.tensor
        assert_same(read(tensor(X), tensor(Y), tensor(TASKS), tensor(np.ones(N))), read(tasks=TASKS))

    def test_tensors_with_a_gradient(self, torch):
        assert_same(read(torch.tensor(X, requires_grad=True), torch.tensor(Y, requires_grad=True)), read())

    def test_tensors_of_float32_and_bfloat16(self, torch):
        assert read(torch.tensor(X).float()).X.dtype == np.float32
        half = torch.tensor(X).bfloat16()
        assert_same(read(half), read(half.double().numpy()))

    def test_sparse_tensors_are_refused(self, torch):
        with pytest.raises(TypeError, match=r"^X is not an array: .*to_dense"):
            read(torch.tensor(X).to_sparse())

    def test_a_list_of_tensors_with_gradients(self, torch):
        with pytest.raises(ValueError, match=r"^y is not an array: Can't call numpy\(\) on Tensor that requires grad"):
            read(y=[torch.tensor(1.0, requires_grad=True)] * N)


@pytest.mark.parametrize("model", [KinRegressor(cv=2), MKMTRLRegressorCV(cv=2)])
def test_a_dict_of_columns_is_a_table(model):
    columns = {"a": X[:, 0].tolist(), "b": X[:, 1], "task": NAMES.tolist()}
    frame = pd.DataFrame(columns)
    one, other = (
        clone(model).set_params(task_column="task", random_state=0).fit(table, Y) for table in (columns, frame)
    )
    assert one.feature_names_in_.tolist() == ["a", "b", "task"]
    np.testing.assert_array_equal(one.predict(columns), other.predict(frame))
    assert one.score(columns, Y) == other.score(frame, Y)
    with pytest.raises(ValueError, match=r"feature names.*\n.*same order"):
        one.predict({name: columns[name] for name in ("b", "a", "task")})
    assert TableEncoder().fit(columns).feature_names_in_.tolist() == ["a", "b", "task"]


def test_a_dict_of_the_rows_of_tasks_is_no_table():
    rows = {task: X[task == NAMES] for task in np.unique(NAMES).tolist()}
    with pytest.raises(ValueError, match=r"^X is a dict .*'10': \(4, 3\).* as tasks=$"):
        KinRegressor().fit(rows, {task: Y[task == NAMES] for task in rows})
    single = {task: values[:3, 0] for task, values in rows.items()}
    with pytest.raises(ValueError, match=r"^X and y are dicts of the same names, '10', '20', '30': columns or tasks\?"):
        KinRegressor().fit(single, single)


@pytest.mark.parametrize("model", [KinRegressor(cv=2, random_state=0), AverageRegressor()])
def test_the_columns_of_wide_targets_are_scored_by_their_names(model):
    targets = pd.DataFrame({"p": Y, "q": 3 * Y[::-1] + X[:, 0], "r": X[:, 1]})
    fit = clone(model).fit(X, targets)
    other = targets[["r", "p", "q"]]
    assert fit.score(X, other) == fit.score(X, targets) == fit.score(X, targets.to_numpy())
    assert fit.score_tasks(X, other) == fit.score_tasks(X, targets)
    rows = [rows_of_arrays(fit, X, y, None, "a table")[NEW_ROWS].y for y in (other, targets)]
    np.testing.assert_array_equal(*rows)
    for score in (fit.score, fit.score_tasks):
        with pytest.raises(ValueError, match=r"^the columns of y must be named .* missing: 'q'; not a task.*: 's'$"):
            score(X, targets.rename(columns={"q": "s"}))
