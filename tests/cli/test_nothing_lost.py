"""Whatever happens to the terminal, a finished model is saved."""

import io
import os
import sys

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model
from kernelkin.cli import fit
from kernelkin.cli import main as cli
from kernelkin.progress import Progress

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(24, 2)), np.repeat(["[/red]\x1b[31m", "[link=http://evil]x"], 12)
TABLE = pd.DataFrame({"task": TASKS, "x": X[:, 0], "z": X[:, 1], "y": X[:, 0] + 0.1 * rng.normal(size=24)})


@pytest.fixture
def argv(tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    given = ["--task", "task", "--target", "y", "--set", "kernels=linear", "-o", str(tmp_path / "m.kin")]
    return ["fit", str(tmp_path / "t.csv"), "--no-comparison", *given]


@pytest.fixture
def quick(argv):
    """The same without a search."""
    return [*argv[:-2], "--model", "MK-MTRL", *argv[-2:]]


@pytest.fixture
def gone():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        yield stream


def test_a_model_is_saved_when_nobody_reads_what_is_printed(quick, gone, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", gone)
    assert cli.main(quick) == 0
    assert "error" not in capsys.readouterr().err
    assert load_model(quick[-1]).schema.n_rows == 24


def test_a_model_is_saved_when_standard_output_is_full(quick, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(quick) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kernelkin: error: the result is complete, but standard output failed: ")
    assert load_model(quick[-1]).schema.n_rows == 24


def test_a_model_is_saved_where_the_terminal_has_only_ascii(quick, monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert cli.main(quick) == 0
    assert load_model(quick[-1]).schema.n_rows == 24
    assert b"24 rows, 2 groups" in ascii_only.buffer.getvalue()


def test_a_closed_input_that_is_needed_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Python's name for a stream that was closed when it started is None.
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["fit", "-", "--task", "a", "--target", "b", "-o", "m"]) == 1
    assert capsys.readouterr().err == "kernelkin: error: standard input is closed (--debug shows where)\n"


@pytest.mark.parametrize(("arguments", "code"), [(["models"], 1), (["--help"], 0)])
def test_a_reader_that_stops_reading_causes_no_message(arguments, code, gone, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", gone)
    try:
        found = cli.main(arguments)
    except SystemExit as leaving:
        found = leaving.code
    assert (found, capsys.readouterr().err) == (code, "")
    gone.write("what is left goes nowhere")
    gone.flush()  # as Python does at exit


def test_an_interrupt_anywhere_is_one_line(argv, monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_parser", interrupted)
    assert cli.main(argv) == 130
    assert capsys.readouterr().err == "kernelkin: interrupted\n"


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_an_interrupt_leaves_nothing_behind(command, argv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Progress, "begin", interrupt)
    assert cli.main(argv if command == "fit" else ["compare", argv[1], *argv[3:-2]]) == 130
    assert capsys.readouterr().err == "kernelkin: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (KeyboardInterrupt, 130, "kernelkin: interrupted; {} is saved, without the comparison of models"),
        (RuntimeError("no"), 0, "kernelkin: warning: RuntimeError: no; {} is saved without this result"),
    ],
)
def test_what_is_asked_after_a_fit_cannot_lose_it(quick, monkeypatch, capsys, fault, code, message):
    def fail(*arguments):
        raise fault

    monkeypatch.setattr(fit, "tested_relations", fail)
    assert cli.main(quick) == code
    assert message.format(quick[-1]) in capsys.readouterr().err
    saved = load_model(quick[-1])
    assert saved.schema.n_rows == 24 and "task_rows" in saved.about and "relations" not in saved.about


def test_names_of_the_user_are_printed_as_text(quick, capsys):
    assert cli.main(quick) == 0
    assert cli.main(["inspect", quick[-1]]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[/red]\\x1b[31m" in out and "[link=http://evil]x" in out


def test_no_command_replaces_what_it_reads(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("sales.csv", "number.kin"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    flags = ["--task", "shop", "--target", "sales"]
    for argv in (
        ["fit", "sales.csv", *flags, "-o", "./sales.csv"],
        ["report", "number.kin", "-o", "number.kin"],
        ["report", "number.kin", "--test", "sales.csv", "-o", "sales.csv"],
    ):
        assert f"{argv[-1]} is read by this command and would be replaced" in run(*argv, fails=True)
    for name in ("sales.csv", "number.kin"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
