"""What commands write to: rich tables and progress bars on a terminal, plain text elsewhere or without rich."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Seconds between two plain lines about one fit.
PATIENCE = 5.0


class Terminal:
    """Says, tabulates, and shows progress."""

    def __init__(self) -> None:
        self._rich = _rich_console()

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, the others to the right; an empty row becomes a line."""
        if self._rich is None:
            self.say(plain_table(columns, rows))
        else:
            self._rich.print(_rich_table(columns, rows))

    @contextmanager
    def progress(self, total: int) -> Iterator[Progress]:
        """Gives a function to call, `total` times, with what is being done next."""
        if self._rich is None:
            yield Progress(total, PlainLines(total))
            return
        from rich.progress import Progress as Bars

        with Bars(console=self._rich, transient=True) as bars:
            bar = bars.add_task("", total=total)
            yield Progress(total, lambda piece, text, done, left: bars.update(bar, description=text, completed=done))


class Progress:
    """How much of `total` pieces of work is done.

    `show` gets the piece under way, a text, how many are done (parts count) and the seconds left, None if unknown.
    """

    def __init__(self, total: int, show: Callable[[int, str, float, float | None], object]) -> None:
        self._total, self._show = total, show
        self._begun, self._text, self._start = 0, "", time.monotonic()

    def __call__(self, text: str) -> None:
        """The next piece begins."""
        self._begun, self._text = self._begun + 1, text
        self._tell(text, 0.0)

    def part(self, done: int, of: int) -> None:
        """So many candidates of a search, the piece under way, are done on a fold."""
        self._tell(f"{self._text}: candidate {done} of {of} on folds", done / of)

    def _tell(self, text: str, share: float) -> None:
        done = self._begun - 1 + share
        left = (time.monotonic() - self._start) * (self._total - done) / done if done else None
        self._show(self._begun, text, done, left)


class PlainLines:
    """Progress as lines on standard error: one for each piece of work, and more where a piece takes long."""

    def __init__(self, total: int) -> None:
        self._total, self._piece, self._last = total, 0, 0.0

    def __call__(self, piece: int, text: str, done: float, left: float | None) -> None:
        now = time.monotonic()
        if piece == self._piece and now - self._last < PATIENCE:
            return
        self._piece, self._last = piece, now
        soon = f", about {_duration(left)} left" if left is not None and left >= 1 else ""
        print(f"[{piece:{len(str(self._total))}d}/{self._total}] {text}{soon}", file=sys.stderr, flush=True)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """
    >>> print(plain_table(["task", "score"], [["a", "0.9"], [], ["mean", "0.9"]]))
    task  score
    -----------
    a       0.9
    -----------
    mean    0.9
    """
    widths = [max(map(len, column)) for column in zip(columns, *filter(None, rows), strict=True)]
    line = "-" * (sum(widths) + 2 * (len(widths) - 1))

    def row(cells: Sequence[str]) -> str:
        if not cells:
            return line
        return "  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])

    return "\n".join([row(columns), line, *map(row, rows)])


def _duration(seconds: float) -> str:
    """
    >>> [_duration(seconds) for seconds in (3.2, 61, 600, 7300)]
    ['4 s', '2 min', '10 min', '2 h 2 min']
    """
    if seconds <= 60:
        return f"{-int(-seconds // 1)} s"
    minutes = -int(-seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _rich_console() -> Any:
    """A rich console, where rich is installed and somebody is looking."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(highlight=False)


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE, header_style="bold", padding=(0, 1))
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        if row:
            table.add_row(*row)
        else:
            table.add_section()
    return table
