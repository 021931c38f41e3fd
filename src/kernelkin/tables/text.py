"""Text files, packed or not: opened for reading with their header, or for writing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ..io.storage import check_writable, open_whole
from .records import long_cells, read_records

STDIN = STDOUT = "-"
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_UNPACK: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": lambda path: _open_zip(path),
}
_PACK: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
}
# A header that is longer than this is none.
MOST_CHARACTERS = 2**26


# Unicode's mark of the byte order, with which some programs begin a file.
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class TextTable:
    """An open text file from its beginning: as a file or by lines, of which one can be read, and once.

    `header` are the names of its columns, which `separator` separates; `marked` says that a byte order mark, which the
    text does not contain, is before them.
    """

    file: io.TextIOBase
    lines: Iterator[str]
    header: list[str]
    separator: str
    marked: bool


@contextmanager
def open_text(path: str) -> Iterator[TextTable]:
    """Open a text file for reading, unpacked; "-" is standard input."""
    separator = input_separator(path)
    with ExitStack() as stack:
        if path == STDIN:
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(encoding="utf-8", errors="strict", newline="")
            file: TextIO = sys.stdin
        else:
            raw = stack.enter_context(_UNPACK.get(Path(path).suffix.lower(), io.FileIO)(path))
            file = stack.enter_context(io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", newline=""))
        stack.enter_context(long_cells(MOST_CHARACTERS))
        first, head = file.readline(MOST_CHARACTERS), list[str]()
        text = first.removeprefix(BYTE_ORDER_MARK)
        header = next((row.cells for row in read_records(_header_lines(text, file, path, head), separator)), [])
        lines = chain(head, _checked(file, path))
        yield TextTable(_Rejoined("".join(head), file, path), lines, header, separator, marked=text != first)


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """A text file in UTF-8, packed by its ending, that appears when it is complete; "-" is standard output."""
    with ExitStack() as stack:
        if path == STDOUT:
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:  # a stream of text that replaces standard output
                yield sys.stdout
                return
            sys.stdout.flush()
        else:
            stream = stack.enter_context(open_whole(path))
            if pack := _PACK.get(Path(path).suffix.lower()):
                stream = stack.enter_context(pack(stream))
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            _detach(text)


def check_output(path: str) -> str:
    """What separates the columns of an output file; refuses, before any work is done, one that cannot be written."""
    if path == STDOUT:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        return ","
    endings = ", ".join(SEPARATORS)
    separator = _separator(path, _PACK)
    if separator is None:
        raise ValueError(
            f"{path}: the ending must be one of {endings}, each also with {', '.join(_PACK)}; or - for stdout"
        )
    check_writable(path)
    return separator


def input_separator(path: str) -> str:
    """What separates the columns of a file that is read."""
    separator = "," if path == STDIN else _separator(path, _UNPACK)
    if separator is None:
        raise ValueError(
            f"{path}: the ending must be one of {', '.join(SEPARATORS)}, each also with {', '.join(_UNPACK)}, or "
            ".parquet; or - for CSV on stdin"
        )
    return separator


def display_name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _separator(path: str, packed: dict[str, Any]) -> str | None:
    endings = [ending.lower() for ending in Path(path).suffixes]
    if endings and endings[-1] in packed:
        endings.pop()
    return SEPARATORS.get(endings[-1]) if endings else None


def _detach(text: io.TextIOWrapper) -> None:
    """Leave the stream below open; what could not be written to it was reported already."""
    with suppress(OSError, ValueError):
        text.detach()


def _header_lines(line: str, file: TextIO, path: str, read: list[str]) -> Iterator[str]:
    """The first line and those of a file, each appended to `read` before it is given; one without end is refused."""
    left = MOST_CHARACTERS
    while line:
        _refuse_nul(line, path)
        left -= len(line)
        if left <= 0:
            raise ValueError(
                f"{display_name(path)} is not a table: its header has more than {MOST_CHARACTERS} characters"
            )
        read.append(line)
        yield line
        line = file.readline(left)


def _checked(file: TextIO, path: str) -> Iterator[str]:
    for line in file:
        _refuse_nul(line, path)
        yield line


def _refuse_nul(text: str, path: str) -> None:
    """pandas would end a cell there, so that two different names become one."""
    if "\0" in text:
        raise ValueError(f"{display_name(path)} is not a table: it contains the character NUL")


class _Rejoined(io.TextIOBase):
    """A text file from its beginning, of which the head was read already."""

    def __init__(self, head: str, rest: TextIO, path: str) -> None:
        self._head, self._rest, self._path = head, rest, path

    def read(self, size: int | None = -1, /) -> str:
        if size is None or size < 0:
            text, self._head = self._head + self._rest.read(), ""
        elif self._head:
            text, self._head = self._head[:size], self._head[size:]
        else:
            text = self._rest.read(size)
        _refuse_nul(text, self._path)
        return text


def _open_zip(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        if len(archive.namelist()) != 1:
            raise ValueError(f"{path} contains {len(archive.namelist())} files, not one")
        return archive.open(archive.namelist()[0])
