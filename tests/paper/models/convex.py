"""The models' problems as cone programmes in their primal form, from features and not from machines."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from kernelkin.kernels.families import gaussian_kernels, linear_kernels, resolve_kernels
from kernelkin.kernels.grams import fit_scaling
from kernelkin.kernels.kernel import evaluate, fit_kernels

KERNELS = [*gaussian_kernels([0.5, 1.0, 2.0]), *linear_kernels(per_feature=True)]


def long_data(seed, T=3, n=14, d=2):
    """Rows, real targets, classes -1 and 1, and tasks; tasks differ in scale and share some of their shape."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, d)), np.repeat(np.arange(T), n)
    y = (1 + tasks) * np.sin(2 * X[:, 0]) + 0.5 * tasks * X[:, 1] + 0.3 * rng.normal(size=T * n)
    return X, y, np.where(y > np.median(y), 1, -1), tasks


def stacks(X, tasks, kernels=KERNELS):
    """The scaled Grams (K, n_t, n_t) of each task."""
    fitted = fit_kernels(resolve_kernels(kernels), X)
    return [fit_scaling("trace", evaluate(fitted, X[tasks == t]))[1] for t in np.unique(tasks)]


def roots(gram):
    """Phi (n, r) with Phi Phi' = gram."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-12 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def loss(kind, C, y, f):
    if kind == "hinge":
        return C * cp.sum(cp.pos(1 - cp.multiply(y, f)))
    return C / 2 * cp.sum_squares(y - f)


def functions(grams):
    """Of one task, with an intercept: values (n,) and the w_k of each kernel."""
    f, ws = cp.Variable() * np.ones(grams.shape[1]), []
    for gram in grams:
        Phi = roots(gram)
        ws.append(cp.Variable(Phi.shape[1]))
        f = f + Phi @ ws[-1]
    return f, ws


def optimum(objective, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    # Cones of powers that are no whole numbers end a digit before the solver's default accuracy.
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(problem.value)


def lp_mkl(grams_of, ys, C, mu, p, kind, shared=False):
    """IMKL, and IKL with one b: sum of machines plus (mu/2) |b|_p^2."""
    K = len(grams_of[0])
    one, total = cp.Variable(K, nonneg=True), 0
    for grams, y in zip(grams_of, ys, strict=True):
        b = one if shared else cp.Variable(K, nonneg=True)
        f, ws = functions(grams)
        total += loss(kind, C, y, f) + sum(cp.quad_over_lin(w, b[k]) for k, w in enumerate(ws)) / 2
        total += 0 if shared else mu / 2 * cp.square(cp.pnorm(b, p))
    return optimum(total + (mu / 2 * cp.square(cp.pnorm(one, p)) if shared else 0))


def mixed_norm(grams_of, ys, C, p, kind):
    """MK-MTFL: half the squared sum over kernels of p-norms over tasks."""
    total, norms = 0, [[] for _ in grams_of[0]]
    for grams, y in zip(grams_of, ys, strict=True):
        f, ws = functions(grams)
        total += loss(kind, C, y, f)
        for k, w in enumerate(ws):
            norms[k].append(cp.norm(w, 2))
    mixed = sum(cp.norm(cp.hstack(row), "inf" if np.isinf(p) else p) for row in norms)
    return optimum(total + cp.square(mixed) / 2)


def worst_task(grams_of, ys, C):
    """MKL-SA: the smallest over the simplex of the largest machine."""
    gamma, worst = cp.Variable(len(grams_of[0]), nonneg=True), cp.Variable()
    limits = [cp.sum(gamma) == 1]
    for grams, y in zip(grams_of, ys, strict=True):
        f, ws = functions(grams)
        machine = loss("hinge", C, y, f) + sum(cp.quad_over_lin(w, gamma[k]) for k, w in enumerate(ws)) / 2
        limits.append(machine <= worst)
    return optimum(worst, limits)


def spectral(Phi, rows_of, ys, C, l1, l2, kind):
    """MTFL and MTRL in the features Phi (n, r): W with (l1/2)|W|_F^2 + (l2/2)|W|_*^2."""
    W, c = cp.Variable((Phi.shape[1], len(ys))), cp.Variable(len(ys))
    tasks = enumerate(zip(rows_of, ys, strict=True))
    total = sum(loss(kind, C, y, Phi[rows] @ W[:, t] + c[t]) for t, (rows, y) in tasks)
    return optimum(total + l1 / 2 * cp.sum_squares(W) + l2 / 2 * cp.square(cp.normNuc(W)))


def trace_norm(X, Y, alpha):
    """FES, with intercepts."""
    B, c = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    residual = Y - X @ B - np.ones((len(X), 1)) @ c
    return optimum(cp.sum_squares(residual) / (2 * len(X)) + alpha * cp.normNuc(B))
