"""Read tables from CSV, TSV, Parquet and Excel files, compressed or not, whole or in pieces; write CSV and TSV."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np

from ..files import check_writable, open_whole
from .cells import Decimal, as_numbers, need_pandas
from .schema import CANONICAL

if TYPE_CHECKING:
    from pandas import DataFrame, Series

STDIN = STDOUT = "-"
# Tables with more columns are refused; below this, time and memory are linear in the number of columns.
MOST_COLUMNS = 100_000
# Number of cells that are read at a time.
MOST_CELLS = 4_000_000
# Number of characters of a file that are searched for its first line.
_HEAD = 2**20
# The cells that stand for a missing value, in features and targets.
MISSING = frozenset(
    [
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null",
    ]
)  # fmt: skip
PARQUET, EXCEL = (".parquet", ".pq"), (".xlsx", ".xlsm")
# Tried in this order if the header does not contain the usual separator.
OTHER_SEPARATORS = (";", "\t", "|")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
# Endings of compressed input files, and how to open them.
_UNPACK: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": lambda path: _open_zip(path),
}
_PACK = (".gz",)
_OTHER_FORMAT = re.compile(r'\s*(\{\s*("|$)|\[\s*([\[{]|$)|<[!?a-zA-Z])')
# The column in which pandas stores row numbers; not a column of the table.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
_HEADER_LINES, _SET_SEPARATOR = "remove lines above the header", "set the column separator (--sep)"
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
# Somewhere in a line: at the start of a cell, or in a date or time.
_CODE = re.compile(r"(?<![\w.])0[0-9]")


class TextFormat(NamedTuple):
    """Column separator (None: by the file ending and the header), encoding and decimal separator of a text file."""

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: Decimal = "."


DEFAULT_FORM = TextFormat()


class Piece(NamedTuple):
    """Some rows of a table, its column names as in the file, and the column separator of a text file.

    The cells of a text file are unchanged texts.
    """

    frame: DataFrame
    header: list[str]
    separator: str | None = None

    def values(self, columns: Sequence[str], tasks: Sequence[str]) -> DataFrame:
        """Return those of these columns that exist, with None for missing cells, for a schema to encode."""
        found = self.frame[[name for name in dict.fromkeys([*columns, *tasks]) if name in self.frame.columns]]
        if self.separator is None:
            return found
        gone = found.isin(MISSING)
        for task in found.columns.intersection(list(tasks)):
            gone[task] = found[task] == ""
        return found.mask(gone, None)


def _check_header(path: str, names: Sequence[str]) -> None:
    """Raise if a table has too many columns, or two with the same name."""
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"{display_name(path)} has {len(names)} columns; at most {MOST_COLUMNS} can be read")
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise ValueError(f"{display_name(path)} has the column {twice!r} twice: rename one of them")


def display_name(path: str) -> str:
    return "standard input" if path == STDIN else path


def read_table(
    path: str,
    tasks: Sequence[str] | str = (),
    targets: Sequence[str] | str = (),
    form: TextFormat = DEFAULT_FORM,
    texts: Sequence[str] = (),
) -> DataFrame:
    """Read a whole table; "-" is CSV from standard input.

    Text cells of the `tasks` columns are names: "01", "1" and "NA" are three tasks. Text cells of the `targets` are
    numbers or class names. The columns `texts` of a text file are not read as numbers.
    """
    ending = Path(path).suffix.lower()
    tasks, targets = ([names] if isinstance(names, str) else names for names in (tasks, targets))
    if ending in PARQUET:
        frame = _read_parquet(path)
    elif ending in EXCEL:
        frame = _read_excel(path, tasks, targets, form)
    else:
        frame = _read_text(path, tasks, targets, form, texts)
    if not len(frame):
        raise ValueError(f"{display_name(path)} has no rows")
    if frame.shape[1] == 1:
        raise ValueError(
            f"{display_name(path)} has one column, {str(frame.columns[0])!r:.80}: set the column separator, such as "
            "--sep ';' or --sep tab"
        )
    return frame


def read_pieces(path: str, rows: int, form: TextFormat = DEFAULT_FORM, tasks: Sequence[str] = ()) -> Iterator[Piece]:
    """Read a table in pieces of this many rows, or fewer if it has very many columns; `tasks` as for `read_table`."""
    if Path(path).suffix.lower() in (*EXCEL, *PARQUET):
        frame = read_table(path, tasks)
        for start in range(0, len(frame), rows):
            yield Piece(frame.iloc[start : start + rows], list(map(str, frame.columns)))
        return
    with _opened(path, form) as (file, header, how):
        size = min(rows, max(1, MOST_CELLS // max(len(header), 1)))
        with _explained(path, form):
            reader = need_pandas().read_csv(file, **how, dtype=object, na_filter=False, chunksize=size)
        while True:
            with _explained(path, form):
                found = next(reader, None)
            if found is None or not len(found):
                return
            yield Piece(found, header, how["sep"])


# Text


def _read_text(
    path: str, tasks: Sequence[str], targets: Sequence[str], form: TextFormat, texts: Sequence[str]
) -> DataFrame:
    with _opened(path, form) as (file, header, how), _explained(path, form):
        names = [name for name in (*tasks, *targets) if name in header]
        read = partial(need_pandas().read_csv, file, **how)
        # pandas also looks for missing values in the result of a converter; a character before the text prevents that.
        how = {"converters": dict.fromkeys(names, "={}".format), "dtype": dict.fromkeys(texts, object)}
        how |= {"na_values": sorted(MISSING), "keep_default_na": False, "decimal": form.decimal, "low_memory": False}
        # The copy joins columns of the same type into one block; tens of thousands of blocks are slow.
        frame = read(**how).copy()
        numbers = frame.select_dtypes("number").columns.difference(names)
        file.seek(0)
        if len(numbers) and any(map(_CODE.search, file)):
            # pandas reads codes such as 01067 as numbers.
            file.seek(0)
            raw = read(usecols=numbers, dtype=object, na_filter=False)
            for name in numbers[[raw[name].str.match(_LEADING_ZERO).any() for name in numbers]]:
                frame[name] = raw[name].mask(raw[name].isin(MISSING), None)
    for name in names:
        cells = frame[name].astype(object).map(lambda cell: cell[1:])
        frame[name] = _read_tasks(cells) if name in tasks else _read_targets(cells, form.decimal)
    return frame


def _read_tasks(cells: Series) -> Series:
    """Return task names from text cells: integers if all texts are plain integers, else the texts; "" is missing."""
    known = cells != ""
    # Integers that floats represent exactly.
    if known.any() and all(len(c) <= 17 and CANONICAL.fullmatch(c) and abs(int(c)) < 2**53 for c in cells[known]):
        return cells.where(known, None).astype("Int64") if not known.all() else cells.astype(np.int64)
    return cells.astype(object).where(known, None)


def _read_targets(cells: Series, decimal: Decimal = ".") -> Series:
    """Return targets from text cells: numbers if all cells are numbers, else the texts.

    Classes "01", "1", "TRUE" and "true" all differ. Numbers with leading zeros are codes and stay text.
    """
    known = ~cells.isin(MISSING)
    numbers = as_numbers(cells.where(known, None).to_numpy(), decimal)
    if np.isinf(numbers).any() or any(_LEADING_ZERO.match(cell) for cell in cells[known]):
        return cells.astype(object).where(known, None)
    return type(cells)(numbers, index=cells.index, name=cells.name)


@contextmanager
def _opened(path: str, form: TextFormat) -> Iterator[tuple[TextIO, list[str], dict[str, Any]]]:
    """Open a text file and yield it with its header and the arguments of `read_csv`.

    The header is read here because pandas renames duplicate columns. Without index_col, pandas would use the first
    field of rows that are one field too long as row names, and shift all other values by one column.
    """
    if form.separator is not None and len(form.separator) != 1:
        raise ValueError(f"the column separator must be one character, not {form.separator!r}")
    with ExitStack() as stack:
        with _explained(path, form):
            file = _open_text(path, form.encoding, stack)
            first = next(iter(file.read(_HEAD).lstrip().splitlines()), "")
            file.seek(0)
        if "\0" in first:
            raise ValueError(f"{display_name(path)} is not text: if it is UTF-16, use --encoding utf-16")
        if _OTHER_FORMAT.match(first):
            raise ValueError(f"{display_name(path)} is JSON, HTML or XML, not a table: save it as CSV")
        separator = form.separator or input_separator(path)
        if form.separator is None and separator not in first:
            separator = next((mark for mark in OTHER_SEPARATORS if mark in first), separator)
        how: dict[str, Any] = {"sep": separator, "index_col": False}
        with _explained(path, form):
            rows = need_pandas().read_csv(file, **how, header=None, nrows=1, dtype=str, na_filter=False)
            file.seek(0)
        header = rows.iloc[0].tolist()
        _check_header(path, header)
        yield file, header, how


def _open_text(path: str, encoding: str, stack: ExitStack) -> TextIO:
    """Open a text file and decompress it if needed; "-" is standard input, which is read to its end."""
    # This encoding leaves out the byte order mark.
    encoding = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    if path == STDIN:
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        content = sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode(encoding)
        return io.TextIOWrapper(io.BytesIO(content), encoding=encoding, newline="")
    input_separator(path)  # refuses unknown endings
    raw = stack.enter_context(_UNPACK.get(Path(path).suffix.lower(), io.FileIO)(path))
    return stack.enter_context(io.TextIOWrapper(io.BufferedReader(raw), encoding=encoding, newline=""))


def _open_zip(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        if len(archive.namelist()) != 1:
            raise ValueError(f"{path} contains {len(archive.namelist())} files, not one")
        return archive.open(archive.namelist()[0])


def input_separator(path: str) -> str:
    """Return the column separator for the ending of an input file."""
    return "," if path == STDIN else _separator(path, _UNPACK, ", or .parquet or .xlsx; or - for CSV on stdin")


def _separator(path: str, packed: Collection[str], others: str) -> str:
    *_, last, final = ["", "", *(ending.lower() for ending in Path(path).suffixes)]
    separator = SEPARATORS.get(last if final in packed else final)
    if separator is None:
        endings = f"{', '.join(SEPARATORS)}, each also with {', '.join(packed)}"
        raise ValueError(f"{path}: the ending must be one of {endings}{others}")
    return separator


@contextmanager
def _explained(path: str, form: TextFormat) -> Iterator[None]:
    """Turn any error from reading a damaged text file into an error that names the file."""
    errors, name = need_pandas().errors, display_name(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ParserWarning)
        try:
            yield
        except errors.EmptyDataError:
            raise ValueError(f"{name} is empty") from None
        except errors.ParserWarning:
            raise ValueError(
                f"{name}: all rows have more fields than the header: name every column, {_HEADER_LINES}, or "
                f"{_SET_SEPARATOR}"
            ) from None
        except errors.ParserError as error:
            raise ValueError(f"{name}: {_parser_reason(str(error))}") from None
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            other = "utf-16" if byte in (0xFE, 0xFF) else "cp1252"
            raise ValueError(
                f"{name} has the byte 0x{byte:02x}, which is not {form.encoding.upper()}: save the file as UTF-8, or "
                f"use --encoding {other}"
            ) from None
        except LookupError:
            raise ValueError(f"no encoding is named {form.encoding!r}; try utf-8, cp1252 or utf-16") from None
        except (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error) as error:
            # System errors have a number; errors about damaged archives have none.
            if getattr(error, "errno", None) is not None:
                raise
            advice = f"create it again, or remove the ending {Path(path).suffix} if it is not compressed"
            raise ValueError(f"{name} cannot be decompressed: {error}: {advice}") from None


def _parser_reason(text: str) -> str:
    """Return the reason that pandas gives for a damaged table, with advice."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
        expected, line, found = map(int, match.groups())
        advice = "put quotation marks around texts that contain the separator" if expected > 1 else _HEADER_LINES
        return f"line {line} has {found} fields, but the header has {expected}: {advice}, or {_SET_SEPARATOR}"
    match = re.search(r"EOF inside string starting at row (\d+)", text)
    if match or "unexpected end of data" in text:
        where = f"row {match[1]}" if match and int(match[1]) else "the header"
        return f"a quotation mark opens in {where} and is never closed: close it or remove it"
    return text.removeprefix("Error tokenizing data. C error: ").strip()


