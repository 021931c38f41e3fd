"""Terminal output. All text is printed here, so that control characters in a user's data are always escaped."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..progress import printable


class Terminal:
    """Standard output.

    With `keep_going`, a command whose result is a file continues when its output is closed (`kernelkin fit ... | head
    -1`); the error is stored in `lost`. With `as_json`, only the objects passed to `emit` are printed.
    """

    def __init__(self, *, keep_going: bool = False, as_json: bool = False) -> None:
        self._keep_going, self._as_json = keep_going, as_json
        self.lost: OSError | None = None

    def emit(self, content: dict[str, Any]) -> None:
        """With `as_json`, print an object as one line of JSON; numbers that are not finite become null."""
        if self._as_json:
            self._write(json.dumps(_finite(content), ensure_ascii=True, allow_nan=False) + "\n")

    def say(self, *lines: str) -> None:
        """Print lines with control characters escaped; print an empty line if none is given."""
        if self._as_json:
            return
        self._write("".join(f"{printable(line)}\n" for line in lines or ("",)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table: the first column left-aligned, the others right-aligned; an empty row becomes a line."""
        if not self._as_json:
            self._write(format_table(columns, rows) + "\n")

    def _write(self, text: str) -> None:
        if self.lost is not None or sys.stdout is None:
            return
        try:
            # Characters that the terminal's encoding does not have are escaped.
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()
        except OSError as error:
            if not self._keep_going:
                raise
            self.lost = error


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(name): _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def complain(text: str) -> None:
    """Print one line on standard error, if there is one."""
    with suppress(OSError):
        if sys.stderr is not None:
            print(f"kernelkin: {printable(' '.join(text.split()))}", file=sys.stderr, flush=True)


def format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """
    >>> print(format_table(["task", "score"], [["a", "0.9"], [], ["mean", "0.9"]]))
    task  score
    -----------
    a       0.9
    -----------
    mean    0.9
    """
    cells = [[printable(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(_width, column)) for column in zip(*filter(None, cells), strict=True)]
    line = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def join(row: Sequence[str]) -> str:
        padded = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        first, *others = zip(row, padded, strict=True)
        return "  ".join([first[0] + first[1], *(pad + cell for cell, pad in others)])

    head, *body = cells
    return "\n".join([join(head), line, *(join(row) if row else line for row in body)])


def _width(text: str) -> int:
    """Return the width on a terminal: two for wide characters, zero for combining marks."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def shorten(rows: list[list[str]], most: int = 20) -> list[list[str]]:
    """Return the first and last rows of a long table, and between them a row with the number of omitted rows."""
    if len(rows) <= most:
        return rows
    between = [f"... {len(rows) - most} more ...", *[""] * (len(rows[0]) - 1)]
    return [*rows[: most // 2], between, *rows[-(most // 2) :]]
