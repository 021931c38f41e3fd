"""The same seed gives the same model, bit for bit, on any number of threads."""

import numpy as np
import pytest

from kernelkin.datasets import make_related_tasks
from robustness.estimators import CLASSIFIERS, ESTIMATORS, KERNEL, ONE_OF_EACH, WIDE, Data, fit, values

THREADED = sorted(name for name, make in ESTIMATORS.items() if "n_jobs" in make().get_params())
SEEDED = sorted(name for name, make in ESTIMATORS.items() if "random_state" in make().get_params())


def problem(name, wide):
    """Four tasks of 40 rows on ten features: machines of several blocks, and sums long enough to show their order."""
    made = make_related_tasks(n_tasks=4, n_samples=40, regression=name not in CLASSIFIERS, random_state=0)
    if not wide and name not in WIDE:
        return Data(made.data, made.target, made.tasks)
    first = made.data[made.tasks == made.tasks[0]]
    targets = np.column_stack([np.roll(first[:, t], 1) + first[:, t] for t in range(4)])
    return Data(first, targets > 0 if name in CLASSIFIERS else targets)


def state(model, data):
    """All numbers of a fitted model, as bytes."""
    found = {"values": values(model, data.X, data.tasks)}
    for attribute in ("kernel_weights_", "task_relationship_", "objective_", "duality_gap_", "coef_"):
        if hasattr(model, attribute):
            found[attribute] = np.asarray(getattr(model, attribute))
    for t, a in enumerate(getattr(model, "dual_coef_", ())):
        found[f"dual_coef_[{t}]"] = a
    if hasattr(model, "cv_results_"):
        found["scores"] = model.cv_results_["mean_test_score"]
    return {key: value.tobytes() for key, value in found.items()}


@pytest.mark.parametrize("name", sorted(set(ONE_OF_EACH).intersection(THREADED))[::2])
def test_two_fits_on_other_numbers_of_threads_are_the_same(name):
    data = problem(name, wide=False)
    assert state(fit(name, data, n_jobs=3), data) == state(fit(name, data, n_jobs=1), data)


@pytest.mark.parametrize("name", ["MKMTRLClassifier", "MKMTRLRegressor", "MTRLRegressor", "TwoStageMKMTRLRegressor"])
def test_threads_change_nothing_where_tasks_share_rows(name):
    data = problem(name, wide=True)
    assert state(fit(name, data, n_jobs=3), data) == state(fit(name, data, n_jobs=1), data)


@pytest.mark.parametrize("name", [name for name in THREADED if "couplings" in ESTIMATORS[name]().get_params()])
def test_threads_change_nothing_for_coupled_tasks(name):
    data = problem(name, wide=False)
    alone, three = (state(fit(name, data, couplings="common", n_jobs=n), data) for n in (1, 3))
    assert three == alone


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - set(THREADED)))
def test_the_same_seed_gives_the_same_model(name):
    data = problem(name, wide=False)
    assert state(fit(name, data), data) == state(fit(name, data), data)


@pytest.mark.parametrize("name", [name for name in SEEDED if "TwoStage" in name or "MKLSA" in name])
def test_another_seed_gives_another_model(name):
    """So that the tests of equal models can fail."""
    data = problem(name, wide=False)
    assert state(fit(name, data, random_state=1), data) != state(fit(name, data, random_state=2), data)


def test_every_kernel_model_has_threads():
    assert set(THREADED) >= KERNEL
