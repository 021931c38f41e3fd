"""Deviations, intervals and probabilities of tasks that were not in training."""

import numpy as np
import pandas as pd
import pytest

from kernelkin import KinRegressor, MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.paper.fitting import RunOptions
from kernelkin.paper.task_features import level_weights
from kernelkin.uncertainty.left_out import leave_out_tasks
from kernelkin.uncertainty.machines import MachinesHeldOut
from kernelkin.uncertainty.residuals import fit_new_tasks

LABELS = np.array(["a", "b", "c", "d", "e"])


def draw(seed, n_tasks=20, n_new=60, n_rows=6):
    """Tasks with levels and slopes that follow their size, and some that do not: a table, rows, and which are known."""
    rng = np.random.default_rng(seed)
    size, own = rng.uniform(-1.5, 1.5, n_tasks + n_new), rng.normal(size=n_tasks + n_new)
    code = np.repeat(np.arange(n_tasks + n_new), n_rows)
    X = np.column_stack([rng.normal(size=len(code)), rng.normal(size=len(code)) + 3 * size[code]])
    y = np.sin(1.5 * X[:, 0]) + (1 + X[:, 0]) * size[code] + 0.5 * own[code] + 0.3 * rng.normal(size=len(code))
    labels = np.array([f"task {i:03}" for i in range(n_tasks + n_new)])
    return pd.DataFrame({"size": size}, index=labels), X, y, labels[code], code < n_tasks


@pytest.mark.parametrize(
    "parameters",
    [
        {"couplings": "common", "unknown_tasks": "common"},
        {"couplings": "common", "task_features": True},
        {"couplings": "common", "task_features": True, "loss": "epsilon_insensitive"},
    ],
    ids=["common", "features", "epsilon-insensitive"],
)
def test_intervals_of_new_tasks_cover_them(parameters):
    covered, ratios = [], []
    for seed in range(2):
        table, X, y, tasks, known = draw(seed)
        given = parameters | ({"task_features": table} if "task_features" in parameters else {})
        model = MKMTRLRegressor(gaussian_kernels([1.0]), C=3.0, **given).fit(X[known], y[known], tasks=tasks[known])
        ends = model.predict_interval(X[~known], tasks[~known], coverage=0.8)
        value, std = model.predict(X[~known], tasks[~known], return_std=True)
        covered.append(((ends[:, 0] <= y[~known]) & (y[~known] <= ends[:, 1])).mean())
        ratios.append(np.sqrt(np.mean((y[~known] - value) ** 2) / np.mean(std**2)))
    assert abs(np.mean(covered) - 0.8) < 0.08
    assert 0.8 < np.mean(ratios) < 1.25


@pytest.mark.parametrize("given", [{"unknown_tasks": "common"}, {"task_features": True}], ids=["common", "features"])
def test_intervals_of_an_average_cover_new_tasks(given):
    table, X, y, tasks, known = draw(3, n_tasks=25)
    given = {"task_features": table} if "task_features" in given else given
    model = KinRegressor(gaussian_kernels([1.0]), cv=3, random_state=0, **given)
    model.fit(X[known], y[known], tasks=tasks[known])
    ends = model.predict_interval(X[~known], tasks[~known], coverage=0.8)
    assert 0.7 < ((ends[:, 0] <= y[~known]) & (y[~known] <= ends[:, 1])).mean() < 0.92


