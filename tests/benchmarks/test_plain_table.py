"""A plain `kernelkin fit` of a small mixed table predicts well; `python -m benchmarks plain_table` times it."""

import json

from benchmarks.plain_table import command, write_table
from kernelkin.cli import main as cli
from kernelkin.relations.baselines import LINEAR


def test_a_plain_fit_finds_the_curve_and_the_colour(tmp_path, capsys):
    write_table(tmp_path / "data.csv")
    assert cli.main(command(tmp_path, "--keep-test", "--repeats", "0")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mean_scores"]["Kin"] >= 0.97
    assert found["mean_scores"][LINEAR] < 0.8
    assert max(found["column_shares"], key=found["column_shares"].get) in ("a", "all columns together")
