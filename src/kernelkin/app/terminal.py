"""Where commands print. All text passes through here, so that nothing in a user's data can steer the terminal."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress

from ..progress import Progress, printable

# The symbols that our own texts use, for terminals without them.
_ASCII = str.maketrans({"²": "2", "±": "+/-"})


class Terminal:
    """Standard output.

    Parameters
    ----------
    keep_going : bool
        Whether a command continues when nobody reads its output any more (`kernelkin fit ... | head -1`), because what
        it makes is a file. What went wrong is then in `lost`.
    """

    def __init__(self, *, keep_going: bool = False) -> None:
        self._keep_going = keep_going
        self.lost: OSError | None = None
        if sys.stdout is None and not keep_going:
            raise ValueError("standard output is closed")

    def say(self, *lines: str) -> None:
        """Print lines, each with its control characters escaped; an empty line where none is given."""
        self._write("".join(f"{printable(line)}\n" for line in lines or ("",)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, the others to the right; an empty row becomes a line."""
        self._write(format_table(columns, rows) + "\n")

    def progress(self, total: int) -> Progress:
        """The progress of so many steps, on standard error."""
        return Progress(total)

    def _write(self, text: str) -> None:
        if self.lost is not None or sys.stdout is None:
            return
        try:
            sys.stdout.write(encodable(text, sys.stdout.encoding or "utf-8"))
            sys.stdout.flush()
        except OSError as error:
            if not self._keep_going:
                raise
            self.lost = error


def complain(text: str) -> None:
    """Print one line on standard error, if there is one."""
    with suppress(OSError):
        if sys.stderr is not None:
            print(f"kernelkin: {printable(' '.join(text.split()))}", file=sys.stderr, flush=True)


def encodable(text: str, encoding: str) -> str:
    """The text, with what an encoding does not have written in ASCII.

    >>> encodable("R² of café: 0.9 ± 0.1", "ascii")
    'R2 of caf\\\\xe9: 0.9 +/- 0.1'
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text


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
