"""Where a search keeps its finished parts, so that an interrupted one continues with the same command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...io.storage import Folder
from ..terminal import complain

# As long as most file systems allow.
_LONGEST_NAME = 255


@contextmanager
def search_folder(cache: str | None, out: str | None = None) -> Iterator[Path | None]:
    """The folder that --cache names, or else `OUT.search`, which is removed after success; None without either.

    An interrupt says where the finished parts are, or that there are none.
    """
    own = None if cache or out is None else _prepared(_beside(out))
    folder = Path(cache) if cache else own
    if cache:
        Folder(cache).prepare()
    kept = f"the finished parts are in {folder}, and the same command continues from there"
    try:
        yield folder
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept if folder and _remains(folder) else "nothing was kept") from None
    except Exception:
        if own is not None and _remains(own):
            complain(kept)
        raise
    if own is not None:
        _remove(own)


def _prepared(folder: Path | None) -> Path | None:
    """The folder, or None where it cannot be written: it was not requested, and the work can be done without it."""
    try:
        if folder is not None:
            Folder(folder).prepare()
    except OSError:
        return None
    return folder


def _beside(out: str) -> Path | None:
    """A folder beside a file; None for what is no file, such as a pipe, and for names that would be too long."""
    path, folder = Path(out), Path(f"{out}.search")
    fits = len(os.fsencode(folder.name)) <= _LONGEST_NAME
    return folder if fits and (path.is_file() or not path.exists()) else None


def _remove(folder: Path) -> None:
    """Remove what a search stored, and the folder if nothing else is in it."""
    for pattern in ("*.npz", ".*.part"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    _remains(folder)


def _remains(folder: Path) -> bool:
    """Remove a folder if it is empty; whether it is still there."""
    try:
        folder.rmdir()
    except OSError:
        return folder.exists()
    return False
