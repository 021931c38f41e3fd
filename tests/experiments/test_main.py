"""`python -m experiments`, on the toy experiment."""

import re

import pytest

import toy_experiment as toy
from experiments import EXPERIMENTS
from experiments.__main__ import main


@pytest.fixture
def requested(monkeypatch):
    """The names of the experiments that were looked up; the toy stands for each."""
    names = []

    def find(name):
        names.append(name)
        return toy.PROTOCOL

    monkeypatch.setattr("experiments.find_protocol", find)
    return names


def test_prints_the_table_and_writes_all_files(requested, tmp_path, capsys):
    assert main(["stock", "--runs", "2", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("nMSE") and "paper" in printed.out and "*" in printed.out
    assert "[18/18]" in printed.err and "left" in printed.err
    names = {path.name for path in (tmp_path / "stock").iterdir()}
    assert names == {"README.md", "results.csv", "results.json", "figure.png", "units"}
    page = (tmp_path / "stock" / "README.md").read_text()
    for part in (
        "# A toy",
        "goal 0.3 (the toy's maker)",
        "A remark.",
        "![nMSE against training rows](figure.png)",
        "| left |",
        "`python -m experiments stock --runs 2` with kernelkin",
        "2 runs (the protocol has 3; the same command goes on from here) of each model",
    ):
        assert part in page


def test_a_repeated_command_uses_the_stored_results(requested, tmp_path, capsys):
    arguments = ["stock", "--runs", "1", "--models", "Mean", "AVG", "--output", str(tmp_path)]
    main(arguments)
    first = capsys.readouterr()
    main(arguments)
    second = capsys.readouterr()
    assert second.out == first.out
    assert first.err.count("\n") == 6 and second.err.startswith("[6/6] 6 found in ")


def test_sizes_and_models_select_columns_and_rows(requested, tmp_path, capsys):
    main(["sarcos", "--runs", "1", "--sizes", "8", "--models", "Mean", "--output", str(tmp_path)])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["nMSE", "8", "rows"]
    assert [line.split()[0] for line in table[2:3]] == ["Mean"]


def test_all_experiments_run_when_none_is_named_and_options_choose_their_version(requested, tmp_path):
    few = ["--runs", "1", "--models", "Mean", "--output", str(tmp_path)]
    main(few)
    assert requested == list(EXPERIMENTS)
    main(["stock", "--quick", "--as-published", *few])
    assert requested[-1] == "stock-as-published-quick"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sarcos", "--sizes", "9"], r"--sizes 9 is not one of \[8, 12, 20\]"),
        (["sarcos", "--models", "SVM"], r"--models: no row is named 'SVM'; choose from 'Mean', 'AVG', 'ours'"),
    ],
)
def test_unknown_sizes_and_models_are_errors_before_any_work(requested, tmp_path, capsys, arguments, message):
    assert main([*arguments, "--output", str(tmp_path / "results")]) == 1
    assert re.fullmatch(f"python -m experiments: error: {message}\n", capsys.readouterr().err)
    assert not (tmp_path / "results").exists()


def test_an_output_folder_that_cannot_be_written_is_an_error_before_any_work(requested, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr("experiments.engine.run_unit", lambda *unit: pytest.fail("a run was started"))
    assert main(["stock", "--output", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_an_unknown_experiment_is_an_error_that_lists_the_known_ones(tmp_path, capsys):
    assert main(["landmine", "--as-published", "--output", str(tmp_path)]) == 1
    known = ", ".join(EXPERIMENTS)
    assert f"no experiment is named 'landmine-as-published'; choose from {known}\n" in capsys.readouterr().err
