"""Reading and writing tables: CSV, TSV, Parquet, whole or a piece at a time."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pandas import DataFrame

STDIN = STDOUT = "-"
ENDINGS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
PACKED = (".gz", ".bz2", ".xz", ".zip")


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("this command needs pandas: install kernelkin[cli]") from error
    return pandas


def read_table(path: str) -> DataFrame:
    """A whole table; "-" is CSV from standard input."""
    pandas = need_pandas()
    if _is_parquet(path):
        _need_pyarrow()
        frame = pandas.read_parquet(path)
    else:
        frame = _csv(pandas, path, low_memory=False)
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
    if _is_parquet(path):
        _need_pyarrow()
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            yield from (batch.to_pandas() for batch in file.iter_batches(rows))
    else:
        with _csv(pandas, path, dtype=str, chunksize=rows) as pieces:
            yield from pieces


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """A text file that appears when it is complete, and not at all if something fails; "-" is standard output."""
    if path == STDOUT:
        yield sys.stdout
        return
    target = Path(path)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


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


def check_folder(path: str) -> None:
    """Refuse, before any work is done, to write where there is no folder."""
    if path != STDOUT and not Path(path).parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} to write {Path(path).name!r} to")


def _csv(pandas: Any, path: str, **how: Any) -> Any:
    try:
        return pandas.read_csv(sys.stdin if path == STDIN else path, sep=separator(path), **how)
    except pandas.errors.EmptyDataError:
        raise ValueError(f"{_name(path)} is empty") from None
    except pandas.errors.ParserError as error:
        raise ValueError(f"{_name(path)} is not a table: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{_name(path)} is not text in UTF-8: {error}") from None


def _is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def _need_pyarrow() -> None:
    try:
        import_module("pyarrow")
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install pyarrow") from error


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path
