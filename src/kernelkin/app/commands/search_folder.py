"""Where a search keeps its finished parts, so that an interrupted one continues with the same command."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...storage import Folder
from ..terminal import complain

# As long as most file systems allow.
_LONGEST_NAME = 255


@contextmanager
def search_folder(arguments: Namespace) -> Iterator[Path | None]:
    """The folder that --cache names, or `MODEL.search` beside the model, which is removed after success."""
    beside = Path(f"{arguments.out}.search")
    out = Path(arguments.out)
    a_file = out.is_file() or not out.exists()
    if not arguments.cv or arguments.cache or not a_file or len(os.fsencode(beside.name)) > _LONGEST_NAME:
        yield Path(arguments.cache) if arguments.cache else None
        return
    Folder(beside).prepare()
    kept = f"the finished parts of the search are in {beside}, and the same command continues from there"
    try:
        yield beside
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept if _remove_if_empty(beside) else "") from None
    except Exception:
        if _remove_if_empty(beside):
            complain(kept)
        raise
    _remove(beside)


def _remove(folder: Path) -> None:
    """Remove what a search stored, and the folder if nothing else is in it."""
    for pattern in ("*.npz", ".*.part"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    _remove_if_empty(folder)


def _remove_if_empty(folder: Path) -> bool:
    """Whether it is still there."""
    try:
        folder.rmdir()
    except OSError:
        return folder.exists()
    return False
