"""Features of tasks and tasks that training did not have, on the command line."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """A folder with rows of 14 shops, of which two are new, and a table of the shops."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("features")
    size, code = np.append(np.linspace(1, 8, 12), [2.5, 6.0]), np.repeat(np.arange(14), 12)
    names = np.array([f"{i:02}" for i in range(14)])
    price = rng.uniform(-1, 1, 168).round(3)
    sales = (size[code] * (2 - price) + 0.1 * rng.normal(size=168)).round(3)
    rows = pd.DataFrame({"shop": names[code], "price": price, "sales": sales})
    table = pd.DataFrame({"area": size, "shop": names, "kind": np.where(size > 3, "large", "small")})
    rows[code < 12].to_csv(folder / "rows.csv", index=False)
    rows[code >= 12].to_csv(folder / "new.csv", index=False)
    table.to_csv(folder / "shops.csv", index=False)
    table[:12].to_csv(folder / "known.csv", index=False)
    table[12:].to_csv(folder / "opened.csv", index=False)
    return folder


def fit(run, shops, out, *more):
    flags = ["--task", "shop", "--target", "sales", "-o", out]
    return run("fit", shops / "rows.csv", *flags, *more)


def test_new_tasks_are_predicted_by_features_of_the_fit(run, shops, tmp_path):
    fit(run, shops, tmp_path / "all.kin", "--task-features", shops / "shops.csv")
    run("predict", tmp_path / "all.kin", shops / "new.csv", "--interval", "0.9", "-o", tmp_path / "all.csv")
    means = pd.read_csv(tmp_path / "all.csv", dtype={"shop": str}).groupby("shop").prediction.mean()
    # The level of a new shop follows its size: 2.5 and 6, times two.
    assert means["13"] > means["12"] + 2.0


def test_unknown_tasks_are_predicted_as_the_model_was_told(run, shops, tmp_path):
    fit(run, shops, tmp_path / "m.kin", "--set", "couplings=common", "unknown_tasks=common")
    assert "unknown_tasks=common" in run("inspect", tmp_path / "m.kin")
    run("predict", tmp_path / "m.kin", shops / "new.csv", "-o", tmp_path / "out.csv")
    refused = ["predict", tmp_path / "m.kin", shops / "new.csv", "--unknown-tasks", "error", "-o", tmp_path / "o.csv"]
    assert "unknown tasks '12', '13'" in run(*refused, fails=True)


@pytest.mark.parametrize(
    "file, more, message",
    [
        ("new.csv", [], "task_features contains task '12' more than once"),
        ("opened.csv", [], "opened.csv: task_features has no row for task '00', '01', '02'"),
        ("shops.csv", ["--model", "AVG"], "--task-features: AVG does not use features of tasks"),
        ("no.csv", [], "no.csv"),
        ("-", [], "--task-features must be a file: standard input is for the rows"),
    ],
)
def test_faulty_features_are_refused(run, shops, tmp_path, file, more, message):
    path = file if file == "-" else shops / file
    flags = ["--task", "shop", "--target", "sales", "-o", tmp_path / "m.kin"]
    assert message in run("fit", shops / "rows.csv", *flags, "--task-features", path, *more, fails=True)


def test_models_of_the_paper_take_no_features(run, shops, tmp_path):
    fit(run, shops, tmp_path / "m.kin", "--model", "MK-MTRL")
    argv = ["predict", tmp_path / "m.kin", shops / "new.csv", "--task-features", shops / "opened.csv"]
    message = "--task-features: MKMTRLRegressor does not use features of tasks"
    assert message in run(*argv, "-o", tmp_path / "out.csv", fails=True)
