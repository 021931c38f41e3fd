import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin.storage.values import dump, load
from kernelkin.tables.schema import TableSchema, common_unit

FRAME = pd.DataFrame(
    {
        "unit": [1, 1, 2, 2],
        "size": [1.0, 3.0, np.nan, 5.0],
        "open": [True, False, True, True],
        "town": ["York", "Bath", None, "York"],
        "y": [10.0, 20.0, 30.0, 40.0],
    }
)


@pytest.fixture
def schema():
    return TableSchema.fit(FRAME, "unit", "y", regression=True)


def test_numbers_are_standardised_truths_are_numbers_and_text_is_one_hot(schema):
    assert schema.features == ["size", "size: missing", "open", "town=Bath", "town=York", "town: missing"]
    assert schema.encoder.groups_ == {"size": [0, 1], "open": [2], "town": [3, 4, 5]}
    X = schema.encode(FRAME)
    assert_allclose(X[:, 0], np.array([-2, 0, 0, 2]) / np.sqrt(8 / 3))
    assert_array_equal(X[:, 1], [0, 0, 1, 0])
    assert_allclose(X[:, 2].mean(), 0, atol=1e-15)
    assert_allclose(X[:, 2].std(), 1)
    assert_array_equal(X[:, 3:], [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_targets_are_standardised_and_restored(schema):
    y = schema.targets(FRAME)
    assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-15)
    assert_allclose(schema.restore(y), FRAME.y)


def test_a_target_has_a_unit_if_all_its_cells_are_numbers():
    targets = (["30 EUR", "40"], ["30 EUR", "NA"], ["30 EUR", "40 USD"], ["30 EUR", "soon"], [30, 40])
    assert [common_unit(pd.Series(cells)) for cells in targets] == ["EUR", "EUR", "", "", ""]
    # What stands before a number does not hide what stands after it.
    assert [common_unit(pd.Series(cells)) for cells in (["$3K", "$4 K"], ["$3K", "$4M"])] == ["$ K", ""]


def test_a_table_of_text_is_encoded_as_the_typed_one(schema):
    text = FRAME.astype(object).where(FRAME.notna(), None).map(lambda v: None if v is None else str(v))
    assert_array_equal(schema.encode(text), schema.encode(FRAME))
    assert_array_equal(schema.tasks(text), [1, 1, 2, 2])
    lower = text.assign(open=["true", "false", "TRUE", "True"])
    assert_array_equal(schema.encode(lower), schema.encode(FRAME))


def test_order_and_other_columns_do_not_matter(schema):
    other = FRAME[["y", "town", "open", "size", "unit"]].assign(more="text")
    assert_array_equal(schema.encode(other), schema.encode(FRAME))


def test_codes_that_were_read_as_floats_are_the_same_codes():
    """pandas reads the codes 1 and 2 as floats if a cell of the column is missing."""
    for code in ("1", "1.0"):
        table = pd.DataFrame({"code": [code, "2", "x"] * 4, "shop": ["a", "b"] * 6, "sales": range(12)})
        schema = TableSchema.fit(table, task="shop", target="sales", regression=True)
        known = table[table.code != "x"]
        floats = known.astype({"code": float})
        assert_array_equal(schema.encode(floats), schema.encode(known))
        assert schema.encoder.unseen(floats) == {}
    # A text is no float.
    assert schema.encoder.unseen(table.assign(code="2.0")) == {"code": ["2.0"]}


def test_missing_columns_are_all_named(schema):
    with pytest.raises(ValueError, match="columns are missing: 'size', 'town'; the data has 'unit', 'open', 'y'"):
        schema.encode(FRAME.drop(columns=["size", "town"]))


def test_unseen_texts_are_none_of_the_known_ones_and_are_reported(schema):
    other = FRAME.assign(town=["Oslo", "York", None, "Rome"])
    assert_array_equal(schema.encode(other)[:, 3:], [[0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert schema.encoder.unseen(other) == {"town": ["Oslo", "Rome"]}
    assert schema.encoder.unseen(FRAME) == {}


@pytest.mark.parametrize(("column", "value"), [("size", "large"), ("open", "perhaps"), ("size", np.inf)])
def test_what_is_no_number_is_named_with_its_row(schema, column, value):
    other = FRAME.astype(object)
    other.loc[2, column] = value
    with pytest.raises(ValueError, match=f"column '{column}' has '{value}' in row 3, not a number"):
        schema.encode(other)


def test_a_missing_task_is_named_with_its_row(schema):
    with pytest.raises(ValueError, match="column 'unit' has no task in row 2"):
        schema.tasks(FRAME.assign(unit=[1, None, 2, 2]))


def test_columns_that_cannot_help_are_left_out_with_the_reason():
    n = 110
    frame = pd.DataFrame({"t": ["a"] * n, "y": range(n), "x": range(n), "same": 7, "none": np.nan})
    frame["id"] = [f"row{i}" for i in range(n)]
    frame["place"] = [f"place{i if i % 4 else 0}" for i in range(n)]
    schema = TableSchema.fit(frame, "t", "y", regression=True)
    assert [column.name for column in schema.columns] == ["x"]
    assert schema.left_out["same"] == "the same in every row"
    assert schema.left_out["none"] == "empty"
    assert schema.left_out["id"] == "a different text in every row: it identifies rows rather than describing them"
    assert schema.left_out["place"] == "83 texts in 110 rows: it identifies rows rather than describing them"
    with pytest.raises(ValueError, match=r"^no column is left to learn from: 'x': dropped on request; "):
        TableSchema.fit(frame, "t", "y", ["x"], regression=True)


def test_classes_keep_their_type():
    for values in (["no", "yes", "no", "yes"], [0, 1, 0, 1], [True, False, True, False]):
        frame = FRAME.assign(y=values)
        schema = TableSchema.fit(frame, "unit", "y", regression=False)
        assert_array_equal(schema.targets(frame), values)
        assert schema.restore(schema.targets(frame)).tolist() == values


def test_a_schema_comes_back_from_a_file(schema):
    loaded = load(*dump(schema))
    assert loaded.encoder.describe() == schema.encoder.describe()
    assert vars(loaded) | {"encoder": None} == vars(schema) | {"encoder": None}
    assert_array_equal(loaded.encode(FRAME), schema.encode(FRAME))


def test_a_column_that_is_there_twice_is_refused(schema):
    with pytest.raises(ValueError, match="column 'size' occurs twice"):
        schema.encode(pd.concat([FRAME, FRAME[["size"]]], axis=1))


def test_tasks_of_many_digits_stay_apart():
    """A float stands for several of them."""
    for labels in [[2**53, 2**53 + 1], [2**64 - 1, 2**64 - 2], [-(2**62), 1 - 2**62]]:
        frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "t": labels * 2, "y": [1.0, 2, 3, 5]})
        schema = TableSchema.fit(frame, "t", "y", regression=True)
        assert schema.tasks(frame).tolist() == [str(label) for label in labels * 2]
        assert schema.tasks(frame.astype(str)).tolist() == schema.tasks(frame).tolist()


def test_a_text_that_is_not_an_integer_is_not_rounded_to_a_task():
    for label in ["1.5", "9007199254740993", "01", "1.0"]:
        frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "t": [1, 2, 1, 2], "y": [1.0, 2, 3, 5]})
        schema = TableSchema.fit(frame, "t", "y", regression=True)
        with pytest.raises(ValueError, match=re.escape(f"column 't' has '{label}' in row 3; groups are whole numbers")):
            schema.tasks(pd.DataFrame({"t": ["1", "2", label]}))
