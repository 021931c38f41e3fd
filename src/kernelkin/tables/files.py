"""Reading tables from CSV, TSV and Parquet files, whole or in pieces."""

from __future__ import annotations

import csv
import lzma
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from .labels import MISSING, read_targets, read_tasks
from .parquet import is_parquet, parquet_pieces, read_parquet
from .records import Record, read_records
from .text import BYTE_ORDER_MARK, TextTable, display_name, open_text

if TYPE_CHECKING:
    from pandas import DataFrame

# A table with more columns is refused; time and memory are linear in their number below.
MOST_COLUMNS = 100_000
# Cells that are read at a time, whatever the number of columns.
MOST_CELLS = 4_000_000


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: install kernelkin[cli]") from error
    return pandas


def read_table(path: str, task: str | None = None, target: str | None = None) -> DataFrame:
    """Read a whole table; "-" is CSV from standard input.

    The cells of the `task` column of a text file are names: "01", "1" and "NA" are three tasks. Those of the `target`
    are numbers or names of classes.
    """
    frame = read_parquet(path, MOST_COLUMNS) if is_parquet(path) else _read_text(path, task, target)
    if not len(frame):
        raise ValueError(f"{display_name(path)} has no rows")
    if frame.shape[1] == 1:
        raise ValueError(
            f"{display_name(path)} has one column, {str(frame.columns[0])!r}: columns are separated by commas, or by "
            "tabs in a .tsv file"
        )
    return frame


def _read_text(path: str, task: str | None, target: str | None) -> DataFrame:
    pandas = need_pandas()
    with _opened(path) as table, _explained(path):
        names = [name for name in (task, target) if name in table.header]
        # pandas looks for missing values in what a converter returns, too; a character before the text prevents that.
        how = {**_how(table), "converters": dict.fromkeys(names, "={}".format), "na_values": sorted(MISSING)}
        # The copy puts columns of one type into one block; operations on tens of thousands of blocks are slow.
        frame = pandas.read_csv(table.file, **how, low_memory=False).copy()
    for name, read in ((target, read_targets), (task, read_tasks)):
        if name in names:
            frame[name] = read(frame[name].astype(object).map(lambda cell: cell[1:]))
    return frame


@dataclass(frozen=True)
class Piece:
    """Some rows of a table, and its header as it was written.

    The cells of a text file are texts, exactly as they were. `records` have the text of each row, and `header_record`
    that of the header, so that they can be written again.
    """

    frame: DataFrame
    header: list[str]
    records: list[Record] | None = None
    header_record: Record | None = None

    def values(self, columns: Sequence[str], task: str) -> DataFrame:
        """Columns with None for missing cells, for a schema to encode; columns that are absent stay absent."""
        found = self.frame[[name for name in dict.fromkeys([*columns, task]) if name in self.frame.columns]]
        if self.records is None:
            return found
        cells = found.to_numpy(dtype=object, copy=True)
        is_missing = np.frompyfunc(lambda cell: cell in MISSING or cell != cell, 1, 1)(cells).astype(bool)
        if task in found.columns:
            at = found.columns.get_loc(task)
            is_missing[:, at] = cells[:, at] == ""
        cells[is_missing] = None
        return need_pandas().DataFrame(cells, columns=found.columns, index=found.index, dtype=object)


def read_pieces(path: str, rows: int) -> Iterator[Piece]:
    """Read a table so many rows at a time, fewer where it has very many columns."""
    if is_parquet(path):
        for typed in parquet_pieces(path, rows, MOST_COLUMNS, MOST_CELLS):
            yield Piece(typed, list(map(str, typed.columns)))
        return
    with _opened(path) as table:
        rows = min(rows, max(1, MOST_CELLS // max(len(table.header), 1)))
        records = read_records(table.lines, table.separator)
        if (header := _take(records, 1, path)) and table.marked:
            header = [Record(header[0].cells, BYTE_ORDER_MARK + header[0].text)]
        while some := _take(records, rows, path):
            yield Piece(_cells(some, table.header, path), table.header, some, header[0])


def _take(records: Iterator[Record], count: int, path: str) -> list[Record]:
    with _explained(path):
        return list(islice(records, count))


def _cells(records: list[Record], header: list[str], path: str) -> DataFrame:
    """A table of texts, its columns named as pandas names those of a whole file."""
    names = [name or f"Unnamed: {i}" for i, name in enumerate(header)]
    with _explained(path):
        cells = [record.fitted(len(names)) for record in records]
    return need_pandas().DataFrame(np.array(cells, dtype=object), columns=names, dtype=object)


@contextmanager
def _opened(path: str) -> Iterator[TextTable]:
    """A text table whose header was checked. pandas would rename the second of two columns of one name."""
    with ExitStack() as stack:
        with _explained(path):
            table = stack.enter_context(open_text(path))
        if len(table.header) > MOST_COLUMNS:
            raise ValueError(
                f"{display_name(path)} has {len(table.header)} columns; at most {MOST_COLUMNS} can be read"
            )
        twice = next((name for name, count in Counter(table.header).items() if name and count > 1), None)
        if twice is not None:
            raise ValueError(f"{display_name(path)} has the column {twice!r} twice")
        yield table


def _how(table: TextTable) -> dict[str, Any]:
    # Without index_col, pandas takes the first column of rows that are one field too long as row names, and shifts all
    # other values by one column.
    return {"sep": table.separator, "index_col": False, "keep_default_na": False}


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Whatever reading a damaged file raises, as one error that names it."""
    errors, name = need_pandas().errors, display_name(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ParserWarning)
        try:
            yield
        except errors.EmptyDataError:
            raise ValueError(f"{name} is empty") from None
        except errors.ParserWarning:
            raise ValueError(f"{name} is not a table: its rows have more fields than its header") from None
        except (errors.ParserError, csv.Error) as error:
            raise ValueError(f"{name} is not a table: {error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not text in UTF-8: {error}") from None
        except (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error) as error:
            # Errors of the system have numbers, those of damaged archives have none.
            if getattr(error, "errno", None) is not None:
                raise
            raise ValueError(f"{name} cannot be unpacked: {error}") from None
