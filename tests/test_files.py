import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, files, gaussian_kernels, linear_kernels
from kernelkin.files import Folder, fingerprint, open_whole, write_whole


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_new_file_follows_the_umask(tmp_path):
    write_whole(tmp_path / "new", "x")
    assert mode(tmp_path / "new") == 0o640


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("permissions", [0o600, 0o644, 0o666, 0o660])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, permissions):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(permissions)
    link.symlink_to(path)
    write_whole(link, "new")
    assert (path.read_text(), mode(path), link.is_symlink()) == ("new", permissions, True)


@pytest.mark.parametrize("permissions", [0o600, 0o640])
def test_what_is_being_written_is_no_more_readable_than_what_it_replaces(tmp_path, permissions):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(permissions)
    with open_whole(path) as file:
        file.write(b"new")
        (partial,) = tmp_path.glob(".*.part")
        assert mode(partial) == permissions


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give files to others")
def test_owner_and_group_are_kept(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, 12, 34)
    write_whole(path, "new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)


@pytest.mark.parametrize(("before", "after"), [(0o640, 0o600), (0o664, 0o604), (0o600, 0o600)])
def test_a_group_that_cannot_be_kept_loses_its_access(tmp_path, monkeypatch, before, after):
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, -1, 34) if os.getuid() == 0 else None
    path.chmod(before)

    def refuse(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    write_whole(path, "new")
    assert mode(path) == (after if path.stat().st_gid != 34 and os.getuid() == 0 else before)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, "new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["file"])


def test_processes_that_write_one_file_leave_it_whole(tmp_path):
    # The file alone: the package imports much more.
    code = (
        "import runpy, sys\nfolder = runpy.run_path(sys.argv[3])['Folder'](sys.argv[1])\n"
        "for size in range(1, 12):\n"
        "    folder.write('same', sys.argv[2].encode() * 997 * size)\n"
        "    content = folder.read('same')\n"
        "    assert len(content) % 997 == 0 and len(set(content)) == 1, len(content)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen([*command, letter, files.__file__]) for letter in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert os.listdir(tmp_path) == ["same"]


def test_a_damaged_archive_counts_as_missing(tmp_path):
    folder = Folder(tmp_path / "new" / "folder").prepare()
    stored = {"values": np.array([0.1, np.nan]), "names": np.array(["a", "\u00e9"]), "count": np.int64(3)}
    folder.write_arrays("sub/key.npz", **stored)
    np.testing.assert_equal(folder.read_arrays("sub/key.npz"), stored)
    path = folder.path / "sub" / "key.npz"
    content = path.read_bytes()
    for damaged in (content[:200], content[:300] + bytes([content[300] ^ 1]) + content[301:]):
        path.write_bytes(damaged)
        assert folder.read_arrays("sub/key.npz") is None
    assert folder.read_arrays("missing.npz") is None


def test_a_fingerprint_is_equal_in_every_process():
    code = (
        "import numpy as np\nfrom kernelkin import MKMTRLRegressor, gaussian_kernels\n"
        "from kernelkin.files import fingerprint\n"
        "print(fingerprint(MKMTRLRegressor(gaussian_kernels()), {'b', 'a', 'c'}, np.random.RandomState(0)))"
    )
    other = {**os.environ, "PYTHONHASHSEED": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=other, capture_output=True, text=True, check=True).stdout
    here = fingerprint(MKMTRLRegressor(gaussian_kernels()), {"b", "a", "c"}, np.random.RandomState(0))
    assert found == here + "\n"
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_fingerprints_differ_for_different_inputs():
    things = [
        None, True, 1, 1.0, "1", b"1", np.int64(1), np.float64(1), np.float32(1), [1], (1,), {1}, frozenset({1}),
        {1: 1}, [[1]], [1, None], np.array([1]), np.array([1.0]), np.array([[1]]), np.array(1), np.array(["1"]),
        np.zeros(0), np.zeros((0, 1)), slice(1), slice(2), 0.1 + 0.2, 0.3, -0.0, 0.0, float("nan"), ["ab", "c"],
        ["a", "bc"], np.random.RandomState(0), np.random.RandomState(1), MKMTRLRegressor, MKMTRLClassifier,
        MKMTRLRegressor(), MKMTRLClassifier(), MKMTRLRegressor(C=2.0), linear_kernels(), gaussian_kernels(),
    ]  # fmt: skip
    assert len({fingerprint(thing) for thing in things}) == len(things)