# Excel and Parquet


@contextmanager
def _readable(path: str, kind: str, extra: str) -> Iterator[None]:
    """Turn any error of openpyxl or pyarrow about a damaged file into a ValueError."""
    # System errors, such as a missing file, are raised unchanged; any other error means a damaged file.
    open(path, "rb").close()
    try:
        yield
    except ImportError as error:
        raise ImportError(f"reading {kind} files needs another package: install kernelkin[{extra}]") from error
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not a readable {kind} file: {reason:.200}") from None


def _read_excel(path: str, tasks: Sequence[str], targets: Sequence[str], form: TextFormat) -> DataFrame:
    """Read the first sheet; its first row is the header. Cells keep their types: the text '01' is not the number 1."""
    pandas = need_pandas()
    with _readable(path, "Excel (.xlsx)", "excel"):
        # Read without a header, because pandas renames duplicate columns.
        rows = pandas.read_excel(path, dtype=object, na_filter=False, engine="openpyxl", header=None)
    header = [str(name) or f"Unnamed: {k}" for k, name in enumerate(rows.iloc[0] if len(rows) else ())]
    _check_header(path, header)
    # Formatted rows below a table are read as empty rows.
    frame = rows.iloc[1:][(rows.iloc[1:] != "").any(axis=1)].reset_index(drop=True)
    columns = {}
    for name, (_, cells) in zip(header, frame.items(), strict=True):
        has_text = cells.map(lambda cell: isinstance(cell, str) and cell != "").any()
        if name in tasks and has_text:
            columns[name] = _read_tasks(cells.map(str))
        elif name in targets and has_text:
            columns[name] = _read_targets(cells.map(str), form.decimal)
        else:
            columns[name] = cells.mask(cells.isin(MISSING), None).infer_objects()
    return pandas.DataFrame(columns)


