"""Reading and writing tables: CSV, TSV, Parquet, whole or a piece at a time."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..io.storage import check_writable, open_text_whole
from .parquet import is_parquet, parquet_pieces, read_parquet

if TYPE_CHECKING:
    from pandas import DataFrame

STDIN = STDOUT = "-"
ENDINGS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
PACKED: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": lambda path: _open_zip(path),
}


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("this command needs pandas: install kernelkin[cli]") from error
    return pandas


def read_table(path: str) -> DataFrame:
    """A whole table; "-" is CSV from standard input."""
    pandas = need_pandas()
    if is_parquet(path):
        frame = read_parquet(path)
    else:
        with _opened(path) as file, _explained(path):
            frame = pandas.read_csv(file, **_how(path), low_memory=False)
    if not len(frame):
        raise ValueError(f"{_name(path)} has no rows")
    if frame.shape[1] == 1:
        raise ValueError(
            f"{_name(path)} has one column, {str(frame.columns[0])!r}: columns are separated by commas, or by tabs in "
            "a .tsv file"
        )
    return frame


def read_pieces(path: str, rows: int) -> Iterator[DataFrame]:
    """A table so many rows at a time. What a CSV file holds stays text, so that it can be written as it was."""
    pandas = need_pandas()
    if is_parquet(path):
        yield from parquet_pieces(path, rows)
        return
    with _opened(path) as file:
        with _explained(path):
            pieces = pandas.read_csv(file, **_how(path), dtype=str, chunksize=rows)
        while (piece := _next(pieces, path)) is not None:
            yield piece


def _next(pieces: Iterator[DataFrame], path: str) -> DataFrame | None:
    with _explained(path):
        return next(pieces, None)


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """A text file that appears when it is complete, and not at all if something fails; "-" is standard output."""
    if path == STDOUT:
        yield sys.stdout
        return
    with open_text_whole(path) as file:
        yield file


def check_output(path: str) -> None:
    """Refuse, before any work is done, to write where that cannot be; "-" is standard output."""
    if path != STDOUT:
        check_writable(path)


def separator(path: str) -> str:
    """What is between the columns of a text file, by its ending."""
    if path == STDIN:
        return ","
    endings = [ending for ending in Path(path).suffixes if ending not in PACKED]
    ending = endings[-1].lower() if endings else ""
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: the ending must be one of {', '.join([*ENDINGS, '.parquet'])}, or - for CSV on stdin"
        )
    return ENDINGS[ending]


def _how(path: str) -> dict[str, Any]:
    # Without index_col, pandas takes the first column of rows that are one field too long for names of rows, and every
    # value for that of the column before.
    return {"sep": separator(path), "index_col": False}


@contextmanager
def _opened(path: str) -> Iterator[_Again]:
    """A text file, packed or not, whose header names no column twice; pandas would give the second another name."""
    ending = separator(path)
    if path == STDIN:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict", newline="")
        yield _check_header(sys.stdin, path, ending)
        return
    unpack = PACKED.get(Path(path).suffix.lower(), io.FileIO)
    with _explained(path):
        raw = unpack(path)
    with raw, io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig", newline="") as file:
        yield _check_header(file, path, ending)


def _check_header(file: TextIO, path: str, ending: str) -> _Again:
    taken: list[str] = []
    with _explained(path):
        names = next((row for row in csv.reader(_kept(file, taken), delimiter=ending) if row), [])
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{_name(path)} has the column {twice!r} twice")
    return _Again("".join(taken), file)


def _kept(lines: TextIO, taken: list[str]) -> Iterator[str]:
    """The lines, each put aside before it is given."""
    for line in lines:
        taken.append(line)
        yield line


class _Again(io.TextIOBase):
    """A text file from its beginning, of which the head was read already."""

    def __init__(self, head: str, rest: TextIO) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int | None = -1, /) -> str:
        head, self._head = self._head, ""
        return head + self._rest.read(-1 if size is None or size < 0 else max(size - len(head), 0))


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Whatever reading a damaged file raises, as one error that names it."""
    errors = need_pandas().errors
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ParserWarning)
        try:
            yield
        except errors.EmptyDataError:
            raise ValueError(f"{_name(path)} is empty") from None
        except errors.ParserWarning:
            raise ValueError(f"{_name(path)} is not a table: its rows have more fields than its header") from None
        except (errors.ParserError, csv.Error) as error:
            raise ValueError(f"{_name(path)} is not a table: {error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"{_name(path)} is not text in UTF-8: {error}") from None
        except (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error) as error:
            # Errors of the system have numbers, those of damaged archives have none.
            if getattr(error, "errno", None) is not None:
                raise
            raise ValueError(f"{_name(path)} cannot be unpacked: {error}") from None


def _open_zip(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        if len(archive.namelist()) != 1:
            raise ValueError(f"{path} holds {len(archive.namelist())} files, not one")
        return archive.open(archive.namelist()[0])


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path
