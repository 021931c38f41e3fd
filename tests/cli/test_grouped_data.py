"""The whole way of a user with grouped data: fit, save, inspect, predict a group that training did not have."""

import json
import os
import re
from io import StringIO
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from kernelkin import load_model
from kernelkin.cli import main as cli
from kernelkin.data.checks import check_labels
from kernelkin.relations.baselines import ONE_FOR_ALL, SEPARATE

DATA = os.environ.get("KERNELKIN_DATA", "")


@pytest.fixture(scope="module")
def sleep(tmp_path_factory):
    """Reaction times of 18 people over ten days without sleep, of one of them the first day alone; and the model."""
    path = os.path.join(DATA, "grouped.zip")
    if not os.path.exists(path):
        pytest.skip("KERNELKIN_DATA names no folder with grouped.zip")
    with ZipFile(path) as packed, packed.open("sleepstudy.csv") as file:
        table = pd.read_csv(file)
    folder = tmp_path_factory.mktemp("sleep")
    table[(table.task != 308) | (table.Days == 0)].to_csv(folder / "sleep.csv", index=False)
    flags = ["--task", "task", "--target", "target", "-o", str(folder / "m.kin"), "--json"]
    with open(folder / "fit.json", "w") as printed, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", printed)
        assert cli.main(["fit", str(folder / "sleep.csv"), *flags]) == 0
    return folder


def test_a_group_of_one_row_is_fitted_and_the_model_is_saved(sleep):
    saved = load_model(sleep / "m.kin")
    assert saved.schema.n_rows == 171 and len(saved.model.tasks_) == 18
    found = json.loads((sleep / "fit.json").read_text())
    assert found["explanation"] == saved.model.explain()
    assert sum(found["variance_components"].values()) == pytest.approx(1)
    assert found["variance_components"] == pytest.approx(saved.model.variance_components_)


def test_held_out_rows_are_scored_beside_the_baselines(sleep):
    compared = json.loads((sleep / "fit.json").read_text())["sharing"]["comparisons"]
    assert list(compared) == ["new rows of known groups", "groups never seen"]
    assert all(0.8 < part["covered"] < 1 for part in compared.values())
    overall = compared["new rows of known groups"]["scores"]
    assert list(overall) == ["Kin", SEPARATE, ONE_FOR_ALL]
    assert all(list(scores) == ["RMSE", "R²", "R² within groups"] for scores in overall.values())
    assert 0.6 < overall["Kin"]["R²"] < 1
    # All have the same rows, so that both scores say the same of two models.
    spread = [scores["RMSE"] ** 2 / (1 - scores["R²"]) for scores in overall.values()]
    np.testing.assert_allclose(spread, spread[0])


