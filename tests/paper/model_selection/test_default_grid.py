"""The default grid, the pooled score that judges it, and values of C beyond its ends."""

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from kernelkin import (
    AverageRegressor,
    IMKLRegressor,
    KinRegressor,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    STLRegressor,
    linear_kernels,
)
from kernelkin.data.folds import make_folds
from kernelkin.data.forms import read_training
from kernelkin.paper import LassoRegressor, MeanRegressor
from kernelkin.paper.model_selection import MultiTaskCV
from kernelkin.paper.model_selection.grid import COSTS, COUPLED_COSTS, beyond, default_grid, has_choices
from kernelkin.paper.model_selection.scoring import PooledScorer, target_spreads


def long_data(seed=0, T=3, n=12):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, 2)), np.repeat(np.arange(T), n)
    y = 10.0**tasks * (X[:, 0] + 0.3 * rng.normal(size=T * n))
    return X, y, tasks


def read(X, y, tasks):
    return read_training(X, y, tasks, None, classification=False)


def candidates(model, data):
    return list(ParameterGrid(default_grid(model, data)))


def test_mk_mtrl_is_searched_with_and_without_a_common_part():
    found = candidates(MKMTRLRegressor(), read(*long_data()))
    assert {params["parsimony"] for params in found} == {0.0, 0.5, 1.0}
    assert {params["C"] for params in found if "couplings" in params} == set(COUPLED_COSTS)
    assert {params["C"] for params in found if "couplings" not in params} == set(COSTS)


def test_wide_data_are_searched_without_a_common_part():
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 3))
    assert not any("couplings" in params for params in candidates(MKMTRLRegressor(), read(X, Y, None)))


@pytest.mark.parametrize("given", [{"C": 7.0}, {"couplings": "common"}, {"shrinkage": 0.5}])
def test_parameters_that_are_set_are_not_searched(given):
    found = candidates(MKMTRLRegressor(**given), read(*long_data()))
    assert found
    assert not any(given.keys() & params.keys() for params in found)
    assert len({tuple(sorted(params.items())) for params in found}) == len(found)


def test_other_models_are_searched_over_what_they_have():
    for model, names in [
        (AverageRegressor(), {"C"}),
        (STLRegressor(), {"C", "kernel"}),
        (LassoRegressor(), {"alpha"}),
        (IMKLRegressor(), {"C", "parsimony"}),
    ]:
        assert has_choices(model)
        assert {name for params in candidates(model, read(*long_data())) for name in params} == names


def test_some_models_have_nothing_to_choose():
    for model in [MeanRegressor(), KinRegressor(), AverageRegressor(C=2.0)]:
        assert not has_choices(model)


def test_values_of_c_are_extended_where_an_end_is_clearly_better():
    candidates = [{"C": C} for C in (1.0, 10.0, 100.0)]
    for scores, expected in [
        ([3.0, 2.0, 1.0], [0.1, 10**-0.5]),
        ([1.0, 2.0, 3.0], [100 * 10**0.5, 1000.0]),
        ([1.0, np.nan, 3.0], [100 * 10**0.5, 1000.0]),
        # The standard error is 0.1, and a fifth of it is not clearly better.
        ([1.0, 2.975, 3.0], [100 * 10**0.5, 1000.0]),
        ([1.0, 2.985, 3.0], []),
        ([1.0, 2.0, 1.0], []),
    ]:
        found = beyond(candidates, np.array(scores), np.full(3, 0.1))
        assert [params["C"] for params in found] == pytest.approx(expected)
    assert beyond(candidates[:1], np.ones(1), np.zeros(1)) == []


def test_only_the_best_line_is_continued():
    grid = [{"C": C, "parsimony": p} for p in (0.0, 1.0) for C in (1.0, 10.0)]
    assert beyond(grid, np.array([0.9, 0.1, 0.2, 0.5]), np.full(4, 0.01)) == [
        {"parsimony": 0.0, "C": pytest.approx(C)} for C in (0.1, 10**-0.5)
    ]
    assert beyond([{"mu": 1.0}, {"mu": 2.0}], np.array([0.0, 1.0]), np.zeros(2)) == []


