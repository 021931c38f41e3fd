import io
import re
import shlex
import sys

import numpy as np
import pytest

from kernelkin import load_model
from kernelkin.relations import SharingReport
from kernelkin.relations.baselines import ONE_FOR_ALL, SEPARATE

FLAGS = ["--task", "shop", "--target"]


def test_says_what_it_found_guessed_and_measured(folder):
    out = (folder / "number.txt").read_text()
    for text in (
        "120 rows, 3 tasks ('shop') of 40 rows.",
        "Regression: 'sales' is a number with",
        "1 number, standardised ('size'); 1 yes or no ('promo'); 1 text, one feature for each value ('day')",
        "Left out column 'id': a different text in every row",
        "Missing values in 'size'",
        "30 held-out rows of all tasks (trained on 90; parameters at their defaults or as given):",
        "R² within groups is the predicted share of the variance around each group's own mean",
        "R² inside each task, best first:",
        "New rows of known groups: 90 test rows of 3 groups (5 folds inside groups)",
        "gain of MK-MTRL",
        "Recommendation: ",
        "structure found (p = ",
        "Certified: the objective is within",
        "fitted to all rows",
    ):
        assert text in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("north", "south", "west", "mean "))]
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    assert values.shape == (4, 2)
    np.testing.assert_allclose(values[:3].mean(axis=0), values[3], atol=1e-3)


def test_what_is_saved_is_fitted_to_all_rows_and_says_how_it_was_measured(folder):
    saved = load_model(folder / "number.kin")
    assert saved.schema.n_rows == 120
    assert saved.about["evaluation"]["train_rows"] == 90
    assert list(saved.about["evaluation"]["scores"]) == ["MK-MTRL", SEPARATE, ONE_FOR_ALL]
    assert saved.about["task_rows"] == [["north", 40], ["south", 40], ["west", 40]]
    assert saved.model.couplings == "common"
    verdict = SharingReport.from_dict(saved.about["sharing"])
    assert list(verdict.comparisons["new rows of known groups"].scores) == ["MK-MTRL", "Kin", SEPARATE, ONE_FOR_ALL]
    # By cross-validation inside the 90 training rows: the 30 test rows are not used.
    found = verdict.comparisons["new rows of known groups"]
    assert found.test_rows.tolist() == [30, 30, 30] and found.how == "5 folds inside groups"


def test_the_command_that_is_saved_makes_the_same_model(run, folder, tmp_path, sales):
    saved = load_model(folder / "number.kin")
    program, *command = shlex.split(saved.about["command"])
    command[command.index("-o") + 1] = str(tmp_path / "again.kin")
    assert program == "kernelkin"
    run(*command)
    np.testing.assert_array_equal(load_model(tmp_path / "again.kin").predict(sales), saved.predict(sales))


def test_keep_test_saves_the_model_that_was_tested(run, folder, tmp_path):
    out = run("fit", folder / "sales.csv", *FLAGS, "busy", "--keep-test", "-o", tmp_path / "m.kin", "--drop", "sales")
    assert "Classification: 'busy' is text with 2 distinct values." in out
    assert "without the test rows" in out
    assert "structures were compared by the errors of held-out rows" in out and "Recommendation" not in out
    assert load_model(tmp_path / "m.kin").schema.n_rows == 90


def test_cross_validation_kernels_and_parameters(run, folder, tmp_path):
    argv = ["--drop", "busy", "--cv", "--model", "AVG", "--kernels", "gaussian:1", "linear@each"]
    argv += ["--set", "normalize=center"]
    out = run("fit", folder / "sales.csv", *FLAGS, "sales", *argv, "--test-size", "0", "-o", tmp_path / "m.kin")
    saved = load_model(tmp_path / "m.kin")
    assert saved.model.kernel_names_.tolist() == ["rbf(1 x median)", "size: linear", "day: linear", "promo: linear"]
    assert saved.model.normalize == "center"
    assert saved.model.C > 10 and f"C={saved.model.C:g}, normalize=center" in out
    assert "test rows" not in out
    assert "evaluation" not in saved.about


