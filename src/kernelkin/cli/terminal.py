"""Where commands print. All text passes through here, so that nothing in a user's data can steer the terminal."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..progress import Progress, printable


class Terminal:
    """Standard output.

    Parameters
    ----------
    keep_going : bool
        Whether a command continues when nobody reads its output any more (`kernelkin fit ... | head -1`), because what
        it makes is a file. What went wrong is then in `lost`.
    """

    def __init__(self, *, keep_going: bool = False) -> None:
        self._keep_going, self._as_json = keep_going, False
        self.lost: OSError | None = None
        if sys.stdout is None and not keep_going:
            raise ValueError("standard output is closed")

    def use_json(self) -> None:
        """From now on print nothing but what is given to `emit`, for scripts."""
        self._as_json = True

    def emit(self, content: dict[str, Any]) -> None:
        """Print an object as one line of JSON, after `use_json`; numbers that are not finite are null."""
        if self._as_json:
            self._write(json.dumps(_finite(content), ensure_ascii=True, allow_nan=False) + "\n")

    def say(self, *lines: str) -> None:
        """Print lines, each with its control characters escaped; an empty line where none is given."""
        if self._as_json:
            return
        self._write("".join(f"{printable(line)}\n" for line in lines or ("",)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, the others to the right; an empty row becomes a line."""
        if not self._as_json:
            self._write(format_table(columns, rows) + "\n")

    def progress(self, total: int, weights: Sequence[float] | None = None) -> Progress:
        """The progress of so many steps, on standard error; `weights` say how long they take beside each other."""
        return Progress(total, weights=weights)

    def _write(self, text: str) -> None:
        if self.lost is not None or sys.stdout is None:
            return
        try:
            # What the encoding of the terminal does not have is escaped.
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
    """Columns on a terminal: two for wide characters, none for marks that combine with others."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
