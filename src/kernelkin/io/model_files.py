"""The archives that saved models are: written with a checksum, and read as if they could be anything."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from typing import Any

from ..data import listing
from ..exceptions import ModelFileError

# The layout of `kernelkin.json`, which is counted up when older readers would misread it.
FORMAT = 1
OLDEST_FORMAT = 1
_FACTS, _TREE = "kernelkin.json", "schema.json"
_DIGEST, _OF_FACTS = "digest", "facts_digest"
_BEGINNING = b"PK\x03\x04"
# What an archive may grow to: so many times its size, or so many bytes. Deflate can reach a thousand times.
_GROWTH, _SMALL = 200, 2**26
# The ways in which skops may make a part of a model; the others can call what a file says.
LOADERS = frozenset(
    f"{name}Node"
    for name in (
        "Cached", "Dict", "Function", "Json", "List", "NdArray", "Object", "RandomGenerator", "RandomState", "Set",
        "Slice", "Tuple", "Type",
    )
)  # fmt: skip


def pack(content: bytes, facts: dict[str, Any]) -> bytes:
    """Put what JSON can hold of the facts into the archive of a model, with a checksum of both."""
    facts = {"format": FORMAT, **json.loads(json.dumps(facts, default=_plain))}
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        facts = sign(archive, facts)
        archive.writestr(_FACTS, json.dumps(facts))
    return buffer.getvalue()


def unpack(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, Any]]:
    """The archive and the facts in it; a ModelFileError for whatever `pack` did not write."""
    with open(path, "rb") as file:
        beginning = file.read(len(_BEGINNING))
        # Anything may have the name of a model, also what has no end.
        content = beginning + file.read() if beginning == _BEGINNING else b""
    if not content:
        raise ModelFileError(f"{path} is not a saved model")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            facts = _read_facts(path, archive, len(content))
            _check_format(path, facts)
            signed = sign(archive, facts)
            # The first files have no checksum of the facts.
            if any({**signed, _DIGEST: None, **facts}[name] != signed[name] for name in (_DIGEST, _OF_FACTS)):
                raise ModelFileError(f"{path} was changed after it was saved: its contents are not those it had then")
            _check_parts(path, facts, strange_parts(archive))
    except ModelFileError:
        raise
    except Exception as error:  # zip files and JSON raise whatever they like where they are damaged
        raise ModelFileError(f"{path} is not a saved model, or was cut short or damaged ({error})") from error
    return content, facts


def grows_too_much(archive: zipfile.ZipFile, size: int) -> bool:
    """Whether an archive of this size holds more than a reader accepts."""
    return sum(member.file_size for member in archive.infolist()) > max(_GROWTH * size, _SMALL)


def strange_parts(archive: zipfile.ZipFile) -> list[str]:
    """What is no part of a model by the way skops would make it."""
    strangers, left = set(), [json.loads(archive.read(_TREE))]
    while left:
        node = left.pop()
        if isinstance(node, dict) and str(node.get("__loader__", "JsonNode")) not in LOADERS:
            strangers.add(f"{node.get('__module__')}.{node.get('__class__')} ({node['__loader__']})")
        left.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
    return sorted(strangers)


def sign(archive: zipfile.ZipFile, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with checksums of themselves and of all else in the archive.

    They find damage and edits, not malice: the trusted types do.
    """
    found = hashlib.sha256()
    for name in sorted(set(archive.namelist()) - {_FACTS}):
        found.update(name.encode() + b"\0" + hashlib.sha256(archive.read(name)).digest())
    others = {name: value for name, value in facts.items() if name not in (_DIGEST, _OF_FACTS)}
    of_facts = hashlib.sha256(json.dumps(others, sort_keys=True).encode())
    return {**others, _DIGEST: found.hexdigest(), _OF_FACTS: of_facts.hexdigest()}


def _read_facts(path: Any, archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    names = archive.namelist()
    if _FACTS not in names:
        what = "a skops file, but not one that kernelkin saved" if _TREE in names else "not a saved model"
        raise ModelFileError(f"{path} is {what}")
    if len(set(names)) < len(names):
        raise ModelFileError(f"{path} was changed after it was saved: it has parts of one name")
    if grows_too_much(archive, size):
        raise ModelFileError(f"{path} would take far more memory than its size, and is not loaded")
    facts = json.loads(archive.read(_FACTS))
    return facts if isinstance(facts, dict) else {}


def _check_format(path: Any, facts: dict[str, Any]) -> None:
    from .. import __version__

    theirs, version = facts.get("format"), facts.get("kernelkin")
    if type(theirs) is not int or not isinstance(version, str):
        raise ModelFileError(f"{path} does not say which version of kernelkin saved it: it was changed or damaged")
    if theirs > FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version} in format {theirs}; this is kernelkin {__version__}, which reads "
            f"formats up to {FORMAT}: install kernelkin {version} or later"
        )
    if theirs < OLDEST_FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version} in format {theirs}; this is kernelkin {__version__}, which reads "
            f"formats from {OLDEST_FORMAT}: fit it again, or load it with kernelkin {version}"
        )


def _check_parts(path: Any, facts: dict[str, Any], strangers: list[str]) -> None:
    """Refuse what is no part of a model before skops sees it."""
    from .. import __version__

    if strangers:
        raise ModelFileError(
            f"{path} was saved by kernelkin {facts['kernelkin']} and cannot be read by kernelkin {__version__}: it "
            f"holds what is no part of a model, {listing(strangers)}"
        )


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON's."""
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be saved with a model")
