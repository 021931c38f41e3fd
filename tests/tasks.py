"""Small random multi-task problems on which penalties, problems and solvers are tested."""

from __future__ import annotations

import itertools

import numpy as np

from kernelkin.paper.grams.stack import GramStack, TaskGrams
from kernelkin.paper.learners import SVM, SVR, Machine, Ridge
from kernelkin.paper.problems import MachineList, Problem
from kernelkin.paper.solvers import solve

LOSSES = {"hinge": SVM(), "squared": Ridge(), "epsilon_insensitive": SVR(0.1)}


def in_turn(cases, options):
    """Each case with one of the options in turn: every one of both is tested, and not every pair."""
    return list(zip(cases, itertools.cycle(options), strict=False))


def random_problem(seed, loss, T=4, K=4, n=20):
    """Stacks (K, n, n) and targets (n,) of T tasks; even tasks need the first kernels, odd ones the last."""
    rng = np.random.default_rng(seed)
    stacks, ys = [], []
    for t in range(T):
        X = rng.normal(size=(K, n, 2))
        stack = np.exp(-((X[:, :, None] - X[:, None]) ** 2).sum(axis=-1) / 2)
        needed = stack[: K // 2] if t % 2 == 0 else stack[K // 2 :]
        f = np.linalg.cholesky(needed.sum(axis=0) + 1e-9 * np.eye(n)) @ rng.normal(size=n)
        y = np.where(f > np.median(f), 1.0, -1.0) if loss == "hinge" else f + 0.1 * rng.normal(size=n)
        stacks.append(stack)
        ys.append(y)
    return stacks, ys


def random_prior(seed, T):
    W = np.random.default_rng(seed).normal(size=(T, T))
    return W @ W.T + np.eye(T)


def make_machine(y, C, fit_intercept=True):
    y = np.asarray(y, dtype=float).reshape(len(y), -1)
    return Machine(y.copy(), np.full(y.shape, float(C)), np.zeros(len(y), dtype=np.intp), int(fit_intercept))


def make_problem(stacks, ys, loss, penalty, C=1.0, mu=1.0, fit_intercept=True):
    grams = TaskGrams([GramStack(stack) for stack in stacks])
    machines = MachineList(make_machine(y, C, fit_intercept) for y in ys)
    return Problem(grams, machines, LOSSES[loss], penalty, mu)


def watch(problem, solver, tol=1e-3, B=None, max_iter=500, callback=None, **options):
    """The solution, and what the callback saw on the way."""
    seen = []

    def record(iterate):
        seen.append(iterate)
        if callback is not None:
            callback(iterate)

    return solve(problem, solver, tol=tol, start=B, max_iter=max_iter, callback=record, **options), seen
