"""The archive of a saved model: a skops file with a member of ours, `kernelkin.json`, and checksums of both."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from typing import Any

from ..exceptions import ModelFileError
from .model_tree import METADATA, TREE, check_tree
from .tree_nodes import TreeError

# The version of the layout of `kernelkin.json`: raised whenever other readers would misread it.
FORMAT = 1
_CHECKSUMS = ("digest", "metadata_digest")
_BEGINNING = b"PK\x03\x04"
# An archive may expand to this many times its size, or to this many bytes. Deflate can reach a factor of a thousand.
_GROWTH, _SMALL = 200, 2**26
# Others, such as LZMA, allocate as much as a file requests.
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def pack(content: bytes, metadata: dict[str, Any]) -> bytes:
    """Add the metadata (JSON, and NumPy numbers and arrays) to the skops archive of a model, with checksums."""
    metadata = {"format": FORMAT, **json.loads(json.dumps(metadata, default=_to_json))}
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(METADATA, json.dumps(add_checksums(archive, metadata)))
    return buffer.getvalue()


def unpack(path: str | os.PathLike[str]) -> tuple[bytes, dict[str, Any]]:
    """The archive and its metadata, all checked; a ModelFileError for whatever `pack` did not write."""
    with open(path, "rb") as file:
        beginning = file.read(len(_BEGINNING))
        # Read on only if it begins like an archive: /dev/zero has no end.
        content = beginning + file.read() if beginning == _BEGINNING else b""
    if not content:
        raise ModelFileError(f"{path} is not a saved model")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            metadata = _read_metadata(path, archive, len(content))
            _check_format(path, metadata)
            if add_checksums(archive, metadata) != metadata:
                raise ModelFileError(f"{path} was changed after it was saved: its checksums do not match its contents")
            check_tree(archive)
    except ModelFileError:
        raise
    except TreeError as error:
        raise ModelFileError(f"{path} is not loaded: {error}") from error
    except Exception as error:  # damaged archives and JSON raise errors of many types
        raise ModelFileError(f"{path} is not a saved model, or was cut short or damaged ({error})") from error
    return content, metadata


def expands_too_much(archive: zipfile.ZipFile, size: int) -> bool:
    """Whether an archive of this size holds more than `unpack` accepts."""
    return sum(member.file_size for member in archive.infolist()) > max(_GROWTH * size, _SMALL)


def add_checksums(archive: zipfile.ZipFile, metadata: dict[str, Any]) -> dict[str, Any]:
    """The metadata with checksums of itself and of all other members.

    They detect damage and edits. Whoever makes a file on purpose can compute them: `check_tree` is for that.
    """
    digest = hashlib.sha256()
    for name in sorted(set(archive.namelist()) - {METADATA}):
        digest.update(name.encode() + b"\0" + hashlib.sha256(archive.read(name)).digest())
    others = {name: value for name, value in metadata.items() if name not in _CHECKSUMS}
    own_digest = hashlib.sha256(json.dumps(others, sort_keys=True).encode())
    return {**others, **dict(zip(_CHECKSUMS, (digest.hexdigest(), own_digest.hexdigest()), strict=True))}


def _read_metadata(path: Any, archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    names = archive.namelist()
    if METADATA not in names:
        what = "a skops file, but not one that kernelkin saved" if TREE in names else "not a saved model"
        raise ModelFileError(f"{path} is {what}")
    if len(set(names)) < len(names):
        raise ModelFileError(f"{path} was changed after it was saved: it contains duplicate entries")
    if any(member.compress_type not in _COMPRESSIONS for member in archive.infolist()):
        raise ModelFileError(f"{path} was changed after it was saved: it is compressed in another way")
    if expands_too_much(archive, size):
        raise ModelFileError(f"{path} would take far more memory than its size, and is not loaded")
    metadata = json.loads(archive.read(METADATA))
    return metadata if isinstance(metadata, dict) else {}


def _check_format(path: Any, metadata: dict[str, Any]) -> None:
    from .. import __version__

    found, version = metadata.get("format"), metadata.get("kernelkin")
    if type(found) is not int or not isinstance(version, str):
        raise ModelFileError(f"{path} does not say which version of kernelkin saved it: it was changed or damaged")
    if found != FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version:.40} in format {found}; this is kernelkin {__version__}, which "
            f"reads format {FORMAT}: load it with kernelkin {version:.40}, or fit the model again"
        )


def _to_json(value: Any) -> Any:
    """NumPy numbers and arrays as JSON can hold them."""
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be saved with a model")
