"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EISDIR, ENOSPC
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

# One block of a file system, to detect a full disk.
_PROBE = bytes(4096)
_FULL = (ENOSPC, EDQUOT, EFBIG)


@contextmanager
def open_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that is replaced only when complete: readers find the old or the new content, even after a kill.

    The new file keeps the permissions of the old one; a new file follows the umask. Anything that is not a regular
    file, such as a pipe, is written to directly. A kill may leave a hidden `.part` file, which is never read.
    """
    # A link stays a link.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _named(path), open(target, "wb") as file:
            yield file
        return
    # A short name, because the target's name may have the maximum length; random, so that writers do not collide.
    partial = target.with_name(f".{os.getpid()}-{token_hex(4)}.part")
    try:
        with _named(path, partial):
            with open(partial, "xb") as file:
                if target.exists():
                    shutil.copymode(target, partial)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: str | os.PathLike[str], content: bytes | str) -> None:
    with open_whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | os.PathLike[str], *inputs: str | None) -> None:
    """Raise early if a file cannot be written: it is one of the inputs, or no folder, no permission or no space."""
    target = Path(os.path.realpath(path))
    if str(target) in [os.path.realpath(each) for each in inputs if each]:
        raise ValueError(f"{path} is read by this command and would be replaced: write to another file")
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} to write {Path(path).name!r} to")
    if target.exists() and not target.is_file():
        return
    partial = target.with_name(f".{os.getpid()}-{token_hex(4)}.part")
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
