"""IKL: one vector of kernel weights for all tasks, on the joint solver of MK-MTRL."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..estimators.iterative import PenalisedEstimator
from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from ..penalties import SharedLpPenalty


@dataclass(eq=False, repr=False, kw_only=True)
class _Shared(PenalisedEstimator):
    p: float = 2.0

    _power_constraints: ClassVar[dict[str, Any]] = {
        **PenalisedEstimator._penalised_constraints,
        "p": [Interval(Real, 1, None, closed="left")],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> SharedLpPenalty:
        return SharedLpPenalty(n_tasks, self.p)


@dataclass(eq=False, repr=False, kw_only=True)
class IKLClassifier(_Shared, MultiKernelClassifier):
    """IKL: input kernel learning, one vector of kernel weights that all tasks share.

    ``R(B) = |b|_p^2`` with every column of B equal to b. The fit is convex and its `duality_gap_` certified.

    Parameters
    ----------
    p : float in [1, inf)
        1 keeps few kernels, large p uses all kernels evenly.
    kernels, C, mu, normalize, loss, class_weight, solver, init, task_column, tol, max_iter, n_jobs, random_state, \
verbose, callback
        As for `MKMTRLClassifier`, which also lists the fitted attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import IKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = IKLClassifier(p=1.5).fit(X, y, tasks=tasks)
    >>> bool((model.kernel_weights_ == model.kernel_weights_[0]).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_Shared._power_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class IKLRegressor(_Shared, MultiKernelRegressor):
    """IKL: input kernel learning, one vector of kernel weights that all tasks share.

    Parameters
    ----------
    p : float in [1, inf)
        As for `IKLClassifier`.
    kernels, C, mu, normalize, loss, epsilon, fit_intercept, solver, init, task_column, tol, max_iter, n_jobs, \
random_state, verbose, callback
        As for `MKMTRLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import IKLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = IKLRegressor(C=10).fit(X, Y)
    >>> bool((model.kernel_weights_[0] == model.kernel_weights_[1]).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_Shared._power_constraints,
    }
