"""MTRL (Zhang and Yeung): tasks whose functions of one kernel have a covariance that is learned."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from .relational import OneKernelEstimator
from .spectral import SpectralPenalty


@dataclass(eq=False, repr=False, kw_only=True)
class _TaskCovariance(OneKernelEstimator):
    mu: float = 1.0

    _covariance_constraints: ClassVar[dict[str, Any]] = {
        **OneKernelEstimator._one_kernel_constraints,
        "mu": [Interval(Real, 0, None, closed="neither")],
    }

    def _spectral_penalty(self) -> SpectralPenalty:
        return SpectralPenalty(l1=1.0, l2=self.mu)


@dataclass(eq=False, repr=False, kw_only=True)
class MTRLClassifier(_TaskCovariance, MultiKernelClassifier):
    """MTRL: multi-task relationship learning, with a task covariance in the feature space of one kernel.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_F^2 + (mu/2) tr(W inv(Omega) W')`` over W and Omega of trace one, by
    machines with the kernel ``[Omega inv(Omega + mu I)]_tt' k(x, x')`` and ``Omega = (W'W)^(1/2) / tr`` in turn.
    Convex; `duality_gap_` is certified.

    Parameters
    ----------
    mu : float
        Strength of the relationship beside the norm of each task's function.
    kernels : None, "precomputed", or a kernel, a name, a callable, or a list of these
        The model has one kernel: the average of these, scaled on the rows of all tasks together.
    solver : {"joint", "alternating"}
        "joint" closes the duality gap; "alternating" is the algorithm as published.
    C, normalize, loss, class_weight, task_column, tol, max_iter, n_jobs, verbose, callback
        As for `MKMTRLClassifier`.

    Attributes
    ----------
    task_relationship_ : array (T, T), Omega.
    effective_rank_ : exp of the entropy of the normalised singular values of W: how many features the tasks share.
    kernel_weights_ : array (T, K), 1/K throughout; the others as for `MKMTRLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTRLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MTRLClassifier().fit(X, y, tasks=tasks)
    >>> bool((model.task_correlation_ > 0.5).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_TaskCovariance._covariance_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class MTRLRegressor(_TaskCovariance, MultiKernelRegressor):
    """MTRL: multi-task relationship learning, with a task covariance in the feature space of one kernel.

    Parameters
    ----------
    kernels, mu, solver
        As for `MTRLClassifier`.
    C, normalize, loss, epsilon, fit_intercept, task_column, tol, max_iter, n_jobs, verbose, callback
        As for `MKMTRLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MTRLRegressor(C=10).fit(X, Y)
    >>> bool(model.task_correlation_[0, 1] > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_TaskCovariance._covariance_constraints,
    }
