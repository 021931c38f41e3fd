import csv
import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model
from kernelkin.cli import main as cli
from kernelkin.cli import predict


def test_the_table_comes_back_with_a_column_more_whatever_the_pieces(run, folder, tmp_path, sales, monkeypatch):
    for rows in (7, 1000):
        monkeypatch.setattr(predict, "ROWS", rows)
        run("predict", folder / "number.kin", folder / "sales.csv", "-o", tmp_path / f"{rows}.csv")
    out = pd.read_csv(tmp_path / "7.csv")
    assert out.columns.tolist() == [*sales.columns, "prediction"]
    np.testing.assert_allclose(out.prediction, load_model(folder / "number.kin").predict(sales))
    assert np.corrcoef(out.prediction, sales.sales)[0, 1] > 0.9
    np.testing.assert_allclose(pd.read_csv(tmp_path / "1000.csv").prediction, out.prediction)
    before = (folder / "sales.csv").read_text().splitlines()
    after = (tmp_path / "7.csv").read_text().splitlines()
    assert all(new.startswith(old + ",") for old, new in zip(before, after, strict=True))


def test_columns_in_another_order_and_without_the_target(run, folder, tmp_path, sales):
    sales[["promo", "day", "shop", "size"]].to_csv(tmp_path / "in.tsv", index=False, sep="\t")
    run("predict", folder / "class.kin", tmp_path / "in.tsv", "-o", tmp_path / "out.tsv", "--column", "guess")
    out = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    assert (out.guess == sales.busy).mean() > 0.8


def test_a_stream(run, folder, sales, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(sales.head(3).to_csv(index=False)))
    lines = run("predict", folder / "class.kin", "-", "-o", "-").splitlines()
    assert lines[0].endswith(",prediction")
    assert len(lines) == 4


def test_parquet_files_are_predicted_and_fitted(run, folder, tmp_path, sales, monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 50)
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    sales.to_parquet(tmp_path / "in.parquet")
    run("predict", folder / "number.kin", tmp_path / "in.parquet", "-o", tmp_path / "out.csv")
    np.testing.assert_allclose(
        pd.read_csv(tmp_path / "out.csv").prediction, load_model(folder / "number.kin").predict(sales)
    )
    flags = ["--task", "shop", "--target", "sales", "--model", "AVG"]
    assert "120 rows" in run("fit", tmp_path / "in.parquet", *flags, "-o", tmp_path / "m.kin")
    # A category without rows is no group.
    shops = pd.Categorical(sales["shop"], ["east", "north", "south", "west"])
    sales.assign(shop=shops).to_parquet(tmp_path / "in.parquet")
    out = run("fit", tmp_path / "in.parquet", *flags, "-o", tmp_path / "m.kin")
    assert "120 rows, 3 groups ('shop') of 40 rows." in out and "Left out 1 group" not in out


def test_unseen_categories_are_named_once(folder, tmp_path, sales, capsys, run, monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 50)
    sales.assign(day="Fri").to_csv(tmp_path / "in.csv", index=False)
    argv = ["predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv"]
    assert cli.main([str(argument) for argument in argv]) == 0
    err = capsys.readouterr().err
    assert err.count("column 'day' has values that were not in training: 'Fri'") == 1


def test_unknown_tasks(run, folder, tmp_path, sales):
    sales.assign(shop="east").to_csv(tmp_path / "in.csv", index=False)
    argv = ["predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv"]
    assert "unknown task 'east'" in run(*argv, fails=True)
    run(*argv, "--unknown-tasks", "common")
    assert np.corrcoef(pd.read_csv(tmp_path / "out.csv").prediction, sales.sales)[0, 1] > 0.5
    error = run(*argv, "--unknown-tasks", "common", "--interval", "0.9", fails=True)
    assert "no intervals" in error and "not in training: 'east'. Use KinRegressor" in error


def test_an_error_in_a_later_piece_says_where_and_leaves_no_file(run, folder, tmp_path, sales, monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 50)
    bad = sales.astype(object)
    bad.loc[60, "size"] = "huge"
    bad.to_csv(tmp_path / "in.csv", index=False)
    argv = ["predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv"]
    assert "in.csv: column 'size' has 'huge' in row 61, not a number: correct this cell or empty it" in run(
        *argv, fails=True
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_missing_columns_other_files_and_taken_names_are_refused(run, folder, tmp_path, sales):
    sales.drop(columns=["day", "size"]).to_csv(tmp_path / "in.csv", index=False)
    out = ["-o", tmp_path / "out.csv"]
    missing = run("predict", folder / "number.kin", tmp_path / "in.csv", *out, fails=True)
    assert "columns are missing: 'size', 'day'" in missing
    assert "is not a saved model" in run("predict", folder / "sales.csv", tmp_path / "in.csv", *out, fails=True)
    named = run("predict", folder / "number.kin", folder / "sales.csv", *out, "--column", "id", fails=True)
    assert "already has a column 'id': choose another with --column" in named


CELLS = """id,shop,size,day,promo,note
"007",north,N/A,Sat,True,N/A
1.50,south,1e2,NA,false,"a, ""b""
c"
,west,5,Mon,TRUE,=1+1
"""


def test_cells_are_repeated_as_they_are(run, folder, tmp_path):
    (tmp_path / "in.csv").write_text(CELLS)
    run("predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv.gz")
    with gzip.open(tmp_path / "out.csv.gz", "rt", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:-1] for row in rows] == list(csv.reader(io.StringIO(CELLS)))
    assert rows[0][-1] == "prediction" and all(np.isfinite(float(row[-1])) for row in rows[1:])


