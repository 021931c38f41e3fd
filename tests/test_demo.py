import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from examples import demo
from kernelkin import KinRegressor
from kernelkin.relations import LinearMixedModel, SeparateModels


def lines():
    """Five groups on lines of their own."""
    rng = np.random.default_rng(0)
    x, groups = np.tile(np.arange(12.0), 5), np.repeat(list("abcde"), 12)
    y = np.repeat(rng.normal(size=5), 12) + np.repeat(rng.normal(size=5), 12) * x + 0.1 * rng.normal(size=60)
    return demo.Panel("{rows} of each", "metres", "day", x[:, np.newaxis], y, groups)


def quick_models():
    kin = KinRegressor(cv=2, random_state=0)
    return {demo.KIN: kin, "cubic": demo.CubicMixedModel(), "separate": SeparateModels()}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Return a demo of two draws: what it returned, and where it wrote."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "make_models", quick_models)
        patch.setattr(demo, "load_panel", lambda name: lines())
        return demo.main(["--out", str(folder), "--rows", "3", "--draws", "2"]), folder


def test_errors_are_of_rows_that_were_held_out(outcome):
    result, _ = outcome
    panel = result.panel
    assert [int(np.sum(result.train[panel.groups == group])) for group in "abcde"] == [3] * 5
    left = (result.values[demo.KIN] - panel.y)[~result.train]
    assert_allclose(result.errors[demo.KIN][0], np.sqrt(np.mean(left**2)))
    assert all(len(errors) == 2 for errors in result.errors.values())


def test_models_are_ordered_by_their_error(outcome):
    result, _ = outcome
    means = list(result.means().values())
    assert means == sorted(means)
    assert result.best_other() != demo.KIN


def test_figure_and_errors_are_written(outcome):
    result, folder = outcome
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((folder / "results.json").read_text())
    assert (stored["rows"], stored["groups"], stored["unit"]) == (3, 5, "metres")
    assert stored["rmse"] == result.errors


def test_the_cubic_mixed_model_fits_a_cubic_that_the_linear_one_does_not():
    x = np.tile(np.linspace(0, 30, 40), 3)
    X, groups = x[:, np.newaxis], np.repeat(list("abc"), 40)
    y = (x - 15) ** 3 / 1000
    models = demo.CubicMixedModel(), LinearMixedModel()
    errors = [np.abs(model.fit(X, y, groups).predict(X, groups) - y).max() for model in models]
    assert errors[0] < 0.05 < 0.5 < errors[1]


@pytest.mark.parametrize("name, groups, columns", [("fertility", 210, 1), ("grunfeld", 11, 3), ("elnino", 61, 1)])
def test_the_data_are_complete(name, groups, columns):
    panel = demo.load_panel(name)
    assert (len(np.unique(panel.groups)), panel.X.shape) == (groups, (len(panel.y), columns))
    assert np.isfinite(panel.X).all() and np.isfinite(panel.y).all()


def test_sea_temperatures_stay_with_their_month_and_year():
    panel = demo.load_panel("elnino")
    from statsmodels.datasets import elnino

    table = elnino.load_pandas().data.set_index("YEAR")
    (row,) = np.flatnonzero((panel.groups == "1997") & (panel.X[:, 0] == 11))
    assert panel.y[row] == table.loc[1997, "NOV"]


def test_too_few_rows_are_refused_before_anything_is_written(capsys, tmp_path):
    with pytest.raises(SystemExit):
        demo.main(["--rows", "1", "--out", str(tmp_path / "demo")])
    assert "two rows of each group and one draw are needed at least, not 1 and 1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
