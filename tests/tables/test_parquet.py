"""Parquet files: what their columns become, and what is refused by the name of file and column."""

from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelkin import TableEncoder
from kernelkin.tables.files import read_pieces, read_table

PLAIN = pd.DataFrame({"shop": ["a", "b", "c"], "size": [1, 2, 3], "sales": [0.5, 1.5, 2.5]})


def both(path):
    """Whole, and by pieces of two rows."""
    whole = read_table(str(path))
    pieces = pd.concat([piece.frame for piece in read_pieces(str(path), 2)], ignore_index=True)
    pd.testing.assert_frame_equal(whole, pieces)
    return whole


@pytest.mark.parametrize("index", [None, True, False])
def test_row_numbers_are_not_a_column(tmp_path, index):
    PLAIN.to_parquet(tmp_path / "t.parquet", index=index)
    pd.testing.assert_frame_equal(both(tmp_path / "t.parquet"), PLAIN, check_dtype=False)


def test_a_named_index_is_a_column(tmp_path):
    PLAIN.set_index("shop").to_parquet(tmp_path / "t.pq")
    assert both(tmp_path / "t.pq")[list(PLAIN)].equals(PLAIN.astype({"shop": both(tmp_path / "t.pq").shop.dtype}))


def test_decimals_are_numbers(tmp_path):
    PLAIN.assign(sales=[Decimal("0.5"), Decimal("1.5"), Decimal("2.5")]).to_parquet(tmp_path / "t.parquet")
    assert both(tmp_path / "t.parquet").sales.tolist() == [0.5, 1.5, 2.5]
    assert both(tmp_path / "t.parquet").sales.dtype == float


def test_columns_of_other_types_are_left_out_by_the_encoder(tmp_path):
    odd = [pa.array([[1.0], [2.0], []]), pa.array([{"a": 1}] * 3), pa.array([b"x", b"y", b"z"])]
    for k, values in enumerate(odd):
        pq.write_table(pa.table({"size": [1, 2, 4], "odd": values}), tmp_path / f"{k}.parquet")
        encoder = TableEncoder().fit(both(tmp_path / f"{k}.parquet"))
        assert "which are not read" in encoder.left_out_["odd"]


def test_a_column_twice(tmp_path):
    table = pa.Table.from_arrays([pa.array([1, 2])] * 2, ["size", "size"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet has the column 'size' twice"):
        read_table(str(tmp_path / "t.parquet"))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"shop,size\na,1\n", b"PAR1" + bytes(100) + b"PAR1"])
def test_files_that_are_not_parquet(tmp_path, content):
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.parquet is not a readable Parquet file: \w"):
        read_table(str(tmp_path / "t.parquet"))


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"t\.parquet"):
        read_table(str(tmp_path / "t.parquet"))
    (tmp_path / "d.parquet").mkdir()
    with pytest.raises(IsADirectoryError, match=r"d\.parquet"):
        next(read_pieces(str(tmp_path / "d.parquet"), 2))


def test_errors_of_the_caller_pass_through(tmp_path):
    PLAIN.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(KeyError, match="nobody"):
        for piece in read_pieces(str(tmp_path / "t.parquet"), 1):
            piece.frame["nobody"]