def _read_parquet(path: str) -> DataFrame:
    """Read a Parquet file; decimals become floats, and pandas metadata are ignored."""
    with _readable(path, "Parquet", "parquet"):
        arrow = import_module("pyarrow")
        with import_module("pyarrow.parquet").ParquetFile(path) as file:
            table = file.read()
        table.validate(full=True)
        for k, field in enumerate(table.schema):
            if arrow.types.is_decimal(field.type):
                table = table.set_column(k, field.name, table.column(k).cast(arrow.float64()))
        frame = table.to_pandas(ignore_metadata=True)
    _check_header(path, frame.columns.tolist())
    return frame.drop(columns=[name for name in frame.columns if _ROW_NUMBERS.fullmatch(name)])


# Output


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open a UTF-8 text file, compressed by its ending, that appears when complete; "-" is standard output."""
    if path == STDOUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        yield sys.stdout
        return
    with ExitStack() as stack:
        stream: Any = stack.enter_context(open_whole(path))
        if path.lower().endswith(_PACK):
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            yield text
        finally:
            text.detach()


def check_output(path: str) -> str:
    """Return the column separator of an output file; raise early if the file cannot be written."""
    if path == STDOUT:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        return ","
    separator = _separator(path, _PACK, "; or - for stdout")
    check_writable(path)
    return separator
