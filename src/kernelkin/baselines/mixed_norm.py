"""The problem of MK-MTFL, and the way to its saddle point.

    minimise over w:   1/2 (sum_k (sum_t |w_tk|^p)^(1/p))^2 + sum_t loss_t

With gamma on the simplex and |lambda_k| = 1 in the norm that is dual to p/2, pt = p/(p-2), this is

    min over gamma, max over lambda and a:   sum_t lin_t(a_t) - sum_tk (gamma_k / lambda_tk) Q_tk

For fixed gamma and a the best lambda_tk is proportional to Q_tk^(1/(pt+1)), and the kernel's term is then gamma_k N_k
with N_k = (sum_t Q_tk^(s/2))^(2/s), 1/s + 1/p = 1. So `sum_t lin_t(a_t) - max_k N_k(a)` bounds the optimum from below,
at any feasible a; the primal value at any w bounds it from above. With p = 2, lambda is one: a shared kernel, with the
1-norm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..objective import Evaluation, Objective
from ..penalties import Penalty
from ..solvers import Run, Solution
from ..solvers.base import Finished
from .simplex import mirror_step, uniform


@dataclass(frozen=True)
class MixedNorm(Penalty):
    """The 1-norm over kernels of the p-norm over tasks, for p in [2, inf]."""

    p: float = 2.0
    name: ClassVar[str] = "mixed"

    def value_and_gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """0 and zeros: the norm is one of w, and `MixedNormObjective` adds it."""
        return 0.0, np.zeros_like(B)

    def bound(self, Q: np.ndarray, B: np.ndarray, mu: float) -> float:
        """-max_k N_k."""
        return -float(self.dual_norms(Q).max())

    def relation(self, B: np.ndarray) -> np.ndarray:
        """11'/T: all tasks share one selection of kernels."""
        return np.full((B.shape[1], B.shape[1]), 1.0 / B.shape[1])

    def norms(self, squares: np.ndarray) -> np.ndarray:
        """|w_tk|^2 (K, T) -> the p-norms (K,) over tasks."""
        return _norms(np.sqrt(squares), self.p)

    def dual_norms(self, Q: np.ndarray) -> np.ndarray:
        """Q (K, T) -> N (K,)."""
        return _norms(np.sqrt(Q), 1.0 if np.isinf(self.p) else self.p / (self.p - 1.0)) ** 2

    def shares(self, Q: np.ndarray) -> np.ndarray:
        """The lambda (K, T) that is best for Q: proportional to Q^(1/(pt+1)) = Q^((p-2)/(2p-2)), of pt-norm one."""
        if self.p == 2:
            return np.ones_like(Q)
        power, pt = (0.5, 1.0) if np.isinf(self.p) else ((self.p - 2) / (2 * self.p - 2), self.p / (self.p - 2))
        # A task that does not use a kernel would have lambda zero, and no way back.
        top = np.maximum(Q.max(axis=1, keepdims=True), np.finfo(float).tiny)
        share = np.maximum(Q / top, 1e-12) ** power
        return share / _norms(share, pt)[:, np.newaxis]


def _norms(X: np.ndarray, p: float) -> np.ndarray:
    """p-norms of the rows of X (K, T) >= 0."""
    top = np.maximum(X.max(axis=1), np.finfo(float).tiny)
    if np.isinf(p):
        return top
    return top * ((X / top[:, np.newaxis]) ** p).sum(axis=1) ** (1.0 / p)


@dataclass(frozen=True)
class MixedNormObjective(Objective):
    """The primal value with the mixed norm of w in the place of the machines' own."""

    def evaluate(self, B: np.ndarray, **how: Any) -> Evaluation:
        found = super().evaluate(B, **how)
        norm = float(self.mixed.norms(2.0 * found.B**2 * found.Q).sum())
        return replace(found, primal=self.losses(found) + 0.5 * norm**2)

    @property
    def mixed(self) -> MixedNorm:
        assert isinstance(self.penalty, MixedNorm)
        return self.penalty

    @staticmethod
    def losses(found: Evaluation) -> float:
        """The machines' losses on their rows."""
        return found.upper - float(np.vdot(found.B, found.Q))

    def bounds_at(self, gamma: np.ndarray, found: Evaluation) -> tuple[float, float]:
        """Lower and upper bound on the value at gamma (K,): the best lambda for this a, and this w."""
        norms = self.mixed.norms(2.0 * found.B**2 * found.Q)
        lin = found.loss + float(np.vdot(found.B, found.Q))
        used = gamma > 0
        upper = self.losses(found) + 0.5 * float((norms[used] ** 2 / gamma[used]).sum())
        return lin - float(gamma @ self.mixed.dual_norms(found.Q)), upper


