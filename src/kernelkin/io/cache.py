"""Finished results on disk, so that work that was interrupted continues where it stopped."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from .storage import Folder

_KEY = re.compile(r"[\w-]+(/[\w-]+)*")


class ResultCache:
    """Arrays by key, one file for each key. Any number of processes may use a folder at once.

    Parameters
    ----------
    folder : str, path or None
        Where to keep the files: created if it does not exist, and refused if it cannot be written to. None keeps
        nothing: `load` finds nothing and `store` does nothing.

    Notes
    -----
    A key has to change with everything that the result depends on: use `fingerprint`. It consists of letters, digits,
    `_` and `-`; with `/` the file is put in a subfolder. A file is written completely or not at all; one that is
    damaged counts as missing, so that its result is computed again.

    Examples
    --------
    >>> import tempfile
    >>> from kernelkin.io.cache import ResultCache
    >>> from kernelkin.io.fingerprint import fingerprint
    >>> key = fingerprint("squares", 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = ResultCache(folder)
    ...     print(cache.load(key))
    ...     cache.store(key, values=[0, 1, 4])
    ...     print(cache.load(key))
    None
    {'values': array([0, 1, 4])}
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = None if folder is None else Folder(folder)
        if self._folder is not None:
            self._folder.prepare()

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays that were stored under this key, or None."""
        return None if self._folder is None else self._folder.read_arrays(_file_name(key))

    def store(self, key: str, **arrays: Any) -> None:
        """Keep what `np.asarray` makes of these; objects are refused, since reading them could execute code."""
        if self._folder is None:
            return
        values = {name: np.asarray(array) for name, array in arrays.items()}
        for name, value in values.items():
            if value.dtype.hasobject:
                raise TypeError(f"a cache keeps numbers and text: {name!r} is an array of objects")
        self._folder.write_arrays(_file_name(key), **values)


def _file_name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"a key consists of letters, digits, '_', '-' and '/', got {key!r:.80}")
    return f"{key}.npz"
