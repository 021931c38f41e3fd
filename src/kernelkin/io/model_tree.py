"""Checks the tree of a model file (skops' schema.json) before skops reads it.

Each node of the tree names a loader, a module and a class, and skops imports and calls what a node names if it trusts
the name, whatever the loader: an array of "class" linear_kernel is that function called on the array. So every node
has to be one of the triples that are allowed at its place, with exactly the fields that its loader reads.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .storable import Storable, storable
from .tree_nodes import (
    COMMON,
    Place,
    TreeError,
    check_array_file,
    full_name,
    read_entry,
    read_list,
    read_mapping,
    read_plain,
)

TREE, METADATA = "schema.json", "kernelkin.json"
# No model nests deeper than about twenty levels; skops and JSON recurse.
_DEEPEST = 64
_BITS = (8, 16, 32, 64)
_SCALARS = {"bool", "bool_", "str_", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in _BITS)}
_KEY_TYPES = {f"builtins.{name}" for name in ("str", "int", "float", "bool")} | {f"numpy.{name}" for name in _SCALARS}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM")
_MT19937_WORDS = 624
_POOL_SIZE = 4


def check_tree(archive: zipfile.ZipFile) -> None:
    """Raise a TreeError unless the archive holds an estimator of this library, made of what models are made of."""
    tree = json.loads(archive.read(TREE))
    if not isinstance(tree, dict):
        raise TreeError("model is not a node")
    root = {name: value for name, value in tree.items() if name not in ("protocol", "_skops_version")}
    checker = _Checker(archive, storable())
    checker.check(root, Place())
    unused = sorted(set(archive.namelist()) - checker.members - {METADATA})
    if unused:
        raise TreeError(f"{unused[0]!r:.80} belongs to no part of the model")


class _Checker:
    """One pass over a tree. `members` collects the files of the archive that belong to it."""

    def __init__(self, archive: zipfile.ZipFile, allowed: Storable) -> None:
        self.members = {TREE}
        self._archive, self._allowed = archive, allowed
        self._files = set(archive.namelist())
        # skops loads only the first of the nodes with one id, so they must all have the same content (its digest).
        self._contents: dict[int, bytes] = {}
        self._open: set[int] = set()
        self._loaders: dict[str, tuple[set[str], Callable[[dict[str, Any], Place], Iterable[bytes]]]] = {
            "DictNode": ({"content", "key_types"}, self._dict),
            "FunctionNode": (set(), self._function),
            "JsonNode": ({"content", "is_json"}, self._json),
            "ListNode": ({"content"}, self._items),
            "NdArrayNode": ({"type", "file", "content", "shape"}, self._array),
            "ObjectNode": ({"content"}, self._object),
            "RandomGeneratorNode": ({"content"}, self._generator),
            "RandomStateNode": ({"content"}, self._random_state),
            "SetNode": ({"content"}, self._items),
            "SliceNode": ({"content"}, self._slice),
            "TupleNode": ({"content"}, self._items),
        }

    def check(self, node: Any, place: Place) -> bytes:
        """Check a node and all below -> a digest of what it holds, ids apart."""
        loader, number = self._read_header(node, place)
        if place.depth > _DEEPEST:
            raise TreeError(f"{place.path[:80]}... is nested too deeply")
        if number in self._open:
            raise TreeError(f"{place.path} contains itself")
        names, handler = self._loaders[loader]
        if not set(node) <= COMMON | names:
            raise TreeError(f"{place.path} has fields that a {loader} does not have")
        self._open.add(number)
        digest = hashlib.sha256(f"{loader} {full_name(node)}\0".encode())
        for piece in handler(node, place):
            digest.update(hashlib.sha256(piece).digest())
        self._open.discard(number)
        self._remember(node, digest.digest(), place)
        return digest.digest()

    def _read_header(self, node: Any, place: Place) -> tuple[str, int]:
        if not isinstance(node, dict) or not set(node) >= COMMON:
            raise TreeError(f"{place.path} is not a node")
        loader, number = node["__loader__"], node["__id__"]
        if not isinstance(loader, str) or type(number) is not int or number < 1:
            raise TreeError(f"{place.path} is not a node")
        if not self._is_allowed(loader, node, place):
            raise TreeError(f"{place.path} is {full_name(node)} ({loader}), which is no part of a model")
        return loader, number

    def _is_allowed(self, loader: str, node: dict[str, Any], place: Place) -> bool:
        module, name = node["__module__"], node["__class__"]
        if not isinstance(module, str) or not isinstance(name, str):
            return False
        is_root = place.depth == 0
        if is_root or loader == "ObjectNode":
            known = self._allowed.estimators if is_root else self._allowed.parts
            return loader == "ObjectNode" and (module, name) in known
        if loader == "FunctionNode":
            return place.functions and (module, name) in self._allowed.functions
        if loader == "NdArrayNode":
            return module == "numpy" and (name == "ndarray" or name in _SCALARS)
        return (module, name) == _CLASSES.get(loader)

    def _function(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        return ()

    def _json(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        read_plain(node, place)
        yield node["content"].encode("utf-8", "surrogatepass")

    def _items(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        for i, item in enumerate(read_list(node.get("content"), place)):
            yield self.check(item, place.inside(f"[{i}]"))

    def _dict(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        content = read_mapping(node.get("content"), place)
        yield self._key_types(node.get("key_types"), len(content), place)
        for key, value in content.items():
            yield key.encode("utf-8", "surrogatepass")
            yield self.check(value, self._inside_dict(key, place))

    def _inside_dict(self, key: str, place: Place) -> Place:
        if place.owner is None:
            return place.inside(f"[{key!r:.40}]")
        if not self._allowed.has_attribute(place.owner, key):
            raise TreeError(f"{place.path} cannot have an attribute {key!r:.80}")
        return place.inside(f".{key}", functions=self._allowed.may_be_function(place.owner, key))

    def _key_types(self, node: Any, count: int, place: Place) -> bytes:
        """The types of a dict's keys: the one place where types may be, and skops calls them on the keys."""
        allowed = _KEY_TYPES if place.owner is None else {"builtins.str"}
        place = place.inside(" key types")
        loader, _ = self._read_header(node, place)
        types = read_list(node.get("content"), place)
        if loader != "ListNode" or len(types) != count or set(node) - COMMON != {"content"}:
            raise TreeError(f"{place.path} are not those of its keys")
        for key in types:
            known = isinstance(key, dict) and set(key) == COMMON and key["__loader__"] == "TypeNode"
            if not known or full_name(key) not in allowed:
                raise TreeError(f"{place.path}: {full_name(key)} is no part of a model")
            self._remember(key, f"type {full_name(key)}".encode(), place)
        names = "key types " + " ".join(map(full_name, types))
        self._remember(node, names.encode(), place)
        return names.encode()

    def _remember(self, node: dict[str, Any], content: bytes, place: Place) -> None:
        number = node["__id__"]
        if type(number) is not int or number < 1 or self._contents.setdefault(number, content) != content:
            raise TreeError(f"{place.path} has the id of another object")

    def _object(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        cls = self._allowed.parts[node["__module__"], node["__class__"]]
        state: Any = node.get("content")
        yield self.check(state, place.inside("", owner=cls))
        if state["__loader__"] == "DictNode":
            attributes = set(state["content"])
        elif state["__loader__"] == "JsonNode" and state["content"] == "null":
            attributes = set()
        else:
            raise TreeError(f"{place.path} has no attributes")
        missing = sorted(self._allowed.required(cls) - attributes)
        if missing:
            raise TreeError(f"{place.path} lacks its attribute {missing[0]!r}")

    def _array(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        if node.get("type") == "json" and node["__class__"] == "ndarray" and "file" not in node:
            return self._object_array(node, place)
        # The name that skops gives it: no file is read twice, so that memory is bounded by what the archive holds.
        name = f"{node['__id__']}.npy"
        if node.get("type") != "numpy" or node.get("file") != name or set(node) & {"content", "shape"}:
            raise TreeError(f"{place.path} is not an array")
        if name not in self._files:
            raise TreeError(f"{place.path}: the archive has no {name}")
        if name not in self.members:
            self.members.add(name)
            check_array_file(self._archive, name, place, scalar=node["__class__"] != "ndarray")
        return ()

    def _object_array(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        shape = node.get("shape")
        yield self.check(shape, place.inside(".shape"))
        items = read_list(node.get("content"), place)
        sizes = [read_plain(size, place) for size in shape["content"]] if isinstance(shape, dict) else []
        if not sizes or any(type(size) is not int for size in sizes) or sizes[0] != len(items):
            raise TreeError(f"{place.path} has another shape than it says")
        yield from self._items(node, place)

    def _slice(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        ends = read_mapping(node.get("content"), place)
        plain = all(type(end) in (int, str, type(None)) for end in ends.values())
        if set(ends) != {"start", "stop", "step"} or not plain:
            raise TreeError(f"{place.path} is not a slice")
        yield json.dumps(ends, sort_keys=True).encode()

    def _generator(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        content = read_mapping(node.get("content"), place)
        if set(content) != {"bit_generator", "seed_seq"}:
            raise TreeError(f"{place.path} is not a random generator")
        for name, part in content.items():
            yield self.check(part, place.inside(f".{name}"))
        kind = read_entry(content["bit_generator"], place, "bit_generator")
        # A larger pool takes memory and time that no size of a file bounds.
        if kind not in _BIT_GENERATORS or read_entry(content["seed_seq"], place, "pool_size") != _POOL_SIZE:
            raise TreeError(f"{place.path} is a random generator of a kind that cannot be saved, {kind!r:.40}")

    def _random_state(self, node: dict[str, Any], place: Place) -> Iterable[bytes]:
        content = node.get("content")
        yield self.check(content, place.inside(".state"))
        position = read_entry(content, place, "state", "pos")
        # NumPy reads its words from this position on without a check.
        if type(position) is not int or not 0 <= position <= _MT19937_WORDS:
            raise TreeError(f"{place.path} is not a random state")


# The one class that each of the other loaders may make.
_CLASSES = {
    "DictNode": ("builtins", "dict"),
    "JsonNode": ("builtins", "str"),
    "ListNode": ("builtins", "list"),
    "RandomGeneratorNode": (np.random.Generator.__module__, "Generator"),
    "RandomStateNode": (np.random.RandomState.__module__, "RandomState"),
    "SetNode": ("builtins", "set"),
    "SliceNode": ("builtins", "slice"),
    "TupleNode": ("builtins", "tuple"),
}
