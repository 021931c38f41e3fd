"""Find a data file by name and checksum: in the folder given, in KERNELKIN_DATA, or by download into a cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

GITHUB = "https://raw.githubusercontent.com"


class RemoteFile(NamedTuple):
    """A file: its path inside a data folder, owner/repository/commit/path on GitHub, and the checksum of its contents.

    `also` is another source of the data, for error messages.
    """

    path: str
    source: str
    sha256: str
    also: str = ""

    @property
    def url(self) -> str:
        return f"{GITHUB}/{self.source}"


def fetch(file: RemoteFile, data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a file whose contents have the right checksum.

    The file is looked up in ``data_home`` or, by default, in the folder given by KERNELKIN_DATA. A missing file is
    downloaded to the user's cache, which later calls use.
    """
    folder = data_home if data_home is not None else os.environ.get("KERNELKIN_DATA")
    if folder:
        path = Path(folder).expanduser() / file.path
        if path.is_file():
            _check(path, file)
            return path
    return _download(file, searched=str(folder) if folder else "no folder (data_home and KERNELKIN_DATA are not set)")


def _check(path: Path, file: RemoteFile) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != file.sha256:
        raise OSError(f"{path} is not the file that was expected: its sha256 is {found}. {_expected(file)}")


def _download(file: RemoteFile, searched: str) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f"{file.path} was not found; looked in {searched}. Downloading it needs pooch: "
            f'pip install "kernelkin[data]". {_expected(file)}'
        ) from error
    cache = cache_folder()
    try:
        # pooch renames a download only after checking it: a broken download leaves no file.
        found = pooch.retrieve(
            file.url,
            known_hash=f"sha256:{file.sha256}",
            fname=Path(file.path).name,
            path=cache / Path(file.path).parent,
        )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
        raise FileNotFoundError(
            f"{file.path} was not found, and its download failed; looked in {searched} and in the cache {cache}. "
            f"{_expected(file)} Cause: {error}"
        ) from error
    return Path(found)


def cache_folder() -> Path:
    """Return the folder for downloads."""
    import pooch

    return Path(pooch.os_cache("kernelkin"))


def _expected(file: RemoteFile) -> str:
    also = f" (the data are also at {file.also})" if file.also else ""
    return (
        f"Expected: {file.path} with sha256 {file.sha256}, from {file.url}{also}. "
        "Put it into a folder and name that folder in data_home or KERNELKIN_DATA."
    )
