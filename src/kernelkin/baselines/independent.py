"""IMKL: every task learns its own kernel weights, on the joint solver of MK-MTRL."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..estimators.base import MultiKernelClassifier, MultiKernelEstimator, MultiKernelRegressor
from ..penalties import LpPenalty

POWER: dict[str, Any] = {"p": [Interval(Real, 1, None, closed="left")]}


class _Independent(MultiKernelEstimator):
    p: float

    def _penalty(self, n_tasks: int, n_couplings: int) -> LpPenalty:
        return LpPenalty(self.p)


class IMKLClassifier(_Independent, MultiKernelClassifier):
    """IMKL: multiple kernel learning in each task on its own, with a p-norm on the kernel weights.

    ``R(B) = sum_t |b_t|_p^2``. Tasks share nothing; the fit is convex and its `duality_gap_` certified.

    Parameters
    ----------
    p : float in [1, inf)
        1 keeps few kernels, 2 is the penalty of the paper, large p uses all kernels evenly.
    kernels, C, mu, normalize, loss, class_weight, solver, init, task_column, tol, max_iter, n_jobs, random_state, \
verbose, callback
        As for `MKMTRLClassifier`, which also lists the fitted attributes.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **POWER,
    }

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        mu: float = 1.0,
        p: float = 2.0,
        normalize: str | None = "trace",
        loss: str = "hinge",
        class_weight: Any = None,
        solver: Any = "joint",
        init: Any = None,
        task_column: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.p = p
        self.normalize = normalize
        self.loss = loss
        self.class_weight = class_weight
        self.solver = solver
        self.init = init
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback


class IMKLRegressor(_Independent, MultiKernelRegressor):
    """IMKL: multiple kernel learning in each task on its own, with a p-norm on the kernel weights.

    Parameters
    ----------
    p : float in [1, inf)
        As for `IMKLClassifier`.
    kernels, C, mu, normalize, loss, epsilon, fit_intercept, solver, init, task_column, tol, max_iter, n_jobs, \
random_state, verbose, callback
        As for `MKMTRLRegressor`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **POWER,
    }

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        mu: float = 1.0,
        p: float = 2.0,
        normalize: str | None = "trace",
        loss: str = "squared",
        epsilon: float = 0.1,
        fit_intercept: bool = True,
        solver: Any = "joint",
        init: Any = None,
        task_column: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.p = p
        self.normalize = normalize
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.init = init
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
