"""MTFL and MTRL: their convex problems, both sides of them, reductions, traces."""

import numpy as np
import pytest
from models.convex import long_data, roots, spectral
from sklearn.linear_model import Ridge

from kernelkin.data.forms import read_training
from kernelkin.kernels.families import gaussian_kernels, resolve_kernels
from kernelkin.kernels.grams import fit_scaling
from kernelkin.kernels.kernel import evaluate, fit_kernels
from kernelkin.paper import MTFLClassifier, MTFLRegressor, MTRLClassifier, MTRLRegressor
from kernelkin.paper.grams.row_kernels import PooledKernel, pivoted_cholesky

STRENGTHS = {"MTFL": (0.0, 1.0), "MTRL": (1.0, 0.5)}
ESTIMATORS = {
    ("MTFL", "hinge"): MTFLClassifier,
    ("MTFL", "squared"): MTFLRegressor,
    ("MTRL", "hinge"): MTRLClassifier,
    ("MTRL", "squared"): MTRLRegressor,
}


def make(name, kind, kernels, **parameters):
    if name == "MTRL":
        parameters["mu"] = STRENGTHS[name][1]
    return ESTIMATORS[name, kind](kernels, **parameters)


def positions(tasks):
    return [np.flatnonzero(tasks == t) for t in np.unique(tasks)]


def pooled_features(X, kernels):
    fitted = fit_kernels(resolve_kernels(kernels), X)
    return roots(fit_scaling("trace", evaluate(fitted, X))[1].mean(axis=0))


@pytest.mark.parametrize(
    ("name", "kind", "T", "d", "kernels"),
    [
        ("MTFL", "hinge", 5, 2, "linear"),
        ("MTRL", "squared", 3, 5, "linear"),
        ("MTRL", "hinge", 3, 5, "linear"),
        ("MTFL", "squared", 3, 2, "average"),
    ],
)
def test_the_value_is_that_of_the_conic_optimum(name, kind, T, d, kernels):
    """More tasks than features is solved from the side of the features, more features from that of the tasks."""
    kernels = gaussian_kernels([1.0, 2.0]) if kernels == "average" else kernels
    X, y, labels, tasks = long_data(0, T=T, n=9, d=d)
    target = labels if kind == "hinge" else y
    model = make(name, kind, kernels, C=3.0, tol=1e-6, max_iter=1000).fit(X, target, tasks=tasks)
    rows = positions(tasks)
    value = spectral(pooled_features(X, kernels), rows, [target[kept] for kept in rows], 3.0, *STRENGTHS[name], kind)
    assert model.objective_ == pytest.approx(value, rel=3e-6)
    assert model.objective_ - model.duality_gap_ <= value * (1 + 1e-6)


@pytest.mark.filterwarnings("ignore:.*stopped at max_iter")
@pytest.mark.parametrize("name", STRENGTHS)
def test_alternating_never_raises_the_objective(name, T=6):
    X, y, _, tasks = long_data(1, T=T, d=4)
    model = make(name, "squared", "linear", C=3.0, tol=1e-4, max_iter=50, solver="alternating").fit(X, y, tasks=tasks)
    trace = model.history_["objective"]
    assert len(trace) > 3
    assert (np.diff(trace) <= 1e-7 * trace[0]).all()
    joint = make(name, "squared", "linear", C=3.0, tol=1e-6, max_iter=300).fit(X, y, tasks=tasks)
    # The published algorithm may stall above the optimum, and its gap says by how much at most.
    assert joint.objective_ - joint.duality_gap_ <= model.objective_ <= joint.objective_ + model.duality_gap_
    assert model.objective_ == pytest.approx(joint.objective_, rel=1e-2)


@pytest.mark.parametrize("name", STRENGTHS)
def test_one_task_is_ridge(name):
    """|W|_* of one column is its 2-norm: C/(l1 + l2) is the cost of a ridge regression on the scaled rows."""
    X, y, _, _ = long_data(2, T=1, n=30, d=3)
    l1, l2 = STRENGTHS[name]
    model = make(name, "squared", "linear", C=3.0, tol=1e-10).fit(X, y)
    scaled = X / np.sqrt((X**2).sum(axis=1).mean())
    ridge = Ridge(alpha=(l1 + l2) / 3.0).fit(scaled, y)
    np.testing.assert_allclose(model.predict(X), ridge.predict(scaled), rtol=1e-6)


