"""Support vector machines solved together by an interior point method, against SMO."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernelkin import MKMTRLClassifier
from kernelkin.grams import GramStack, SharedGrams
from kernelkin.learners import SVM, Machine
from kernelkin.learners.interior import best_intercepts, project
from kernelkin.problems import solve_machines
from kernelkin.problems.svm_batches import solve_svms

RNG = np.random.default_rng(7)
N, T = 40, 5
X = RNG.normal(size=(N, 3))
STACK = np.array([rbf_kernel(X, gamma=gamma) for gamma in (0.1, 1.0)])
B = np.exp(RNG.normal(size=(2, T)))


def make_machines(missing, intercept):
    rng = np.random.default_rng(2)
    rows = [np.flatnonzero(rng.uniform(size=N) < 0.7) if missing else np.arange(N) for _ in range(T)]
    machines = []
    for kept in rows:
        y = np.sign(X[kept, :1] + 0.7 * rng.normal(size=(len(kept), 1)))
        cost = rng.uniform(0.1, 5.0, size=y.shape)
        machines.append(Machine(y, cost, np.zeros(len(kept), dtype=np.intp), int(intercept)))
    return machines, rows


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_values_are_those_of_smo_and_duals_are_feasible(arrays, missing, intercept):
    machines, rows = make_machines(missing, intercept)
    grams = SharedGrams(GramStack(STACK), rows)
    exact = solve_machines(grams, machines, SVM(), B, tol=1e-9)
    grams.arrays = arrays
    duals, Q, _ = solve_svms(grams, machines, B, 1e-7, curved=False)
    for dual, smo, machine in zip(duals, exact.duals, machines, strict=True):
        np.testing.assert_allclose(dual.primal, smo.primal, rtol=1e-6)
        assert dual.lin - dual.quad <= smo.primal * (1 + 1e-9)
        assert dual.gap <= 1e-7 * dual.primal
        boxes = machine.y * dual.a
        assert (boxes >= 0).all() and (boxes <= machine.C).all()
        if intercept:
            assert abs(dual.a.sum()) <= 1e-13 * machine.C.sum()
        np.testing.assert_allclose(dual.a, smo.a, atol=1e-2)
    np.testing.assert_allclose(Q, exact.Q, rtol=1e-4)


def test_hessians_are_those_of_the_values(arrays):
    machines, rows = make_machines(missing=False, intercept=True)
    grams = SharedGrams(GramStack(STACK), rows)
    grams.arrays = arrays
    step = 1e-3 * np.array([[1.0], [-0.5]]) * np.ones((1, T))
    _, ahead, _ = solve_svms(grams, machines, B + step, 1e-10, curved=False)
    _, behind, _ = solve_svms(grams, machines, B - step, 1e-10, curved=False)
    _, _, hessians = solve_svms(grams, machines, B, 1e-10, curved=True)
    change = np.einsum("tkl,lt->kt", hessians, step)
    # Q is minus the gradient; rows that reach a bound between the two points bend it.
    np.testing.assert_allclose((behind - ahead) / 2, change, atol=0.05 * np.abs(change).max())


def test_projection_is_the_nearest_feasible_point():
    rng = np.random.default_rng(0)
    a, hi = 3 * rng.normal(size=(30, 4)), rng.uniform(0.5, 2.0, size=(30, 4))
    found = project(a, -hi, hi, has_intercept=True)
    assert (np.abs(found) <= hi).all()
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-14)
    # The difference to a is one number in each column, but where a bound holds.
    inside = np.abs(found) < hi - 1e-9
    shifts = np.where(inside, a - found, np.nan)
    assert (np.nanmax(shifts, axis=0) - np.nanmin(shifts, axis=0) < 1e-9).all()
    np.testing.assert_array_equal(project(a, -hi, hi, has_intercept=False), np.clip(a, -hi, hi))


def test_intercepts_minimise_the_hinge_loss():
    rng = np.random.default_rng(1)
    f, y, C = rng.normal(size=(21, 3)), np.sign(rng.normal(size=(21, 3))), rng.uniform(size=(21, 3))

    def loss(c):
        return (C * np.maximum(0.0, 1.0 - y * (f + c))).sum(axis=0)

    best = loss(best_intercepts(f, y, C))
    for c in np.linspace(-4, 4, 200):
        assert (best <= loss(c) + 1e-12).all()


def test_a_device_gives_the_same_classifier(device):
    y = np.sign(X @ RNG.normal(size=(3, 4)) + 0.3 * RNG.normal(size=(N, 4)))
    plain, tensors = (MKMTRLClassifier(device=d, tol=1e-5).fit(X, y) for d in (None, device))
    np.testing.assert_allclose(tensors.objective_, plain.objective_, rtol=2e-5)
    np.testing.assert_allclose(tensors.decision_function(X), plain.decision_function(X), atol=2e-2)
