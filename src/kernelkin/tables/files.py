"""Reading tables from CSV, TSV, Parquet and Excel files, whole or in pieces."""

from __future__ import annotations

import csv
import lzma
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .excel import is_excel, read_excel
from .labels import MISSING, read_targets, read_tasks
from .parquet import is_parquet, parquet_pieces, read_parquet
from .records import Record, never_closed, read_records, too_many_fields
from .text import BYTE_ORDER_MARK, TextFormat, TextTable, display_name, open_text, undecodable_line

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


def read_table(
    path: str, task: str | None = None, targets: Sequence[str] | str = (), form: TextFormat | None = None
) -> DataFrame:
    """Read a whole table; "-" is CSV from standard input.

    The cells of the `task` column of a text file are names: "01", "1" and "NA" are three tasks. Those of the `targets`
    are numbers or names of classes.
    """
    if is_parquet(path):
        frame = read_parquet(path, MOST_COLUMNS)
    elif is_excel(path):
        frame = read_excel(path, MOST_COLUMNS)
    else:
        frame = _read_text(path, task, [targets] if isinstance(targets, str) else targets, form or TextFormat())
    if not len(frame):
        raise ValueError(f"{display_name(path)} has no rows")
    if frame.shape[1] == 1:
        raise ValueError(
            f"{display_name(path)} has one column, {str(frame.columns[0])!r:.80}: say what separates columns, such as "
            "--sep ';' or --sep tab"
        )
    return frame


def _read_text(path: str, task: str | None, targets: Sequence[str], form: TextFormat) -> DataFrame:
    pandas = need_pandas()
    with _opened(path, form) as table, _explained(path, form):
        names = [name for name in (task, *targets) if name in table.header]
        # pandas looks for missing values in what a converter returns, too; a character before the text prevents that.
        how = {**_how(table), "converters": dict.fromkeys(names, "={}".format), "na_values": sorted(MISSING)}
        how["decimal"] = form.decimal
        # The copy puts columns of one type into one block; operations on tens of thousands of blocks are slow.
        frame = pandas.read_csv(table.file, **how, low_memory=False).copy()
    for name in names:
        cells = frame[name].astype(object).map(lambda cell: cell[1:])
        frame[name] = read_tasks(cells) if name == task else read_targets(cells, form.decimal)
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
    separator: str | None = None

    def values(self, columns: Sequence[str], task: str | None) -> DataFrame:
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


def read_pieces(path: str, rows: int, form: TextFormat | None = None) -> Iterator[Piece]:
    """Read a table so many rows at a time, fewer where it has very many columns."""
    form = form or TextFormat()
    if is_excel(path):
        typed = read_excel(path, MOST_COLUMNS)
        for start in range(0, len(typed), rows):
            yield Piece(typed.iloc[start : start + rows], list(map(str, typed.columns)))
        return
    if is_parquet(path):
        for typed in parquet_pieces(path, rows, MOST_COLUMNS, MOST_CELLS):
            yield Piece(typed, list(map(str, typed.columns)))
        return
    with _opened(path, form) as table:
        rows = min(rows, max(1, MOST_CELLS // max(len(table.header), 1)))
        records = read_records(table.lines, table.separator)
        if (header := _take(records, 1, path, form)) and table.marked:
            header = [Record(header[0].cells, BYTE_ORDER_MARK + header[0].text)]
        before = 0
        while some := _take(records, rows, path, form):
            cells = _cells(some, table.header, path, form, before)
            yield Piece(cells, table.header, some, header[0], table.separator)
            before += len(some)


def _take(records: Iterator[Record], count: int, path: str, form: TextFormat) -> list[Record]:
    with _explained(path, form):
        return list(islice(records, count))


def _cells(records: list[Record], header: list[str], path: str, form: TextFormat, before: int) -> DataFrame:
    """A table of texts, its columns named as pandas names those of a whole file."""
    names = [name or f"Unnamed: {i}" for i, name in enumerate(header)]
    with _explained(path, form):
        cells = [record.fitted(len(names), before + k) for k, record in enumerate(records, start=1)]
    return need_pandas().DataFrame(np.array(cells, dtype=object), columns=names, dtype=object)


@contextmanager
def _opened(path: str, form: TextFormat) -> Iterator[TextTable]:
    """A text table whose header was checked. pandas would rename the second of two columns of one name."""
    with ExitStack() as stack:
        with _explained(path, form):
            table = stack.enter_context(open_text(path, form))
        if len(table.header) > MOST_COLUMNS:
            raise ValueError(
                f"{display_name(path)} has {len(table.header)} columns; at most {MOST_COLUMNS} can be read"
            )
        twice = next((name for name, count in Counter(table.header).items() if name and count > 1), None)
        if twice is not None:
            raise ValueError(f"{display_name(path)} has the column {twice!r} twice: rename one of them")
        yield table


def _how(table: TextTable) -> dict[str, Any]:
    # Without index_col, pandas takes the first column of rows that are one field too long as row names, and shifts all
    # other values by one column.
    return {"sep": table.separator, "index_col": False, "keep_default_na": False}


@contextmanager
def _explained(path: str, form: TextFormat) -> Iterator[None]:
    """Whatever reading a damaged file raises, as one error that names it."""
    errors, name = need_pandas().errors, display_name(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ParserWarning)
        try:
            yield
        except errors.EmptyDataError:
            raise ValueError(f"{name} is empty") from None
        except errors.ParserWarning:
            raise ValueError(
                f"{name}: all rows have more fields than the header: name every column, remove what is above the "
                "header, or set what separates columns (--sep)"
            ) from None
        except (errors.ParserError, csv.Error) as error:
            raise ValueError(f"{name}: {_parser_reason(str(error))}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: {_undecodable(path, form, error)}") from None
        except (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error) as error:
            # Errors of the system have numbers, those of damaged archives have none.
            if getattr(error, "errno", None) is not None:
                raise
            ending = Path(path).suffix
            advice = f"make it again, or remove the ending {ending} if it is not packed"
            raise ValueError(f"{name} cannot be unpacked: {error}: {advice}") from None


def _parser_reason(text: str) -> str:
    """What pandas says about a damaged table, in the words of the other errors."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
        expected, line, found = map(int, match.groups())
        return too_many_fields(f"line {line}", found, expected)
    if match := re.search(r"EOF inside string starting at row (\d+)", text):
        return never_closed(int(match[1]))
    return text.removeprefix("Error tokenizing data. C error: ").strip()


def _undecodable(path: str, form: TextFormat, error: UnicodeDecodeError) -> str:
    """Where a file is not text in the given encoding, and which to try."""
    line = undecodable_line(path, form.encoding)
    byte = error.object[error.start]
    where = "the text" if line is None else f"line {line}"
    other = "utf-16" if line == 1 and byte in (0xFE, 0xFF) else "cp1252"
    return (
        f"{where} has the byte 0x{byte:02x}, which is not {form.encoding.upper()}: save the file as UTF-8, or say "
        f"--encoding {other}"
    )
