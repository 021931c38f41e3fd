"""A C for each of the tasks with rows of their own: chosen where that pays, and kept where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, MKMTRLRegressorCV
from kernelkin.data import read_training
from kernelkin.kernels import read_kernels
from kernelkin.paper.fitting import RunOptions
from kernelkin.paper.fitting.task_costs import FACTORS, cost_factors, run_with_task_costs
from kernelkin.paper.grams import build_grams
from kernelkin.paper.learners import Machine

N, T = 60, 12
NOISE = np.repeat([0.02, 3.0], T // 2)


def tasks_of(noise, n=N, seed=0):
    """Smooth functions of one column, each with noise of its own."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.uniform(-3, 3, size=(T * n, 1)), np.repeat(np.arange(T), n)
    return X, np.sin(2 * X[:, 0] + tasks) + np.repeat(noise, n) * rng.normal(size=T * n), tasks


def factors_of(noise, weights):
    """The factors at weights (K,) of all tasks, for machines of cost 1."""
    X, y, tasks = tasks_of(noise)
    data = read_training(X, y, tasks, None, classification=False)
    grams, _ = build_grams(data, read_kernels(["rbf"]).fit(data), "trace")
    machines = [Machine(part[:, np.newaxis], np.ones((N, 1)), np.zeros(N, dtype=np.intp), 1) for part in data.y]
    return cost_factors(grams, machines, np.repeat(np.reshape(weights, (-1, 1)), T, axis=1))


def test_quiet_tasks_get_more_and_noisy_ones_less():
    factors = factors_of(NOISE, [3.0])
    assert (factors[: T // 2] > 2).all() and (factors[T // 2 :] < 0.7).all()
    assert (factors >= FACTORS[0]).all() and (factors <= FACTORS[-1]).all()


def test_tasks_alike_keep_the_c_of_all():
    np.testing.assert_array_equal(factors_of(np.full(T, 0.5), [3.0]), 1.0)


def test_the_search_fits_with_the_costs_that_it_has_chosen():
    X, y, tasks = tasks_of(NOISE)
    settings = {"kernels": ["rbf"], "grid": {"C": [1.0]}, "evenness": 0.999, "cv": 2, "random_state": 0, "tol": 1e-6}
    common = MKMTRLRegressorCV(**settings).fit(X, y, tasks=tasks)
    own = MKMTRLRegressorCV(per_task=True, **settings).fit(X, y, tasks=tasks)
    factors = own.task_costs_ / own.best_params_["C"]
    assert np.ptp(np.log(factors)) > 1
    np.testing.assert_allclose(own.kernel_weights_, factors[:, np.newaxis] * common.kernel_weights_, rtol=1e-6)
    X_new, f_new, _ = tasks_of(np.zeros(T), seed=1)
    errors = [np.mean((model.predict(X_new, tasks=tasks) - f_new) ** 2) for model in (common, own)]
    assert errors[1] < 0.95 * errors[0]


def test_tasks_that_share_parts_keep_the_c_of_all():
    X, y, tasks = tasks_of(NOISE, n=12)
    model = MKMTRLRegressor(["rbf"], couplings="common")
    data = model.training_data(X, y, tasks)
    assert run_with_task_costs(model.specification(), data, np.ones((1, T)), RunOptions()) is None
    grid = {"couplings": ["common"], "C": [2.0]}
    search = MKMTRLRegressorCV(["rbf"], grid=grid, cv=2, per_task=True, random_state=0).fit(X, y, tasks=tasks)
    np.testing.assert_array_equal(search.task_costs_, 2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"couplings": "common"}, "per_task=True chooses C for each task and cannot use couplings"),
        (
            {"loss": "epsilon_insensitive"},
            "per_task=True: C is chosen by held-out errors of each task, which need the squared loss of regression",
        ),
    ],
)
def test_what_has_no_c_of_each_task_is_refused(change, message):
    X, y, tasks = tasks_of(NOISE, n=6)
    with pytest.raises(ValueError, match=f"^{message}$"):
        MKMTRLRegressorCV(per_task=True, **change).fit(X, y, tasks=tasks)
