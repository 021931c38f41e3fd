"""IMKL: every task learns its own kernel weights, on the joint solver of MK-MTRL."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..estimators.iterative import PenalisedEstimator
from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from ..penalties import LpPenalty


@dataclass(eq=False, repr=False, kw_only=True)
class _Independent(PenalisedEstimator):
    p: float = 2.0

    _power_constraints: ClassVar[dict[str, Any]] = {
        **PenalisedEstimator._penalised_constraints,
        "p": [Interval(Real, 1, None, closed="left")],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> LpPenalty:
        return LpPenalty(self.p)


@dataclass(eq=False, repr=False, kw_only=True)
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

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import IMKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = IMKLClassifier(p=1.5).fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_Independent._power_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class IMKLRegressor(_Independent, MultiKernelRegressor):
    """IMKL: multiple kernel learning in each task on its own, with a p-norm on the kernel weights.

    Parameters
    ----------
    p : float in [1, inf)
        As for `IMKLClassifier`.
    kernels, C, mu, normalize, loss, epsilon, fit_intercept, solver, init, task_column, tol, max_iter, n_jobs, \
random_state, verbose, callback
        As for `MKMTRLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import IMKLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = IMKLRegressor(C=10, p=1.5).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_Independent._power_constraints,
    }
