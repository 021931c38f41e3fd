"""Random changes of a saved model: it is refused with a ModelFileError or, if only unused bytes changed, the same."""

import json
import sys
from copy import deepcopy

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelkin.exceptions import ModelFileError

MARKER = "robustness.marker"
CODE = [("os", "system"), ("builtins", "eval"), (MARKER, "run"), ("sklearn.metrics.pairwise", "linear_kernel")]
LOADERS = [
    "DictNode", "FunctionNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "RandomGeneratorNode", "SetNode",
    "RandomStateNode", "SliceNode", "TupleNode", "TypeNode", "CachedNode", "MethodNode", "OperatorFuncNode",
    "PartialNode", "ConstructorFromReduceNode", "BytesNode", "NoSuchNode",
]  # fmt: skip
VALUES = [None, True, 0, -1, 2**63, 10**400, 1e308, float("nan"), "", "../x", "\0", "\ud800", [], [[]], {}, "9" * 5000]
# Each example writes its own file.
FUZZING = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_loaded_or_refused(archive):
    """Return the model, or None where it was refused; any other error fails the test."""
    try:
        saved = archive.load()
    except ModelFileError as error:
        assert str(archive.path) in str(error)
        saved = None
    assert MARKER not in sys.modules
    return saved


@FUZZING
@given(data=st.data())
def test_changed_bytes_are_refused_or_change_nothing(archive, queries, data):
    """Without new checksums, a file that is loaded is the same model."""
    content, place = archive.content, st.integers(0, len(archive.content) - 1)
    kind = data.draw(st.sampled_from(["flip", "cut", "splice"]))
    begin = data.draw(place)
    if kind == "flip":
        flipped = bytes([content[begin] ^ 1 << data.draw(st.integers(0, 7))])
        changed = content[:begin] + flipped + content[begin + 1 :]
    elif kind == "cut":
        changed = content[:begin]
    else:
        changed = content[:begin] + data.draw(st.binary(max_size=30)) + content[data.draw(place) :]
    archive.path.write_bytes(changed)
    saved = assert_loaded_or_refused(archive)
    if saved is not None:
        archive.write()
        np.testing.assert_array_equal(saved.predict(queries), archive.load().predict(queries))


@FUZZING
@given(data=st.data())
def test_changed_trees_are_loaded_or_refused(archive, data):
    """With checksums that match: whatever the tree says, no name in it is imported and no other error is raised."""
    tree = archive.tree
    for _ in range(data.draw(st.integers(1, 3))):
        change(tree, data)
    archive.write(tree=json.dumps(tree).encode())
    assert_loaded_or_refused(archive)


@FUZZING
@given(data=st.data())
def test_changed_metadata_are_loaded_or_refused(archive, data):
    metadata = archive.metadata
    change(metadata, data)
    archive.write(metadata=metadata, checksums=data.draw(st.booleans()))
    assert_loaded_or_refused(archive)


@FUZZING
@given(data=st.data())
def test_changed_arrays_are_loaded_or_refused(archive, data):
    name = data.draw(st.sampled_from(archive.arrays))
    content = bytearray(archive.members[name])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write(**{name: bytes(content)})
    assert_loaded_or_refused(archive)


def change(tree, data):
    """Give a random part of the tree another value, loader or name, or remove it."""
    parts = [part for part in containers(tree) if part]
    part = data.draw(st.sampled_from(parts))
    key = data.draw(st.sampled_from(list(part) if isinstance(part, dict) else range(len(part))))
    kind = data.draw(st.sampled_from(["remove", "copy", "value", "code"]))
    if kind == "code" and isinstance(part, dict) and "__loader__" in part:
        part["__module__"], part["__class__"] = data.draw(st.sampled_from(CODE))
        part["__loader__"] = data.draw(st.sampled_from([part["__loader__"], *LOADERS]))
    elif kind == "remove":
        del part[key]
    elif kind == "copy":
        part[key] = deepcopy(data.draw(st.sampled_from(parts)))
    else:
        part[key] = data.draw(st.sampled_from(VALUES))


def containers(tree):
    """All dicts and lists of a JSON tree."""
    yield tree
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, dict | list):
            yield from containers(child)
