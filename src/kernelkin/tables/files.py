"""Reading tables from CSV, TSV, Parquet and Excel files, whole or in pieces, by pandas."""

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .labels import MISSING, read_targets, read_tasks
from .parquet import is_parquet, parquet_pieces, read_parquet
from .text import TextFormat, TextTable, display_name, open_text, undecodable_line

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

    The text cells of the `task` column are names: "01", "1" and "NA" are three tasks. Those of the `targets` are
    numbers or names of classes.
    """
    form, targets = form or TextFormat(), [targets] if isinstance(targets, str) else targets
    if is_parquet(path):
        frame = read_parquet(path, MOST_COLUMNS)
    elif is_excel(path):
        frame = _read_excel(path, task, targets, form)
    else:
        frame = _read_text(path, task, targets, form)
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
        how = {"converters": dict.fromkeys(names, "={}".format), "na_values": sorted(MISSING), "decimal": form.decimal}
        # The copy puts columns of one type into one block; operations on tens of thousands of blocks are slow.
        frame = pandas.read_csv(table.file, **_how(table), keep_default_na=False, low_memory=False, **how).copy()
    for name in names:
        cells = frame[name].astype(object).map(lambda cell: cell[1:])
        frame[name] = read_tasks(cells) if name == task else read_targets(cells, form.decimal)
    return frame


def is_excel(path: str) -> bool:
    return Path(path).suffix.lower() in (".xlsx", ".xlsm")


def _read_excel(path: str, task: str | None, targets: Sequence[str], form: TextFormat) -> DataFrame:
    """The first sheet, whose first row is the header. Cells keep their types: the text '01' is not the number 1."""
    pandas = need_pandas()
    # A file that does not exist or may not be read is an error of the system; any other error is the file's.
    open(path, "rb").close()
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an Excel file (.xlsx): save it as one, or name it by what it is, such as .csv")
    try:
        frame = pandas.read_excel(path, sheet_name=0, dtype=object, na_filter=False)
    except ImportError as error:
        raise ImportError("reading Excel files needs openpyxl: install kernelkin[excel]") from error
    except Exception as error:  # openpyxl raises exceptions of nearly all kinds
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not an Excel file that can be read: {reason:.200}") from None
    frame.columns = frame.columns.map(str)
    if frame.shape[1] > MOST_COLUMNS:
        raise ValueError(f"{path} has {frame.shape[1]} columns; at most {MOST_COLUMNS} can be read")
    # Formatted rows below a table are read as empty ones.
    frame = frame[(frame != "").any(axis=1)].reset_index(drop=True)
    columns = {}
    for name in frame.columns:
        cells = frame[name]
        is_text = cells.map(lambda cell: isinstance(cell, str) and cell != "")
        if name == task and is_text.any():
            columns[name] = read_tasks(cells.map(str))
        elif name in targets and is_text.any():
            columns[name] = read_targets(cells.map(str), form.decimal)
        else:
            columns[name] = cells.mask(cells.isin(MISSING), None).infer_objects()
    return pandas.DataFrame(columns)


@dataclass(frozen=True)
class Piece:
    """Some rows of a table, the names of its columns as they were written, and what separates columns of a text file.

    The cells of a text file are texts, exactly as they were.
    """

    frame: DataFrame
    header: list[str]
    separator: str | None = None

    def values(self, columns: Sequence[str], task: str | None) -> DataFrame:
        """Columns with None for missing cells, for a schema to encode; columns that are absent stay absent."""
        found = self.frame[[name for name in dict.fromkeys([*columns, task]) if name in self.frame.columns]]
        if self.separator is None:
            return found
        gone = found.isin(MISSING)
        if task in found.columns:
            gone[task] = found[task] == ""
        return found.mask(gone, None)


def read_pieces(path: str, rows: int, form: TextFormat | None = None) -> Iterator[Piece]:
    """Read a table so many rows at a time, fewer where it has very many columns."""
    form = form or TextFormat()
    if is_parquet(path) or is_excel(path):
        typed = read_table(path) if is_excel(path) else None
        whole = (
            (typed.iloc[start : start + rows] for start in range(0, len(typed), rows)) if typed is not None else None
        )
        for frame in whole or parquet_pieces(path, rows, MOST_COLUMNS, MOST_CELLS):
            yield Piece(frame, list(map(str, frame.columns)))
        return
    with _opened(path, form) as table:
        size = min(rows, max(1, MOST_CELLS // max(len(table.header), 1)))
        with _explained(path, form):
            reader = need_pandas().read_csv(table.file, **_how(table), dtype=object, na_filter=False, chunksize=size)
        while True:
            with _explained(path, form):
                found = next(reader, None)
            if found is None or not len(found):
                return
            yield Piece(found, table.header, table.separator)


def _how(table: TextTable) -> dict[str, Any]:
    # Without index_col, pandas takes the first column of rows that are one field too long as row names, and shifts all
    # other values by one column.
    return {"sep": table.separator, "index_col": False}


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
    """What pandas says about a damaged table, and what to do."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
        expected, line, found = map(int, match.groups())
        quote = "put quotation marks around texts that contain the separator"
        advice = quote if expected > 1 else "remove what is above the header, or set what separates columns (--sep)"
        return f"line {line} has {found} fields, but the header has {expected}: {advice}"
    match = re.search(r"EOF inside string starting at row (\d+)", text)
    if match or "unexpected end of data" in text:
        where = f"row {match[1]}" if match and int(match[1]) else "the header"
        return f"a quotation mark opens in {where} and is never closed: close it or remove it"
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
