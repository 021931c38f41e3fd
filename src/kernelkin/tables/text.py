"""Text files, packed or not: opened for reading with their header, or for writing."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from ..files import check_writable, open_whole
from .numbers import Decimal

STDIN = STDOUT = "-"
# Tried in this order where the header has not the usual one.
OTHER_SEPARATORS = (";", "\t", "|")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_UNPACK: dict[str, Callable[[str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": lambda path: _open_zip(path),
    ".zst": lambda path: _open_zst(path),
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
_OTHER_FORMATS = {"JSON": re.compile(r'\s*(\{\s*("|$)|\[\s*([\[{]|$))'), "HTML or XML": re.compile(r"\s*<[!?a-zA-Z]")}


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written.

    Attributes
    ----------
    separator : what separates columns; None: what its ending says, or where its header has no comma, what that has.
    encoding : of its characters.
    decimal : what separates the fractions of numbers.
    """

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: Decimal = "."

    def __post_init__(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            raise ValueError(f"columns are separated by one character, not by {self.separator!r}")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"no encoding is named {self.encoding!r}; try utf-8, cp1252 or utf-16") from None


class TextTable(NamedTuple):
    """An open text file from its beginning, the names of its columns, and what separates them."""

    file: io.TextIOBase
    header: list[str]
    separator: str


@contextmanager
def open_text(path: str, form: TextFormat) -> Iterator[TextTable]:
    """Open a text file for reading, unpacked; "-" is standard input."""
    separator = form.separator or input_separator(path)
    with ExitStack() as stack:
        if path == STDIN:
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(encoding=form.encoding, errors="strict", newline="")
            file: TextIO = sys.stdin
        else:
            raw = stack.enter_context(_UNPACK.get(Path(path).suffix.lower(), io.FileIO)(path))
            file = stack.enter_context(io.TextIOWrapper(io.BufferedReader(raw), encoding=form.encoding, newline=""))
        first, head = file.readline(MOST_CHARACTERS).removeprefix(BYTE_ORDER_MARK), list[str]()
        _refuse_other_formats(first, path)
        if form.separator is None and separator not in first:
            separator = next((mark for mark in OTHER_SEPARATORS if mark in first), separator)
        before = csv.field_size_limit(MOST_CHARACTERS)
        try:
            lines = csv.reader(_header_lines(first, file, path, head), delimiter=separator, strict=True)
            header = next((cells for cells in lines if any(cells) or len(cells) > 1), [])
        finally:
            csv.field_size_limit(before)
        yield TextTable(_Rejoined("".join(head), file, path), header, separator)


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
            # The stream below stays open; what could not be written to it was reported already.
            with suppress(OSError, ValueError):
                text.detach()


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
            ".parquet or .xlsx; or - for CSV on stdin"
        )
    return separator


def display_name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _separator(path: str, packed: dict[str, Any]) -> str | None:
    endings = [ending.lower() for ending in Path(path).suffixes]
    if endings and endings[-1] in packed:
        endings.pop()
    return SEPARATORS.get(endings[-1]) if endings else None


def _refuse_other_formats(first: str, path: str) -> None:
    """Refuse JSON and HTML, which would be read as tables of strange columns."""
    found = next((name for name, pattern in _OTHER_FORMATS.items() if pattern.match(first)), None)
    if found is not None:
        script = "in Python, pandas.read_json('FILE').to_csv('FILE.csv', index=False) makes one"
        advice = script if found == "JSON" else "it may be a page that a server sent in its place"
        raise ValueError(f"{display_name(path)} is {found}, not a table: {advice}")


def _header_lines(line: str, file: TextIO, path: str, read: list[str]) -> Iterator[str]:
    """The first line and those of a file, each appended to `read` before it is given; one without end is refused."""
    left = MOST_CHARACTERS
    while line:
        _refuse_nul(line, path, len(read))
        left -= len(line)
        if left <= 0:
            raise ValueError(
                f"{display_name(path)} is not a table: its header has more than {MOST_CHARACTERS} characters"
            )
        read.append(line)
        yield line
        line = file.readline(left)


def _refuse_nul(text: str, path: str, lines_before: int) -> None:
    """pandas would end a cell there, so that two different names become one."""
    before, nul, _ = text.partition("\0")
    if nul:
        line = lines_before + before.count("\n") + 1
        advice = "if it is UTF-16, say --encoding utf-16" if line == 1 else "remove it"
        raise ValueError(f"{display_name(path)}: line {line} contains the character NUL: {advice}")


class _Rejoined(io.TextIOBase):
    """A text file from its beginning, of which the head was read already."""

    def __init__(self, head: str, rest: TextIO, path: str) -> None:
        self._head, self._rest, self._path, self._lines = head, rest, path, 0

    def read(self, size: int | None = -1, /) -> str:
        if size is None or size < 0:
            text, self._head = self._head + self._rest.read(), ""
        elif self._head:
            text, self._head = self._head[:size], self._head[size:]
        else:
            text = self._rest.read(size)
        _refuse_nul(text, self._path, self._lines)
        self._lines += text.count("\n")
        return text


def undecodable_line(path: str, encoding: str) -> int | None:
    """The number of the first line that is not text in this encoding; None where that is not known."""
    if path == STDIN or encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
        return None
    with _UNPACK.get(Path(path).suffix.lower(), io.FileIO)(path) as raw, io.BufferedReader(raw) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return None


def _open_zip(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        if len(archive.namelist()) != 1:
            raise ValueError(f"{path} contains {len(archive.namelist())} files, not one")
        return archive.open(archive.namelist()[0])


def _open_zst(path: str) -> Any:
    """A file packed by Zstandard: by Python from 3.14 on, else by pyarrow."""
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd").open(path)
    try:
        arrow = import_module("pyarrow")
    except ImportError as error:
        raise ImportError("reading .zst files needs Python 3.14 or pyarrow: install kernelkin[parquet]") from error
    return _Unpacked(arrow.input_stream(path, compression="zstd"))


class _Unpacked(io.RawIOBase):
    """A stream of Arrow as one of Python; what is damaged is an EOFError, as in the other archives."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            found = self._stream.read(len(buffer))
        except OSError as error:
            raise EOFError(str(error).splitlines()[0]) from None
        buffer[: len(found)] = found
        return len(found)
