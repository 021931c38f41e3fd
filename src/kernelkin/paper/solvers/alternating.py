"""Algorithm 1 of the paper: alternate machines and kernel weights for a fixed relationship, then update it.

It is implemented as published, for comparison. With Newton or FISTA steps the objective never increases, and the
duality gap bounds the distance of the result from the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ...decompositions import eigvalsh, inverse, singular_values
from ..penalties.relation import RelationPenalty
from ..problems.problem import Problem
from .driver import Certificate, Point, Run, Solver, Status, suitable_scale

# Smallest norm of a function and smallest weight, relative to the largest: a weight of zero would stay zero.
_FLOOR = 1e-14
# If the largest norm is below this, all functions are zero, and so are the best weights; cubes would underflow.
_NOTHING = 1e-100


def row_objective(B: np.ndarray, W: np.ndarray, P: np.ndarray, mu: float) -> np.ndarray:
    """Return the objective (K,) of each kernel."""
    return 0.5 * (W / B).sum(axis=1) + 0.5 * mu * np.einsum("kt,ts,ks->k", B, P, B)


def newton_step(B: np.ndarray, Q: np.ndarray, P: np.ndarray, Omega: np.ndarray, mu: float) -> np.ndarray:
    """Minimise by damped Newton steps on all rows together; the objective of a row never increases.

    A row is finished when a step gives no improvement beyond rounding.
    """
    W, B = _norms(B, Q)
    if W.max() < _NOTHING:
        return np.zeros_like(B)
    value, rows = row_objective(B, W, P, mu), np.arange(len(B))
    for _ in range(100):
        slope = mu * (B[rows] @ P) - 0.5 * W[rows] / B[rows] ** 2
        curvature = np.repeat(mu * P[np.newaxis], len(rows), axis=0)
        np.einsum("ktt->kt", curvature)[...] += W[rows] / B[rows] ** 3
        step = -np.einsum("ktu,ku->kt", inverse(curvature), slope)
        decrement = -(slope * step).sum(axis=1)  # twice the predicted decrease
        moving = decrement > 1e-14 * value[rows]
        rows, before = rows[moving], value[rows[moving]]
        if not len(rows):
            break
        found = _line_search(B[rows], step[moving], decrement[moving], before, W[rows], P, mu)
        B[rows], value[rows] = found
        rows = rows[value[rows] < before]
    return B


def _line_search(
    B: np.ndarray, step: np.ndarray, decrement: np.ndarray, value: np.ndarray, W: np.ndarray, P: np.ndarray, mu: float
) -> tuple[np.ndarray, np.ndarray]:
    """Halve the step of each row until B > 0 and the objective of the row decreases enough."""
    with np.errstate(divide="ignore"):
        longest = np.where(step < 0, -0.95 * B / np.where(step < 0, step, 1.0), np.inf).min(axis=1)
    length = np.minimum(1.0, longest)
    for _ in range(60):
        trial = B + length[:, np.newaxis] * step
        reached = row_objective(trial, W, P, mu)
        good = reached <= value - 0.1 * length * decrement
        if good.all():
            return trial, reached
        length = np.where(good, length, 0.5 * length)
    return np.where(good[:, np.newaxis], trial, B), np.where(good, reached, value)


def fista_step(B: np.ndarray, Q: np.ndarray, P: np.ndarray, Omega: np.ndarray, mu: float) -> np.ndarray:
    """Minimise by accelerated proximal steps, with a restart whenever the objective would increase."""
    W, B = _norms(B, Q)
    if W.max() < _NOTHING:
        return np.zeros_like(B)
    rate = mu * float(eigvalsh(P)[-1])
    value = row_objective(B, W, P, mu).sum()
    ahead, speed = B, 1.0
    for _ in range(500):
        trial = _prox(ahead - mu * (ahead @ P) / rate, 0.5 * W / rate)
        reached = row_objective(trial, W, P, mu).sum()
        if reached > value:
            if speed == 1.0:
                break
            ahead, speed = B, 1.0
            continue
        faster = 0.5 + np.sqrt(0.25 + speed**2)
        ahead, speed = trial + (speed - 1) / faster * (trial - B), faster
        done = value - reached <= 1e-14 * value
        B, value = trial, reached
        if done:
            break
    return B


def _prox(v: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The positive root b of `b^3 - v b^2 - c = 0`: argmin of `c/b + (b - v)^2/2`.

    Newton's method from above the root, where the cubic is convex and rising, comes down to it without overshooting.
    """
    b = np.maximum(v, 0.0) + np.cbrt(c)
    for _ in range(60):
        lower = b - (b**3 - v * b**2 - c) / (3 * b**2 - 2 * v * b)
        if (b - lower <= 4 * np.finfo(float).eps * b).all():
            break
        b = lower
    return b


