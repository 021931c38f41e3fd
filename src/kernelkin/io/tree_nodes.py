"""Nodes of the tree of a model file: where they are, what they hold, and the arrays that they refer to."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

# The fields that every node has.
COMMON = frozenset({"__loader__", "__module__", "__class__", "__id__"})
# Dimensions of an array without elements, which no file size bounds.
_LARGEST_EMPTY = 10**7


class TreeError(ValueError):
    """A tree that is not that of a model; the message says which part."""


@dataclass(frozen=True)
class Place:
    """Where a node is.

    Attributes
    ----------
    path : for messages.
    depth : 0 for the model itself.
    functions : whether functions may be here, and in the containers here.
    owner : the class whose attributes the node holds; None for any other node.
    """

    path: str = "model"
    depth: int = 0
    functions: bool = False
    owner: type | None = None

    def inside(self, step: str, *, functions: bool | None = None, owner: type | None = None) -> Place:
        """The place of a child; functions may be there if they may be here, unless `functions` says otherwise."""
        return Place(self.path + step, self.depth + 1, self.functions if functions is None else functions, owner)


def full_name(node: Any) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"[:120] if isinstance(node, dict) else "nothing"


def read_list(content: Any, place: Place) -> list[Any]:
    if not isinstance(content, list):
        raise TreeError(f"{place.path} has no items")
    return content


def read_mapping(content: Any, place: Place) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise TreeError(f"{place.path} has no entries")
    return content


def read_plain(node: Any, place: Place) -> Any:
    """The number, text, truth value or None of a JsonNode."""
    text = node.get("content") if isinstance(node, dict) else None
    if not isinstance(text, str) or text.lstrip()[:1] in ("[", "{"):
        raise TreeError(f"{place.path} is not a number or text")
    return json.loads(text)


def read_entry(node: Any, place: Place, *names: str) -> Any:
    """The plain value under these names of nested dicts."""
    for name in names:
        node = read_mapping(node.get("content") if isinstance(node, dict) else None, place).get(name)
    return read_plain(node, place)


def check_array_file(archive: zipfile.ZipFile, name: str, place: Place, *, scalar: bool) -> None:
    """Refuse an array that is not as large as its file, or holds anything but numbers, text and dates."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise TreeError(f"{place.path} is not an array")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        expected = file.tell() + math.prod(shape) * dtype.itemsize
    if dtype.kind not in "biufUSMm" or not dtype.itemsize or dtype.names or dtype.subdtype:
        raise TreeError(f"{place.path} is an array of {str(dtype)!r:.80}, which is no part of a model")
    possible = min(shape, default=0) >= 0 and (0 not in shape or max(shape) <= _LARGEST_EMPTY)
    if not possible or expected != archive.getinfo(name).file_size or (scalar and shape):
        raise TreeError(f"{place.path} is an array of another size than its file")
