"""What tables and pages show."""

import csv

import toy_experiment as toy
from experiments.report import goal_lines
from experiments.summary import Cell
from experiments.tables import Table, main_table, task_table, to_csv


def _cell(mean, bold=False, runs=10, error=0.01):
    return Cell(mean, error, runs, 2.0, bold)


CELLS = {
    ("8 rows", "Mean"): _cell(1.01),
    ("8 rows", "AVG"): _cell(0.25, bold=True),
    ("12 rows", "AVG"): _cell(0.2, bold=True),
    ("12 rows", "ours"): _cell(0.21),
}


def test_bold_is_an_asterisk_in_plain_text_and_an_escape_on_a_terminal():
    table = Table(("model", "score"), (("a", "1"), ("bb", "22")), frozenset({(1, 1)}))
    assert table.text() == "model  score\n------------\na          1\nbb       22*"
    assert table.text(colour=True).splitlines()[-1] == "bb     \033[1m   22\033[0m"
    assert table.markdown().splitlines() == ["| model | score |", "| --- | --- |", "| a | 1 |", "| bb | **22** |"]


def test_the_papers_figures_stand_beside_ours_where_it_has_any():
    table = main_table(toy.PROTOCOL, CELLS)
    assert table.columns == ("nMSE", "8 rows", "12 rows", "paper")
    assert table.rows[0] == ("Mean", "1.0100 ± 0.0100", "-", "-")
    assert table.rows[1] == ("AVG", "0.2500 ± 0.0100", "0.2000 ± 0.0100", "0.5 ± 0.1")
    assert table.bold == {(1, 1), (1, 2)}


def test_one_run_has_no_standard_error():
    assert main_table(toy.PROTOCOL, {("8 rows", "AVG"): _cell(0.25, runs=1)}).rows == (("AVG", "0.2500"),)


def test_each_task_has_a_row_in_the_table_of_tasks():
    table = task_table(toy.PROTOCOL, {("left", "AVG"): _cell(0.3), ("right", "AVG"): _cell(0.4)})
    assert table.columns == ("nMSE", "AVG", "paper")
    assert table.rows == (("left", "0.3000 ± 0.0100", "0.4"), ("right", "0.4000 ± 0.0100", "-"))


def test_goals_are_met_or_missed_by_so_much():
    assert "ours 0.2100: met" in goal_lines(toy.PROTOCOL, CELLS)[0]
    missed = {**CELLS, ("12 rows", "ours"): _cell(0.35)}
    (text,) = goal_lines(toy.PROTOCOL, missed)
    assert "missed by 0.0500" in text
    assert "12 rows: more than a standard error better than ours: AVG (0.2000 ± 0.0100)" in text


def test_csv_has_a_line_for_each_setting_and_model():
    lines = list(csv.DictReader(to_csv(toy.PROTOCOL, CELLS).splitlines()))
    assert [(line["setting"], line["model"], line["nMSE"]) for line in lines][1] == ("8 rows", "AVG", "0.25")
    assert [line["paper"] for line in lines] == ["", "", "0.5 ± 0.1", ""]
