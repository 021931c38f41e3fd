"""Every problem as one cone programme: an independent reference for small problems."""

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


def _functions(grams, y, C, loss, fit_intercept, epsilon):
    """The functions w_k of grams (K, n, n) as lists of variables, and the cost (a cvxpy expression) of their sum."""
    f = cp.Variable() * np.ones(len(y)) if fit_intercept else np.zeros(len(y))
    ws = []
    for gram in grams:
        features = _feature_map(gram)
        ws.append(cp.Variable(features.shape[1]))
        f = f + features @ ws[-1]
    return ws, _loss(loss, y, f, np.broadcast_to(np.asarray(C, float), len(y)), epsilon)


def _machine(grams, y, b, C, loss, fit_intercept=True, epsilon=0.1):
    """Primal value (a cvxpy expression) of one task's machine, with grams (K, n, n) and weights b (K,)."""
    ws, cost = _functions(grams, y, C, loss, fit_intercept, epsilon)
    return sum(cp.quad_over_lin(w, b[k]) / 2 for k, w in enumerate(ws)) + cost


def _solve(objective, limits=()):
    """The minimum."""
    problem = cp.Problem(cp.Minimize(objective), list(limits))
    # Cones of powers that are no whole numbers end a digit before the solver's default accuracy.
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)
    if problem.status != cp.OPTIMAL:
        raise RuntimeError(f"the cone solver stopped with status {problem.status!r}")
    return float(problem.value)


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
    Gamma = (1 - evenness) * np.eye(K) + evenness
    values, vectors = np.linalg.eigh(Gamma)
    penalty = cp.matrix_frac(((vectors / np.sqrt(values)) @ vectors.T @ B @ inverse_root).T, Psi)
    limits = [Psi >> shrinkage / T * np.eye(T), Psi << np.eye(T) / min_rank, cp.trace(Psi) <= 1]
    problem = cp.Problem(cp.Minimize(sum(machines) + mu / 2 * penalty), limits)
    problem.solve(solver=cp.CLARABEL)
    if problem.status != cp.OPTIMAL:
        raise RuntimeError(f"the cone solver stopped with status {problem.status!r}")
    return float(problem.value), np.maximum(B.value, 0), root @ Psi.value @ root


def conic_lp(stacks, ys, C, mu, loss, p, shared=False, fit_intercept=True, epsilon=0.1):
    """Minimum of the machines plus (mu/2) sum_t |b_t|_p^2, or (mu/2) |b|_p^2 with one b for all tasks."""
    K = len(stacks[0])
    one, total = cp.Variable(K, nonneg=True), 0
    for stack, y in zip(stacks, ys, strict=True):
        b = one if shared else cp.Variable(K, nonneg=True)
        total += _machine(stack, y, b, C, loss, fit_intercept, epsilon)
        total += 0 if shared else mu / 2 * cp.square(cp.pnorm(b, p))
    return _solve(total + (mu / 2 * cp.square(cp.pnorm(one, p)) if shared else 0))


def conic_fixed(stacks, ys, C, loss, B):
    """Minimum of the machines at kernel weights B (K, T)."""
    return _solve(sum(_machine(stack, y, b, C, loss) for stack, y, b in zip(stacks, ys, B.T, strict=True)))


def conic_simplex(stacks, ys, C, loss, worst=False):
    """Minimum over one gamma on the simplex of the sum of all machines, or of the worst of them (MKL-SA)."""
    gamma, limit = cp.Variable(len(stacks[0]), nonneg=True), cp.Variable()
    values = [_machine(stack, y, gamma, C, loss) for stack, y in zip(stacks, ys, strict=True)]
    if not worst:
        return _solve(sum(values), [cp.sum(gamma) == 1])
    return _solve(limit, [cp.sum(gamma) == 1, *(value <= limit for value in values)])


def conic_mixed(stacks, ys, C, loss, p):
    """MK-MTFL: half the squared sum over kernels of p-norms over tasks, plus losses."""
    found = [_functions(stack, y, C, loss, True, 0.1) for stack, y in zip(stacks, ys, strict=True)]
    rows = zip(*(ws for ws, _ in found), strict=True)
    norms = [cp.norm(cp.hstack([cp.norm(w, 2) for w in row]), "inf" if np.isinf(p) else p) for row in rows]
    return _solve(sum(cost for _, cost in found) + cp.square(sum(norms)) / 2)


def conic_spectral(Phi, rows, ys, C, loss, l1, l2):
    """MTFL and MTRL in the features Phi (n, r): losses plus (l1/2)|W|_F^2 + (l2/2)|W|_*^2."""
    W, c = cp.Variable((Phi.shape[1], len(ys))), cp.Variable(len(ys))
    tasks = enumerate(zip(rows, ys, strict=True))
    total = sum(_loss(loss, y, Phi[kept] @ W[:, t] + c[t], C * np.ones(len(y)), 0.1) for t, (kept, y) in tasks)
    return _solve(total + l1 / 2 * cp.sum_squares(W) + l2 / 2 * cp.square(cp.normNuc(W)))
