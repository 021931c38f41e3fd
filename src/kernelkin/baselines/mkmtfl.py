"""MK-MTFL (Jawanpuria and Nath): all tasks select the same few kernels, and share them out unequally."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..estimators.iterative import WatchedEstimator
from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from ..estimators.on_grams import GramEstimator
from ..objective import Objective
from ..solvers import Solution
from .mixed_norm import MixedNorm, MixedNormObjective, SimplexDescent


@dataclass(eq=False, repr=False, kw_only=True)
class _MixedNormEstimator(WatchedEstimator, GramEstimator):
    p: float = 2.0

    _mixed_constraints: ClassVar[dict[str, Any]] = {
        **WatchedEstimator._watched_constraints,
        "p": [Interval(Real, 2, np.inf, closed="both")],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> MixedNorm:
        return MixedNorm(float(self.p))

    def _solve(self, objective: Objective) -> Solution:
        parts = (objective.grams, objective.machines, objective.learner, objective.penalty, objective.mu)
        return self._run(SimplexDescent(), MixedNormObjective(*parts))


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
