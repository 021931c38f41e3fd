"""Reading Parquet files, whole or in pieces; whatever is wrong with a file is a ValueError."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

# Where pandas stores row numbers: not a column of the table.
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() in (".parquet", ".pq")


def read_parquet(path: str, most_columns: int) -> DataFrame:
    """A whole table, read in the same way as its pieces, so that a damaged file is refused in both."""
    arrow = _need_pyarrow()
    with _opened(path, most_columns) as file, _explained(path):
        return _frame(arrow.Table.from_batches(list(file.iter_batches()), file.schema_arrow), path)


def parquet_pieces(path: str, rows: int, most_columns: int, most_cells: int) -> Iterator[DataFrame]:
    """A table so many rows, and at most so many cells, at a time."""
    arrow = _need_pyarrow()
    with _opened(path, most_columns) as file:
        batches = file.iter_batches(min(rows, max(1, most_cells // max(len(file.schema_arrow), 1))))
        while True:
            with _explained(path):
                batch = next(batches, None)
                if batch is None:
                    return
                piece = _frame(arrow.Table.from_batches([batch]), path)
            yield piece


@contextmanager
def _opened(path: str, most_columns: int) -> Iterator[Any]:
    _need_pyarrow()
    # A file that does not exist or may not be read is an error of the system; any other error is the file's.
    open(path, "rb").close()
    with _explained(path):
        file = import_module("pyarrow.parquet").ParquetFile(path)
    with file:
        if len(file.schema_arrow) > most_columns:
            raise ValueError(f"{path} has {len(file.schema_arrow)} columns; at most {most_columns} can be read")
        yield file


def _frame(table: Any, path: str) -> DataFrame:
    """An Arrow table as numbers, booleans, dates and texts. Metadata that pandas wrote is ignored."""
    names = [name for name in table.column_names if not _ROW_NUMBERS.fullmatch(name)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise _Refused(f"{path} has the column {twice!r} twice")
    table = table.select(names).replace_schema_metadata()
    table.validate(full=True)
    return _plain(table, path).to_pandas()


def _plain(table: Any, path: str) -> Any:
    """Decimal numbers as floats; refuses lists, records, bytes and extension types."""
    arrow = _need_pyarrow()
    columns = []
    for column, field in zip(table.columns, table.schema, strict=True):
        kind = field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
        tests = (arrow.types.is_nested, arrow.types.is_binary, arrow.types.is_large_binary)
        if any(test(kind) for test in (*tests, arrow.types.is_fixed_size_binary)) or hasattr(kind, "extension_name"):
            raise _Refused(f"{path}: the column {field.name!r} holds {kind}, not numbers, booleans, dates or text")
        columns.append(column.cast(arrow.float64()) if arrow.types.is_decimal(kind) else column)
    return arrow.table(columns, names=table.column_names)


class _Refused(ValueError):
    """An error whose message is complete."""


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Whatever reading a damaged file raises, as one error that names it."""
    try:
        yield
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # pyarrow raises exceptions of nearly all kinds
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path} is not a Parquet file that can be read: {reason:.200}") from None


def _need_pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: install kernelkin[parquet]") from error
