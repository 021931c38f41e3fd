"""`kernelkin reproduce`, on the toy experiment."""

import pytest
from kernelkin.cli import main

from experiments import toy


@pytest.fixture
def toy_experiment(monkeypatch):
    asked = []

    def find(name):
        asked.append(name)
        return toy.PROTOCOL

    monkeypatch.setattr("kernelkin.experiments.find_protocol", find)
    return asked


def test_the_table_is_shown_and_files_are_left(toy_experiment, tmp_path, capsys):
    assert main(["reproduce", "stock", "--runs", "2", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("nMSE") and "paper" in shown.out and "*" in shown.out
    assert "[18/18]" in shown.err and "left" in shown.err
    names = {path.name for path in (tmp_path / "stock").iterdir()}
    assert names == {"README.md", "results.csv", "results.json", "figure.png", "units"}
    assert "`kernelkin reproduce stock --runs 2`" in (tmp_path / "stock" / "README.md").read_text()


def test_a_second_time_nothing_is_done_and_the_table_is_the_same(toy_experiment, tmp_path, capsys):
    arguments = ["reproduce", "stock", "--runs", "1", "--models", "Mean", "AVG", "--output", str(tmp_path)]
    main(arguments)
    first = capsys.readouterr()
    main(arguments)
    second = capsys.readouterr()
    assert second.out == first.out
    assert first.err.count("\n") == 6 and second.err.startswith("[6/6] 6 found in ")


def test_sizes_and_models_choose_columns_and_rows(toy_experiment, tmp_path, capsys):
    main(["reproduce", "sarcos", "--runs", "1", "--sizes", "8", "--models", "Mean", "--output", str(tmp_path)])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["nMSE", "8", "rows"]
    assert [line.split()[0] for line in table[2:3]] == ["Mean"]


def test_names_of_short_and_published_versions(toy_experiment, tmp_path):
    few = ["--runs", "1", "--models", "Mean", "--output", str(tmp_path)]
    main(["reproduce", "stock", "--quick", *few])
    main(["reproduce", "stock", "--as-published", *few])
    assert toy_experiment == ["stock-quick", "stock-as-published"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["landmine", "--as-published"], "is for stock"),
        (["sarcos", "--sizes", "9"], "--sizes 9 is not one of [8, 12, 20]"),
        (["sarcos", "--models", "SVM"], "no row is named 'SVM'; there are 'Mean', 'AVG', 'ours'"),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(toy_experiment, tmp_path, capsys, arguments, message):
    assert main(["reproduce", *arguments, "--output", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
