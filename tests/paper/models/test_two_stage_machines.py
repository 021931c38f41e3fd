"""The second stage: machines at the kernel weights that pairs have taught."""

import tracemalloc

import numpy as np
import pytest
from models.two_stage import BOTH, problem

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
)
from kernelkin.estimators import RunOptions
from kernelkin.kernels.families import linear_kernels
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper import MultiTaskKernelRegressor
from kernelkin.paper.fitting.targets import Classification, Regression
from kernelkin.paper.fitting.two_stage import TwoStageFit
from kernelkin.paper.penalties import FixedWeights
from tasks import in_turn


@pytest.mark.parametrize("kind", BOTH)
def test_nystroem_on_all_rows_is_the_exact_machine(kind):
    data = problem(kind)
    exact, close = (
        BOTH[kind](data.kernels, n_rounds=2000, loss="squared", max_exact=most, random_state=0).fit(
            data.data, data.target, tasks=data.tasks
        )
        for most in (40, 39)
    )
    assert len(exact.nystroem_tasks_) == 0 and list(close.nystroem_tasks_) == list(data.task_names)
    assert max(np.count_nonzero(a) for a in close.dual_coef_) == 39
    decide = "decision_function" if kind == "classification" else "predict"
    one, other = (getattr(model, decide)(data.data_test, data.tasks_test) for model in (exact, close))
    assert np.corrcoef(one, other)[0, 1] > 0.98


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_nystroem_with_linear_support_vector_machines(loss):
    kind = "classification" if loss == "hinge" else "regression"
    data = problem(kind)
    scores = [
        BOTH[kind](data.kernels, n_rounds=2000, loss=loss, max_exact=most, random_state=0)
        .fit(data.data, data.target, tasks=data.tasks)
        .score(data.data_test, data.target_test, data.tasks_test)
        for most in (1000, 30)
    ]
    assert abs(scores[0] - scores[1]) < 0.1


def test_the_machines_are_certified():
    data = problem("classification")
    model = TwoStageMKMTRLClassifier(data.kernels, n_rounds=2000, class_weight="balanced", tol=1e-4, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    assert 0 <= model.duality_gap_ <= 1e-4 * model.objective_
    # The hinge losses are the objective less the norms of the functions, which are sums of a f.
    values = model.decision_function(data.data, data.tasks)
    sign = np.where(data.target == model.classes_[1], 1.0, -1.0)
    expected = 0.0
    for t, task in enumerate(model.tasks_):
        rows = data.tasks == task
        a, y = model.dual_coef_[t][:, 0], sign[rows]
        share = np.where(y > 0, (y > 0).sum(), (y < 0).sum())
        cost = len(y) / (2 * share)
        expected += 0.5 * a @ (values[rows] - model.intercept_[t]) + cost @ np.maximum(0, 1 - y * values[rows])
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("kind", "normalize"), in_turn(BOTH, ["trace", "center"]))
def test_the_second_stage_at_even_weights_is_the_average_kernel(kind, normalize):
    data = problem(kind)
    average = {"classification": AverageClassifier, "regression": AverageRegressor}[kind]
    expected = average(data.kernels, C=3.0, normalize=normalize, tol=1e-8).fit(data.data, data.target, tasks=data.tasks)
    given = expected.training_data(data.data, data.target, data.tasks)
    targets = Classification() if kind == "classification" else Regression()
    fit = TwoStageFit(targets=targets, kernels=data.kernels, C=3.0, normalize=normalize, tol=1e-8)
    fitted = fit.plan(given).fit_machines(expected.kernel_weights_, 0, RunOptions()).attributes
    assert fitted["objective_"] == pytest.approx(expected.objective_, rel=1e-7)
    for a, other in zip(fitted["dual_coef_"], expected.dual_coef_, strict=True):
        np.testing.assert_allclose(a, other, atol=1e-5)


@pytest.mark.parametrize(("kind", "normalize"), in_turn(BOTH, ["trace", "center"]))
def test_tasks_that_share_precomputed_grams_have_the_machines_of_one_task_at_a_time(kind, normalize):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = X @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(40, 3))
    Y = (Y > 0).astype(float) if kind == "classification" else Y
    Y[:5, 1] = np.nan
    kernels = [*linear_kernels(per_feature=True), *gaussian_kernels([1.0])]
    grams = np.moveaxis([kernel(X) for kernel in fit_kernels(kernels, X)], 0, 2)
    targets = Classification() if kind == "classification" else Regression()
    weights = rng.dirichlet(np.ones(4), size=3)
    fitted = []
    for rows, own in ((X, kernels), (grams, "precomputed")):
        data = AverageRegressor(own).training_data(rows, Y)
        fit = TwoStageFit(targets=targets, kernels=own, C=3.0, normalize=normalize, tol=1e-9)
        found = fit.plan(data).fit_machines(weights, 0, RunOptions()).attributes
        fitted.append((found, found["functions_"].values(rows, None)))
    (alone, values_alone), (together, values_together) = fitted
    assert together["objective_"] == pytest.approx(alone["objective_"], rel=1e-7)
    assert set(together) >= set(alone) - {"uncertainty_"}
    for a, other in zip(together["dual_coef_"], alone["dual_coef_"], strict=True):
        np.testing.assert_allclose(a, other, atol=1e-5)
    np.testing.assert_allclose(values_together, values_alone, atol=1e-5)


def test_the_machines_are_those_of_fixed_weights():
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, C=3.0, n_rounds=2000, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    other = MultiTaskKernelRegressor(data.kernels, C=3.0, penalty=FixedWeights(model.kernel_weights_.T))
    other.fit(data.data, data.target, tasks=data.tasks)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-10)
    expected = other.predict(data.data_test, data.tasks_test)
    np.testing.assert_allclose(model.predict(data.data_test, data.tasks_test), expected, atol=1e-9)


@pytest.mark.parametrize(("loss", "max_exact"), [("squared", 30), ("epsilon_insensitive", 2000)])
def test_offset_and_unit_of_the_targets_do_not_matter(loss, max_exact):
    data = problem("regression")
    options = {"loss": loss, "max_exact": max_exact, "n_rounds": 500, "random_state": 0, "tol": 1e-6}

    def fit(y, **changed):
        model = TwoStageMKMTRLRegressor(data.kernels, **options, **changed).fit(data.data, y, tasks=data.tasks)
        return model.predict(data.data_test, data.tasks_test)

    expected = fit(data.target)
    np.testing.assert_allclose(fit(data.target + 1e6) - 1e6, expected, atol=1e-4)
    # The squared loss grows as the square of the unit, as the norms do; the other one in proportion to it.
    unit = 2.0**-300
    changed = {"C": 1.0} if loss == "squared" else {"C": unit, "epsilon": 0.1 * unit}
    np.testing.assert_allclose(fit(data.target * unit, **changed) / unit, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("n_tasks", "n", "options"),
    [(40, 60, {}), (3, 800, {}), (1, 6000, {"kernels": "linear", "max_exact": 500})],
    ids=["many small tasks", "few large tasks", "Nystroem"],
)
def test_the_memory_of_a_fit_is_bounded_and_not_by_far(n_tasks, n, options):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * n, 5)), np.repeat(np.arange(n_tasks), n)
    y = X[:, 0] + rng.normal(size=len(X))
    model = TwoStageMKMTRLRegressor(n_rounds=2000, random_state=0, **options)
    model.fit(X[:40], y[:40])  # compiles
    estimate = model.estimate_memory(X, y, tasks)
    tracemalloc.start()
    model.fit(X, y, tasks=tasks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < estimate < 4 * peak + 2**23