@dataclass(frozen=True)
class SimplexDescent:
    """L-BFGS-B on gamma, between mirror steps; for each gamma, lambda and machines in turn.

    The value is convex in gamma with gradient -N, and gamma = v / sum v leaves v no limit but zero. L-BFGS-B ends where
    lambda is not settled well enough for its line search; the published mirror descent, which has none, goes on from
    there.

    Parameters
    ----------
    memory : how many past steps L-BFGS-B remembers.
    mirror_steps : mirror steps before it starts again.
    """

    name: ClassVar[str] = "simplex"
    memory: int = 20
    mirror_steps: int = 10

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        objective = run.objective
        assert isinstance(objective, MixedNormObjective)
        run.max_evaluations = max_iter
        K, T = objective.grams.n_kernels, objective.grams.n_components
        try:
            place = _settle(run, objective, uniform(K), objective.mixed.shares(np.ones((K, T))))
            place = mirror_descent(run, objective, place, 3)
            while True:
                place = self._descend(run, objective, place)
                place = mirror_descent(run, objective, place, self.mirror_steps)
        except Finished:
            pass
        return run.solution()

    def _descend(self, run: Run, objective: MixedNormObjective, place: _Place) -> _Place:
        """From `place`, until a line search fails; the best place on the way."""
        from scipy.optimize import minimize

        best, shares, worth = place, place.shares, max(abs(place.value), np.finfo(float).tiny)

        def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, shares
            total = float(v.sum())
            trial = _settle(run, objective, v / total, shares)
            shares = trial.shares
            best = trial if trial.value <= best.value else best
            N = objective.mixed.dual_norms(trial.found.Q)
            lower = objective.bounds_at(trial.gamma, trial.found)[0]
            return lower / worth, (trial.gamma @ N - N) / (total * worth)

        # A line search that needs more trials than this suffers from lambda, and would not end.
        options = {"maxcor": self.memory, "ftol": 0.0, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6, "maxls": 5}
        limits = [(0.0, None)] * len(place.gamma)
        start = place.gamma * len(place.gamma)
        minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
        return best


def mirror_descent(run: Run, objective: MixedNormObjective, place: _Place, steps: int, longest: float = 16.0) -> _Place:
    """As published: `gamma_k <- gamma_k N_k^step`.

    With step 1/2 the objective cannot rise, for that is the best gamma for fixed w. Longer steps are tried while they
    lower it.
    """
    step = 0.5
    for _ in range(steps):
        N = np.maximum(objective.mixed.dual_norms(place.found.Q), np.finfo(float).tiny)
        # A kernel that was dropped can come back.
        gamma = mirror_step(np.maximum(place.gamma, 1e-12), step * np.log(N))
        trial = _settle(run, objective, gamma, place.shares)
        if trial.value <= place.value or step == 0.5:
            place, step = trial, min(2.0 * step, longest)
        else:
            step = 0.5
    return place


@dataclass(frozen=True)
class _Place:
    gamma: np.ndarray
    shares: np.ndarray
    found: Evaluation
    value: float


def _settle(run: Run, objective: MixedNormObjective, gamma: np.ndarray, shares: np.ndarray) -> _Place:
    """Machines and lambda in turn at one gamma, until what is left there is small beside the whole gap."""
    while True:
        found = run.evaluate(gamma[:, np.newaxis] / shares)
        lower, upper = objective.bounds_at(gamma, found)
        best = objective.mixed.shares(found.Q)
        if objective.mixed.p == 2 or upper - lower <= 0.3 * run.relative_gap * abs(upper):
            return _Place(gamma, best, found, upper)
        shares = best
