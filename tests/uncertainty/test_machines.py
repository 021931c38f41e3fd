from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    all_models,
    gaussian_kernels,
)
from kernelkin.paper.couplings import connected_tasks
from kernelkin.paper.learners import Machine, Ridge
from kernelkin.uncertainty import calibration_folds
from kernelkin.uncertainty.machines import MachinesHeldOut, leave_one_out


@pytest.mark.parametrize("n_groups", [0, 2])
def test_leave_one_out_equals_refits_without_each_row(n_groups):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(14, 5))
    gram, groups = A @ A.T, np.repeat([0, 1], 7)
    machine = Machine(rng.normal(size=(14, 2)), rng.uniform(0.5, 2.0, size=(14, 2)), groups, n_groups)
    values, deviations = leave_one_out(gram, machine)
    for i in range(14):
        kept = np.delete(np.arange(14), i)
        part = Machine(machine.y[kept], machine.C[kept], groups[kept], n_groups)
        dual = Ridge().solve(gram[np.ix_(kept, kept)], part)
        expected = gram[i, kept] @ dual.a + (dual.intercept[groups[i]] if n_groups else 0.0)
        np.testing.assert_allclose(values[i], expected, atol=1e-9)
        if not n_groups:
            for o in range(2):
                M = gram[np.ix_(kept, kept)] + np.diag(1 / machine.C[kept, o])
                variance = gram[i, i] - gram[i, kept] @ np.linalg.solve(M, gram[kept, i]) + 1 / machine.C[i, o]
                np.testing.assert_allclose(deviations[i, o], np.sqrt(variance))


