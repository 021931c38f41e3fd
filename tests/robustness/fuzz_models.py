"""Saved models with something changed, and what loading them may do: the same model, or a ModelFileError."""

from __future__ import annotations

import io
import json
import pickle
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from kernelkin import MKMTRLRegressor, linear_kernels, load_model, save_model
from kernelkin.exceptions import ModelFileError
from kernelkin.model_files import LOADERS, sign
from kernelkin.tables.schema import TableSchema

FACTS, TREE = "kernelkin.json", "schema.json"
MARKER = "robustness.marker"
# Ways in which a file might get something called.
CODE = [("os", "system"), ("builtins", "eval"), ("builtins", "exec"), ("subprocess", "Popen"), (MARKER, "run")]
LOADER_NAMES = [
    *sorted(LOADERS), "MethodNode", "OperatorFuncNode", "PartialNode", "ConstructorFromReduceNode", "DefaultDictNode",
    "BytesNode", "TreeNode", "LossNode", "SparseMatrixNode", "MaskedArrayNode", "DTypeNode", "NoSuchNode",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 2**63, 10**400, 1e308, float("nan"), "", "x", "../../etc/passwd", "\0", "\ud800", [], [[]], {},
    {"__loader__": "JsonNode"}, "9" * 5000,
]  # fmt: skip


class Obeyed:
    """A pickle that leaves a trace when it is loaded."""

    def __reduce__(self):
        import importlib

        return importlib.import_module, (MARKER,)


def make_model(path: Path) -> np.ndarray:
    """Save a small model of a table; returns what it predicts for `queries`."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=12), "b": rng.choice(["p", "q"], 12), "t": np.repeat(["u", "v"], 6)})
    frame["y"] = frame.a + (frame.b == "p")
    schema = TableSchema.fit(frame, "t", "y", regression=True)
    model = MKMTRLRegressor(linear_kernels(per_feature=True))
    model.fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))
    save_model(model, path, schema=schema, about={"scores": [0.5, None], "command": "kernelkin fit"})
    return predict(path)


def predict(path: Path) -> np.ndarray:
    import pandas as pd

    return load_model(path).predict(pd.DataFrame({"a": [0.5, -1.0], "b": ["p", "r"], "t": ["u", "v"]}))


def try_model(content: bytes, signed: bool, expected: np.ndarray, path: Path) -> str:
    """Load a changed file -> "refused" or "loaded"; whatever else happens is an error.

    One that was not signed again and yet is loaded must be the same model: the change was to what nobody reads.
    """
    path.write_bytes(content)
    try:
        saved = load_model(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return "refused"
    finally:
        assert MARKER not in sys.modules, "a file was obeyed"
    assert isinstance(saved.about, dict)
    if not signed:
        np.testing.assert_array_equal(predict(path), expected)
    return "loaded"


def mutate(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """A changed file, and whether its checksums were made anew."""
    change = rng.choice([_flip, _cut, _splice, _members, _members, _facts, _tree, _tree, _tree, _arrays])
    return change(content, rng)


def _flip(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed), False


def _cut(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    begin = rng.choice([0, 0, 0, rng.randrange(64)])
    return content[begin : rng.randrange(len(content))], False


def _splice(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """A stretch taken out, doubled, or written over."""
    begin, length = rng.randrange(len(content)), rng.choice([1, 4, 30, 500])
    piece = rng.choice([b"", content[begin : begin + length] * 2, rng.randbytes(length)])
    return content[:begin] + piece + content[begin + length :], False


def _members(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """Whole parts of the archive: exchanged, lost, added, doubled, changed."""
    parts, signed = _read(content), rng.random() < 0.5
    one, other = rng.sample(sorted(parts), 2)
    changes = [
        lambda: parts.update({one: parts[other], other: parts[one]}),
        lambda: parts.pop(one),
        lambda: parts.update({rng.choice(["extra.npy", "a/../b", "/etc/x", "\u00e9"]): rng.randbytes(20)}),
        lambda: parts.update({one: pickle.dumps(Obeyed())}),
        lambda: parts.update({one: rng.randbytes(rng.randrange(100))}),
        lambda: parts.update({one: _flip(parts[one], rng)[0]}),
    ]
    rng.choice(changes)()
    return _write(parts, signed, rng), signed


def _facts(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    parts, signed = _read(content), rng.random() < 0.7
    parts[FACTS] = _change_json(parts[FACTS], rng)
    return _write(parts, signed, rng), signed


def _tree(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """The tree that says of what the model is made, and how."""
    parts = _read(content)
    parts[TREE] = _change_json(parts[TREE], rng)
    return _write(parts, True, rng), True


def _arrays(content: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """An array of another shape or type than it holds, or with a pickle in it."""
    parts = _read(content)
    name = rng.choice(sorted(name for name in parts if name.endswith(".npy")))
    buffer = io.BytesIO()
    np.save(buffer, np.array([Obeyed()], dtype=object), allow_pickle=True)
    text = parts[name]
    parts[name] = rng.choice(
        [
            buffer.getvalue(),
            text.replace(b"'shape': (", b"'shape': (99999999999999,", 1),
            text.replace(b"<f8", rng.choice([b"|O ", b"<U9", b"<V0", b">f8", b"zzz"]), 1),
            _flip(text, rng)[0],
            text[: rng.randrange(len(text))],
        ]
    )
    return _write(parts, True, rng), True


def _change_json(text: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return rng.choice([b"[" * 100_000, b"{}", b"[]", b"null", b'"x"', text[:-9], b"\xff" + text, b""])
    tree = json.loads(text)
    for _ in range(rng.choice([1, 1, 2, 5])):
        nodes = [tree, *_nodes(tree)]
        node = rng.choice(nodes)
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node))) if node else None
        if key is None:
            continue
        if isinstance(node, dict) and "__loader__" in node and rng.random() < 0.5:
            module, name = rng.choice(CODE)
            given = [{"__module__": module, "__class__": name}, {"__loader__": rng.choice(LOADER_NAMES)}]
            node.update(rng.choice([*given, given[0] | given[1]]))
        elif rng.random() < 0.3:
            del node[key]
        elif rng.random() < 0.5:
            node[key] = json.loads(json.dumps(rng.choice(nodes)))
        else:
            node[key] = rng.choice(VALUES)
    return json.dumps(tree).encode()


def _nodes(tree: Any) -> list[Any]:
    children = list(tree.values()) if isinstance(tree, dict) else tree
    inner = [child for child in children if isinstance(child, dict | list)]
    return inner + [node for child in inner for node in _nodes(child)]


def _read(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write(parts: dict[str, bytes], signed: bool, rng: random.Random) -> bytes:
    """An archive with valid checksums of its own; `signed` has those of this library made anew too."""
    buffer, facts = io.BytesIO(), parts.get(FACTS)
    with zipfile.ZipFile(buffer, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, part in parts.items():
            if name != FACTS:
                archive.writestr(name, part)
        if facts is not None:
            archive.writestr(FACTS, _sign(archive, facts) if signed else facts)
    return buffer.getvalue()


def _sign(archive: zipfile.ZipFile, facts: bytes) -> bytes:
    try:
        known = json.loads(facts)
        return json.dumps(sign(archive, known)).encode() if isinstance(known, dict) else facts
    except (ValueError, RecursionError):
        return facts
