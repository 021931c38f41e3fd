"""The paper's Algorithm 1: machines and kernel weights in turn for a fixed relationship, then the relationship.

Kept as written, for comparison; what the program of the paper's authors does besides is in `experiments.authors`. With
Newton or FISTA steps the objective never rises; how far the end is from the optimum, the duality gap tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..penalties import RelationPenalty
from .base import Finished, Run, Solution, Status, uniform_start
from .weight_steps import WEIGHT_STEPS

# Added to B'B before its root is taken, relative to its size at the start, where no shrinkage keeps Omega invertible.
_RIDGE = 1e-8


@dataclass(frozen=True)
class Alternating:
    """Algorithm 1 of the paper.

    Parameters
    ----------
    step : how B is moved for fixed machines and Omega: "newton", "fista" or "closed_form" (the paper's eq. 8).
    inner_iter : how often machines and B alternate before Omega is moved.
    change : stop when no weight changes by more than this, relative to the largest.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.solvers import Alternating
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> model = MKMTRLRegressor(data.kernels, solver=Alternating(step="fista"))
    >>> model = model.fit(data.data, data.target, tasks=data.tasks)
    >>> bool(model.duality_gap_ <= 0.1 * model.objective_)
    True
    """

    name: ClassVar[str] = "alternating"
    step: Literal["newton", "fista", "closed_form"] = "newton"
    inner_iter: int = 5
    change: float = 1e-3

    def __post_init__(self) -> None:
        if self.step not in WEIGHT_STEPS:
            raise ValueError(f"step must be one of {', '.join(map(repr, WEIGHT_STEPS))}, not {self.step!r}")

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 50) -> Solution:
        penalty = run.objective.penalty
        if not isinstance(penalty, RelationPenalty):
            raise ValueError("the alternating solver is for the relationship penalty; use solver='joint'")
        run.stop_at_gap = False
        run.accuracy = 0.01 * run.tol
        try:
            relation = _Relation.best(penalty, np.zeros((1, run.objective.grams.n_components)), 0.0)
            B = uniform_start(run, relation.penalty) if B is None else B
            ridge = _RIDGE * float(np.linalg.norm(B, 2)) ** 2 if penalty.shrinkage == 0 else 0.0
            for _ in range(max_iter):
                before = B
                B = self._settle(run, B, relation)
                relation = _Relation.best(penalty, B, ridge)
                if _change(B, before) <= self.change:
                    run.evaluate(B, R=relation.penalty(B))
                    run.finish(Status.STATIONARY)
            run.evaluate(B, R=relation.penalty(B))
            run.finish(Status.MAX_ITER)
        except Finished:
            pass
        return run.solution()

    def _settle(self, run: Run, B: np.ndarray, relation: _Relation) -> np.ndarray:
        """The inner loop: machines and B in turn, Omega fixed."""
        take = WEIGHT_STEPS[self.step]
        for _ in range(self.inner_iter):
            before = B
            Q = run.evaluate(B, R=relation.penalty(B)).Q
            B = take(B, Q, relation.P, relation.Omega, run.objective.mu)
            if _change(B, before) <= self.change:
                break
        return B


@dataclass(frozen=True)
class _Relation:
    """Omega, its inverse P, and the ridge it was made with."""

    Omega: np.ndarray
    P: np.ndarray
    ridge: float

    @classmethod
    def best(cls, penalty: RelationPenalty, B: np.ndarray, ridge: float) -> _Relation:
        """The best relation for B. A ridge r on B'B is the same as sqrt(r) I appended to the rows of B."""
        padded = np.vstack([B, np.sqrt(ridge) * np.eye(B.shape[1])])
        return cls(penalty.relation(padded), penalty.inverse_relation(padded), ridge)

    def penalty(self, B: np.ndarray) -> float:
        """tr(B P B') + ridge tr(P): the penalty at this relation, which is never below R(B)."""
        return float(np.einsum("kt,ts,ks->", B, self.P, B) + self.ridge * np.trace(self.P))


def _change(B: np.ndarray, before: np.ndarray) -> float:
    return float(np.abs(B - before).max() / max(B.max(), before.max(), np.finfo(float).tiny))
