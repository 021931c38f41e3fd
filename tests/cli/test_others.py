import warnings

import numpy as np
import pytest

import kernelkin
from kernelkin import MKMTRLRegressor, load_model, save_model
from kernelkin.cli.holdout import shorten
from kernelkin.registry import find_model


def test_inspect_shows_what_the_model_is(run, folder):
    out = run("inspect", folder / "number.kin")
    for text in (
        f"MKMTRLRegressor, saved by kernelkin {kernelkin.__version__}",
        "'sales', a number",
        "'shop', 3 tasks: 'north', 'south', 'west'",
        "120 rows",
        "couplings=common",
        "within",
        "R² on 30 held-out rows: MK-MTRL",
        "kernelkin fit",
    ):
        assert text in out
    saved = load_model(folder / "number.kin")
    (north,) = [line.split() for line in out.splitlines() if line.startswith("north")]
    assert north[1] == "40"
    assert float(north[2]) == pytest.approx(saved.about["evaluation"]["scores"]["MK-MTRL"][0], abs=1e-3)
    assert north[-1] == f"{1 - saved.model.part_shares_[0, 0]:.0%}"


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
    out = run("compare", folder / "sales.csv", *argv, "--sharing-repeats", "1", "--models", "mk-mtrl", "AVG", "OLS")
    assert "gain of MK-MTRL" in out and out.splitlines()[-1].startswith("Recommendation: ")
    lines = [line.split() for line in out.splitlines() if line.startswith(("MK", "AVG", "OLS")) and "±" in line]
    rows = {name: cells for name, *cells in lines}
    assert set(rows) == {"MK-MTRL", "AVG", "OLS"}
    scores = {name: float(cells[0].lstrip("*")) for name, cells in rows.items()}
    assert max(scores, key=scores.get) == next(name for name, cells in rows.items() if cells[0].startswith("*"))
    assert all(cells[1].startswith("±") and 0 < float(cells[1][1:]) < 0.5 for cells in rows.values())
    assert sum(int(cells[2]) for cells in rows.values()) >= 3


def test_compare_refuses_what_cannot_be(run, folder):
    argv = ["compare", folder / "sales.csv", "--task", "shop", "--target", "busy"]
    assert "MRCE is not for classification" in run(*argv, "--models", "MRCE", fails=True)
    assert "--folds must be at least 2" in run(*argv, "--folds", "1", fails=True)


def test_models_lists_the_registry(run):
    out = run("models", "--references")
    for model in kernelkin.all_models():
        assert model.name in out
        assert model.description in out
        assert model.reference in out


def test_a_long_table_is_shortened_in_the_middle():
    rows = [[str(i), "x"] for i in range(50)]
    short = list(shorten(rows, 10))
    assert short[:5] == rows[:5]
    assert short[5] == ["... 40 more ...", ""]
    assert short[6:] == rows[-5:]
    assert list(shorten(rows[:10], 10)) == rows[:10]
