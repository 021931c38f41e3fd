"""Reading Parquet files, whole or a piece at a time, by one road; whatever is wrong with a file is a ValueError."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

# Where pandas puts the numbers of rows: no column of the table.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def read_parquet(path: str) -> DataFrame:
    """A whole table, read as its pieces are: what is damaged for one road is for the other."""
    arrow = _need_pyarrow()
    with _opened(path) as file, _explained(path):
        return _frame(arrow.Table.from_batches(list(file.iter_batches()), file.schema_arrow), path)


def parquet_pieces(path: str, rows: int) -> Iterator[DataFrame]:
    """A table so many rows at a time."""
    arrow = _need_pyarrow()
    with _opened(path) as file:
        batches = file.iter_batches(rows)
        while True:
            with _explained(path):
                batch = next(batches, None)
                if batch is None:
                    return
                piece = _frame(arrow.Table.from_batches([batch]), path)
            yield piece


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    _need_pyarrow()
    # So that a file that is not there, or may not be read, is the system's error, and any other is the file's.
    open(path, "rb").close()
    with _explained(path):
        file = import_module("pyarrow.parquet").ParquetFile(path)
    with file:
        yield file


def _frame(table: Any, path: str) -> DataFrame:
    """An Arrow table as numbers, truths, dates and texts. What pandas wrote about itself into it is not followed."""
    names = [name for name in table.column_names if not _ROW_NUMBERS.fullmatch(name)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _Refused(f"{path} has the column {twice!r} twice")
    table = table.select(names).replace_schema_metadata()
    table.validate(full=True)
    return _plain(table, path).to_pandas()


def _plain(table: Any, path: str) -> Any:
    """Decimal fractions as floats; refuses lists, records, bytes and types of others."""
    arrow = _need_pyarrow()
    for at, field in enumerate(table.schema):
        kind = field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
        tests = (arrow.types.is_nested, arrow.types.is_binary, arrow.types.is_large_binary)
        if any(test(kind) for test in (*tests, arrow.types.is_fixed_size_binary)) or hasattr(kind, "extension_name"):
            raise _Refused(f"{path}: the column {field.name!r} holds {kind}, not numbers, truths, dates or text")
        if arrow.types.is_decimal(kind):
            table = table.set_column(at, field.name, table.column(at).cast(arrow.float64()))
    return table


class _Refused(ValueError):
    """An error that says already what is wrong with which file."""


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Whatever reading a damaged file raises, as one error that names it."""
    try:
        yield
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # pyarrow raises nearly all there are
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not a Parquet file that can be read: {reason:.200}") from None


def _need_pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: install kernelkin[parquet]") from error
