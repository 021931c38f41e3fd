"""The squared loss against closed forms and scikit-learn."""

import numpy as np
import pytest
from learners.problems import indicators, random_machine
from sklearn.kernel_ridge import KernelRidge

from kernelkin.paper.learners import Machine, Ridge


def test_agrees_with_kernel_ridge():
    gram, machine = random_machine(Ridge(), seed=1, m=2, n_groups=0)
    C = np.repeat(machine.C[:, :1], 2, axis=1)
    model = KernelRidge(kernel="precomputed", alpha=1.0).fit(gram, machine.y, sample_weight=C[:, 0])
    solution = Ridge().solve(gram, Machine(machine.y, C, machine.groups, 0))
    np.testing.assert_allclose(solution.a, model.dual_coef_, rtol=1e-9)


def test_solves_the_bordered_system():
    for n_groups, cost in [(1, 1.0), (2, 1e-3), (5, 1e3)]:
        gram, machine = random_machine(Ridge(), seed=2, m=2, n_groups=n_groups, cost=cost)
        solution = Ridge().solve(gram, machine)
        Z, n = indicators(machine), len(gram)
        for k in range(2):
            system = np.block([[gram + np.diag(1 / machine.C[:, k]), Z], [Z.T, np.zeros((n_groups, n_groups))]])
            expected = np.linalg.solve(system, np.concatenate([machine.y[:, k], np.zeros(n_groups)]))
            np.testing.assert_allclose(solution.a[:, k], expected[:n], rtol=1e-8, atol=1e-10 * np.abs(expected).max())
            np.testing.assert_allclose(solution.intercept[:, k], expected[n:], rtol=1e-8)


def test_the_gap_is_rounding():
    for n_groups in [0, 1, 3]:
        gram, machine = random_machine(Ridge(), seed=3, m=3, n_groups=n_groups, cost=50.0)
        solution = Ridge().solve(gram, machine)
        assert abs(solution.gap) <= 1e-12 * solution.primal


@pytest.mark.parametrize(("n_groups", "cost"), [(0, 1e14), (2, 1e8), (2, 1e18)])
def test_singular_gram_and_huge_cost(n_groups, cost):
    """As C grows the machine interpolates what a Gram of low rank can: the limit is the pseudo-inverse."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 3))
    gram = X @ X.T
    groups = (np.arange(40) % 2).astype(np.intp)
    target = X @ np.array([[1.0], [-2.0], [0.5]])
    intercept = np.array([[0.7], [-0.3]])[groups] if n_groups else 0.0
    machine = Machine(target + intercept, np.full((40, 1), cost), groups, n_groups)
    solution = Ridge().solve(gram, machine)
    assert np.all(np.isfinite(solution.a))
    np.testing.assert_allclose(gram @ solution.a, target, atol=1e-6)
    np.testing.assert_allclose(solution.quad, 0.5 * (1 + 4 + 0.25), rtol=1e-6)


def test_a_gram_indefinite_by_rounding():
    """Directions of eigenvalue zero, here slightly negative, get a = C y as they would in exact arithmetic."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 2))
    values, vectors = np.linalg.eigh(X @ X.T)
    values[:28] = -1e-13
    broken = (vectors * values) @ vectors.T
    y = rng.normal(size=(30, 1))
    machine = Machine(y, np.full((30, 1), 1e15), np.zeros(30, dtype=np.intp), 0)
    solution = Ridge().solve(0.5 * (broken + broken.T), machine)
    null = vectors[:, :28]
    np.testing.assert_allclose(null.T @ solution.a, 1e15 * null.T @ y, rtol=1e-2)


def test_without_gram_the_intercept_is_the_weighted_mean():
    rng = np.random.default_rng(6)
    y, C = rng.normal(size=(20, 1)), rng.uniform(0.5, 2.0, size=(20, 1))
    solution = Ridge().solve(np.zeros((20, 20)), Machine(y, C, np.zeros(20, dtype=np.intp), 1))
    np.testing.assert_allclose(solution.intercept[0], np.average(y, axis=0, weights=C[:, 0]), rtol=1e-12)