@pytest.mark.parametrize("kernels, count", [(None, 6), ("linear", 1), ("auto", 8)])
def test_the_kernel_of_stl_is_searched_among_its_kernels(kernels, count):
    found = candidates(STLRegressor(kernels), read(*long_data()))
    assert {params["kernel"] for params in found} == set(range(count))


def test_a_search_extends_default_grids_and_not_given_ones():
    X, _, tasks = long_data(n=20)
    y = X[:, 0]  # without noise, for which no C is large enough
    model = AverageRegressor(linear_kernels())
    assert MultiTaskCV(model, random_state=0).fit(X, y, tasks=tasks).best_params_["C"] > max(COSTS)
    given = MultiTaskCV(model, {"C": [0.1, 1.0]}, random_state=0).fit(X, y, tasks=tasks)
    assert given.cv_results_["param_C"].tolist() == [0.1, 1.0]


def test_the_default_search_of_mk_mtrl_finds_the_shared_part():
    X, _, tasks = long_data(T=4, n=6)
    y = np.sin(2 * X[:, 0])
    search = MKMTRLRegressorCV(cv=3, random_state=0).fit(X, y, tasks=tasks)
    assert search.best_params_["couplings"] == "common"


def test_the_pooled_score_counts_rows_in_units_of_their_tasks():
    X, y, tasks = long_data(n=40)
    data = read(X, y, tasks)
    folds = make_folds(data, 4, classification=False, random_state=0)
    outputs = [[np.full((len(held), 1), y.mean()) for y, held in zip(data.y, fold.held, strict=True)] for fold in folds]
    score, error, each = PooledScorer(data, folds, classification=False).score(outputs)
    # Each task's mean predicts nothing, whatever its spread is.
    assert score == pytest.approx(0.0, abs=0.02)
    assert each.shape == (4,)
    assert error > 0
    exact = [[y[held][:, None] for y, held in zip(data.y, fold.held, strict=True)] for fold in folds]
    assert PooledScorer(data, folds, classification=False).score(exact)[0] == 1.0


def spreads(y, tasks):
    return target_spreads(read(np.zeros((len(y), 1)), y, tasks))


def test_spreads_that_differ_by_chance_are_taken_as_one():
    rng = np.random.default_rng(1)
    y = rng.normal(size=400)
    found = spreads(y, np.repeat(np.arange(40), 10))
    assert np.ptp(found) < 0.6 * np.ptp(y.reshape(40, 10).std(axis=1))
    assert found.mean() == pytest.approx(1.0, rel=0.25)


def test_spreads_that_differ_are_kept_and_units_do_not_matter():
    rng = np.random.default_rng(2)
    tasks = np.repeat(np.arange(5), 20)
    y = 10.0 ** (2 * tasks) * rng.normal(size=100)
    found = spreads(y, tasks)
    np.testing.assert_allclose(found, [y[tasks == t].std() for t in range(5)], rtol=0.05)
    np.testing.assert_allclose(spreads(1e-3 * y, tasks), 1e-3 * found)


def test_a_task_of_equal_targets_has_the_spread_of_a_typical_task():
    rng = np.random.default_rng(3)
    y, tasks = np.append(rng.normal(size=60), [5.0, 5.0]), np.append(np.repeat([0, 1], 30), [2, 2])
    assert spreads(y, tasks)[2] == pytest.approx(1.0, rel=0.2)


def test_the_default_grid_has_only_what_can_predict_unknown_tasks():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(32, 2)), np.repeat(list("abcd"), 8)
    search = MKMTRLRegressorCV(cv=2, unknown_tasks="common", random_state=0).fit(X, X[:, 0], tasks=tasks)
    assert {params["couplings"] for params in search.cv_results_["params"]} == {"common"}
    assert np.isfinite(search.predict(X[:2], tasks=["new", "new"])).all()
