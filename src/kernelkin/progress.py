"""Progress display: lines in a log, or a bar on a terminal, with the time left.

tqdm is not used because it does not support steps of different length, does not escape control characters, and raises
an error when its stream is closed.
"""

from __future__ import annotations

import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import Lock
from typing import TextIO

INTERVAL = 5.0  # seconds between two lines about the same step in a log
REDRAW = 0.1  # seconds between two updates of the bar for the same step
LEAST = 0.03  # share of the work after which the time left is estimated
GROWTH = 1.25  # the time left that is shown grows at most by this factor
_BAR = 20  # characters of the bar
_CLEAR = "\r\x1b[K"  # erases the line that was drawn last


class Progress:
    """Show the current step and an estimate of the remaining time, from the durations measured so far.

    Methods may be called from any thread. If the stream cannot be written, such as a closed pipe, the display stops and
    the work continues. `weights` are the relative durations of the `total` steps; equal by default. Nothing is shown
    unless `shown`.

    >>> with Progress(2, stream=sys.stdout) as progress:
    ...     progress.begin("average kernel")
    ...     progress.begin("MK-MTRL")
    [1/2] average kernel
    [2/2] MK-MTRL
    """

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        weights: Sequence[float] | None = None,
        shown: bool = True,
    ) -> None:
        self._ends = list(accumulate(weights or [1.0] * total, initial=0.0))
        self._stream, self._clock = (sys.stderr if stream is None else stream) if shown else None, clock
        self._bar = self._stream is not None and self._stream.isatty()
        self._start = self._last = clock()
        self.number, self._text, self._left = 0, "", 0.0
        self._lock = Lock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def begin(self, text: str) -> None:
        """Begin the next step; the previous one is finished."""
        with self._lock:
            self.number, self._text = self.number + 1, text
            self._show(0.0, text)

    def share(self, share: float, text: str = "") -> None:
        """Show the finished share of the current step, between 0 and 1, unless the display changed just before."""
        with self._lock:
            if self._clock() - self._last >= (REDRAW if self._bar else INTERVAL):
                self._show(share, f"{self._text}: {text}" if text else self._text)

    def clear(self) -> None:
        """Remove the bar from a terminal to print other text; the next step draws it again."""
        with self._lock:
            if self._bar:
                self._write(_CLEAR)

    def _show(self, share: float, text: str) -> None:
        self._last, total = self._clock(), len(self._ends) - 1
        before, after = self._ends[self.number - 1 : self.number + 1]
        done = before + share * (after - before)
        left = (self._last - self._start) * (self._ends[-1] - done) / done if done > LEAST * self._ends[-1] else 0.0
        self._left = left = min(left, GROWTH * self._left) if self._left >= 1 else left
        line = f"[{self.number:{len(str(total))}d}/{total}] {printable(text)}"
        line += f", about {duration(left)} left" if left >= 1 else ""
        if self._bar:
            filled = round(_BAR * min(done / self._ends[-1], 1.0))
            shown = line[: shutil.get_terminal_size().columns - _BAR - 2]
            self._write(f"{_CLEAR}{'#' * filled}{'.' * (_BAR - filled)} {shown}")
        else:
            self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()
        except (OSError, ValueError):  # closed, full, or unable to encode the text
            self._stream, self._bar = None, False


def printable(text: str) -> str:
    """Return text with control, direction and line separator characters escaped, so that it is safe to print."""
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in hidden else c for c in text)


def duration(seconds: float) -> str:
    """
    >>> [duration(seconds) for seconds in (3.2, 61, 600, 7300)]
    ['4 s', '61 s', '10 min', '2 h 2 min']
    """
    if seconds <= 120:
        return f"{-int(-seconds // 1)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