def make_plan(seed=0, **parameters):
    """Four tasks with features of five."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(5, 3))
    X, tasks = rng.normal(size=(28, 2)), np.repeat(LABELS[:4], 7)
    y = X[:, 0] + np.repeat(rng.normal(size=4), 7) + 0.2 * rng.normal(size=28)
    model = MKMTRLRegressor(linear_kernels(), C=2.0, normalize=None, task_features=(LABELS, A @ A.T), **parameters)
    data = model.training_data(X, y, tasks)
    return model.specification().plan(data), A @ A.T


@pytest.mark.parametrize("couplings", [None, "common"])
def test_deviations_of_new_tasks_are_those_of_universal_kriging(couplings):
    plan, kernel = make_plan(couplings=couplings)
    kernel = kernel / np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    fitted = plan.run(RunOptions()).attributes
    B = fitted["kernel_weights_"].sum(axis=1), fitted["coupling_weights_"].sum(axis=1)
    X, task = plan.data.X, np.repeat(np.arange(4), 7)
    queries = np.random.default_rng(1).normal(size=(6, 2))
    shared = [np.ones((5, 5))] * (couplings is not None) + [kernel]
    M = sum(b * matrix for b, matrix in zip(B[1], shared, strict=True)) + np.diag([*B[0], B[0].mean()])
    gram = (X @ X.T) * M[np.ix_(task, task)] + np.eye(28) / 2.0
    cross, prior = (queries @ X.T) * M[4, task], np.sum(queries**2, axis=1) * M[4, 4]
    Z, inverse = (task[:, np.newaxis] == np.arange(4)).astype(float), np.linalg.inv(gram)
    lack = fitted["functions_"].new_task(4).levels - cross @ inverse @ Z
    correction = np.einsum("qt,tu,qu->q", lack, np.linalg.inv(Z.T @ inverse @ Z), lack)
    expected = np.sqrt(0.5 + prior - np.einsum("qn,nm,qm->q", cross, inverse, cross) + correction)
    process = fitted["uncertainty_"].source.held_out().variance
    found = process.deviations(queries, np.full(6, 4), {4: fitted["functions_"].new_task(4)})
    np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_left_out_values_are_those_of_machines_without_the_task(loss):
    plan, kernel = make_plan(couplings="common", loss=loss, tol=1e-8)
    kernel = kernel / np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    B = plan.run(RunOptions())
    source = B.attributes["uncertainty_"].source
    weights = plan.units.weights(source.B)
    grams, _ = plan.scale(plan.raw_grams())
    found = leave_out_tasks(plan, grams, weights, None)
    gram, machine = np.array(grams.combine(weights, range(1))[0]), plan.machines[0]
    task = np.repeat(np.arange(4), 7)
    kept, others = np.flatnonzero(task != 2), np.array([0, 1, 3])
    groups = np.searchsorted(others, task[kept])
    part = type(machine)(machine.y[kept], machine.C[kept], groups, 3)
    dual = plan.learner.solve(np.ascontiguousarray(gram[np.ix_(kept, kept)]), part, tol=1e-9)
    levels = np.ldexp(dual.intercept, plan.units.target) + plan.units.offsets[0][others]
    shared = np.ldexp(gram[np.ix_(task == 2, kept)] @ dual.a, plan.units.target)
    level = level_weights(kernel[np.ix_(others, others)], kernel[2, others][np.newaxis], levels) @ levels
    np.testing.assert_allclose(found["features"].values[2], shared + level, atol=1e-5)
    common = weights.copy()
    common[:, 5:] = 0.0
    shared = np.ldexp(np.array(grams.combine(common, range(1))[0])[np.ix_(task == 2, kept)] @ dual.a, plan.units.target)
    np.testing.assert_allclose(found["common"].values[2], shared + levels.mean(), atol=1e-5)


def test_left_out_values_of_tasks_that_are_solved_together_are_those_of_one_machine(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    Y = np.sin(2 * X[:, :1]) + np.array([0.0, 1.0, 5.0]) + 0.5 * rng.normal(size=(30, 3))
    Y[:3, 1] = np.nan
    model = MKMTRLRegressor(C=10.0, couplings="common", tol=1e-7)
    data = model.training_data(X, Y)
    B, found = rng.uniform(0.1, 1.0, size=(6, 4)), []
    for together in (True, False):
        monkeypatch.setattr("kernelkin.paper.fitting.fit.panel_pays", lambda *sizes, use=together, **options: use)
        found.append(MachinesHeldOut(model.specification().plan(data), B, False).left_out()["common"].values)
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-3)


def test_probabilities_of_new_tasks_are_calibrated_by_tasks_left_out():
    _, X, y, tasks, known = draw(5, n_tasks=25)
    model = MKMTRLClassifier(gaussian_kernels([1.0]), couplings="common", unknown_tasks="common")
    model.fit(X[known], y[known] > 0, tasks=tasks[known])
    p = model.predict_proba(X[~known], tasks[~known])[:, 1]
    same = model.predict_proba(X[~known], tasks[known][np.zeros((~known).sum(), dtype=int)])[:, 1]
    # Levels differ between tasks: what is almost certain within one is not in another.
    assert np.std(p) < np.std(same)
    assert -np.mean(np.log(np.where(y[~known] > 0, p, 1 - p))) < 0.69


def test_rows_of_one_task_count_as_few_where_their_scores_go_together():
    rng = np.random.default_rng(0)
    alike = [np.full(10, size) for size in rng.exponential(size=12)]
    free = [rng.normal(size=10) for _ in range(12)]
    ones = [np.ones(10)] * 12
    assert fit_new_tasks(alike, ones, 1.0).n_effective == pytest.approx(12.0, rel=1e-6)
    assert fit_new_tasks(free, ones, 1.0).n_effective > 60
    # The highest of twelve tasks is not enough for 0.95, the quantile of Student's distribution is.
    scores = fit_new_tasks(alike, ones, 1.0)
    assert scores.quantile(0.95) == pytest.approx(scores.scale * 2.20099, rel=1e-4)
    assert scores.quantile(0.9) == pytest.approx(max(part[0] for part in alike) / np.sqrt(1.0 + scores.extra))


def test_the_extra_variance_makes_residuals_as_large_as_expected():
    residuals = [np.array([1.0, -3.0]), np.array([2.0, 2.0, 5.0])]
    deviations = [np.array([1.0, 2.0]), np.array([0.5, 1.0, 1.0])]
    scores = fit_new_tasks(residuals, deviations, 1.0)
    ratios = [np.mean(r**2 / (d**2 + scores.extra)) for r, d in zip(residuals, deviations, strict=True)]
    assert np.mean(ratios) == pytest.approx(1.0, rel=1e-4) and scores.scale == pytest.approx(1.0, rel=1e-4)
    assert fit_new_tasks(residuals, deviations, 100.0).extra == 0.0