def test_from_standard_input(run, sales, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(sales.to_csv(index=False)))
    out = run("fit", "-", *FLAGS, "sales", "--test-size", "0", "--model", "AVG", "-o", tmp_path / "m.kin")
    assert "120 rows" in out


def test_rows_and_tasks_that_cannot_be_used_are_left_out(run, sales, tmp_path):
    frame = sales.drop(columns="sales")
    frame.loc[frame.shop == "west", "busy"] = "no"
    frame.loc[0, "busy"] = None
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    out = run("fit", tmp_path / "t.tsv", *FLAGS, "busy", "--quick", "-o", tmp_path / "m.kin")
    assert "Left out 1 of 120 rows, without 'shop' or 'busy': row 1." in out
    assert "Left out 1 task with only one class: 'west'." in out


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--target", "profit"], "column is missing: 'profit'; the data has 'id', 'shop'"),
        (["--target", "shop"], "--task and --target are the same column"),
        (["--target", "busy", "--regression"], "sales.csv: column 'busy' has 'no' in row 1, not a number"),
        (["--target", "sales", "size"], "with several --target columns, each is a task: leave out --task"),
        (["--target", "sales", "--model", "magic"], "unknown model 'magic'"),
        (["--target", "sales", "--model", "MRCE"], "needs all targets for every row"),
        (["--target", "busy", "--model", "OLS"], "OLS does not support classification"),
        (["--target", "sales", "--kernels", "magic"], "unknown kernel 'magic'"),
        (["--target", "sales", "--set", "D=3"], "--set D: MK-MTRL has 'C'"),
        (["--target", "sales", "--set", "C"], "--set 'C' is not of the form NAME=VALUE"),
        (
            ["--target", "sales", "--model", "AVG", "--couplings", "common"],
            "--couplings: AVG has no part that tasks share",
        ),
        (["--target", "sales", "--test-size", "2"], "--test-size must be at least 0 and below 1, not 2"),
        (["--target", "sales", "--cv", "--scoring", "magic"], "--scoring magic"),
        (["--target", "sales", "--scoring", "r2"], "--scoring sets the score that --cv maximises"),
        (["--target", "sales", "--sharing-repeats", "-1"], "--sharing-repeats must be 0 or more, not -1"),
    ],
)
def test_errors_are_one_line_and_nothing_is_saved(run, folder, tmp_path, argv, error):
    out = run("fit", folder / "sales.csv", "--task", "shop", *argv, "-o", tmp_path / "m.kin", fails=True)
    last = out.splitlines()[-1]
    assert last.startswith("kernelkin: error: ")
    assert error in last
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read_or_written(run, folder, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("shop,sales\n")
    (tmp_path / "one.csv").write_text("shop#sales\na#1\n")
    for name, error in (
        ("one.csv", "one.csv has one column, 'shop#sales': set the column separator, such as --sep ';' or --sep tab"),
        ("no.csv", "No such file"),
        ("empty.csv", "is empty"),
        ("head.csv", "has no rows"),
    ):
        assert error in run("fit", tmp_path / name, *FLAGS, "sales", "-o", tmp_path / "m", fails=True)
    assert "the ending must be one of" in run("fit", "data.xls", *FLAGS, "sales", "-o", tmp_path / "m", fails=True)
    error = run("fit", folder / "sales.csv", *FLAGS, "sales", "-o", tmp_path / "none" / "m", fails=True)
    assert "there is no folder" in error


def test_a_model_that_loses_says_so_and_what_to_do(run, folder, tmp_path):
    argv = ["fit", folder / "sales.csv", *FLAGS, "sales", "--drop", "busy", "-o", tmp_path / "m.kin"]
    out = run(*argv, "--set", "C=0.001", "--sharing-repeats", "1")
    assert re.search(r"Recommendation: (Kin|one model for all|a linear mixed|gradient boosting|a separate)", out)
    assert "--cv tunes them" in out
