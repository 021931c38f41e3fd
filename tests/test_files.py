import os
import stat
import subprocess
import sys

import pytest

from kernelkin import files
from kernelkin.files import open_whole, write_whole


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
        "import runpy, sys\nwrite_whole = runpy.run_path(sys.argv[3])['write_whole']\n"
        "for size in range(1, 12):\n"
        "    write_whole(sys.argv[1] + '/same', sys.argv[2].encode() * 997 * size)\n"
        "    content = open(sys.argv[1] + '/same', 'rb').read()\n"
        "    assert len(content) % 997 == 0 and len(set(content)) == 1, len(content)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen([*command, letter, files.__file__]) for letter in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    assert os.listdir(tmp_path) == ["same"]
