"""Random machines and their optimal values by an interior-point solver."""

import cvxpy as cp
import numpy as np

from kernelkin.paper.learners import LEARNERS, SVM, SVR, Machine, Ridge


def rbf_gram(rng, n, features=4, gamma=0.15):
    X = rng.normal(size=(n, features))
    distances = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    return np.ascontiguousarray(np.exp(-gamma * distances)), X


def random_machine(learner, seed, n=40, m=1, n_groups=1, cost=2.0):
    """A Gram matrix and a machine with noisy targets, uneven costs and interleaved groups."""
    rng = np.random.default_rng(seed)
    gram, X = rbf_gram(rng, n)
    groups = rng.permutation(np.arange(n) % max(n_groups, 1)).astype(np.intp)
    signal = X @ rng.normal(size=(X.shape[1], m)) + 0.7 * rng.normal(size=(n, m)) + 0.5 * groups[:, None]
    y = np.where(signal > np.median(signal, axis=0), 1.0, -1.0) if isinstance(learner, SVM) else signal
    C = cost * rng.uniform(0.3, 1.7, size=(n, m))
    return gram, Machine(y, C, groups, n_groups)


def all_learners():
    return [cls() for cls in LEARNERS.values()]


def indicators(machine):
    return (machine.groups[:, None] == np.arange(machine.n_groups)).astype(float)


def loss(learner, residual, machine):
    """Sum of the losses at ``residual = y - f - intercept`` (n, m)."""
    if isinstance(learner, SVM):
        return np.sum(machine.C * np.maximum(0, machine.y * residual))
    if isinstance(learner, SVR):
        return np.sum(machine.C * np.maximum(0, np.abs(residual) - learner.epsilon))
    return 0.5 * np.sum(machine.C * residual**2)


def primal_value(learner, gram, machine, a, intercept):
    f = gram @ a
    return 0.5 * np.sum(a * f) + loss(learner, machine.y - f - indicators(machine) @ intercept, machine)


def dual_value(learner, gram, machine, a):
    value = np.sum(machine.y * a) - 0.5 * np.sum(a * (gram @ a))
    if isinstance(learner, SVR):
        value -= learner.epsilon * np.sum(np.abs(a))
    if isinstance(learner, Ridge):
        part = machine.C > 0
        value -= 0.5 * np.sum(a[part] ** 2 / machine.C[part])
    return value


def box(learner, machine):
    if isinstance(learner, Ridge):
        limit = np.where(machine.C > 0, np.inf, 0.0)
        return -limit, limit
    if isinstance(learner, SVR):
        return -machine.C, machine.C
    return np.minimum(0, machine.y * machine.C), np.maximum(0, machine.y * machine.C)


def conic_value(learner, gram, machine):
    """The optimal value of the primal, by Clarabel."""
    values, vectors = np.linalg.eigh(gram)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    w, c = cp.Variable((len(gram), machine.y.shape[1])), cp.Variable((max(machine.n_groups, 1), machine.y.shape[1]))
    residual = machine.y - factor @ w
    if machine.n_groups:
        residual = residual - indicators(machine) @ c
    if isinstance(learner, SVM):
        terms = cp.pos(cp.multiply(machine.y, residual))
    elif isinstance(learner, SVR):
        terms = cp.pos(cp.abs(residual) - learner.epsilon)
    else:
        terms = 0.5 * cp.square(residual)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cp.sum(cp.multiply(machine.C, terms))))
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
