import io
import re
import shlex
import sys

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model
from kernelkin.relations.baselines import ONE_FOR_ALL, SEPARATE
from kernelkin.report import report_of_files

FLAGS = ["--task", "shop", "--target"]


def test_says_what_it_found_guessed_and_measured(folder):
    out = (folder / "number.txt").read_text()
    for text in (
        "120 rows, 3 groups ('shop') of 40 rows.",
        "Regression: 'sales' is a number with",
        "Columns: numbers ('size'); yes or no ('promo'); texts ('day').",
        "Left out column 'id': a different text in every row",
        "Missing values in 'size'",
        "R² within groups, the predicted share of the variance around each group's own mean: ",
        "The 90% intervals of MK-MTRL contain ",
        "New rows of known groups: 120 test rows of 3 groups (5 folds inside groups)",
        "gain of MK-MTRL",
        "Recommendation: ",
        "structure found (p = ",
        "Certificate: the objective, ",
        "fitted to all rows",
    ):
        assert text in out
    # The answer comes before the details of the fit.
    assert out.index("120 rows") < out.index("RMSE") < out.index("Recommendation: ") < out.index("Certificate: ")


def test_what_is_saved_is_fitted_to_all_rows_and_says_how_it_was_measured(folder):
    saved = load_model(folder / "number.kin")
    assert saved.schema.n_rows == 120
    assert saved.about["task_rows"] == [["north", 40], ["south", 40], ["west", 40]]
    assert saved.model.couplings == "common"
    verdict = saved.about["sharing"]
    assert list(verdict.comparisons["new rows of known groups"].scores) == ["MK-MTRL", "Kin", SEPARATE, ONE_FOR_ALL]
    found = verdict.comparisons["new rows of known groups"]
    assert found.test_rows.tolist() == [40, 40, 40] and found.how == "5 folds inside groups"


def test_the_command_that_is_saved_makes_the_same_model(run, folder, tmp_path, sales):
    saved = load_model(folder / "number.kin")
    program, *command = shlex.split(saved.about["command"])
    command[command.index("-o") + 1] = str(tmp_path / "again.kin")
    assert program == "kernelkin"
    run(*command)
    np.testing.assert_array_equal(load_model(tmp_path / "again.kin").predict(sales), saved.predict(sales))


def test_shares_of_variance_and_structures_of_kin(run, folder, tmp_path):
    out = run("fit", folder / "sales.csv", *FLAGS, "busy", "-o", tmp_path / "m.kin", "--drop", "sales")
    assert "Classification: 'busy' is text with 2 distinct values: 'no', 'yes'." in out
    assert "of the variation is between the levels of the 3 groups" in out
    assert "structures were compared by the mean loss of held-out rows" in out and "Recommendation" not in out
    # The next commands are those that the model has: more than two classes have no effects of groups.
    assert "kernelkin effects" in out
    out = run("fit", folder / "sales.csv", *FLAGS, "day", "-o", tmp_path / "m.kin", "--drop", "sales", "--set", "cv=2")
    assert "kernelkin effects" not in out and "kernelkin predict" in out


def test_later_rows_and_several_groupings(run, sales, tmp_path):
    """Rows of a shop in order of a date: the last of each are held out; the weekday is a grouping too."""
    days = np.tile(np.arange(40), 3)
    frame = sales[["shop", "size", "day", "sales"]].assign(date=np.datetime64("2024-01-01") + days)
    frame.to_csv(tmp_path / "t.csv", index=False)
    argv = ["fit", tmp_path / "t.csv", *FLAGS, "sales", "--task", "day", "--time", "date", "-o", tmp_path / "m.kin"]
    out = run(*argv, "--set", "cv=2", compares=True)
    assert "Further grouping: 3 groups ('day') of" in out
    assert "Later rows of known groups: 36 test rows of 3 groups (the last 30% of each group)" in out
    assert "For later rows of known groups: " in out
    saved = load_model(tmp_path / "m.kin")
    assert saved.schema.task_names[1:] == ["day"] and [part.name for part in saved.model.groupings_] == ["day"]
    assert [found["question"] for found in saved.about["evaluations"]][:2] == [
        "new rows of known groups",
        "later rows of known groups",
    ]
    # A day that was not in training is one more group.
    new = frame.head(2).assign(day=["Sat", "Wed"])
    assert np.isfinite(saved.predict(new)).all()
    error = run(*argv[:-4], "--time", "shop", "-o", tmp_path / "n.kin", fails=True)
    assert "--time shop needs --task and a column of numbers or dates: " in error
    wide = ["fit", tmp_path / "t.csv", "--target", "sales", "size", "--time", "date"]
    assert "or dates: --task is missing" in run(*wide, "-o", tmp_path / "n.kin", fails=True)
    frame.assign(date=frame.date.where(frame.index != 5)).to_csv(tmp_path / "t.csv", index=False)
    assert "t.csv: --time date: fill in the cells without a time (1), or leave out their rows" in run(*argv, fails=True)
    error = run(*argv, "--model", "AVG", fails=True)
    assert "AVG takes one grouping: give --task once, or use Kin" in error


