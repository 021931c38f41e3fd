import pytest

from kernelkin import cli
from kernelkin.commands import terminal
from kernelkin.commands.terminal import PATIENCE, Terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_progress_tells_the_candidate_and_the_time_left(clock, capsys):
    with Terminal().progress(2) as step:
        step("MK-MTRL on 90 rows")
        clock[0] += PATIENCE
        step.part(5, 20)
        step.part(6, 20)
        clock[0] += 3 * PATIENCE
        step.part(20, 20)
        step("AVG on 90 rows")
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] MK-MTRL on 90 rows",
        "[1/2] MK-MTRL on 90 rows: candidate 5 of 20 on folds, about 35 s left",
        "[1/2] MK-MTRL on 90 rows: candidate 20 of 20 on folds, about 20 s left",
        "[2/2] AVG on 90 rows, about 20 s left",
    ]


@pytest.mark.parametrize(
    "argv", [["fit", "--model", "AVG", "--test-size", "0"], ["compare", "--models", "AVG", "--folds", "2"]]
)
def test_cross_validation_tells_every_candidate(argv, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    command, *more = argv
    more += ["-o", str(tmp_path / "m.skops")] if command == "fit" else []
    table = [str(folder / "sales.csv"), "--task", "shop", "--target", "sales", "--drop", "busy"]
    assert cli.main([command, *table, "--cv", *more]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("[1/")]
    counts = [line.split("candidate ")[1].split(" of ")[0] for line in told if "candidate" in line]
    total = int(told[-1].split(" of ")[-1].split()[0])
    assert counts == [str(i + 1) for i in range(total)]
    assert total >= 10
