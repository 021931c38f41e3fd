"""Outputs that cannot be written: one line, before any work if it can be known, and no partial files."""

import os
import resource
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, linear_kernels, save_model
from kernelkin.cli import main as cli
from kernelkin.files import check_writable, open_whole, write_whole

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(24, 2)), np.repeat(["a", "b"], 12)
Y = X[:, 0] + 0.1 * rng.normal(size=24)
# Not even root can create files there.
NOWHERE = "/proc"


@contextmanager
def full_disk(after):
    """Files end after so many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{task},{x},{z},{y}" for task, (x, z), y in zip(TASKS, X.tolist(), Y.tolist(), strict=True)]
    (folder / "t.csv").write_text("\n".join(["task,x,z,y", *rows]))
    argv = [*fit_arguments(folder / "t.csv"), "--model", "MK-MTRL", "-o", str(folder / "m.kin")]
    assert cli.main(["fit", *argv]) == 0
    return folder


def fit_arguments(path):
    return [str(path), "--task", "task", "--target", "y", "--no-comparison"]


COMMANDS = {
    "fit": lambda folder, out: ["fit", *fit_arguments(folder / "t.csv"), "--model", "MK-MTRL", "-o", f"{out}/m.kin"],
    "predict": lambda folder, out: ["predict", f"{folder}/m.kin", f"{folder}/t.csv", "-o", f"{out}/p.csv"],
    "report": lambda folder, out: ["report", f"{folder}/m.kin", "-o", f"{out}/r.html"],
}


def begun(*arguments, **more):
    pytest.fail("work was begun that cannot be kept")


@pytest.fixture
def no_work(monkeypatch):
    for name in ("cli.training.Recipe.fit", "report.report_of_files", "storage.SavedModel.predict"):
        monkeypatch.setattr(f"kernelkin.{name}", begun)


def assert_one_line(capsys, *words):
    error = capsys.readouterr().err
    assert error.startswith("kernelkin: error: ") and error.count("\n") == 1
    assert all(word in error for word in words), error


@pytest.mark.parametrize("name", ["fit", "report"])
def test_a_folder_that_cannot_be_written_to_is_known_before_any_work(no_work, table, capsys, name):
    assert cli.main(COMMANDS[name](table, NOWHERE)) == 1
    assert_one_line(capsys, NOWHERE)


@pytest.mark.parametrize("name", ["fit", "report"])
def test_a_file_in_place_of_a_folder_is_known_before_any_work(no_work, table, tmp_path, capsys, name):
    (tmp_path / "file").write_text("here first")
    before = files(table)
    assert cli.main(COMMANDS[name](table, tmp_path / "file")) == 1
    assert_one_line(capsys, str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "here first" and files(table) == before


@pytest.mark.parametrize("name", ["fit", "predict", "report"])
def test_a_missing_folder_is_known_before_any_work(no_work, table, tmp_path, capsys, name):
    assert cli.main(COMMANDS[name](table, tmp_path / "nowhere")) == 1
    assert_one_line(capsys, "there is no folder", str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["fit", "predict", "report"])
def test_a_folder_in_place_of_a_file_is_known_before_any_work(no_work, table, tmp_path, capsys, name):
    *argv, out = COMMANDS[name](table, tmp_path)
    Path(out).mkdir()
    assert cli.main([*argv, out]) == 1
    assert_one_line(capsys, "Is a directory", out)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_known_before_any_work(no_work, table, tmp_path, capsys, name):
    before = files(table)
    with full_disk(after=1000):
        assert cli.main(COMMANDS[name](table, tmp_path)) == 1
    assert_one_line(capsys, "cannot write", str(tmp_path))
    assert not files(tmp_path) and files(table) == before


@pytest.mark.parametrize("name", ["fit", "report"])
def test_a_disk_that_fills_up_leaves_nothing_behind(table, tmp_path, capsys, name):
    with full_disk(after=5000):
        assert cli.main(COMMANDS[name](table, tmp_path)) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("kernelkin: error: ") and "cannot write" in error and str(tmp_path) in error
    assert not files(tmp_path)


def test_a_long_prediction_that_does_not_fit_keeps_the_old_file(table, tmp_path, capsys):
    out = tmp_path / "p.csv"
    out.write_text("old")
    (tmp_path / "long.csv").write_text("task,x,z\n" + "a,0.5,0.25\n" * 2000)
    with full_disk(after=5000):
        assert cli.main(["predict", str(table / "m.kin"), str(tmp_path / "long.csv"), "-o", str(out)]) == 1
    assert_one_line(capsys, "File too large", str(out))
    assert out.read_text() == "old" and files(tmp_path) == ["long.csv", "p.csv"]


def run(argv, **how):
    argv = [sys.executable, "-m", "kernelkin", *map(str, argv)]
    return subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False, **how)


def test_standard_output_on_a_full_disk(table):
    with open("/dev/full", "w") as full:
        done = run(["predict", table / "m.kin", table / "t.csv", "-o", "-"], stdout=full)
    assert done.returncode == 1
    assert done.stderr == "kernelkin: error: [Errno 28] No space left on device (--debug shows where)\n"


def test_predictions_for_a_reader_that_is_gone(table):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(["predict", table / "m.kin", table / "t.csv", "-o", "-"], stdout=writer)
    os.close(writer)
    assert done.returncode == 1 and not done.stderr


def test_a_full_device_is_named_and_stays_what_it_is(table, capsys):
    assert cli.main(["report", str(table / "m.kin"), "-o", "/dev/full"]) == 1
    assert_one_line(capsys, "No space left on device", "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


class TestWholeFiles:
    def test_a_pipe_is_written_to_and_not_replaced(self, tmp_path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=write_whole, args=(path, "content"))
        writer.start()
        assert path.read_text() == "content"
        writer.join()
        assert path.is_fifo()

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
        write_whole(tmp_path / "link", b"content")
        assert (tmp_path / "link").is_symlink() and (tmp_path / "folder" / "file").read_bytes() == b"content"

    def test_permissions_are_those_of_any_new_file(self, tmp_path):
        before = os.umask(0o027)
        try:
            write_whole(tmp_path / "file", b"")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640

    def test_a_name_may_be_as_long_as_names_can_be(self, tmp_path):
        write_whole(tmp_path / ("n" * 255), "x")
        assert files(tmp_path) == ["n" * 255]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError(5, "broken"), SystemExit])
    def test_whatever_goes_wrong_the_old_file_stays_alone(self, tmp_path, error):
        write_whole(tmp_path / "file", "old")
        with pytest.raises(error if isinstance(error, type) else type(error)), open_whole(tmp_path / "file") as file:
            file.write(b"ne")
            raise error
        assert (tmp_path / "file").read_text() == "old" and files(tmp_path) == ["file"]

    def test_it_is_on_the_disk_before_it_has_its_name(self, tmp_path, monkeypatch):
        steps = []
        for name in ("fsync", "replace"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda *a, real=real, name=name: (steps.append(name), real(*a))[1])
        write_whole(tmp_path / "file", "content")
        assert steps == ["fsync", "replace"]

    def test_checks_leave_nothing(self, tmp_path):
        check_writable(tmp_path / "file")
        assert not files(tmp_path)
        (tmp_path / "new").mkdir()
        with pytest.raises(IsADirectoryError, match=rf"Is a directory: '{tmp_path}/new'$"):
            check_writable(tmp_path / "new")
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            check_writable(tmp_path / "nowhere" / "file")

    def test_a_model_is_written_by_them(self, tmp_path):
        model = MKMTRLRegressor(linear_kernels()).fit(X, Y, tasks=TASKS)
        with full_disk(after=2000), pytest.raises(OSError, match=r"cannot write.*m\.kin"):
            save_model(model, Path(tmp_path / "m.kin"))
        assert not files(tmp_path)
