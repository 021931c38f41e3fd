"""Files that are there whole or not at all, and folders of finished work that outlive a kill."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EISDIR, ENOSPC
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, TextIO

import numpy as np

# As much as a file system gives at once: a full disk has not even that.
_PROBE = bytes(4096)
_FULL = (ENOSPC, EDQUOT, EFBIG)


@contextmanager
def open_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that appears when it is complete: a reader, or a kill, finds the old one or the new one, nothing between.

    What is no file, such as a pipe, is written to as it is. A kill may leave a `.part` file, which nobody reads.
    """
    # A link stays a link.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _named(path), open(target, "wb") as file:
            yield file
        return
    # Short, since the name of the file may be as long as names can be, and one for each writer.
    partial = target.with_name(f".{os.getpid()}-{token_hex(4)}.part")
    try:
        with _named(path, partial):
            with open(partial, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def open_text_whole(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """The same for text in UTF-8 whose line ends stay as they are."""
    with open_whole(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.detach()


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    with open_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, to write where there is no folder, no permission or no space."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} to write {Path(path).name!r} to")
    if target.is_file() or not target.exists():
        _probe(target.parent, path)


class Folder:
    """Finished pieces of work, a file for each. Any number of processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fspath(path):
            raise ValueError("the name of a folder is empty")
        self.path = Path(path)

    def prepare(self) -> None:
        """Make it, and refuse one that nothing can be written to."""
        self.path.mkdir(parents=True, exist_ok=True)
        _probe(self.path, self.path)

    def read(self, name: str) -> bytes | None:
        """None where there is nothing of this name."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes | str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)

    def read_arrays(self, name: str) -> dict[str, np.ndarray] | None:
        """None also where a file was damaged: what it held can be computed again."""
        content = self.read(name)
        if content is None:
            return None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception:  # whatever zip files and arrays raise where they are damaged
            return None

    def write_arrays(self, name: str, **arrays: Any) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        self.write(name, buffer.getvalue())


def _probe(folder: Path, path: str | os.PathLike[str]) -> None:
    """Write a little and take it away again; an error names `path`."""
    partial = folder / f".{os.getpid()}-{token_hex(4)}.part"
    try:
        with _named(path, partial), open(partial, "xb") as file:
            file.write(_PROBE)
            file.flush()
            os.fsync(file.fileno())
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _named(path: str | os.PathLike[str], partial: Path | None = None) -> Iterator[None]:
    """Errors of writing name the file that a user knows."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in _FULL
        if nameless or (partial is not None and error.filename == str(partial)):
            raise OSError(error.errno, f"cannot write: {error.strerror}", os.fspath(path)) from error
        raise