def test_cross_validation_kernels_and_parameters(run, folder, tmp_path):
    argv = ["--drop", "busy", "--cv", "--model", "AVG", "--set", "normalize=center", "--set", "kernels=linear"]
    out = run("fit", folder / "sales.csv", *FLAGS, "sales", *argv, "-o", tmp_path / "m.kin")
    saved = load_model(tmp_path / "m.kin")
    assert saved.model.kernel_names_.tolist() == ["linear"]
    assert saved.model.normalize == "center"
    assert saved.model.C != 1 and f"C={saved.model.C:g}, normalize=center" in out
    assert "test rows" not in out and "evaluations" not in saved.about


@pytest.mark.parametrize("model", ["Kin", "MK-MTRL"])
@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("linear", ["linear"]),
        ('["rbf","linear"]', ["rbf(1 x median)", "linear"]),
        (
            # A text column stands for all features that are made of it; the defaults are six kernels.
            '{"size":["size","day"]}',
            [*(f"size: rbf({width} x median)" for width in (0.5, 1, 2)), "size: linear"],
        ),
    ],
)
def test_kernels_by_name_in_a_list_and_on_groups_of_columns(run, folder, tmp_path, model, given, names):
    argv = ["--drop", "busy", "id", "--model", model, "--set", f"kernels={given}"]
    run("fit", folder / "sales.csv", *FLAGS, "sales", *argv, "-o", tmp_path / "m.kin")
    fitted = load_model(tmp_path / "m.kin").model
    kernels = fitted.functions_.kernels.kernels if model == "Kin" else fitted.kernels_
    assert [kernel.name for kernel in kernels][-len(names) :] == names
    assert len(kernels) == len(names) + 6 * given.startswith("{")
    # The features are size, whether it is missing, three days and promo.
    columns = {tuple(range(6)), (0, 1, 2, 3, 4)} if given.startswith("{") else {tuple(range(6))}
    assert {kernel.columns for kernel in kernels} == columns


def test_from_standard_input(run, sales, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(sales.to_csv(index=False)))
    out = run("fit", "-", *FLAGS, "sales", "--model", "AVG", "-o", tmp_path / "m.kin")
    assert "120 rows" in out


def test_rows_and_tasks_that_cannot_be_used_are_left_out(run, sales, tmp_path):
    frame = sales.drop(columns="sales")
    frame.loc[frame.shop == "west", "busy"] = "no"
    frame.loc[0, "busy"] = None
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    out = run("fit", tmp_path / "t.tsv", *FLAGS, "busy", "--model", "MK-MTRL", "-o", tmp_path / "m.kin")
    assert "Left out 1 of 120 rows, without 'shop' or 'busy': row 1." in out
    assert "Left out 1 group with only one class: 'west'." in out


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
        (["--target", "sales", "--set", "kernels=magic"], "--set kernels: unknown kernel 'magic'; known names: "),
        (["--target", "busy", "--set", 'kernels=["rbf", 3]'], "--set kernels: a kernel must be a name, a Kernel or"),
        (["--target", "sales", "--set", 'kernels={"a": [0]}'], "columns of a table must be given by name"),
        (
            ["--target", "sales", "--set", 'kernels={"a": "old"}'],
            "'old' is not a column of X, which has 'size', 'size:",
        ),
        (["--target", "sales", "--set", "D=3"], "--set D: there is no such parameter; MK"),
        (["--target", "sales", "--set", "C"], "--set 'C' is not of the form NAME=VALUE"),
        (
            ["--target", "sales", "--model", "AVG", "--set", "couplings=common"],
            "--set couplings: there is no such parameter; AVG",
        ),
        (["--target", "sales", "--cv", "--scoring", "magic"], "--scoring magic"),
        (["--target", "sales", "--scoring", "r2"], "--scoring sets the score that --cv maximises"),
        (["--target", "sales", "--cv", "--model", "Kin"], "--cv: Kin has no parameters left to choose"),
        (["--target", "sales", "--set", "loss=poisson"], "--set loss: use --loss poisson for Kin"),
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
    out = run(*argv, "--set", "C=0.001", compares=True)
    assert re.search(r"Recommendation: (Kin|one model for all|a linear mixed|gradient boosting|a separate)", out)
    assert "--cv tunes them" in out


