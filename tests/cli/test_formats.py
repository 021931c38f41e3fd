"""Several targets, labelled test files, formats of files, scores and JSON on the command line."""

import json
import lzma
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import r2_score, roc_auc_score

from kernelkin import load_model

FLAGS = ["--task", "shop", "--target", "sales", "--drop", "busy", "--model", "AVG"]


@pytest.fixture(scope="module")
def wide():
    """Two targets on the same rows, of which some are missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "day": rng.choice(["Mon", "Sat"], 60)})
    frame["up"], frame["down"] = 10 * frame.x + 100, 2 * (frame.day == "Sat") - frame.x
    frame.loc[:4, "up"] = np.nan
    return frame


@pytest.fixture(scope="module")
def wide_model(wide, tmp_path_factory):
    from kernelkin.cli import main as cli

    folder = tmp_path_factory.mktemp("wide")
    wide.to_csv(folder / "t.csv", index=False)
    argv = ["fit", folder / "t.csv", "--target", "up", "down", "--model", "AVG", "--set", "C=100", "-o", folder / "m"]
    assert cli.main(list(map(str, argv))) == 0
    return folder


def test_several_targets_are_tasks_on_the_same_rows(run, wide, wide_model, tmp_path):
    saved = load_model(wide_model / "m")
    assert saved.model.tasks_.tolist() == ["up", "down"]
    assert saved.about["task_rows"] == [["up", 55], ["down", 60]]
    (found,) = saved.about["evaluations"]
    assert found["test_rows"] == [55, 60] and found["score"] == "R²"
    assert min(found["task_score"]) > 0.9
    run("predict", wide_model / "m", wide_model / "t.csv", "-o", tmp_path / "p.csv")
    out = pd.read_csv(tmp_path / "p.csv")
    assert out.columns.tolist() == ["x", "day", "up", "down", "up prediction", "down prediction"]
    assert_allclose(out[["up prediction", "down prediction"]], saved.predict(wide))
    # Predictions are in the units of each target.
    assert_allclose(out["up prediction"], 10 * wide.x + 100, atol=3)
    assert "every target; 2 groups: 'up', 'down'" in run("inspect", wide_model / "m")


def test_intervals_of_several_targets(run, wide, wide_model, tmp_path):
    run("predict", wide_model / "m", wide_model / "t.csv", "--interval", "0.8", "-o", tmp_path / "p.csv")
    out = pd.read_csv(tmp_path / "p.csv")
    ends = ["up prediction_low", "up prediction_high", "down prediction_low", "down prediction_high"]
    assert out.columns.tolist()[-4:] == ends
    assert_allclose(out[ends], load_model(wide_model / "m").predict_interval(wide, 0.8).reshape(60, 4))
    # In the units of each target, around its prediction.
    for target in ("up", "down"):
        name = f"{target} prediction"
        assert (out[f"{name}_low"] < out[name]).all() and (out[name] < out[f"{name}_high"]).all()
    assert ((wide.up > out[ends[0]]) & (wide.up < out[ends[1]]))[5:].mean() >= 0.6


def test_probabilities_of_several_targets(run, wide, tmp_path):
    frame = pd.DataFrame({"x": wide.x, "y": wide.down, "busy": np.where(wide.x > 0, "yes", "no"), "wet": wide.day})
    frame.loc[:3, "busy"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--target", "busy", "wet", "--model", "AVG", "-o", tmp_path / "m")
    run("predict", tmp_path / "m", tmp_path / "t.csv", "--proba", "-o", tmp_path / "p.csv")
    out, saved = pd.read_csv(tmp_path / "p.csv"), load_model(tmp_path / "m")
    for k, (target, labels) in enumerate({"busy": ["no", "yes"], "wet": ["Mon", "Sat"]}.items()):
        columns = [f"{target} probability_{label}" for label in labels]
        assert [name for name in out.columns if name.startswith(f"{target} prob")] == columns
        assert_allclose(out[columns], saved.predict_proba(frame)[:, k, np.isin(saved.model.classes_, labels)])
        best = np.array(labels)[out[columns].to_numpy().argmax(axis=1)]
        assert (best == out[f"{target} prediction"]).mean() > 0.9


def test_scores_of_several_targets_leave_out_missing_ones(run, wide, wide_model):
    found = json.loads(run("score", wide_model / "m", wide_model / "t.csv", "--json"))
    predicted = load_model(wide_model / "m").predict(wide)[5:, 0]
    assert found["groups"][0]["group"] == "up" and found["groups"][0]["rows"] == 55
    assert_allclose(found["groups"][0]["R²"], r2_score(wide.up[5:], predicted))


def test_a_target_alone_needs_tasks(run, wide_model):
    error = run("fit", wide_model / "t.csv", "--target", "up", "-o", wide_model / "n", fails=True)
    assert "--task is missing: name the column with the group of each row, or several --target columns" in error


def test_targets_of_two_kinds_are_refused(run, wide_model):
    error = run("fit", wide_model / "t.csv", "--target", "up", "day", "-o", wide_model / "n", fails=True)
    assert "'up' is a number and 'day' a class: fit them separately" in error


def test_scores_of_known_and_of_new_groups_in_the_units_of_the_target(run, folder, sales, tmp_path):
    run("fit", folder / "sales.csv", *FLAGS[:-2], "--set", "cv=2", "-o", tmp_path / "m.kin")
    later = pd.concat([sales.iloc[::4], sales.iloc[:6].assign(shop="east")])
    later.to_csv(tmp_path / "later.csv", index=False)
    found = json.loads(run("score", tmp_path / "m.kin", tmp_path / "later.csv", "--json"))
    saved = load_model(tmp_path / "m.kin")
    for question, rows in (
        ("new rows of known groups", later.shop != "east"),
        ("groups never seen", later.shop == "east"),
    ):
        y, predicted = later.sales[rows], saved.predict(later[rows])
        scores = found["scores"][question]
        assert_allclose(scores["RMSE"], np.sqrt(np.mean((y - predicted) ** 2)))
        assert_allclose(scores["R²"], r2_score(y, predicted))
        low, high = saved.predict_interval(later[rows], 0.9).T
        assert_allclose(scores["in 90% interval"], np.mean((low <= y) & (y <= high)))
    assert [group["group"] for group in found["groups"]] == ["north", "south", "west", "east"]
    own = later[later.shop == "north"]
    assert_allclose(found["groups"][0]["RMSE"], np.sqrt(np.mean((own.sales - saved.predict(own)) ** 2)))
    out = run("score", tmp_path / "m.kin", tmp_path / "later.csv")
    assert "groups never seen" in out and "north" in out


def test_scores_of_classes(run, folder, sales):
    found = json.loads(run("score", folder / "class.kin", folder / "sales.csv", "--json"))
    p = load_model(folder / "class.kin").predict_proba(sales)
    scores = found["scores"]["new rows of known groups"]
    assert_allclose(scores["AUC"], roc_auc_score(sales.busy == "yes", p[:, 1]))
    assert_allclose(scores["accuracy"], np.mean((p[:, 1] > 0.5) == (sales.busy == "yes")))


def test_scores_name_texts_that_were_not_in_training(run, folder, sales, tmp_path):
    sales.assign(day=sales.day.replace("Mon", "mon")).to_csv(tmp_path / "t.csv", index=False)
    out = run("score", folder / "class.kin", tmp_path / "t.csv")
    assert "column 'day' has values that were not in training: 'mon';" in out


def test_semicolons_decimal_commas_and_another_encoding(run, folder, sales, tmp_path):
    frame = sales.assign(shop=sales.shop.str.replace("south", "süd"))
    frame.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",", encoding="cp1252")
    run("fit", folder / "sales.csv", *FLAGS, "-o", tmp_path / "plain.kin")
    argv = ["--decimal", ",", "--encoding", "cp1252"]
    run("fit", tmp_path / "t.csv", *FLAGS, *argv, "-o", tmp_path / "m.kin")
    run("predict", tmp_path / "m.kin", tmp_path / "t.csv", *argv, "-o", tmp_path / "p.csv")
    out = pd.read_csv(tmp_path / "p.csv", sep=";", decimal=",")
    assert_allclose(out.prediction, load_model(tmp_path / "plain.kin").predict(sales), rtol=1e-6)
    error = run("fit", tmp_path / "t.csv", *FLAGS, "--encoding", "cp1252", "-o", tmp_path / "n", fails=True)
    assert "t.csv: column 'sales' has numbers with the decimal separator ',': use --decimal ," in error
    error = run("fit", tmp_path / "t.csv", *FLAGS, "--decimal", ",", "-o", tmp_path / "n", fails=True)
    assert "which is not UTF-8: save the file as UTF-8, or use --encoding cp1252" in error


def test_a_labelled_table_is_read_as_the_table_to_predict(run, sales, tmp_path):
    """Thousands with points, and codes that look like numbers: 1.10 is not 1.1."""
    frame = sales.drop(columns=["id", "busy", "promo"]).dropna()
    frame["size"] = (1000 + 10 * frame["size"]).astype(int)
    frame["code"] = np.resize(["1.10", "1.1", "7", "a"], len(frame))
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "--task", "shop", "--target", "sales", "--model", "AVG", "-o", tmp_path / "m.kin")
    later = frame[frame.code != "a"]
    later = later.assign(size=later["size"].map("{:,}".format).str.replace(",", "."))
    later.iloc[5, later.columns.get_loc("code")] = None
    later.to_csv(tmp_path / "later.csv", index=False, sep=";", decimal=",")
    argv = [tmp_path / "m.kin", tmp_path / "later.csv", "--decimal", ","]
    run("predict", *argv, "-o", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv", sep=";", decimal=",")
    scores = json.loads(run("score", *argv, "--json"))["scores"]["new rows of known groups"]
    assert_allclose(scores["RMSE"], np.sqrt(np.mean((found.sales - found.prediction) ** 2)))


def test_a_group_named_na_is_predicted_from_excel(run, sales, tmp_path):
    frame = sales.assign(shop=sales.shop.replace("west", "NA"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", *FLAGS, "-o", tmp_path / "m.kin")
    found = []
    for name, write in (("t.csv", frame.to_csv), ("t.xlsx", frame.to_excel)):
        write(tmp_path / name, index=False)
        run("predict", tmp_path / "m.kin", tmp_path / name, "-o", tmp_path / "p.csv")
        found.append(pd.read_csv(tmp_path / "p.csv").prediction)
    assert_allclose(*found)


def test_rows_of_errors_are_those_of_the_file_when_others_are_left_out(run, sales, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": sales["shop"].map({"north": 1, "south": 2, "west": 3}), "x": rng.normal(size=120)})
    frame["sold"], frame["hours"] = rng.poisson(3, 120), rng.uniform(1, 2, 120)
    frame.to_csv(tmp_path / "t.csv", index=False)
    argv = ["--task", "shop", "--target", "sold", "--loss", "poisson", "--exposure", "hours", "--set", "cv=2"]
    run("fit", tmp_path / "t.csv", *argv, "-o", tmp_path / "m.kin")
    for column, cell, message in (
        ("hours", None, "column 'hours' has no exposure in row 5"),
        ("shop", "one", "column 'shop' has 'one' in row 5, not a number"),
    ):
        later = frame.astype(object)
        later.loc[1, "sold"], later.loc[4, column] = None, cell
        later.to_csv(tmp_path / "later.csv", index=False)
        for command in (
            ["score", tmp_path / "m.kin", tmp_path / "later.csv"],
            ["report", tmp_path / "m.kin", "--test", tmp_path / "later.csv", "-o", tmp_path / "r.html"],
        ):
            assert f"later.csv: {message}" in run(*command, fails=True)


def test_a_separator_of_ones_own(run, sales, tmp_path):
    sales.to_csv(tmp_path / "t.csv", index=False, sep="#")
    out = run("fit", tmp_path / "t.csv", *FLAGS, "--sep", "#", "-o", tmp_path / "m.kin")
    assert "120 rows, 3 groups" in out


@pytest.mark.parametrize(
    ("mark", "header", "decimal", "advice"),
    [
        (";", "size (m,2)", ",", r"more fields than the header.*set the column separator \(--sep\)"),
        (
            ";",
            "size, at most",
            ".",
            r"columns are missing: 'sales', 'shop'.* if columns are separated by ';'.*--sep ';'",
        ),
        ("\t", "size, at most", ".", r"columns are missing: 'sales', 'shop'.* \(--sep tab\)"),
    ],
)
def test_commas_in_a_header_with_another_separator(run, sales, tmp_path, mark, header, decimal, advice):
    frame = sales[["shop", "size", "sales"]].dropna().rename(columns={"size": header})
    frame.to_csv(tmp_path / "t.csv", index=False, sep=mark, decimal=decimal)
    argv = [
        "fit",
        tmp_path / "t.csv",
        "--task",
        "shop",
        "--target",
        "sales",
        "--model",
        "AVG",
        "-o",
        tmp_path / "m.kin",
    ]
    assert re.search(advice, run(*argv, fails=True))
    run(*argv, "--sep", "tab" if mark == "\t" else mark, "--decimal", decimal)


def test_one_row_with_too_many_fields_may_have_another_separator(run, tmp_path):
    (tmp_path / "t.csv").write_text("shop;a, b;sales\nx;1;2\nx;1,5;2,5\n")
    error = run("fit", tmp_path / "t.csv", "--task", "shop", "--target", "sales", "-o", tmp_path / "m.kin", fails=True)
    assert "line 3 has 3 fields" in error and "set the column separator (--sep)" in error


@pytest.mark.parametrize("name", ["t.csv.xz", "t.xlsx"])
def test_other_files(run, folder, sales, tmp_path, name):
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl", reason="Excel files need openpyxl")
        sales.to_excel(tmp_path / name, index=False)
    else:
        (tmp_path / name).write_bytes(lzma.compress((folder / "sales.csv").read_bytes()))
    found = [
        json.loads(run("score", folder / "number.kin", path, "--json"))
        for path in (folder / "sales.csv", tmp_path / name)
    ]
    assert found[0]["groups"] == found[1]["groups"]
    (tmp_path / f"bad{name}").write_bytes(b"no such file")
    assert f"bad{name}" in run("score", folder / "number.kin", tmp_path / f"bad{name}", fails=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sales": {16: "two"}}, r"column 'sales' has 'two' in row 17, not a number: correct or empty this cell"),
        ({"size": {16: "inf"}}, r"column 'size' has 'inf' in row 17, not a number: correct this cell or empty it"),
        ({"size": {16: "1e300"}}, r"column 'size' has '1e+300' in row 17, too large a number"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(run, sales, tmp_path, change, message):
    frame = sales.astype(object)
    # Rows that are left out do not move the others.
    frame.loc[:5, "shop"] = None
    for column, cells in change.items():
        frame.loc[list(cells), column] = list(cells.values())
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert f"error: {tmp_path}/t.csv: {message}" in run(
        "fit", tmp_path / "t.csv", *FLAGS, "-o", tmp_path / "m", fails=True
    )


def test_json_is_all_that_is_printed(run, folder, tmp_path):
    found = json.loads(run("fit", folder / "sales.csv", *FLAGS, "-o", tmp_path / "m.kin", "--json"))
    assert found["columns"]["day"] == "text with 3 values, one feature each"
    assert "a different text in every row" in found["left_out"]["id"]


def test_targets_with_a_unit(run, sales, tmp_path):
    frame = sales.assign(sales=[f"{value} EUR" for value in sales.sales])
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "Unit of 'sales': EUR." in run("fit", tmp_path / "t.csv", *FLAGS, "-o", tmp_path / "m", "--no-comparison")
    found = json.loads(run("score", tmp_path / "m", tmp_path / "t.csv", "--json"))
    assert found["scores"]["new rows of known groups"]["RMSE"] < sales.sales.std()
    frame.assign(sales=[f"{value} USD" for value in sales.sales]).to_csv(tmp_path / "u.csv", index=False)
    error = run("score", tmp_path / "m", tmp_path / "u.csv", fails=True)
    assert (
        "u.csv: column 'sales' has '" in error and "USD' in row 1, not a number: correct this cell or empty it" in error
    )


def test_the_whole_table_decides_which_of_day_and_month_is_first(run, tmp_path):
    """One date in 72 shows that the day is first; rows of a fold may be without it."""
    rng = np.random.default_rng(0)
    days = [f"{day}/{month}/2003" for month in range(1, 13) for day in (2, 4, 6, 8, 10, 12)]
    days[7] = "28/2/2003"
    frame = pd.DataFrame({"shop": list("ab") * 36, "day": days, "x": rng.normal(size=72), "y": rng.normal(size=72)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = ["--task", "shop", "--target", "y", "--model", "AVG", "--no-comparison", "-o", tmp_path / "m.kin"]
    printed = run("fit", tmp_path / "t.csv", *how)
    assert "date written like 31/12/2024," in printed and "\n\n\n" not in printed
    frame.drop(index=7).to_csv(tmp_path / "t.csv", index=False)
    assert "date written like 31/12/2024," in run("fit", tmp_path / "t.csv", *how, "--day-first")


def test_a_stray_text_in_a_held_out_row_leaves_the_column_out(run, sales, tmp_path):
    days = pd.date_range("2024-01-01", periods=len(sales)).strftime("%Y-%m-%d").to_numpy(dtype=object)
    for row in (9, 50):  # whichever rows are held out, one of the two texts is in few training rows
        days[row] = "soon"
    table = tmp_path / "t.csv"
    sales.assign(date=days).drop(columns="busy").to_csv(table, index=False)
    task = ["--task", "shop", "--target", "sales"]
    printed = run("fit", str(table), *task, "--model", "MK-MTRL", "--no-comparison", "-o", str(tmp_path / "m.kin"))
    assert "dates mixed with text, such as 'soon' in row 10" in printed
    run("compare", str(table), *task, "--models", "AVG", "--folds", "2")


@pytest.mark.parametrize(
    ("command", "change", "message"),
    [
        ("predict", {"columns": {"size": "Size"}}, "'size'; the data has 'id', 'shop', 'Size', .*did you mean 'Size'"),
        ("predict", {"columns": {"size": "s" * 10**6}}, "the data has 'id', 'shop', 's+…s+', 'day'"),
        ("score", {"cell": "many"}, "column 'sales' has 'many' in row 9, not a number"),
        ("report", {"cell": "many"}, "column 'sales' has 'many' in row 9, not a number"),
        ("report", {"shop": "none"}, "no row belongs to a task of the model: 'north', 'south', 'west'"),
        ("fit --classification", {}, "column 'sales' has .* different values in 120 rows"),
    ],
)
def test_an_error_names_the_file_the_column_and_the_row_in_it(run, folder, sales, tmp_path, command, change, message):
    frame, (command, *options) = sales.rename(columns=change.get("columns", {})), command.split()
    frame["sales"] = frame.sales.astype(object)
    if "cell" in change:
        frame.loc[[2, 8], "sales"] = [None, change["cell"]]
    frame.assign(shop=change.get("shop", frame.shop)).to_csv(tmp_path / "t.csv", index=False)
    model, table, out = str(folder / "number.kin"), str(tmp_path / "t.csv"), ["-o", str(tmp_path / "o.csv")]
    argv = {
        "predict": [model, table, *out],
        "score": [model, table],
        "report": [model, "--test", table, *out],
        "fit": [table, "--task", "shop", "--target", "sales", *options, *out],
    }[command]
    assert re.search(rf"t\.csv: .*{message}", run(command, *argv, fails=True))


def test_doubts_about_what_was_read_are_printed(run, sales, tmp_path):
    """Copies of rows, and labels that are perhaps one, make scores and groups wrong without an error."""
    frame = sales.assign(shop=sales.shop.where(sales.index % 2 == 0, sales.shop.str.upper() + " "))
    pd.concat([frame, frame[:30]]).to_csv(tmp_path / "t.csv", index=False)
    out = run("fit", tmp_path / "t.csv", *FLAGS, "-o", tmp_path / "m.kin")
    ends = f"from {sales.sales.min():.6g} to {sales.sales.max():.6g}"
    assert f"'sales' is a number with {sales.sales.nunique()} distinct values {ends}" in out
    assert "30 of 150 rows equal an earlier row: if copied, held-out scores are too good." in out
    pairs = ", ".join(repr(text) for name in sorted(sales.shop.unique()) for text in (name, name.upper() + " "))
    assert f"Values of 'shop' that differ only in capital letters or blanks: {pairs}." in out
    sales.to_csv(tmp_path / "s.csv", index=False)
    out = run("fit", tmp_path / "s.csv", *FLAGS, "-o", tmp_path / "m.kin")
    assert "equal an earlier row" not in out and "differ only" not in out
