"""Convert Python values to JSON and arrays, the content of a model file, and back.

A value that is not a number, text or None is a node of one flat list, and `{"at": 3}` refers to the fourth node. Nodes
refer to earlier nodes only, so that no value contains itself. Objects are created without calling any code of their
class: no constructor and no hook.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

# Limits that are checked before the JSON is parsed, far above those of any model.
MOST_BYTES, MOST_PARTS = 2**28, 5_000_000
# Models nest about twenty levels at most; the limit protects later recursive readers.
MOST_LEVELS = 100
# Limit for dimensions of empty arrays, which the size of the file does not bound.
MOST_EMPTY = 10**7
_DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248]|c8|c16|[US]\d{1,9}|[mM]8(\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns)\])?)")
# Modules whose classes may be part of a model.
_MODULE = re.compile(r"kernelkin\.(calibration|data|engines\.threads|kernels|kin|mixed|paper|relations|tables)(\.\w+)*")
_LINEAR_MODELS, _LINEAR_CLASSES = "sklearn.linear_model", ("Lasso", "LinearRegression")
_PLAIN = (bool, int, float, str, type(None))


class ValueFault(ValueError):
    """A value that cannot be part of a model file; the message gives its location."""


def dump(value: Any) -> tuple[bytes, bytes]:
    """Return a value as JSON and the bytes of its arrays."""
    writer = _Writer()
    root = writer.write(value, "")
    text = json.dumps({"nodes": writer.nodes, "root": root}, separators=(",", ":"))
    return text.encode(), b"".join(writer.arrays)


def load(text: bytes, arrays: bytes) -> Any:
    """Return the value that was passed to `dump`; raise ValueFault for invalid content."""
    parts = sum(text.count(mark) for mark in (b"[", b"{", b","))
    if len(text) > MOST_BYTES or parts > MOST_PARTS:
        raise ValueFault(f"it has {len(text)} bytes of JSON with {parts} parts, more than any model has")
    try:
        content = json.loads(text)
        return _Reader(content["nodes"], arrays).finish(content["root"])
    except ValueFault:
        raise
    except Exception as error:  # values of unexpected types raise errors of many types
        raise ValueFault(f"it does not hold the values of a model ({type(error).__name__}: {error})") from error


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.arrays: list[bytes] = []
        self._end = 0
        # By id: the position of a value, and the value itself, which keeps its id from being reused.
        self._known: dict[int, tuple[dict[str, int] | None, Any]] = {}

    def write(self, value: Any, path: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if id(value) in self._known:
            place = self._known[id(value)][0]
            if place is None:
                raise ValueFault(f"{path or 'the value'} contains itself")
            return place
        self._known[id(value)] = None, value
        node = self._node(value, path)
        place = {"at": len(self.nodes)}
        self.nodes.append(node)
        self._known[id(value)] = place, value
        return place

    def _node(self, value: Any, path: str) -> list[Any]:
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value), path)
        if type(value) in (list, tuple):
            return [type(value).__name__, [self.write(item, f"{path}[{i}]") for i, item in enumerate(value)]]
        if type(value) is dict:
            return ["dict", [[self.write(k, path), self.write(v, f"{path}[{k!r:.40}]")] for k, v in value.items()]]
        if type(value) is SimpleNamespace:
            return ["namespace", self.write(vars(value), path)]
        if isinstance(value, slice):
            return ["slice", [self.write(end, path) for end in (value.start, value.stop, value.step)]]
        if hasattr(value, "iloc") and path.endswith("task_features"):
            from ..kin.task_features import read_task_features

            return self._object(read_task_features(value), path)
        if hasattr(value, "iloc"):
            # A Series is stored as a dict by task; a data frame between tasks, as a dict of its columns.
            of_task = value.loc[list(value)].items() if hasattr(value, "columns") else value.items()
            return self._node({k: v.to_numpy() if hasattr(v, "iloc") else v for k, v in of_task}, path)
        # scikit-learn's kernel functions are the only functions that a model may hold.
        if name := next((name for name, function in PAIRWISE_KERNEL_FUNCTIONS.items() if function is value), None):
            return ["function", name]
        return self._object(value, path)

    def _array(self, value: np.ndarray, path: str) -> list[Any]:
        if value.dtype.kind == "O":
            return ["objects", list(value.shape), [self.write(v, f"{path}[{i}]") for i, v in enumerate(value.flat)]]
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<")).reshape(value.shape)
        if not _DTYPE.fullmatch(little.dtype.str):
            raise ValueFault(f"{path.removeprefix('.')} is an array of {little.dtype.str!r:.80}")
        node = ["array", little.dtype.str, list(value.shape), self._end]
        self.arrays.append(little.tobytes())
        self._end += little.nbytes
        return node

    def _object(self, value: Any, path: str) -> list[Any]:
        cls = type(value)
        if not is_storable(cls):
            name = getattr(value, "__qualname__", cls.__qualname__)
            raise ValueFault(f"{path.removeprefix('.')} is {getattr(value, '__module__', cls.__module__)}.{name}")
        if (names := _fields(cls)) is not None:
            state = {name: getattr(value, name) for name in names}
        else:
            # Callbacks and generators of random numbers among the parameters are only used during a fit.
            given = (value.__getstate__() or {}).items()
            left_out = {name for name, part in given if name == "callback" or isinstance(part, np.random.RandomState)}
            state = {name: None if name in left_out else part for name, part in given}
        return ["object", _class_name(cls), [[k, self.write(v, f"{path}.{k}")] for k, v in state.items()]]


class _Reader:
    """Create the values of the nodes in order."""

    def __init__(self, nodes: list[list[Any]], arrays: bytes) -> None:
        self._arrays, self._end = memoryview(arrays), 0
        self._values: list[Any] = []
        self._levels: list[int] = []
        for kind, *given in nodes:
            self._level = 0
            self._values.append(self._make(kind, given))
            self._levels.append(self._level + 1)
            if self._level >= MOST_LEVELS:
                raise ValueFault("it is nested too deeply")

    def _make(self, kind: str, given: list[Any]) -> Any:
        match kind, given:
            case "array", [dtype, shape, start]:
                return self._array(dtype, shape, start)
            case "objects", [shape, items]:
                _count(shape)
                found: np.ndarray = np.empty(len(items), dtype=object)
                found[:] = list(map(self._get, items))
                return found.reshape(shape)
            case "list", [items]:
                return list(map(self._get, items))
            case "tuple", [items]:
                return tuple(map(self._get, items))
            case "dict", [items]:
                return {self._get(key): self._get(value) for key, value in items}
            case "namespace", [state]:
                return SimpleNamespace(**self._get(state))
            case "slice", [ends]:
                return slice(*map(self._get, ends))
            case "function", [name]:
                return PAIRWISE_KERNEL_FUNCTIONS[name]
            case "object", [name, items]:
                return self._object(name, items)
        raise ValueFault(f"{kind!r:.40} is not a kind of value")

    def finish(self, root: Any) -> Any:
        if self._end != len(self._arrays):
            raise ValueFault("it has arrays that belong to no part of the model")
        return self._get(root)

    def _get(self, part: Any) -> Any:
        if type(part) in _PLAIN:
            return part
        at = part["at"]
        if type(at) is not int or not 0 <= at < len(self._values):
            raise ValueFault(f"a value refers to another that is not before it ({at!r:.40})")
        self._level = max(self._level, self._levels[at])
        return self._values[at]

    def _array(self, dtype: str, shape: list[int], start: int) -> np.ndarray:
        if not _DTYPE.fullmatch(dtype):
            raise ValueFault(f"an array of {dtype!r:.80} cannot be part of a model")
        kind, count = np.dtype(dtype), _count(shape)
        end = start + count * kind.itemsize
        # Arrays follow one another and no bytes are read twice, so memory is bounded by the size of the file.
        if type(start) is not int or start != self._end or end > len(self._arrays):
            raise ValueFault("the size of an array does not match its bytes in the file")
        self._end = end
        found = np.frombuffer(self._arrays[start:end], dtype=kind, count=count).reshape(shape).copy()
        if kind.kind in "bU" and count:
            raw = found.reshape(-1).view(np.uint8 if kind.kind == "b" else np.uint32)
            if np.greater(raw, 1 if kind.kind == "b" else 0x10FFFF).any():
                raise ValueFault("an array has values that are invalid for its type")
        return found[()]

    def _object(self, name: str, items: list[list[Any]]) -> Any:
        cls = _find_class(name)
        state = {key: self._get(part) for key, part in items}
        _check_names(cls, set(state))
        if issubclass(cls, tuple):
            return tuple.__new__(cls, [state[name] for name in _fields(cls) or ()])
        found: Any = object.__new__(cls)
        vars(found).update(state)
        return found


def is_storable(cls: type) -> bool:
    """Return whether objects of a class may be part of a model: plain data of an allowed package."""
    if cls.__module__.startswith(f"{_LINEAR_MODELS}."):
        return cls.__name__ in _LINEAR_CLASSES
    return bool(_MODULE.fullmatch(cls.__module__)) and "." not in cls.__qualname__ and not hasattr(cls, "__del__")


def _check_names(cls: type, names: set[str]) -> None:
    """Raise ValueFault unless these are valid names of all attributes of an object."""
    where = f"{cls.__name__} in it"
    if (known := _fields(cls)) is not None:
        if wrong := sorted(names.symmetric_difference(known)):
            raise ValueFault(f"{where} does not have the fields of that class: {wrong[0]!r:.80}")
        return
    for name in names:
        if not name.isidentifier() or name.startswith("__") or callable(getattr(cls, name, None)):
            raise ValueFault(f"{where} cannot have an attribute {name!r:.80}")
    if issubclass(cls, BaseEstimator) and (absent := set(inspect.signature(cls).parameters) - names):
        raise ValueFault(f"{where} lacks its attribute {sorted(absent)[0]!r}")


def _fields(cls: type) -> Sequence[str] | None:
    """Return the fields of a dataclass or named tuple; None for other classes."""
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", ())
    return [field.name for field in fields(cls)] if is_dataclass(cls) and not issubclass(cls, BaseEstimator) else None


def _class_name(cls: type) -> str:
    module = _LINEAR_MODELS if cls.__module__.startswith("sklearn.") else cls.__module__
    return f"{module}:{cls.__name__}"


def _find_class(name: str) -> type:
    """Return the class of this name, if it may be part of a model; modules of other packages are not imported."""
    module, _, cls_name = name.partition(":")
    found = None
    if module == _LINEAR_MODELS or _MODULE.fullmatch(module):
        with suppress(ImportError):
            found = vars(importlib.import_module(module)).get(cls_name)
    if not isinstance(found, type) or _class_name(found) != name or not is_storable(found):
        raise ValueFault(f"{name!r:.120} cannot be part of a model")
    return found


def _count(shape: list[int]) -> int:
    possible = isinstance(shape, list) and len(shape) <= 32 and all(type(n) is int and 0 <= n < 2**62 for n in shape)
    count = math.prod(shape) if possible else -1
    if count < 0 or (count == 0 and max(shape) > MOST_EMPTY):
        raise ValueFault(f"no array has the shape {shape!r:.80}")
    return count
