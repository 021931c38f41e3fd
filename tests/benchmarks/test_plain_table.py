"""A plain `kernelkin fit` of a small mixed table predicts well; `python -m benchmarks plain_table` times it."""

import json

from benchmarks.plain_table import command, write_table
from kernelkin.cli import main as cli
from kernelkin.relations.baselines import LINEAR


def test_a_plain_fit_finds_the_curve_and_the_colour(tmp_path, capsys):
    write_table(tmp_path / "data.csv")
    assert cli.main(command(tmp_path)) == 0
    found = json.loads(capsys.readouterr().out)
    scores = found["sharing"]["comparisons"]["new rows of known groups"]["scores"]
    assert scores["Kin"]["R²"] >= 0.97 and scores[LINEAR]["R²"] < 0.8
    assert max(found["column_shares"], key=found["column_shares"].get) in ("a", "all columns together")
