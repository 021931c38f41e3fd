"""The hinge loss against scikit-learn and against its optimality conditions."""

import dataclasses

import numpy as np
import pytest
from learners.problems import random_machine, rbf_gram
from sklearn.svm import SVC

from kernelkin.paper.learners import SVM, Machine


def libsvm(gram, y, C):
    """Signed dual variables and intercept of scikit-learn, with C_i through sample weights."""
    model = SVC(kernel="precomputed", C=1.0, tol=1e-9).fit(gram, y, sample_weight=C)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    return a, model.intercept_[0]


@pytest.mark.parametrize(("cost", "seed"), [(0.1, 0), (1.0, 1), (30.0, 0)])
def test_agrees_with_libsvm(cost, seed):
    gram, machine = random_machine(SVM(), seed, n=80, cost=cost)
    a, intercept = libsvm(gram, machine.y[:, 0], machine.C[:, 0])
    solution = SVM().solve(gram, machine, tol=1e-10)
    np.testing.assert_allclose(solution.dual, machine.y[:, 0] @ a - 0.5 * a @ gram @ a, rtol=1e-8)
    np.testing.assert_allclose(solution.a[:, 0], a, atol=1e-4 * cost)
    np.testing.assert_allclose(solution.intercept[0, 0], intercept, atol=1e-4)


def test_class_weights_are_costs():
    gram, machine = random_machine(SVM(), seed=2, n=80)
    y = machine.y[:, 0]
    C = np.where(y > 0, 5.0, 0.5)
    model = SVC(kernel="precomputed", C=0.5, class_weight={1: 10.0, -1: 1.0}, tol=1e-9).fit(gram, y)
    solution = SVM().solve(gram, dataclasses.replace(machine, C=C[:, None]), tol=1e-10)
    decision = gram @ solution.a[:, 0] + solution.intercept[0, 0]
    np.testing.assert_allclose(decision, model.decision_function(gram), atol=1e-4)


@pytest.mark.parametrize("n_groups", [1, 4])
def test_optimality_conditions(n_groups):
    """Margins are at least one where a = 0, at most one where y a = C, and one in between."""
    gram, machine = random_machine(SVM(), seed=3, n=100, n_groups=n_groups, cost=5.0)
    solution = SVM().solve(gram, machine, tol=1e-10)
    alpha = (machine.y * solution.a)[:, 0]
    margin = (machine.y * (gram @ solution.a + solution.intercept[machine.groups]))[:, 0]
    upper = alpha == machine.C[:, 0]
    free = (alpha > 0) & ~upper
    assert free.sum() > n_groups and upper.any() and (alpha == 0).any()
    assert np.all(margin[alpha == 0] >= 1 - 1e-4)
    assert np.all(margin[upper] <= 1 + 1e-4)
    np.testing.assert_allclose(margin[free], 1.0, atol=1e-4)


def test_without_intercept_an_identity_gram_has_a_closed_form():
    rng = np.random.default_rng(5)
    y = np.where(rng.random((30, 1)) < 0.5, -1.0, 1.0)
    C = rng.uniform(0.2, 2.0, size=(30, 1))
    solution = SVM().solve(np.eye(30), Machine(y, C, np.zeros(30, dtype=np.intp), 0), tol=1e-10)
    np.testing.assert_allclose(solution.a, y * np.minimum(1.0, C), rtol=1e-12)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_has_the_trivial_solution(label):
    gram, _ = rbf_gram(np.random.default_rng(6), 20)
    y = np.full((20, 1), label)
    solution = SVM().solve(gram, Machine(y, np.ones_like(y), np.zeros(20, dtype=np.intp), 1), a0=y)
    assert np.all(solution.a == 0)
    assert solution.primal == 0
    assert solution.intercept[0, 0] == label


def test_repeated_rows_and_a_gram_of_rank_two():
    """Pairs without curvature: the step is limited by the box alone."""
    rng = np.random.default_rng(7)
    X = np.repeat(rng.normal(size=(15, 2)), 3, axis=0)
    y = np.where(X[:, :1] + 0.5 * rng.normal(size=(45, 1)) > 0, 1.0, -1.0)
    machine = Machine(y, np.full((45, 1), 3.0), np.zeros(45, dtype=np.intp), 1)
    solution = SVM().solve(X @ X.T, machine, tol=1e-8)
    assert solution.gap <= 1e-8 * solution.primal


def test_a_zero_gram():
    y = np.array([[1.0], [1.0], [-1.0]])
    solution = SVM().solve(np.zeros((3, 3)), Machine(y, np.ones((3, 1)), np.zeros(3, dtype=np.intp), 1))
    np.testing.assert_allclose([solution.primal, solution.dual], 2.0)


def test_warm_start_from_another_cost():
    gram, machine = random_machine(SVM(), seed=8, n=60)
    for factor in (0.2, 5.0):
        other = dataclasses.replace(machine, C=factor * machine.C)
        start = SVM().solve(gram, other, tol=1e-6).a
        warm, cold = SVM().solve(gram, machine, start, 1e-8), SVM().solve(gram, machine, None, 1e-8)
        np.testing.assert_allclose(warm.dual, cold.dual, rtol=2e-8)


def test_the_primal_is_an_upper_bound_where_rounding_hides_part_of_the_loss():
    """Entries of 1e10 that cancel: values are off by 1e-6, and the primal must allow for it (in extended precision)."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = 1e5 * (1.0 + 1e-3 * rng.normal(size=(60, 3)))
        machine = Machine(rng.choice([-1.0, 1.0], size=(60, 1)), np.ones((60, 1)), np.zeros(60, dtype=np.intp), 1)
        gram = X @ X.T
        solution = SVM().solve((gram + gram.T) / 2, machine)
        G, a = ((gram + gram.T) / 2).astype(np.longdouble), solution.a.astype(np.longdouble)
        loss = np.maximum(0, 1 - machine.y * (G @ a + solution.intercept.astype(np.longdouble))).sum()
        assert solution.primal >= 0.5 * (a * (G @ a)).sum() + loss