def closed_form_step(B: np.ndarray, Q: np.ndarray, P: np.ndarray, Omega: np.ndarray, mu: float) -> np.ndarray:
    """The paper's eq. 8: the direction `(W / B^2) Omega`, that is `Q Omega`, projected to B >= 0.

    The paper normalises it to tr(B P B') = 1, which belongs to the problem with a constraint in place of mu. Here its
    length minimises the objective along that direction. It is a fixed-point step: weights may oscillate.
    """
    W = 2.0 * B**2 * Q
    direction = np.maximum(Q @ Omega, 0.0)
    used = direction > 0
    if not used.any():
        return direction
    pull = 0.5 * (W[used] / direction[used]).sum()
    length, old = (np.einsum("kt,ts,ks->", X, P, X) for X in (direction, B))
    # If the projection removes all weights in use, the optimal length would be zero; keep the old length instead.
    scale = np.cbrt(pull / (mu * length)) if pull > 0 else np.sqrt(old / length)
    return scale * direction


def _norms(B: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W (K, T) from the weights the machines were solved at, and a start B > 0, both away from zero."""
    W = 2.0 * B**2 * Q
    return np.maximum(W, _FLOOR * W.max()), np.maximum(B, _FLOOR * B.max())


WeightStep = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]
WEIGHT_STEPS: dict[str, WeightStep] = {"newton": newton_step, "fista": fista_step, "closed_form": closed_form_step}


# Without shrinkage: added to B'B before its root is taken, relative to its size at the start, to keep Omega invertible.
_RIDGE = 1e-8
# Maximum number of evaluations to find the scale of the start.
_ROUNDS = 3


@dataclass(frozen=True)
class Alternating(Solver):
    """Algorithm 1 of the paper. An iteration is a change of Omega.

    Parameters
    ----------
    weight_step : how B is moved for fixed machines and Omega: "newton", "fista" or "closed_form" (the paper's eq. 8).
    inner_iter : how often machines and B alternate before Omega is changed.
    change : stop when no weight changes by more than this, relative to the largest.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.paper.solvers import Alternating
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> model = MKMTRLRegressor(data.kernels, solver=Alternating(weight_step="fista"))
    >>> model = model.fit(data.data, data.target, tasks=data.tasks)
    >>> bool(model.duality_gap_ <= 0.1 * model.objective_)
    True
    """

    weight_step: Literal["newton", "fista", "closed_form"] = "newton"
    inner_iter: int = 5
    change: float = 1e-3
    name: ClassVar[str] = "alternating"
    role: ClassVar[str] = "alternating"
    problems: ClassVar[tuple[type, ...]] = (Problem,)
    penalties: ClassVar[tuple[type, ...]] = (RelationPenalty,)
    stops_at_gap: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.weight_step not in WEIGHT_STEPS:
            raise ValueError(
                f"weight_step must be one of {', '.join(map(repr, WEIGHT_STEPS))}, not {self.weight_step!r}"
            )

    def run(self, problem: Problem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """Start from given weights, or from equal weights with a scale suitable for mu, and from the prior."""
        penalty, mu = problem.penalty, problem.mu
        assert isinstance(penalty, RelationPenalty)
        if penalty.evenness > 0:
            raise ValueError("solver='alternating' does not support evenness; use solver='joint'")
        certificate.accuracy = 0.01 * certificate.tol
        K, J = problem.grams.n_kernels, problem.grams.n_components
        B = np.ones((K, J)) / K if start is None else start
        Omega, P = _best_relation(penalty, np.zeros((1, J)), 0.0)
        if start is None:
            for _ in range(_ROUNDS):
                evaluation = yield Point(B, own_penalty=0.5 * mu * _penalty(B, P, 0.0), iterations=0)
                scale = suitable_scale(mu, evaluation, _penalty(B, P, 0.0))
                B = scale * B if scale > 0 else B
                if 0.5 < scale < 2:
                    break
        ridge, held = 0.0 if penalty.shrinkage > 0 else _RIDGE * float(singular_values(B)[0]) ** 2, 0.0
        done = 0
        while True:
            before = B
            for _ in range(self.inner_iter):
                evaluation = yield Point(B, own_penalty=0.5 * mu * _penalty(B, P, held), iterations=done)
                last, B = B, WEIGHT_STEPS[self.weight_step](B, evaluation.Q, P, Omega, mu)
                if _change(B, last) <= self.change:
                    break
            Omega, P = _best_relation(penalty, B, ridge)
            held, done = ridge, done + 1
            if _change(B, before) <= self.change:
                yield Point(B, own_penalty=0.5 * mu * _penalty(B, P, held), iterations=done)
                return Status.STATIONARY


def _best_relation(penalty: RelationPenalty, B: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The best Omega (J, J) for B, and its inverse. A ridge r on B'B is the same as sqrt(r) I below the rows of B."""
    padded = np.vstack([B, np.sqrt(ridge) * np.eye(B.shape[1])])
    return penalty.relation(padded).matrix(), penalty.inverse_relation(padded).matrix()


def _penalty(B: np.ndarray, P: np.ndarray, ridge: float) -> float:
    """tr(B P B') + ridge tr(P): the penalty at the inverse relation P, which is never below R(B)."""
    return float(np.einsum("kt,ts,ks->", B, P, B) + ridge * np.trace(P))


def _change(B: np.ndarray, before: np.ndarray) -> float:
    return float(np.abs(B - before).max() / max(B.max(), before.max(), np.finfo(float).tiny))
