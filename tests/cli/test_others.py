import re
import warnings

import numpy as np
import pytest

import kernelkin
from kernelkin import MKMTRLRegressor, load_model, save_model
from kernelkin.registry import find_model
from kernelkin.relations.baselines import ONE_FOR_ALL, SEPARATE


def test_inspect_shows_what_the_model_is(run, folder):
    out = run("inspect", folder / "number.kin")
    for text in (
        f"MKMTRLRegressor, saved by kernelkin {kernelkin.__version__}",
        "'sales', a number",
        "'shop', 3 groups: 'north', 'south', 'west'",
        "120 rows",
        "couplings=common",
        "within",
        "RMSE on new rows of known groups: MK-MTRL",
        "kernelkin fit",
    ):
        assert text in out
    saved = load_model(folder / "number.kin")
    (north,) = [line.split() for line in out.splitlines() if line.startswith("north")]
    assert north[1] == "40"
    assert float(north[2]) == pytest.approx(saved.about["evaluations"][0]["task_score"][0], abs=1e-3)
    shared = 1 - saved.model.part_shares_[:, 0]
    assert f"shared part  {shared.mean():.0%} of the functions of groups on average, from {shared.min():.0%} (" in out


def test_inspect_a_model_saved_from_python(run, tmp_path):
    model = MKMTRLRegressor(mu=0.5).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0], tasks=list("aabb"))
    save_model(model, tmp_path / "m.kin")
    out = run("inspect", tmp_path / "m.kin")
    assert "mu=0.5" in out
    assert "'a', 'b'" in out


# Mixed models, learned and fixed kernel weights, one kernel over all rows, two stages, linear models.
@pytest.mark.parametrize("name", ["Kin", "MK-MTRL", "AVG", "MTRL", "Two-stage MK-MTRL", "OLS", "MRCE"])
def test_inspect_and_report_every_kind_of_model(run, tmp_path, name):
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(24, 2)), 0.1 * rng.normal(size=(24, 2))
    Y, model = X + noise, find_model(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_model(model.regressor().fit(X, Y), tmp_path / "m.kin")
    assert model.regressor.__name__ in run("inspect", tmp_path / "m.kin")
    run("report", tmp_path / "m.kin", "-o", tmp_path / "r.html")
    assert model.name in (tmp_path / "r.html").read_text()


def test_compare_cross_validates_models_side_by_side(run, folder):
    argv = ["--task", "shop", "--target", "sales", "--drop", "busy", "--folds", "3"]
    out = run("compare", folder / "sales.csv", *argv, "--models", "mk-mtrl", "AVG", "OLS")
    lines = out.splitlines()
    # What was read comes first.
    assert lines[0] == "120 rows, 3 groups ('shop') of 40 rows." and lines[1].startswith("Regression: ")
    begin = lines.index("New rows of known groups: 120 test rows of 3 groups (3 folds inside groups)")
    rows = [re.split(r"\s{2,}", line) for line in lines[begin + 2 : begin + 8]]
    assert rows[0] == min(rows, key=lambda row: float(row[1]))
    assert {name for name, *_ in rows} == {"MK-MTRL", "AVG", "OLS", "Kin", SEPARATE, ONE_FOR_ALL}
    assert all(0 < float(rmse) < 30 for _, rmse, *_ in rows) and "gain of MK-MTRL" in out
    assert lines[-1] == "Parameters of MK-MTRL, AVG, OLS were not tuned for this table; --cv tunes them."


def test_models_that_refuse_new_groups_are_compared_on_known_ones(run, folder):
    argv = ["--task", "shop", "--target", "sales", "--drop", "busy", "--folds", "2", "--set", "cv=2"]
    out = run("compare", folder / "sales.csv", *argv)
    known, new = out.split("Groups never seen: ")
    assert re.search("^MK-MTRL ", known, re.MULTILINE) and re.search("^Kin ", known, re.MULTILINE)
    assert re.search("^Kin ", new, re.MULTILINE) and not re.search(f"^(MK-MTRL|{SEPARATE}) ", new, re.MULTILINE)


def test_compare_classes_and_several_targets(run, folder, sales, tmp_path):
    argv = ["--folds", "2", "--models", "AVG"]
    out = run("compare", folder / "sales.csv", "--task", "shop", "--target", "busy", "--drop", "sales", *argv)
    assert re.search(r"model +log loss +AUC +accuracy +gain of AVG", out)
    sales[["size", "day", "sales"]].assign(more=2 * sales.sales).to_csv(tmp_path / "t.csv", index=False)
    out = run("compare", tmp_path / "t.csv", "--target", "sales", "more", *argv)
    assert re.search(r"model +RMSE +R² +gain of AVG", out)


def test_compare_refuses_what_cannot_be(run, folder):
    argv = ["compare", folder / "sales.csv", "--task", "shop", "--target", "busy"]
    assert "MRCE does not support classification" in run(*argv, "--models", "MRCE", fails=True)
    assert "--folds must be at least 2" in run(*argv, "--folds", "1", fails=True)


def test_models_lists_the_registry(run):
    out = run("models")
    for model in kernelkin.all_models():
        assert model.name in out
        assert model.description in out
        assert model.reference in out
