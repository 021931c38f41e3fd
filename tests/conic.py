"""The joint problem as one cone programme: an independent reference for small problems."""

from __future__ import annotations

import cvxpy as cp
import numpy as np


def _feature_map(gram):
    """Phi (n, r) with Phi Phi' = gram (n, n)."""
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-12 * values[-1]
    return vectors[:, keep] * np.sqrt(values[keep])


def _loss(loss, y, f, C, epsilon):
    """Cost (a cvxpy expression) of the predictions f (n,) for the targets y (n,)."""
    if loss == "hinge":
        return cp.sum(cp.multiply(C, cp.pos(1 - cp.multiply(y, f))))
    if loss == "squared":
        return cp.sum(cp.multiply(C / 2, cp.square(y - f)))
    if loss == "epsilon_insensitive":
        return cp.sum(cp.multiply(C, cp.pos(cp.abs(y - f) - epsilon)))
    raise ValueError(f"unknown loss {loss!r}")


def _machine(grams, y, b, C, loss, fit_intercept, epsilon):
    """Primal value (a cvxpy expression) of one task's machine, with grams (K, n, n) and weights b (K,)."""
    f = cp.Variable() * np.ones(len(y)) if fit_intercept else np.zeros(len(y))
    norms = []
    for k, gram in enumerate(grams):
        features = _feature_map(gram)
        w = cp.Variable(features.shape[1])
        f = f + features @ w
        norms.append(cp.quad_over_lin(w, b[k]) / 2)
    return sum(norms) + _loss(loss, y, f, np.broadcast_to(np.asarray(C, float), len(y)), epsilon)


def conic_optimum(
    stacks, ys, C, mu, loss, prior=None, shrinkage=0.1, min_rank=1.0, evenness=0.0, fit_intercept=True, epsilon=0.1
):
    """Minimise sum_t L_t(b_t) + (mu/2) tr(inv(Gamma) B inv(Omega) B') jointly over all w, B (K, T) and Omega (T, T).

    Parameters
    ----------
    stacks : list of T arrays (K, n_t, n_t)
        Gram matrices of each task.
    ys : list of T arrays (n_t,)
        Targets; -1 and 1 for the hinge loss.
    C : float
        Cost, or one (n_t,) array of costs for each task in a list.
    mu : float
    loss : {"hinge", "squared", "epsilon_insensitive"}
    prior, shrinkage, min_rank, evenness, fit_intercept, epsilon
        As in the estimators.

    Returns
    -------
    value : float
    B : array (K, T)
    Omega : array (T, T)
    """
    K, T = len(stacks[0]), len(stacks)
    prior = np.eye(T) if prior is None else np.asarray(prior, float)
    values, vectors = np.linalg.eigh(prior * T / np.trace(prior))
    root, inverse_root = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    B, Psi = cp.Variable((K, T), nonneg=True), cp.Variable((T, T), symmetric=True)
    costs = C if isinstance(C, list) else [C] * T
    machines = [
        _machine(stacks[t], np.asarray(ys[t], float), B[:, t], costs[t], loss, fit_intercept, epsilon) for t in range(T)
    ]
    values, vectors = np.linalg.eigh((1 - evenness) * np.eye(K) + evenness)
    penalty = cp.matrix_frac(((vectors / np.sqrt(values)) @ vectors.T @ B @ inverse_root).T, Psi)
    limits = [Psi >> shrinkage / T * np.eye(T), Psi << np.eye(T) / min_rank, cp.trace(Psi) <= 1]
    problem = cp.Problem(cp.Minimize(sum(machines) + mu / 2 * penalty), limits)
    problem.solve(solver=cp.CLARABEL)
    if problem.status != cp.OPTIMAL:
        raise RuntimeError(f"the cone solver stopped with status {problem.status!r}")
    return float(problem.value), np.maximum(B.value, 0), root @ Psi.value @ root
