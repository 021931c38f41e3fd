"""Couplings: how they are read, which tasks they link, and that coupled fits solve the problem they state."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from grams.rows import build_grams

from conic import _feature_map, _loss
from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper import MultiTaskKernelRegressor
from kernelkin.paper.couplings import connected_tasks, read_couplings
from kernelkin.paper.fitting.targets import Classification, Regression, link_machines, split_by_task
from kernelkin.paper.learners import SVM, SVR, Ridge
from kernelkin.paper.penalties import LpPenalty
from kernelkin.paper.problems import MachineList, Problem

KERNELS = [*gaussian_kernels((0.5, 2.0)), *linear_kernels()]
TASKS = np.array(["a", "b", "c", "d"])
GROUPS = {"pairs": ["x", "x", "y", "y"]}
MATRIX = np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, -0.8], [0, 0, -0.8, 1]])


def make_tasks(rng, sizes=(9, 12, 10, 11), classification=False):
    tasks = np.repeat(TASKS[: len(sizes)], sizes)
    X = rng.normal(size=(len(tasks), 3))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * (tasks == "b") * X[:, 2] + (tasks == "c")
    y = f + 0.1 * rng.normal(size=len(f))
    if not classification:
        return X, y, tasks
    for task in np.unique(tasks):
        y[tasks == task] -= np.median(y[tasks == task])
    return X, np.where(y > 0, 1, -1), tasks


FOUR = read_training(*make_tasks(np.random.default_rng(0)), None, classification=False)


def conic_coupled(model, X, y, tasks, loss):
    """The coupled problem as a cone programme over explicit feature maps of every (kernel, component)."""
    codes = np.searchsorted(model.tasks_, tasks)
    T = len(model.tasks_)
    matrices = [np.outer(e, e) for e in np.eye(T)] + [coupling.matrix for coupling in model.couplings_]
    J, K = len(matrices), len(model.kernels_)
    B, Psi = cp.Variable((K, J), nonneg=True), cp.Variable((J, J), symmetric=True)
    f, norms = cp.Variable(T)[codes], []
    for j, M in enumerate(matrices):
        touched = np.flatnonzero(np.diag(M)[codes] > 0)
        for k, kernel in enumerate(model.kernels_):
            gram = kernel(X)
            gram = gram / np.mean(np.diag(gram)[touched]) * M[np.ix_(codes, codes)]
            features = _feature_map(gram)
            w = cp.Variable(features.shape[1])
            f = f + features @ w
            norms.append(cp.quad_over_lin(w, B[k, j]) / 2)
    limits = [Psi >> model.shrinkage / J * np.eye(J), Psi << np.eye(J) / model.min_rank, cp.trace(Psi) <= 1]
    cost = _loss(loss, y.astype(float), f, np.full(len(y), model.C), getattr(model, "epsilon", 0.0))
    problem = cp.Problem(cp.Minimize(sum(norms) + cost + model.mu / 2 * cp.matrix_frac(B.T, Psi)), limits)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


def test_reading_couplings():
    (common,) = read_couplings("common", FOUR)
    assert common.is_common and np.array_equal(common.matrix, np.ones((4, 4)))
    (pairs,) = read_couplings(GROUPS, FOUR)
    assert np.array_equal(pairs.matrix, np.kron(np.eye(2), np.ones((2, 2))))
    by_task = read_couplings({"pairs": dict(zip(TASKS.tolist(), GROUPS["pairs"], strict=True))}, FOUR)
    assert np.array_equal(by_task[0].matrix, pairs.matrix)
    (given,) = read_couplings({"m": MATRIX}, FOUR)
    np.testing.assert_allclose(given.matrix, MATRIX, atol=1e-12)
    assert not given.is_common


def test_faulty_couplings_are_named():
    for couplings, message in [
        ("all", "must be None, 'common' or a dict"),
        ({"g": ["x", "y"]}, "'g' has 2 group labels, but there are 4 tasks"),
        ({"g": {"a": 1, "b": 1, "c": 2}}, "'g' has no label for task 'd'"),
        ({"g": np.eye(3)}, r"'g' has shape \(3, 3\); 4 tasks need \(4, 4\)"),
        ({"g": 2 * np.eye(4)}, "1 on its diagonal.*task 'a' has 2"),
        ({"g": np.eye(4) + np.triu(np.ones((4, 4)), 1)}, "'g' is not a finite symmetric matrix"),
        ({"g": -np.ones((4, 4)) + 2 * np.eye(4)}, "'g' is not positive semi-definite: its smallest eigenvalue is -2"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_couplings(couplings, FOUR)


@pytest.mark.parametrize("sharing", [1.0, 0.5, 0.0])
def test_shared_parts_are_charged_by_how_many_tasks_share_them(sharing):
    pairs = np.kron(np.eye(2), np.ones((2, 2)))
    for given, matrix, m in (("common", np.ones((4, 4)), 4), (GROUPS, pairs, 2), ({"own": np.eye(4)}, np.eye(4), 1)):
        (found,) = read_couplings(given, FOUR, sharing)
        np.testing.assert_allclose(found.matrix, matrix / m ** (1 - sharing), atol=1e-12)


@pytest.mark.parametrize("given, owner", [("common", "c"), ({"similar": 0.2 + 0.8 * np.eye(4)}, "c"), ("nearest", "b")])
def test_a_task_of_one_class_has_the_intercept_of_the_nearest_task_with_the_most_rows(given, owner):
    X, y, tasks = make_tasks(np.random.default_rng(0), (5, 8, 12, 9), classification=True)
    y[tasks == "a"] = 1
    if given == "nearest":
        M = 0.2 + 0.8 * np.eye(4)
        M[0, 1] = M[1, 0] = 0.6
        given = {"similar": M}
    data = read_training(X, y, tasks, None, classification=True)
    (joined,) = link_machines(Classification().machines(data, 1.0, [np.arange(4)]), read_couplings(given, data), TASKS)
    groups = {task: set(joined.groups[tasks == task].tolist()) for task in TASKS.tolist()}
    assert joined.n_groups == 3 and [task for task in "bcd" if groups[task] == groups["a"]] == [owner]


def test_linked_tasks_form_machines():
    assert [m.tolist() for m in connected_tasks(read_couplings(GROUPS, FOUR), 4)] == [[0, 1], [2, 3]]
    both = read_couplings({**GROUPS, "m": ["p", "q", "q", "r"]}, FOUR)
    assert [m.tolist() for m in connected_tasks(both, 4)] == [[0, 1, 2, 3]]
    assert [m.tolist() for m in connected_tasks((), 3)] == [[0], [1], [2]]


def test_couplings_with_names_are_matched_by_the_names_of_the_tasks():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b", "c", "d"], 10)
    y = X[:, 0] + rng.normal(size=40)
    M = np.kron(np.eye(2), np.ones((2, 2)))
    order = [2, 0, 3, 1]
    named = pd.Series(["n", "n", "s", "s"], index=list("abcd")).iloc[order]
    frame = pd.DataFrame(M, index=list("abcd"), columns=list("abcd")).iloc[order, ::-1]
    expected, *found = (
        MKMTRLRegressor(couplings={"region": value}).fit(X, y, tasks=tasks).predict(X, tasks=tasks)
        for value in (M, named, frame)
    )
    for prediction in found:
        np.testing.assert_allclose(prediction, expected, rtol=1e-6, atol=1e-8)
    for value, message in (
        (named.rename({"a": "e"}), "coupling 'region' has no label for task 'a'"),
        (frame.rename({"a": "e"}), "the rows of coupling 'region' must be named .* missing: 'a'; not a task.*: 'e'"),
    ):
        with pytest.raises(ValueError, match=message):
            MKMTRLRegressor(couplings={"region": value}).fit(X, y, tasks=tasks)


@pytest.mark.parametrize(
    ("couplings", "loss"),
    [
        ("common", "squared"),
        ("common", "hinge"),
        (GROUPS, "epsilon_insensitive"),
        (GROUPS, "squared"),
        ({"common": "common", "m": MATRIX}, "hinge"),
        ({"common": "common", "m": MATRIX}, "squared"),
    ],
    ids=["common-squared", "common-hinge", "groups-epsilon", "groups-squared", "two-hinge", "two-squared"],
)
def test_agrees_with_the_cone_solver(couplings, loss):
    rng = np.random.default_rng(3)
    X, y, tasks = make_tasks(rng, classification=loss == "hinge")
    make = MKMTRLClassifier if loss == "hinge" else MKMTRLRegressor
    model = make(KERNELS, loss=loss, C=2.0, mu=0.5, couplings=couplings, tol=1e-5, max_iter=1000).fit(X, y, tasks=tasks)
    optimum = conic_coupled(model, X, y, tasks, loss)
    assert model.objective_ == pytest.approx(optimum, rel=1e-5)
    assert model.duality_gap_ <= 1e-5 * model.objective_
    assert model.objective_ - optimum <= model.duality_gap_ + 1e-6 * optimum


def test_structured_ridge_equals_the_dense_one():
    # Kernels on a column with five values have rank five: the shared part is then never written out.
    rng = np.random.default_rng(0)
    tasks = np.repeat(TASKS, 40)
    X = np.column_stack([rng.integers(5, size=160), rng.integers(2, size=160)]).astype(float)
    y = np.sin(X[:, 0]) + X[:, 1] * (tasks == "a") + 0.1 * rng.normal(size=160)
    kernels = [*gaussian_kernels((1.0,), columns=0), *gaussian_kernels((1.0,), columns=1), *linear_kernels()]
    model = MKMTRLRegressor(kernels, couplings="common", C=5.0, tol=1e-8, max_iter=500).fit(X, y, tasks=tasks)
    grams = np.stack([kernel(X) for kernel in model.kernels_], axis=2)
    dense = MKMTRLRegressor("precomputed", couplings="common", C=5.0, tol=1e-8, max_iter=500).fit(grams, y, tasks=tasks)
    assert model.objective_ == pytest.approx(dense.objective_, rel=1e-8)
    np.testing.assert_allclose(model.predict(X, tasks=tasks), dense.predict(grams, tasks=tasks), rtol=0, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_wide_equals_long(loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + k * X[:, 1] for k in (0.0, 0.3, 1.0)]) + 0.05 * rng.normal(size=(25, 3))
    Y[3, 0] = Y[7, 2] = np.nan
    seen = ~np.isnan(Y)
    rows, columns = np.nonzero(seen)
    options = {"couplings": "common", "loss": loss, "C": 3.0, "normalize": None, "tol": 1e-7, "max_iter": 500}
    kernels = gaussian_kernels((1.0, 3.0), relative=False)
    wide = MKMTRLRegressor(kernels, **options).fit(X, Y)
    long = MKMTRLRegressor(kernels, **options).fit(X[rows], Y[seen], tasks=columns)
    assert wide.objective_ == pytest.approx(long.objective_, rel=1e-6)
    np.testing.assert_allclose(wide.predict(X)[seen], long.predict(X[rows], tasks=columns), atol=2e-3)


@pytest.mark.parametrize("learner", [SVM(), Ridge(), SVR(0.1)], ids=lambda learner: learner.name)
def test_couplings_of_weight_zero_change_nothing(learner):
    rng = np.random.default_rng(7)
    X, y, tasks = make_tasks(rng, classification=learner.name == "svm")
    data = read_training(X, y, tasks, None, classification=False)
    kernels = fit_kernels(KERNELS, X)
    machines = Regression().machines(data, 2.0)
    alone, _ = build_grams(data, kernels, "trace")
    couplings = read_couplings({"common": "common", **GROUPS}, data)
    linked, _ = build_grams(data, kernels, "trace", couplings)
    joined = link_machines(machines, couplings, data.labels)
    B = rng.uniform(size=(3, 4))
    expected = Problem(alone, MachineList(machines), learner, LpPenalty(2), 1.0).evaluate(B, tol=1e-10)
    padded = np.column_stack([B, np.zeros((3, 2))])
    coupled = Problem(linked, MachineList(joined), learner, LpPenalty(2), 1.0).evaluate(padded, tol=1e-10)
    assert coupled.primal == pytest.approx(expected.primal, rel=1e-9)
    a, intercepts = split_by_task(coupled.duals, joined, data, couplings)
    for t in range(4):
        np.testing.assert_allclose(a[t], expected.duals[t].a, atol=1e-4)
        np.testing.assert_allclose(intercepts[t], expected.duals[t].intercept[0], atol=1e-4)
    np.testing.assert_allclose(coupled.Q[:, :4], expected.Q, atol=1e-5)


def test_one_task_and_couplings_of_one_task():
    rng = np.random.default_rng(5)
    X, y, tasks = make_tasks(rng)
    alone = MKMTRLRegressor(KERNELS, tol=1e-7, max_iter=500).fit(X, y, tasks=tasks)
    # A coupling that touches one task links none: four machines as before, one of them with a component more.
    extra = MKMTRLRegressor(KERNELS, couplings={"a": np.diag([1.0, 0, 0, 0])}, tol=1e-7, max_iter=500)
    extra.fit(X, y, tasks=tasks)
    assert extra.coupling_weights_.shape == (1, 3)
    assert extra.objective_ != pytest.approx(alone.objective_, rel=1e-3)
    first = tasks == "a"
    single = MKMTRLRegressor(KERNELS, shrinkage=1.0, C=2.0, mu=1.0, tol=1e-8, max_iter=500).fit(X[first], y[first])
    # With one task, own and common part see the same kernel: two columns of weight b/2 cost half as much as one of b.
    coupled = MKMTRLRegressor(KERNELS, shrinkage=1.0, C=2.0, couplings="common", mu=1.0, tol=1e-8, max_iter=500)
    coupled.fit(X[first], y[first])
    np.testing.assert_allclose(coupled.predict(X[first]), single.predict(X[first]), atol=1e-3)


def test_split_adds_up_and_shares_sum_to_one():
    rng = np.random.default_rng(2)
    X, y, tasks = make_tasks(rng)
    model = MKMTRLRegressor(KERNELS, couplings={"common": "common", **GROUPS}, C=5.0).fit(X, y, tasks=tasks)
    split = model.predict(X, tasks=tasks, split=True)
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, split.prediction, atol=1e-10)
    assert list(split.shared) == ["common", "pairs"]
    np.testing.assert_allclose(split.own + sum(split.shared.values()), split.parts, atol=1e-10)
    assert model.part_shares_.shape == (4, 3)
    np.testing.assert_allclose(model.part_shares_.sum(axis=1), 1.0)
    # The shares, from their definition, on the parts that predict gives.
    for t, task in enumerate(model.tasks_):
        mine = tasks == task
        parts = np.array([p[mine].sum(axis=1) for p in (split.own, *split.shared.values())])
        parts -= parts.mean(axis=1, keepdims=True)
        expected = parts @ parts.sum(axis=0) / (parts.sum(axis=0) @ parts.sum(axis=0))
        np.testing.assert_allclose(model.part_shares_[t], expected, atol=1e-8)


def test_unseen_tasks_are_predicted_by_the_common_part():
    rng = np.random.default_rng(4)
    X, y, tasks = make_tasks(rng, sizes=(30, 30, 30, 30))
    known = tasks != "d"
    # Tasks that were not in training are in no group.
    couplings = {"common": "common", "pair": ["x", "x", "y"]}
    refusing = MKMTRLRegressor(KERNELS, couplings=couplings, C=10.0).fit(X[known], y[known], tasks=tasks[known])
    with pytest.raises(
        ValueError, match=r"unknown task 'd'; this model knows 'a', 'b', 'c'\. .* unknown_tasks='common'"
    ):
        refusing.predict(X, tasks=tasks)
    model = MKMTRLRegressor(KERNELS, couplings=couplings, C=10.0, unknown_tasks="common")
    prediction = model.fit(X[known], y[known], tasks=tasks[known]).predict(X, tasks=tasks)
    np.testing.assert_allclose(prediction[known], refusing.predict(X[known], tasks=tasks[known]), rtol=1e-10)
    shared = model.predict(X[~known], tasks=np.full(30, "a"), split=True).shared["common"].sum(axis=1)
    np.testing.assert_allclose(prediction[~known], shared + model.intercept_.mean(), atol=1e-10)
    residual = y[~known] - prediction[~known]
    expected = 1 - residual @ residual / np.square(y[~known] - y[~known].mean()).sum()
    assert model.score_tasks(X, y, tasks=tasks)["d"] == pytest.approx(expected, rel=1e-6)
    assert expected > 0.5
    split = model.predict(X[~known], tasks=tasks[~known], split=True)
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, prediction[~known], atol=1e-10)


def test_unseen_tasks_need_a_part_that_all_tasks_share():
    X, y, tasks = make_tasks(np.random.default_rng(4))
    for couplings in (None, GROUPS):
        with pytest.raises(ValueError, match=r"unknown_tasks='common' .*: set couplings='common'"):
            MKMTRLRegressor(KERNELS, couplings=couplings, unknown_tasks="common").fit(X, y, tasks=tasks)


def test_multiclass_tasks_can_be_coupled():
    rng = np.random.default_rng(6)
    X, y, tasks = make_tasks(rng, sizes=(30, 30, 30))
    labels = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    model = MKMTRLClassifier(KERNELS, couplings="common", C=5.0, unknown_tasks="common").fit(X, labels, tasks=tasks)
    assert model.score(X, labels, tasks=tasks) > 0.8
    unseen = model.decision_function(X, tasks=np.full(90, "z"))
    assert unseen.shape == (90, 3) and np.isfinite(unseen).all()
    binary = np.where(tasks == "a", 3 + (labels > 0), labels)
    with pytest.raises(
        ValueError, match="coupled tasks must have the same classes; 'a' has 3, 4, another task 0, 1, 2"
    ):
        MKMTRLClassifier(KERNELS, couplings="common").fit(X, binary, tasks=tasks)


def test_a_task_of_one_class_has_the_intercept_of_another_whatever_solves_it(monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30, 2))
    Y = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(30, 3)) > 0).astype(float)
    Y[:, 2] = np.where(np.arange(30) < 6, 1.0, np.nan)
    model = MKMTRLClassifier(loss="squared", couplings="common", tol=1e-6)
    expected = model.fit(X, Y).decision_function(X)
    monkeypatch.setattr("kernelkin.paper.fitting.fit.panel_pays", lambda *sizes, coupled: True)
    np.testing.assert_allclose(model.fit(X, Y).decision_function(X), expected, atol=1e-3)
    assert model.intercept_[2] in model.intercept_[:2]


@pytest.mark.parametrize(
    ("coupling", "penalty"),
    [(np.diag([1.0, 1.0, 1.0, 0.0]), "relation"), ("common", LpPenalty(p=1))],
    ids=["a task without it", "weight zero on the way"],
)
def test_parts_of_low_rank_that_no_task_of_a_machine_uses(coupling, penalty, monkeypatch):
    rng = np.random.default_rng(0)
    X, tasks = rng.integers(0, 3, size=(120, 1)).astype(float), np.tile(["a", "b", "c", "d"], 30)
    # Opposite functions have no common part.
    y = np.where(tasks < "c", -1.0, 1.0) * X[:, 0] + 0.1 * rng.normal(size=120)
    model = MultiTaskKernelRegressor("linear", penalty=penalty, couplings={"part": coupling}, tol=1e-8)
    low_rank = model.fit(X, y, tasks=tasks).predict(X, tasks=tasks)
    assert model.duality_gap_ <= 1e-8 * model.objective_
    monkeypatch.setattr("kernelkin.paper.grams.build.low_rank_kernels", lambda *arguments: None)
    dense = model.fit(X, y, tasks=tasks).predict(X, tasks=tasks)
    np.testing.assert_allclose(low_rank, dense, atol=1e-4)


def test_coupled_models_need_as_many_classes_in_every_task():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c", "d"], 15)
    y = np.where(tasks < "c", np.arange(60) % 3, np.arange(60) % 2)
    with pytest.raises(ValueError, match="must have the same number of classes; 'a', 'c' do not"):
        MKMTRLClassifier(couplings={"pairs": [0, 0, 1, 1]}).fit(X, y, tasks=tasks)