def test_a_new_group_is_predicted_with_a_wider_interval(sleep, tmp_path):
    pd.DataFrame({"task": [309, 999, 309, 999], "Days": [0, 0, 9, 9]}).to_csv(tmp_path / "new.csv", index=False)
    argv = ["predict", str(sleep / "m.kin"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv"), "--interval"]
    assert cli.main(argv) == 0
    out = pd.read_csv(tmp_path / "out.csv")
    assert (out.prediction_low < out.prediction).all() and (out.prediction < out.prediction_high).all()
    width = out.prediction_high - out.prediction_low
    assert width[1] > width[0] and width[3] > width[2]
    # Without a number the intervals are those of 0.9.
    expected = load_model(sleep / "m.kin").predict_interval(out[["task", "Days"]], 0.9)
    np.testing.assert_allclose(out[["prediction_low", "prediction_high"]], expected)


def test_a_rule_for_labels_holds_for_tables_too(sales, folder, run, tmp_path, monkeypatch):
    """Commands count, match and test the groups that models see: with a rule that strips blanks, those without."""

    def stripped(*args):
        labels = check_labels(*args)
        return np.char.strip(labels) if labels.dtype.kind == "U" else labels

    for module in ("data.checks", "tables.schema", "kin.task_features"):
        monkeypatch.setattr(f"kernelkin.{module}.check_labels", stripped)
    table = tmp_path / "t.csv"
    # With its blanks, the first row would be a group of its own, with too few rows.
    sales.assign(shop=sales.shop + np.where(np.arange(len(sales)) < 1, "  ", "")).to_csv(table, index=False)
    flags = ["--task", "shop", "--target", "sales", "--drop", "busy", "--model", "AVG", "-o", tmp_path / "m.kin"]
    out = run("fit", table, *flags)
    assert "120 rows, 3 groups ('shop') of 40 rows" in out and "only one row" not in out
    assert "groups never seen" not in run("score", folder / "number.kin", table)


def test_new_groups_can_be_refused(sleep, tmp_path, capsys):
    pd.DataFrame({"task": [999], "Days": [0]}).to_csv(tmp_path / "new.csv", index=False)
    argv = ["predict", str(sleep / "m.kin"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]
    assert cli.main([*argv, "--unknown-tasks", "error"]) == 1
    assert "unknown task 999" in capsys.readouterr().err


def test_inspect_and_report_show_the_shares_of_variance(sleep, tmp_path, capsys):
    assert cli.main(["inspect", str(sleep / "m.kin")]) == 0
    shares = load_model(sleep / "m.kin").model.variance_components_
    name, share = next(iter(shares.items()))
    assert f"{name} {share:.0%}" in capsys.readouterr().out
    assert cli.main(["report", str(sleep / "m.kin"), "-o", str(tmp_path / "r.html")]) == 0
    assert '"variance":[["levels of task",' in (tmp_path / "r.html").read_text()


def test_effects_of_groups_are_in_the_units_of_the_table(sleep, tmp_path, capsys):
    assert cli.main(["effects", str(sleep / "m.kin"), "-o", str(tmp_path / "e.csv")]) == 0
    out, found = capsys.readouterr().out, pd.read_csv(tmp_path / "e.csv", index_col=0)
    assert "slope of Days" in out and " ± " in out
    table = pd.read_csv(sleep / "sleep.csv")
    means = table[table.task != 308].groupby("task").target.mean()
    # People with ten rows each differ by their means, which pooling changes little; slopes are per day.
    difference = found.level.loc[means.index] - found.level.loc[means.index].mean() - (means - means.mean())
    assert np.abs(difference).max() < 0.2 * np.ptp(means)
    slopes = {task: np.polyfit(own.Days, own.target, 1)[0] for task, own in table[table.task != 308].groupby("task")}
    assert np.corrcoef(found["slope of Days"].loc[list(slopes)], list(slopes.values()))[0, 1] > 0.9
    assert 0.3 < np.ptp(found["slope of Days"]) / np.ptp(list(slopes.values())) < 1.2
    assert cli.main(["effects", str(sleep / "m.kin"), "-o", str(tmp_path / "e.tsv.gz")]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "e.tsv.gz", index_col=0, sep="\t"), found)
    capsys.readouterr()
    assert cli.main(["effects", str(sleep / "m.kin"), "-o", "-"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv(StringIO(capsys.readouterr().out), index_col=0), found)
    assert cli.main(["effects", str(sleep / "m.kin"), "-o", str(tmp_path / "e.xlsx")]) == 1
    assert "e.xlsx: the ending must be one of .csv, .tsv" in capsys.readouterr().err
    assert cli.main(["effects", str(sleep / "m.kin"), "--task", "school"]) == 1
    assert "--task school: this model has the groupings 'task'" in capsys.readouterr().err


def test_effects_in_large_units_keep_their_digits(tmp_path, capsys):
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(12), 8)
    y = 1e-4 * (rng.normal(size=12)[group] + 0.5 * rng.normal(size=96))
    pd.DataFrame({"g": group, "x": rng.normal(size=96), "y": y}).to_csv(tmp_path / "t.csv", index=False)
    argv = ["fit", tmp_path / "t.csv", "--task", "g", "--target", "y", "-o", tmp_path / "m.kin", "--set", "cv=2"]
    assert cli.main([*map(str, argv), "--no-comparison"]) == 0
    capsys.readouterr()
    assert cli.main(["effects", str(tmp_path / "m.kin")]) == 0
    levels = [line.split()[2] for line in capsys.readouterr().out.splitlines()[3:]]
    assert len(set(levels)) == len(levels) == 12


def test_slopes_of_dates_are_per_day(tmp_path, capsys):
    rng = np.random.default_rng(0)
    shop, day = np.arange(120) % 6, rng.integers(0, 40, 120)
    rate = np.linspace(-1.5, 1.5, 6)
    table = pd.DataFrame({
        "shop": [f"s{s}" for s in shop],
        "date": (pd.Timestamp("2024-03-01") + pd.to_timedelta(day, unit="D")).strftime("%Y-%m-%d"),
        "sales": 50 + rate[shop] * day + rng.normal(size=120),
    })  # fmt: skip
    table.to_csv(tmp_path / "t.csv", index=False)
    data = [str(tmp_path / "t.csv"), "--task", "shop", "--target", "sales"]
    assert cli.main(["fit", *data, "--no-comparison", "-o", str(tmp_path / "m.kin")]) == 0
    assert cli.main(["effects", str(tmp_path / "m.kin"), "-o", str(tmp_path / "e.csv")]) == 0
    found = pd.read_csv(tmp_path / "e.csv")
    assert list(found.columns[:3]) == ["shop", "rows", "level"]
    slopes = found.set_index("shop")["slope of date"].sort_index()
    np.testing.assert_allclose(slopes, rate, atol=0.15)
    assert "slope of date" in capsys.readouterr().out
    # Per day, slopes of years are small: all their digits are shown.
    table["date"] = (pd.Timestamp("2000-01-01") + pd.to_timedelta(1000 * day, unit="D")).strftime("%Y-%m-%d")
    table.to_csv(tmp_path / "t.csv", index=False)
    assert cli.main(["fit", *data, "--no-comparison", "-o", str(tmp_path / "m.kin")]) == 0
    capsys.readouterr()
    assert cli.main(["effects", str(tmp_path / "m.kin")]) == 0
    assert re.search(r"0\.001\d+ ± 0\.0000\d", capsys.readouterr().out)