@pytest.mark.parametrize("couplings", [None, "common"])
@pytest.mark.parametrize("loss", ["regression", "classification"])
def test_values_of_tasks_that_are_solved_together_are_those_of_single_machines(monkeypatch, couplings, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    Y = np.sin(2 * X[:, :1]) + np.array([0.0, 1.0, 5.0]) + 0.5 * rng.normal(size=(30, 3))
    if loss == "classification":
        Y, model = np.array([0.0, 1.0, 5.0]) < Y, MKMTRLClassifier(loss="squared", couplings=couplings, tol=1e-7)
    else:
        model = MKMTRLRegressor(C=10.0, couplings=couplings, tol=1e-7)
        Y[:3, 1] = np.nan
    classification = loss == "classification"
    data = model.training_data(X, Y)
    B = np.random.default_rng(3).uniform(0.1, 1.0, size=(6, 3 + (couplings is not None)))
    monkeypatch.setattr("kernelkin.paper.fitting.fit.panel_pays", lambda *sizes, **options: True)
    plan = model.specification().plan(data)
    together = MachinesHeldOut(plan, B, classification).held_out()
    grams, _ = plan.scale(plan.raw_grams())
    for fold in calibration_folds(data, classification=classification):
        combined = grams.combine(B, range(grams.n_machines))
        for members, gram in zip(connected_tasks(plan.couplings, 3), combined, strict=True):
            rows = [data.rows[t][fold.kept[t]] for t in members]
            sizes = np.cumsum([0, *(len(data.rows[t]) for t in members)])
            kept = np.concatenate([sizes[i] + fold.kept[t] for i, t in enumerate(members)])
            y = np.concatenate([data.y[t][fold.kept[t]] for t in members]).astype(float)
            y = np.where(y > 0, 1.0, -1.0) if classification else y
            groups = np.repeat(np.arange(len(members)), [len(each) for each in rows])
            cost = np.full((len(y), 1), model.C)
            gram = np.asarray(gram)
            machine = Machine(y[:, np.newaxis], cost, groups, len(members))
            dual = Ridge().solve(gram[np.ix_(kept, kept)], machine)
            for i, t in enumerate(members):
                held = sizes[i] + fold.held[t]
                expected = gram[np.ix_(held, kept)] @ dual.a + dual.intercept[i]
                np.testing.assert_allclose(together.values[t][fold.held[t]], expected, atol=1e-3)


def test_deviations_are_those_of_a_gaussian_process():
    rng = np.random.default_rng(2)
    X, queries = rng.normal(size=(30, 2)), rng.normal(size=(11, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
    model = AverageRegressor(gaussian_kernels([0.7]), C=4.0, fit_intercept=False).fit(X, y)
    width = model.kernels_[0].function.bandwidth
    process = GaussianProcessRegressor(ConstantKernel(4.0) * RBF(width), alpha=1.0, optimizer=None).fit(X, y)
    _, expected = process.predict(queries, return_std=True)
    mean, std = model.predict(queries, return_std=True)
    np.testing.assert_allclose(mean, process.predict(queries))
    # scikit-learn's is the deviation of the function; a new target has noise of variance one besides.
    total = np.sqrt(1 + expected**2)
    np.testing.assert_allclose(std / total, (std / total)[0])


def make_plan(form, **parameters):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(24, 2)), np.repeat(["a", "b", "c"], 8)
    Y = np.sin(2 * X[:, :1]) + np.array([0.0, 1.0, 5.0]) + 0.2 * rng.normal(size=(24, 3))
    Y[:3, 1] = np.nan
    model = MKMTRLRegressor(C=10.0, **parameters)
    y, tasks = (Y[:, 0], tasks) if form == "long" else (Y, None)
    return model.specification().plan(model.training_data(X, y, tasks))


@pytest.mark.parametrize(
    ("normalize", "couplings"), [("trace", None), ("cosine", "common"), ("center", None), (None, "common")]
)
@pytest.mark.parametrize("form", ["long", "wide"])
def test_covariances_of_training_rows_are_their_gram_matrices(form, couplings, normalize):
    plan = make_plan(form, couplings=couplings, normalize=normalize)
    B = np.random.default_rng(3).uniform(size=(6, 3 + (couplings is not None)))
    variance = MachinesHeldOut(plan, B, False).held_out().variance
    grams, _ = plan.scale(plan.raw_grams())
    combined = grams.combine(plan.units.weights(B), range(grams.n_machines))
    for members, gram in zip(connected_tasks(plan.couplings, 3), combined, strict=True):
        found = [variance.covariance(plan.data.X[plan.data.rows[t]], t, members) for t in members]
        np.testing.assert_allclose(np.vstack([cross for cross, _ in found]), gram, atol=1e-12)
        np.testing.assert_allclose(np.concatenate([own for _, own in found]), np.diag(np.asarray(gram)), atol=1e-12)


@pytest.mark.parametrize("couplings", [None, "common"])
def test_leave_one_out_deviations_are_those_of_a_process_without_the_row(couplings):
    plan = make_plan("long", couplings=couplings)
    B = np.random.default_rng(3).uniform(size=(6, 3 + (couplings is not None)))
    held = MachinesHeldOut(plan, B, False).held_out()
    rows, costs = plan.data.rows, held.variance.costs
    without = replace(held.variance, rows=(rows[0], rows[1][1:], rows[2]), costs=(costs[0], costs[1][1:], costs[2]))
    found = without.deviations(plan.data.X[rows[1][:1]], np.array([1]))
    np.testing.assert_allclose(found, held.deviations[1][:1])


OF_MANY_KERNELS = [
    estimator
    for model in all_models()
    for estimator in model.estimators
    if "normalize" in estimator().get_params() and model.name not in ("Kin", "MTFL", "MTRL")
]


@pytest.mark.parametrize("estimator", OF_MANY_KERNELS, ids=lambda estimator: estimator.__name__)
def test_machines_at_the_learned_weights_are_those_of_the_fit(estimator):
    # Held-out values leave out rows of these machines, so with all rows they must be the functions of the model.
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=40)
    model = estimator(tol=1e-3)
    model.fit(X, y > 0 if is_classifier(model) else y, tasks)
    source = model.uncertainty_.source
    values = model.functions_.values(X, np.repeat([0, 1], 20))
    grams, _ = source.plan.scale(source.plan.raw_grams())
    B, units = source.plan.units.weights(source.B), source.plan.units
    for m, gram in enumerate(grams.combine(B, range(2))):
        machine = source.plan.machines[m]
        dual = source.plan.learner.solve(gram, machine, tol=1e-6)
        found = np.ldexp(gram @ dual.a + dual.intercept, units.target) + units.offsets[m]
        np.testing.assert_allclose(found, values[20 * m : 20 * m + 20], atol=0.05)


def test_values_and_centers_of_folds_are_those_of_models_without_them():
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    y = X[:, 0] + 0.5 * rng.normal(size=60) > np.repeat([0.0, 0.8], 30)
    model = AverageClassifier("linear", normalize=None, tol=1e-9)
    data = clone(model).training_data(X, y, tasks)
    held = clone(model).fit(X, y, tasks).uncertainty_.source.held_out()
    for fold in calibration_folds(data, classification=True):
        kept, out = fold.rows(data)
        fitted = clone(model).fit(X[kept], y[kept], tasks[kept])
        for t, name in enumerate("ab"):
            part, rest = out[tasks[out] == name], kept[tasks[kept] == name]
            values, mean = held.values[t][fold.held[t], 0], held.centers[t][fold.held[t], 0]
            np.testing.assert_allclose(values, fitted.decision_function(X[part], tasks[part]), atol=1e-4)
            np.testing.assert_allclose(mean, fitted.decision_function(X[rest], tasks[rest]).mean(), atol=1e-4)
    whole = clone(model).fit(X, y, tasks).decision_function(X, tasks)
    np.testing.assert_allclose(np.concatenate(held.final_centers), [whole[:30].mean(), whole[30:].mean()], atol=1e-4)


def test_centers_of_ridge_machines_are_means_of_their_values_without_the_row():
    rng = np.random.default_rng(6)
    X, tasks = rng.normal(size=(24, 2)), np.repeat(["a", "b"], 12)
    y = X[:, 0] + 0.5 * rng.normal(size=24) > 0
    model = AverageClassifier("linear", loss="squared", normalize=None)
    held = clone(model).fit(X, y, tasks).uncertainty_.source.held_out()
    kept = np.arange(1, 24)
    fitted = clone(model).fit(X[kept], y[kept], tasks[kept])
    np.testing.assert_allclose(held.values[0][0], fitted.decision_function(X[:1], tasks[:1]))
    np.testing.assert_allclose(held.centers[0][0], fitted.decision_function(X[1:12], tasks[1:12]).mean())
