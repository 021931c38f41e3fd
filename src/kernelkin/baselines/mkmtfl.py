"""MK-MTFL (Jawanpuria and Nath): all tasks select the same few kernels, and share them out unequally.

    minimise over w:   1/2 (sum_k (sum_t |w_tk|^p)^(1/p))^2 + sum_t loss_t

With gamma on the simplex and |lambda_k| = 1 in the norm that is dual to p/2, pt = p/(p-2), this is

    min over gamma, max over lambda and a:   sum_t lin_t(a_t) - sum_tk (gamma_k / lambda_tk) Q_tk

For fixed gamma and a the best lambda_tk is proportional to Q_tk^(1/(pt+1)), and the kernel's term is then gamma_k N_k
with N_k = (sum_t Q_tk^(s/2))^(2/s), 1/s + 1/p = 1. So `sum_t lin_t(a_t) - max_k N_k(a)` bounds the optimum from below,
at any feasible a; the primal value at any w bounds it from above. With p = 2, lambda is one: a shared kernel, with the
1-norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..estimators.base import MultiKernelClassifier, MultiKernelRegressor, WatchedEstimator
from ..objective import Evaluation, Objective
from ..parallel import Each, serially
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

    def evaluate(
        self, B: np.ndarray, *, warm: Sequence[np.ndarray] | None = None, tol: float = 1e-3, each: Each = serially
    ) -> Evaluation:
        found = super().evaluate(B, warm=warm, tol=tol, each=each)
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
class MirrorDescent:
    """Mirror descent on gamma: `gamma_k <- gamma_k N_k^step`; for each gamma, lambda and machines in turn.

    With step 1/2 the objective cannot rise, for that is the best gamma for fixed w. Longer steps are tried while they
    lower it.

    Parameters
    ----------
    longest : the longest step.
    """

    name: ClassVar[str] = "mirror"
    longest: float = 16.0

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        objective = run.objective
        assert isinstance(objective, MixedNormObjective)
        run.max_evaluations = max_iter
        K, T = objective.grams.n_kernels, objective.grams.n_components
        try:
            place = _settle(run, objective, uniform(K), objective.mixed.shares(np.ones((K, T))))
            step = 0.5
            while True:
                N = np.maximum(objective.mixed.dual_norms(place.found.Q), np.finfo(float).tiny)
                gamma = mirror_step(place.gamma, step * np.log(N))
                trial = _settle(run, objective, gamma, place.shares)
                if trial.value <= place.value or step == 0.5:
                    place, step = trial, min(2.0 * step, self.longest)
                else:
                    step = 0.5
        except Finished:
            pass
        return run.solution()


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


@dataclass(eq=False, repr=False, kw_only=True)
class _MixedNormEstimator(WatchedEstimator):
    p: float = 2.0

    _mixed_constraints: ClassVar[dict[str, Any]] = {
        **WatchedEstimator._watched_constraints,
        "p": [Interval(Real, 2, np.inf, closed="both")],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> MixedNorm:
        return MixedNorm(float(self.p))

    def _solve(self, objective: Objective) -> Solution:
        parts = (objective.grams, objective.machines, objective.learner, objective.penalty, objective.mu)
        return self._run(MirrorDescent(), MixedNormObjective(*parts))


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTFLClassifier(_MixedNormEstimator, MultiKernelClassifier):
    """MK-MTFL: all tasks select the same few kernels, by a 1-norm over kernels of a p-norm over tasks.

    The saddle-point problem is convex in the functions; `duality_gap_` is certified.

    Parameters
    ----------
    p : float in [2, inf]
        How unequally tasks may use a kernel: with 2 they use it as they like, with larger p ever more alike.
    max_iter : int
        How often all machines may be solved.
    kernels, C, normalize, loss, class_weight, task_column, tol, n_jobs, verbose, callback
        As for `MKMTRLClassifier`.

    Attributes
    ----------
    kernel_weights_ : array (T, K), gamma_k / lambda_tk; the others as for `MKMTRLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTFLClassifier(p=4).fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_MixedNormEstimator._mixed_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTFLRegressor(_MixedNormEstimator, MultiKernelRegressor):
    """MK-MTFL: all tasks select the same few kernels, by a 1-norm over kernels of a p-norm over tasks.

    Parameters
    ----------
    p, max_iter
        As for `MKMTFLClassifier`.
    kernels, C, normalize, loss, epsilon, fit_intercept, task_column, tol, n_jobs, verbose, callback
        As for `MKMTRLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTFLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MKMTFLRegressor(C=10, tol=1e-2).fit(X, Y)
    >>> bool(model.duality_gap_ <= 1e-2 * model.objective_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_MixedNormEstimator._mixed_constraints,
    }