def test_counts_with_their_exposure(run, tmp_path):
    rng = np.random.default_rng(0)
    shops, x, hours = np.repeat(list("abcdef"), 12), rng.normal(size=72), rng.uniform(1, 20, 72).round(1)
    sold = rng.poisson(hours * np.exp(0.5 * x + np.repeat(rng.normal(size=6), 12)))
    frame = pd.DataFrame({"shop": shops, "x": x, "hours": hours, "sold": sold})
    frame.to_csv(tmp_path / "t.csv", index=False)
    argv = [
        "fit",
        tmp_path / "t.csv",
        "--task",
        "shop",
        "--target",
        "sold",
        "--exposure",
        "hours",
        "-o",
        tmp_path / "m.kin",
    ]
    out = run(*argv, "--loss", "poisson", "--set", "cv=2", compares=True)
    assert "Counts: 'sold', as the options say; exposure: 'hours'." in out and "groups never seen" in out
    saved = load_model(tmp_path / "m.kin")
    assert [column.name for column in saved.schema.columns] == ["x"]
    words, typical = report_of_files([saved]).models[0]["drivers"]["quantity"].split(" = ")
    assert words == "sold at hours" and float(typical) == pytest.approx(np.median(hours), rel=0.005)
    # Twice the hours, twice the sales; intervals are of counts.
    np.testing.assert_allclose(saved.predict(frame.assign(hours=2 * hours)), 2 * saved.predict(frame), rtol=1e-6)
    assert (saved.predict_interval(frame) % 1 == 0).all()
    run("predict", tmp_path / "m.kin", tmp_path / "t.csv", "--interval", "-o", tmp_path / "p.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv").prediction, saved.predict(frame))
    assert "log(sold)" in run("effects", tmp_path / "m.kin")
    run("report", tmp_path / "m.kin", "-o", tmp_path / "r.html")
    compare = ["compare", *argv[1 : argv.index("-o")], "--loss", "poisson", "--folds", "2"]
    assert "Recommendation: " in run(*compare)
    assert "need --loss poisson" in run(*argv, fails=True)
    assert "--loss poisson: this loss is for Kin, not for AVG" in run(
        *argv, "--loss", "poisson", "--model", "AVG", fails=True
    )
    # Row 1 has no count and is left out, so the exposure of row 3 is the first that is needed.
    frame.assign(hours=frame.hours.where(~frame.index.isin([0, 2])), sold=frame.sold.where(frame.index > 0)).to_csv(
        tmp_path / "t.csv", index=False
    )
    error = run(*argv, "--loss", "poisson", fails=True)
    assert "t.csv: column 'hours' has no exposure in row 3" in error
    for column, cell, message in (
        ("hours", 0, "column 'hours' has the exposure 0 in row 4; a positive number is needed"),
        ("sold", -2, "column 'sold' has '-2.0' in row 4, not a count"),
        ("sold", 1.5, "column 'sold' has '1.5' in row 4, not a count"),
    ):
        wrong = frame.astype({column: float})
        wrong.loc[3, column] = cell
        wrong.to_csv(tmp_path / "t.csv", index=False)
        assert f"t.csv: {message}" in run(*argv, "--loss", "poisson", fails=True)
    assert "--drop sold: this column is needed" in run(*argv, "--drop", "sold", fails=True)
