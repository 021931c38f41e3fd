"""KinRegressor on wide data: kernel weights and strengths chosen for each task, and devices."""

from dataclasses import replace

import numpy as np
import pytest

from kernelkin import KinRegressor
from kernelkin.auto.candidates import OWN_CHOICE, make_candidates
from kernelkin.data import read_training
from kernelkin.fitting import Regression
from short_search import PLACE


def wide_tasks_of_one_column_each(n=120, T=12):
    """Targets of one column each: no mix of kernels suits all of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.column_stack([np.sin(2 * X[:, t % 3]) + 0.3 * (1 + t % 2) * rng.normal(size=n) for t in range(T)])


@pytest.mark.parametrize("missing", [False, True])
def test_a_choice_for_each_task_competes_on_wide_data(monkeypatch, missing):
    def some(*arguments):
        first, *others = make_candidates(*arguments)
        return [replace(first, grid=first.grid[3:5]), *(each for each in others if each.name.startswith(OWN_CHOICE))]

    monkeypatch.setattr(PLACE, some)
    X, Y = wide_tasks_of_one_column_each()
    if missing:
        Y[np.random.default_rng(1).uniform(size=Y.shape) < 0.1] = np.nan
    model = KinRegressor({"first": [0], "second": [1], "third": [2]}, cv=2, random_state=0).fit(X, Y)
    name = f"{OWN_CHOICE} on the given kernels"
    row = model.search_results_["candidate"].tolist().index(name)
    assert model.best_candidate_ == name and model.search_results_["weight"][row] > 0.5
    assert f"The best is {name}: " in model.explain() and "(strengths of their own)" in model.explain()
    assert np.isfinite(model.predict(X)).all()


def test_a_choice_for_each_task_needs_rows_and_wide_data():
    X, Y = wide_tasks_of_one_column_each(n=25)
    wide = read_training(X, Y, None, None, classification=False)
    rng, tasks = np.random.default_rng(0), np.repeat(np.arange(3), 200)
    long = read_training(rng.normal(size=(600, 3)), rng.normal(size=600), tasks, None, classification=False)
    for few in (wide, long):
        assert not [each for each in make_candidates(few, Regression()) if each.name.startswith(OWN_CHOICE)]
    X, Y = wide_tasks_of_one_column_each()
    many = make_candidates(read_training(X, Y, None, None, classification=False), Regression(), device="cpu")
    own = [each for each in many if each.name.startswith(OWN_CHOICE)]
    assert [each.name.removeprefix(f"{OWN_CHOICE} on ") for each in own] == ["all columns", "groups of columns"]
    assert {each.make(1.0, 1e-3).device for each in own} == {"cpu"}


def test_many_targets_begin_with_the_fastest_candidate_and_leave_out_the_slowest():
    rng = np.random.default_rng(0)
    for n_targets, is_large in ((5, False), (400, True)):
        X, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, n_targets))
        wide = read_training(X, Y, None, None, classification=False)
        names = [each.name for each in make_candidates(wide, Regression())]
        assert names[0].startswith(OWN_CHOICE) is is_large
        assert any(name.startswith("MK-MTFL") for name in names) is not is_large


@pytest.mark.filterwarnings("ignore:no tasks were given")
def test_a_device_finds_the_same(device):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = np.sin(X @ rng.normal(size=(2, 3))) + 0.1 * rng.normal(size=(40, 3))
    plain, tensors = (KinRegressor(["rbf"], cv=2, device=d, random_state=0).fit(X, Y) for d in (None, device))
    np.testing.assert_allclose(tensors.predict(X), plain.predict(X), atol=1e-2)
    with pytest.raises(ValueError, match=rf"^device='{device}' is for wide data"):
        KinRegressor(["rbf"], device=device).fit(X, Y[:, 0])
