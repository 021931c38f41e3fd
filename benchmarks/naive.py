"""What a competent user would write in an afternoon: the paper's alternation on scikit-learn and NumPy.

    machines: SVC on the combined Gram of each task, or a linear solve
    B:        Newton's method on `sum W/(2 B) + (mu/2) tr(B inv(Omega) B')`, W = |w_tk|^2, all kernels' rows at once
    Omega:    from the eigenvalues of B'B, at least `shrinkage/T`

The objective is known at every round from what has been computed anyway; the loop ends when it has changed by less than
`tol` relative to itself, when it is down to `target` (for a race to a known value), or after `max_iter` rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.svm import SVC

Machine = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]


def fit_alternating(
    stacks: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    machine: Machine,
    mu: float,
    shrinkage: float = 0.1,
    tol: float = 1e-4,
    max_iter: int = 100,
    target: float = -np.inf,
) -> tuple[np.ndarray, float, int]:
    """Stacks (K, n_t, n_t) and targets (n_t,) of each task -> B (K, T), the objective, and the rounds taken."""
    K, T = len(stacks[0]), len(stacks)
    B, lowest, last, best, rounds = np.full((K, T), 1 / K), np.inf, np.inf, None, 0
    while rounds < max_iter:
        rounds += 1
        W, value = np.empty((K, T)), 0.0
        for t, (stack, y) in enumerate(zip(stacks, targets, strict=True)):
            a, loss = machine(np.tensordot(B[:, t], stack, 1), y)
            W[:, t] = B[:, t] ** 2 * ((stack @ a) @ a)
            value += loss
        inverse, R = relation(B, shrinkage)
        value += 0.5 * mu * R
        if value < lowest:
            lowest, best = value, B
        if value <= target or abs(last - value) <= tol * abs(value):
            break
        last, B = value, weight_step(B, W, mu * inverse)
    assert best is not None
    return best, lowest, rounds


def svm(C: float, class_weight: str | None = None) -> Machine:
    """Signed dual variables (n,) and the dual value of a support vector machine."""
    model = SVC(C=C, kernel="precomputed", class_weight=class_weight, cache_size=500)

    def solve(gram: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        model.fit(gram, y)
        a = np.zeros(len(y))
        a[model.support_] = model.dual_coef_[0]
        return a, np.abs(a).sum() - 0.5 * a @ gram @ a

    return solve


def ridge(C: float) -> Machine:
    """The same for kernel ridge regression with an intercept."""

    def solve(gram: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
        shifted = gram + np.eye(len(y)) / C
        both = cho_solve(cho_factor(shifted, lower=True, overwrite_a=True), np.column_stack([y, np.ones(len(y))]))
        a = both[:, 0] - both[:, 1] * (both[:, 0].sum() / both[:, 1].sum())
        return a, 0.5 * (y @ a)

    return solve


def relation(B: np.ndarray, shrinkage: float) -> tuple[np.ndarray, float]:
    """inv(Omega) (T, T) for the Omega that minimises tr(B inv(Omega) B'), and that minimum."""
    T = B.shape[1]
    values, vectors = np.linalg.eigh(B.T @ B)
    s = np.sqrt(np.maximum(values, 0.0))
    floor = max(shrinkage, 1e-8) / T
    low, high = 0.0, s.sum() / (1 - floor * T) if floor * T < 1 else 1.0
    for _ in range(60):  # the level at which the clipped eigenvalues sum to one, by halving
        level = 0.5 * (low + high)
        low, high = (level, high) if np.maximum(s / level, floor).sum() > 1 else (low, level)
    theta = np.maximum(s / high, floor)
    return (vectors / theta) @ vectors.T, float(np.sum(s**2 / theta))


def weight_step(B: np.ndarray, W: np.ndarray, P: np.ndarray, steps: int = 30) -> np.ndarray:
    """Minimise `sum W/(2 B) + 1/2 tr(B P B')` over B > 0 by damped Newton, each row of B (K, T) by itself."""
    B, W = np.maximum(B, 1e-12 * B.max()), np.maximum(W, 1e-30)
    diagonal = np.arange(B.shape[1])

    def value(B: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum(W / B + B * (B @ P), axis=1)

    now = value(B)
    for _ in range(steps):
        gradient = B @ P - 0.5 * W / B**2
        hessian = np.repeat(P[np.newaxis], len(B), axis=0)
        hessian[:, diagonal, diagonal] += W / B**3
        step = -np.linalg.solve(hessian, gradient[:, :, np.newaxis])[:, :, 0]
        slope = np.sum(gradient * step, axis=1)
        # As far as leaves a hundredth of every weight, then halved until each row's value falls.
        size = np.minimum(1.0, 0.99 / np.maximum(np.max(-step / B, axis=1), 1e-300))
        for _ in range(30):
            trial = B + size[:, np.newaxis] * step
            new = value(trial)
            worse = new > now + 1e-4 * size * slope
            if not worse.any():
                break
            size = np.where(worse, 0.5 * size, size)
        B, now = np.where(worse[:, np.newaxis], B, trial), np.where(worse, now, new)
        if -slope.sum() <= 1e-8 * abs(now.sum()):
            break
    return B