FORMS = {
    "quotes": b'"shop",size,"day",promo\n"north",1,Sat,True\nsouth,"2",""Mon"",""\n',
    "ends of lines": b"shop,size,day,promo\r\nnorth,1,Sat,True\r\nsouth,2,Mon,False",
    "old ends of lines": b"shop,size,day,promo\rnorth,1,Sat,True\rsouth,2,Mon,False\r",
    "a byte order mark": b"\xef\xbb\xbf" + b'"shop",size,day,promo\nnorth,1,Sat,"True"\n',
    "ends of lines in cells": b'shop,size,day,promo,note\nnorth,1,Sat,True,"a\r\nb\n\nc"\n',
    "quotes in cells": b'shop,size,day,promo,note\nnorth,1,Sat,True,5" x "6\nwest,1,Sat,True,"a ""b"""\n',
    "spaces": b"shop,size,day,promo,note\nnorth, 1 ,Sat,True, x \n",
    "a long cell": b"shop,size,day,promo,note\nnorth,1,Sat,True," + b"x" * 200_000 + b"\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_the_cells_of_each_row_are_repeated_and_one_is_added(run, folder, tmp_path, name, monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 1)
    (tmp_path / "in.csv").write_bytes(FORMS[name])
    run("predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    before, after = ((tmp_path / file).read_bytes().decode("utf-8-sig") for file in ("in.csv", "out.csv"))
    limit = csv.field_size_limit(2**20)
    rows = [list(csv.reader(io.StringIO(text, newline=""))) for text in (before, after)]
    csv.field_size_limit(limit)
    assert [row[:-1] for row in rows[1]] == rows[0]
    values, whole = pd.read_csv(tmp_path / "out.csv").prediction, pd.read_csv(tmp_path / "in.csv", dtype=str)
    np.testing.assert_allclose(values, load_model(folder / "number.kin").predict(whole))


def test_rows_of_other_lengths_have_the_prediction_in_its_column(run, folder, tmp_path):
    lines = ["shop,size,day,promo", "north,1,Sat,True,", "north,1", 'north,1,Sat,True,""', ""]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    run("predict", folder / "number.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [row[:-1] for row in rows[1:]] == [["north", "1", "Sat", "True"], ["north", "1", "", ""], rows[1][:-1]]
    assert all(float(row[-1]) for row in rows[1:])


def test_a_predicted_class_is_quoted_where_it_has_to_be(run, folder, tmp_path, sales):
    sales.assign(busy=np.where(sales.busy == sales.busy[0], 'a, "b"', "c")).to_csv(tmp_path / "in.csv", index=False)
    arguments = ["--task", "shop", "--target", "busy", "--model", "AVG"]
    run("fit", tmp_path / "in.csv", *arguments, "-o", tmp_path / "m.kin")
    run("predict", tmp_path / "m.kin", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    assert set(pd.read_csv(tmp_path / "out.csv").prediction) == {'a, "b"', "c"}


def test_standard_output_is_utf_8_whatever_the_terminal_is(run, folder, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text("shop,size,day,promo,n\u00f6te\nnorth,1,Sat,True,\u6771\n")
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert cli.main(["predict", str(folder / "number.kin"), str(tmp_path / "in.csv"), "-o", "-"]) == 0
    header, row = ascii_only.buffer.getvalue().decode().splitlines()
    assert header == "shop,size,day,promo,n\u00f6te,prediction" and row.startswith("north,1,Sat,True,\u6771,")


def test_intervals_are_added_in_the_units_of_the_table(run, folder, tmp_path, sales):
    printed = run(
        "predict", folder / "number.kin", folder / "sales.csv", "-o", tmp_path / "out.csv", "--interval", "0.8"
    )
    out = pd.read_csv(tmp_path / "out.csv")
    assert out.columns.tolist() == [*sales.columns, "prediction", "prediction_low", "prediction_high"]
    assert "with the columns 'prediction', 'prediction_low', 'prediction_high'" in printed
    expected = load_model(folder / "number.kin").predict_interval(sales, 0.8)
    np.testing.assert_allclose(out[["prediction_low", "prediction_high"]], expected)
    assert (out.prediction_low < out.prediction).all()
    assert 0.7 < ((out.prediction_low < sales.sales) & (sales.sales < out.prediction_high)).mean() < 1


def test_probabilities_are_added_class_by_class(run, folder, tmp_path, sales):
    run("predict", folder / "class.kin", folder / "sales.csv", "-o", tmp_path / "out.tsv", "--proba")
    out = pd.read_csv(tmp_path / "out.tsv", sep="\t")
    np.testing.assert_allclose(out.probability_no + out.probability_yes, 1.0)
    assert out.probability_yes[sales.busy == "yes"].mean() > 0.6 > out.probability_yes[sales.busy == "no"].mean()


@pytest.mark.parametrize(
    ("model", "option", "message"),
    [
        ("number", ["--proba"], "--proba: this model predicts numbers; use --interval"),
        ("class", ["--interval", "0.9"], "--interval: this model predicts classes; use --proba"),
        ("number", ["--interval", "90"], "--interval must be between 0 and 1, not 90"),
        ("class", ["--proba", "--column", "probability_no"], "column 'probability_no' occurs twice"),
    ],
)
def test_what_a_model_does_not_have_is_refused(run, folder, tmp_path, model, option, message):
    error = run(
        "predict", folder / f"{model}.kin", folder / "sales.csv", "-o", tmp_path / "out.csv", *option, fails=True
    )
    assert message in error
    assert not (tmp_path / "out.csv").exists()
