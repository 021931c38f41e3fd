"""Records of a text table with the text they were read from, so that it can be written again as it was."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

# A line after the last one. No text that is read contains NUL.
_END = "\0"


@dataclass(frozen=True)
class Record:
    """The cells of one row, and its text: one line, or several where quoted cells contain ends of lines."""

    cells: list[str]
    text: str

    def fitted(self, n: int, row: int) -> list[str]:
        """n cells: those that are absent are empty, and one that is too many is dropped if it is empty."""
        if len(self.cells) > n and any(self.cells[n:]):
            raise csv.Error(too_many_fields(f"row {row}", len(self.cells), n))
        return self.cells[:n] + [""] * (n - len(self.cells))

    def with_cells(self, cells: Sequence[str], n: int, separator: str) -> str:
        """The text with more cells, from column n on; nothing else is changed."""
        added = separator.join(_quoted(cell, separator) for cell in cells)
        body = self.text.removesuffix("\n").removesuffix("\r")
        end = self.text[len(body) :]
        spare = len(self.cells) - n
        if spare == 1 and body.endswith(separator):
            return f"{body}{added}{end}"
        if spare > 0:
            body = separator.join(_quoted(given, separator) for given in self.cells[:n])
        return f"{body}{separator * (1 + max(-spare, 0))}{added}{end}"


def read_records(lines: Iterable[str], separator: str) -> Iterator[Record]:
    """Records of lines that still have their ends; blank lines are left out."""
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in chain(lines, [_END]):
            taken.append(line)
            yield line

    blank = " \t\r\n".replace(separator, "")
    count = 0
    for cells in csv.reader(noted(), delimiter=separator):
        text = "".join(taken)
        taken.clear()
        if text == _END:
            return
        if text.endswith(_END):
            raise csv.Error(never_closed(count))
        if text.strip(blank):
            count += 1
            yield Record(cells, text)


def too_many_fields(where: str, fields: int, n: int) -> str:
    """What is wrong with a row that has more fields than its header."""
    if n == 1:
        advice = "remove what is above the header, or set what separates columns (--sep)"
    else:
        advice = "put quotation marks around texts that contain the separator"
    return f"{where} has {fields} fields, but the header has {n}: {advice}"


def never_closed(row: int) -> str:
    """What is wrong where a quotation mark opens in a row, or in the header, row 0, and no other follows."""
    where = f"row {row}" if row else "the header"
    return f"a quotation mark opens in {where} and is never closed: close it or remove it"


@contextmanager
def long_cells(characters: int) -> Iterator[None]:
    """Cells of so many characters are read; Python's limit is much lower, and one for the whole process."""
    before = csv.field_size_limit(characters)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _quoted(cell: str, separator: str) -> str:
    """
    >>> _quoted('a "b", c', ",")
    '"a ""b"", c"'
    """
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=separator, lineterminator="").writerow([cell])
    # A row of one empty cell is written as quotes, to be no blank line.
    return buffer.getvalue() if cell else ""
