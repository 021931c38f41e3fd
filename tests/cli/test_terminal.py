import io
import sys

import pytest

from kernelkin.cli.terminal import Terminal, complain, format_table


class Stream(io.TextIOWrapper):
    """Standard output in an encoding of its own."""

    def __init__(self, encoding):
        super().__init__(io.BytesIO(), encoding=encoding)

    def written(self):
        return self.buffer.getvalue().decode(self.encoding)


class Broken(io.StringIO):
    encoding = "utf-8"

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def test_text_of_the_user_cannot_steer_the_terminal(capsys):
    terminal = Terminal()
    terminal.say("task \x1b]8;;http://evil\x07here", "two\nlines")
    terminal.table(["task", "score"], [["[link=http://evil]x[/link]", "1"], ["a\x1b[2J\nb", "2"]])
    complain("file \x1b[31m\nred")
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "task \\x1b]8;;http://evil\\x07here",
        "two\\nlines",
        "task                        score",
        "---------------------------------",
        "[link=http://evil]x[/link]      1",
        "a\\x1b[2J\\nb                     2",
    ]
    assert captured.err == "kernelkin: file \\x1b[31m red\n"


def test_a_terminal_without_the_characters_gets_escapes(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Stream("ascii"))
    terminal = Terminal()
    terminal.say("R² of 東京: 0.9 ± 0.1")
    assert sys.stdout.written() == "R\\xb2 of \\u6771\\u4eac: 0.9 \\xb1 0.1\n"


def test_columns_are_aligned_by_the_width_that_is_displayed():
    first, _, wide, combined = format_table(
        ["task", "n"], [["東京", "1"], ["e\u0301e\u0301e\u0301e\u0301", "2"]]
    ).split("\n")
    assert (first, wide, combined) == ("task  n", "東京  1", "e\u0301e\u0301e\u0301e\u0301  2")


def test_a_reader_that_is_gone_stops_only_commands_whose_result_is_what_they_print(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Broken())
    terminal = Terminal(keep_going=True)
    terminal.say("one")
    terminal.table(["a", "b"], [["1", "2"]])
    assert isinstance(terminal.lost, BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        Terminal().say("one")


def test_a_closed_output_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    terminal = Terminal()
    terminal.say("one")
    assert terminal.lost is None
