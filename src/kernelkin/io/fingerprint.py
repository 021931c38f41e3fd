"""A key for the inputs of a computation: equal inputs have equal keys in any process, different ones different keys."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

# Code that changes only with a version, so that its name stands for it.
_LIBRARIES = ("builtins", "copyreg", "functools", "kernelkin", "numpy", "scipy", "sklearn")
_COMPILED = "_cython"
_PLAIN = (bool, int, str, bytes, complex, type(None), type(...))


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
