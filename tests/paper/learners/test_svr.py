"""The epsilon-insensitive loss against scikit-learn and against its optimality conditions."""

import numpy as np
import pytest
from learners.problems import conic_value, random_machine
from sklearn.svm import SVR as LibSVR

from kernelkin.paper.learners import SVR, Machine


@pytest.mark.parametrize(("epsilon", "cost"), [(0.0, 1.0), (0.1, 20.0), (0.5, 0.1)])
def test_agrees_with_libsvm(epsilon, cost):
    gram, machine = random_machine(SVR(epsilon), seed=1, n=60, cost=cost)
    model = LibSVR(kernel="precomputed", C=1.0, epsilon=epsilon, tol=1e-9)
    model.fit(gram, machine.y[:, 0], sample_weight=machine.C[:, 0])
    solution = SVR(epsilon).solve(gram, machine, tol=1e-10)
    a = np.zeros(60)
    a[model.support_] = model.dual_coef_[0]
    expected = machine.y[:, 0] @ a - epsilon * np.abs(a).sum() - 0.5 * a @ gram @ a
    np.testing.assert_allclose(solution.dual, expected, rtol=1e-8)
    fitted = gram @ solution.a[:, 0] + solution.intercept[0, 0]
    np.testing.assert_allclose(fitted, model.predict(gram), atol=1e-4)


@pytest.mark.parametrize("n_groups", [0, 1, 3])
def test_optimality_conditions(n_groups):
    epsilon = 0.3
    gram, machine = random_machine(SVR(epsilon), seed=2, n=80, n_groups=n_groups)
    solution = SVR(epsilon).solve(gram, machine, tol=1e-10)
    a, residual = solution.a, machine.y - gram @ solution.a
    if n_groups:
        residual = residual - solution.intercept[machine.groups]
    free = (a != 0) & (np.abs(a) < machine.C)
    upper = np.abs(a) == machine.C
    assert free.any() and upper.any() and (a == 0).any()
    assert np.all(np.abs(residual[a == 0]) <= epsilon + 1e-4)
    np.testing.assert_allclose(residual[free], epsilon * np.sign(a[free]), atol=1e-4)
    assert np.all((np.sign(a) * residual)[upper] >= epsilon - 1e-4)


def test_several_intercepts_against_an_interior_point_solver():
    for epsilon in [0.0, 0.2]:
        gram, machine = random_machine(SVR(epsilon), seed=3, n_groups=4)
        solution = SVR(epsilon).solve(gram, machine, tol=1e-10)
        np.testing.assert_allclose(solution.dual, conic_value(SVR(epsilon), gram, machine), rtol=1e-8)


def test_without_intercept_an_identity_gram_is_a_soft_threshold():
    rng = np.random.default_rng(4)
    y = rng.normal(size=(30, 2))
    machine = Machine(y, np.full_like(y, 0.8), np.zeros(30, dtype=np.intp), 0)
    solution = SVR(0.25).solve(np.eye(30), machine, a0=3 * rng.normal(size=y.shape), tol=1e-10)
    expected = np.sign(y) * np.clip(np.abs(y) - 0.25, 0, 0.8)
    np.testing.assert_allclose(solution.a, expected, atol=1e-12)


def test_a_wide_tube_leaves_nothing_to_fit():
    gram, machine = random_machine(SVR(), seed=5)
    solution = SVR(epsilon=100.0).solve(gram, machine)
    assert np.all(solution.a == 0) and solution.primal == 0
