"""Combined Gram matrices whose rows are computed when they are read, against the matrices themselves."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.paper.grams import stack
from kernelkin.paper.grams.stack import GramStack, SharedGrams
from kernelkin.paper.learners import SVM, SVR, Machine


def shared(dtype, n=60, seed=0):
    """Two kernels on n points; three tasks, of which the last has no label on some."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    square = np.square(X[:, np.newaxis] - X).sum(axis=2)
    values = np.array([np.exp(-square), np.exp(-square / 8)]).astype(dtype)
    rows = [np.arange(n), np.arange(n), np.arange(5, n - 3)]
    return X, SharedGrams(GramStack(values), rows)


@pytest.mark.parametrize(
    ("learner", "dtype", "n_groups"), [(SVM(), np.float32, 1), (SVR(0.1), np.float64, 1), (SVR(0.1), np.float32, 0)]
)
def test_machines_have_the_same_solution(learner, dtype, n_groups, monkeypatch):
    monkeypatch.setattr(stack, "ON_DEMAND_ROWS", 0)
    X, grams = shared(dtype)
    B = np.array([[1.0, 0.5, 2.0], [0.3, 0.0, 1.0]])
    dense = [gram.copy() for gram in grams.combine(B, range(3))]
    grams.compute_on_demand()
    for m, gram in enumerate(grams.combine(B, range(3))):
        kept = X[grams.rows[m]]
        y = np.sign(kept[:, :1] + 0.2) if isinstance(learner, SVM) else kept[:, :1] + np.sin(kept[:, 1:2])
        machine = Machine(y, np.ones(y.shape), np.zeros(len(y), dtype=np.intp), n_groups)
        expected, hessian = learner.linearise(dense[m], machine, tol=1e-10)
        found, own = learner.linearise(gram, machine, tol=1e-10)
        np.testing.assert_allclose(found.dual, expected.dual, rtol=1e-9)
        np.testing.assert_allclose(found.a, expected.a, atol=1e-5)
        np.testing.assert_allclose(found.intercept, expected.intercept, atol=1e-5)
        images = np.stack([dense[m] @ found.a, found.a])
        np.testing.assert_allclose(own(images), hessian(images), rtol=1e-3, atol=1e-8)
        np.testing.assert_allclose(np.asarray(gram), dense[m], rtol=1e-12)


def test_only_the_rows_that_are_read_are_computed():
    X, grams = shared(np.float64, n=300)
    grams.on_demand = True
    gram = grams.combine(np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]]), range(3))[0]
    memory = gram.rows_when_read()[0]
    memory[:] = np.nan
    machine = Machine(np.sign(X[:, :1]), np.full((300, 1), 10.0), np.zeros(300, dtype=np.intp), 1)
    solution = SVM().solve(gram, machine)
    computed = ~np.isnan(memory).any(axis=1)
    assert computed[np.flatnonzero(solution.a)].all()
    assert computed.sum() < 200


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_fits_are_the_same(loss, monkeypatch):
    """Labels are missing; kernel weights are equal in the first evaluation and different in later ones."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    scores = X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(80, 4))
    hinge = loss == "hinge"
    y = np.where(scores > 0, 1.0, 0.0) if hinge else scores
    y[::7, 1] = np.nan
    fits = []
    for least in (0, 10**9):
        monkeypatch.setattr(stack, "ON_DEMAND_ROWS", least)
        model = MKMTRLClassifier(tol=1e-6) if hinge else MKMTRLRegressor(loss=loss, tol=1e-6)
        fits.append(model.fit(X, y))
    np.testing.assert_allclose(fits[0].objective_, fits[1].objective_, rtol=2e-6)
    np.testing.assert_allclose(fits[0].kernel_weights_, fits[1].kernel_weights_, atol=1e-2)
