import pytest

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