@pytest.mark.parametrize("name", STRENGTHS)
def test_the_kernel_of_the_inner_products_is_the_linear_one(name, T=5):
    X, y, _, tasks = long_data(3, T=T, d=3)
    linear = make(name, "squared", "linear", tol=1e-8, max_iter=500).fit(X, y, tasks=tasks)
    there = make(name, "squared", lambda X, Z: X @ Z.T, tol=1e-8, max_iter=500).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(there.predict(X, tasks=tasks), linear.predict(X, tasks=tasks), atol=1e-6)
    np.testing.assert_allclose(there.task_relationship_, linear.task_relationship_, atol=1e-4)


@pytest.mark.parametrize("name", STRENGTHS)
def test_the_fit_satisfies_the_closed_forms_of_its_source(name, T=5):
    """At the optimum W = V A with A = Omega inv(l1 Omega + l2 I), and Omega = (W'W)^(1/2) / tr."""
    l1, l2 = STRENGTHS[name]
    X, y, _, tasks = long_data(4, T=T, d=3)
    model = make(name, "squared", "linear", C=3.0, tol=1e-10, max_iter=500).fit(X, y, tasks=tasks)
    W = np.column_stack([model.predict(np.eye(3), tasks=np.full(3, t)) - model.intercept_[t] for t in range(T)])
    W *= np.sqrt((X**2).sum(axis=1).mean())
    Phi = X / np.sqrt((X**2).sum(axis=1).mean())
    V = np.column_stack([Phi[tasks == t].T @ model.dual_coef_[t][:, 0] for t in range(T)])
    values, vectors = np.linalg.eigh(W.T @ W)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    np.testing.assert_allclose(model.task_relationship_, root / np.trace(root), atol=1e-5)
    A = model.task_relationship_ @ np.linalg.inv(l1 * model.task_relationship_ + l2 * np.eye(T))
    np.testing.assert_allclose(W, V @ A, atol=1e-3 * np.abs(W).max())


def test_related_tasks_are_separated_from_others():
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(240, 6)), np.repeat(np.arange(4), 60)
    w = rng.normal(size=(6, 2))
    y = np.where(tasks == 0, X @ w[:, 0], np.where(tasks == 1, -X @ w[:, 0], X @ w[:, 1])) + 0.1 * rng.normal(size=240)
    model = MTRLRegressor("linear", C=10.0).fit(X, y, tasks=tasks)
    correlation = np.corrcoef([model.predict(X, tasks=np.full(240, task)) for task in range(4)])
    assert correlation[0, 1] < -0.9
    assert correlation[2, 3] > 0.9
    assert abs(correlation[0, 2]) < 0.6


def test_several_classes():
    rng = np.random.default_rng(6)
    X, tasks = rng.normal(size=(120, 3)), np.repeat(["a", "b", "c"], 40)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    y[tasks == "c"] = X[tasks == "c", 1] > 0
    for kernels in ("linear", "rbf"):
        model = MTRLClassifier(kernels, C=10.0).fit(X, y, tasks=tasks)
        assert model.score(X, y, tasks=tasks) > 0.6
        assert [a.shape for a in model.dual_coef_] == [(40, 3), (40, 3), (40, 1)]
        assert model.task_relationship_.shape == (3, 3)
        assert np.trace(model.task_relationship_) == pytest.approx(1)
        assert np.linalg.eigvalsh(model.task_relationship_)[0] > -1e-12


@pytest.mark.parametrize("normalize", ["cosine", "center"])
def test_a_low_rank_gram_is_factored_exactly(normalize):
    X, y, _, tasks = long_data(7, T=6, d=2)
    data = read_training(X, y, tasks, None, classification=False)
    pool = PooledKernel(data, fit_kernels(resolve_kernels("linear"), X), normalize)
    features, gram = pool.features(10), pool.gram()
    assert features.Phi.shape[1] == 2
    np.testing.assert_allclose(features.Phi @ features.Phi.T, gram, atol=1e-12)
    w = np.array([[1.0], [2.0]])
    np.testing.assert_allclose(gram @ features.dual(w), features.Phi @ w, atol=1e-10)
    assert pool.features(1) is None


def test_pivoted_cholesky_stops_at_the_rank():
    rng = np.random.default_rng(8)
    F = rng.normal(size=(30, 4))
    features = pivoted_cholesky((F**2).sum(axis=1), lambda i: F @ F[i], 30)
    assert features.Phi.shape == (30, 4)


def test_tasks_of_many_classes_are_related_by_functions_of_the_same_class():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y, tasks = np.digitize(X[:, 0], [-0.5, 0.5]), np.repeat(["a", "b"], 30)
    # With the squared loss, the functions of all classes of a task add up to a constant.
    model = MTFLClassifier(loss="squared", tol=1e-6).fit(np.vstack([X, X]), np.tile(y, 2), tasks=tasks)
    np.testing.assert_allclose(model.task_relationship_, np.full((2, 2), 0.5), atol=1e-4)
