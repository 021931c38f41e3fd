import io
import re
import sys
from itertools import pairwise

import pytest

from kernelkin.progress import INTERVAL, Progress, printable


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


def test_lines_have_the_step_its_parts_and_the_time_left(clock):
    log = io.StringIO()
    with Progress(2, log, clock) as progress:
        progress.begin("MK-MTRL")
        clock.now += INTERVAL
        progress.share(5 / 20, "candidate 5 of 20")
        progress.share(6 / 20, "candidate 6 of 20")  # too soon for another line
        clock.now += 3 * INTERVAL
        progress.share(1.0, "candidate 20 of 20")
        progress.begin("AVG")
    assert log.getvalue().splitlines() == [
        "[1/2] MK-MTRL",
        "[1/2] MK-MTRL: candidate 5 of 20, about 35 s left",
        "[1/2] MK-MTRL: candidate 20 of 20, about 20 s left",
        "[2/2] AVG, about 20 s left",
    ]


def test_a_step_whose_share_is_known(clock):
    log = io.StringIO()
    with Progress(2, log, clock, weights=[3.0, 1.0]) as progress:
        progress.begin("search")
        clock.now += 6.0
        progress.share(0.5, "best so far: one")
    assert log.getvalue().splitlines()[1] == "[1/2] search: best so far: one, about 10 s left"


def test_the_time_left_that_is_shown_never_grows_by_more_than_half(clock):
    """The second half of the work takes twenty times as long as the first."""
    log = io.StringIO()
    with Progress(1, log, clock) as progress:
        progress.begin("folds")
        for done in range(1, 21):
            clock.now += 6.0 if done <= 10 else 120.0
            progress.share(done / 20)
    left = re.findall(r"about (\d+) (s|min) left", log.getvalue())
    seconds = [int(number) * (60 if unit == "min" else 1) for number, unit in left]
    assert len(seconds) > 15 and max(seconds) > 2 * min(seconds[:9])
    assert all(after <= 1.5 * before for before, after in pairwise(seconds))


def test_a_terminal_gets_one_line_that_is_cleared_at_the_end(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    screen = Screen()
    with Progress(4, screen, clock) as progress:
        progress.begin("first")
        progress.begin("a step with a name that is far too long for the width of this terminal")
    _, first, last = screen.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("#####............... [2/4] a step") and len(first) < 60
    assert last == "" and "\n" not in screen.getvalue()


def test_a_terminal_is_not_drawn_to_for_every_part(clock):
    screen = Screen()
    progress = Progress(1, screen, clock)
    progress.begin("MK-MTRL")
    for done in range(1000):
        progress.share(done / 1000)
    assert screen.getvalue().count("\r") == 1


@pytest.mark.parametrize("error", [BrokenPipeError(), UnicodeEncodeError("ascii", "é", 0, 1, "not ASCII")])
def test_a_display_that_fails_does_not_stop_the_work(clock, error):
    class Broken(io.StringIO):
        def write(self, text):
            raise error

    progress = Progress(2, Broken(), clock)
    progress.begin("one")
    progress.begin("two")
    assert progress.number == 2


def test_without_standard_error_nothing_is_shown(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(2) as progress:
        progress.begin("one")
        progress.begin("two")
        assert progress.number == 2


def test_texts_cannot_steer_the_terminal(clock):
    log = io.StringIO()
    Progress(1, log, clock).begin("\x1b[2Jgone\n[9/9] forged")
    assert log.getvalue() == "[1/1] \\x1b[2Jgone\\n[9/9] forged\n"
    assert printable("café 東京 [/red]") == "café 東京 [/red]"
    assert printable("\x9b\u202e\u2028\x7f\ud800") == "\\x9b\\u202e\\u2028\\x7f\\ud800"
