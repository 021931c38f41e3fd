"""Atomic file writing, folders of cached results, and keys for them.

Results are NumPy archives. joblib's Memory stores pickles, and reading a pickle can execute code.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, EISDIR, ENOSPC
from pathlib import Path
from secrets import token_hex
from types import FunctionType
from typing import Any, BinaryIO, Self

import joblib
import numpy as np

# One block of a file system, to detect a full disk.
_PROBE = bytes(4096)
_FULL = (ENOSPC, EDQUOT, EFBIG)
# Packages whose code changes only with their version, so that names identify it.
_LIBRARIES = ("builtins", "copyreg", "functools", "kernelkin", "numpy", "scipy", "sklearn")


@contextmanager
def open_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that is replaced only when complete: readers find the old or the new content, even after a kill.

    The new file keeps the permissions of the old one and, if the system allows, its owner and group; a new file follows
    the umask. Anything that is not a regular file, such as a pipe, is written to directly. A kill may leave a hidden
    `.part` file, which is never read.
    """
    # A link stays a link.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _named(path), open(target, "wb") as file:
            yield file
        return
    # A short name, because the target's name may have the maximum length; random, so that writers do not collide.
    partial = target.with_name(f".{os.getpid()}-{token_hex(4)}.part")
    # Private until its owner is set, so that nobody can read it who could not read the old file.
    mode = 0o600 if target.exists() else 0o666
    try:
        with _named(path, partial):
            with open(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                _copy_permissions(target, partial)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _copy_permissions(target: Path, partial: Path) -> None:
    """Give `partial` the owner, group and mode of `target`, if there is one and as far as the system allows."""
    if not target.exists():
        return
    known = target.stat()
    for owner in ((-1, known.st_gid), (known.st_uid, -1)):
        with suppress(PermissionError, AttributeError):
            os.chown(partial, *owner)
    # Another group must not get the access of the old one.
    kept = 0o7777 if partial.stat().st_gid == known.st_gid else 0o707
    os.chmod(partial, known.st_mode & kept)


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    with open_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise early if a file cannot be written: no folder, no permission or no space."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} to write {Path(path).name!r} to")
    if target.is_file() or not target.exists():
        _probe(target.parent, path)


class Folder:
    """A folder with one file for each cached result. Several processes may use it at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fspath(path):
            raise ValueError("the name of a folder is empty")
        self.path = Path(path)

    def prepare(self) -> Self:
        """Create the folder; raise if it cannot be written to."""
        self.path.mkdir(parents=True, exist_ok=True)
        _probe(self.path, self.path)
        return self

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        return (self.path / name).read_bytes() if (self.path / name).exists() else None

    def write(self, name: str, content: bytes | str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)

    def read_arrays(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays of a file, or None if it does not exist or is damaged."""
        content = self.read(name)
        if content is None:
            return None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return dict(arrays)
        except Exception:  # damaged archives and arrays raise errors of many types
            return None

    def write_arrays(self, name: str, **arrays: Any) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        self.write(name, buffer.getvalue())


def fingerprint(*parts: Any) -> str:
    """Return a hexadecimal key that depends on data, parameters, estimators and the version of this library.

    Functions and classes of the user raise a ValueError, because their code can change while their names do not.

    >>> fingerprint([1, 2.0]) == fingerprint([1, 2.0]), fingerprint([1, 2.0]) == fingerprint([1, 2])
    (True, False)
    """
    from . import __version__

    _CodeCheck(io.BytesIO()).dump(parts)
    return joblib.hash([__version__, *parts])


class _CodeCheck(pickle.Pickler):
    """Raise for functions and classes of the user."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, FunctionType | type) and thing.__module__.partition(".")[0] not in _LIBRARIES:
            raise ValueError(
                f"a cache cannot detect when your function or class {thing.__module__}.{thing.__qualname__} changes: "
                "use kernels of this library, kernels='precomputed', or no cache"
            )
        return NotImplemented


def _probe(folder: Path, path: str | os.PathLike[str]) -> None:
    """Write a block and remove it; errors name `path`."""
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
    """Make write errors name the file that the user gave."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in _FULL
        if nameless or (partial is not None and error.filename == str(partial)):
            raise OSError(error.errno, f"cannot write: {error.strerror}", os.fspath(path)) from error
        raise
