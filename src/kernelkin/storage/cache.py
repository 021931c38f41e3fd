"""Finished results on disk, so that work that was interrupted continues where it stopped, and keys for them.

joblib's Memory does much of this. It is not used because its files are pickles, which execute code when they are read,
because its keys depend on the layout of arrays in memory, and because it takes a function of the user that was
changed for the old one.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

from .storage import Folder

# Code that changes only with a version, so that its name stands for it.
_LIBRARIES = ("builtins", "copyreg", "functools", "kernelkin", "numpy", "scipy", "sklearn")
_COMPILED = "_cython"
_PLAIN = (bool, int, str, bytes, complex, type(None), type(...))
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
    >>> from kernelkin.storage.cache import ResultCache, fingerprint
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


def fingerprint(*parts: Any) -> str:
    """64 hexadecimal digits that depend on data, parameters, estimators and the version of this library.

    Functions and classes of the user are refused with a ValueError: their code can change while their names do not.

    >>> fingerprint([1, 2.0]) == fingerprint([1, 2.0]), fingerprint([1, 2.0]) == fingerprint([1, 2])
    (True, False)
    """
    from .. import __version__

    return _digest([__version__, *parts]).hex()


def _digest(thing: Any) -> bytes:
    # The name of the type before the content: no two types share an encoding.
    found = hashlib.sha256(f"{type(thing).__module__}.{type(thing).__qualname__}\0".encode())
    for piece in _pieces(thing):
        found.update(piece)
    return found.digest()


def _pieces(thing: Any) -> Iterable[bytes | memoryview]:
    """What to hash: plain things as text, others as the hashes of their parts."""
    if type(thing) in _PLAIN:
        return [repr(thing).encode()]
    if type(thing) is float:
        return [b"nan" if math.isnan(thing) else thing.hex().encode()]
    if isinstance(thing, np.ndarray):
        return _pieces_of_array(thing)
    if type(thing) in (list, tuple):
        return map(_digest, thing)
    if type(thing) is dict:
        return sorted(_digest(key) + _digest(value) for key, value in thing.items())
    if type(thing) in (set, frozenset):
        return sorted(map(_digest, thing))
    if isinstance(thing, FunctionType | type):
        return [_name(thing).encode()]
    return _pieces_of_object(thing)


def _pieces_of_array(array: np.ndarray) -> Iterable[bytes | memoryview]:
    yield f"{array.dtype.str} {array.dtype.names} {array.shape}\0".encode()
    if array.dtype.hasobject or array.dtype.kind == "T":
        yield _digest(array.tolist())
    else:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _pieces_of_object(thing: Any) -> Iterable[bytes]:
    """As pickle does: the function that creates it, its arguments, and the state."""
    _name(type(thing))
    try:
        parts = thing.__reduce_ex__(4)
    except TypeError as error:
        raise ValueError(f"{type(thing).__name__} cannot be part of a cache key: {error}") from None
    if isinstance(parts, str):
        return [_name(thing).encode()]
    return (_digest(list(part) if hasattr(part, "__next__") else part) for part in parts)


def _name(code: Any) -> str:
    module, name = getattr(code, "__module__", None) or "builtins", getattr(code, "__qualname__", code.__name__)
    if (not module.startswith(_COMPILED) and module.partition(".")[0] not in _LIBRARIES) or "<" in name:
        raise ValueError(
            f"a cache cannot detect when your function or class {module}.{name} changes: use kernels of this library, "
            "kernels='precomputed', or no cache"
        )
    return f"{module}.{name}"
