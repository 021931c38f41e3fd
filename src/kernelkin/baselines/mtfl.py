"""MTFL (Argyriou, Evgeniou and Pontil): tasks that share a few features of one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from .relational import OneKernelEstimator
from .spectral import SpectralPenalty


@dataclass(eq=False, repr=False, kw_only=True)
class _Feature(OneKernelEstimator):
    def _spectral_penalty(self) -> SpectralPenalty:
        return SpectralPenalty(l1=0.0, l2=1.0)


@dataclass(eq=False, repr=False, kw_only=True)
class MTFLClassifier(_Feature, MultiKernelClassifier):
    """MTFL: multi-task feature learning, functions of all tasks from few features that they share.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_*^2``, the squared trace norm of all tasks' functions W = (w_t), by machines
    with the kernel ``phi' D phi`` and ``D = (WW')^(1/2) / tr`` in turn. Convex; `duality_gap_` is certified.

    Parameters
    ----------
    kernels : None, "precomputed", or a kernel, a name, a callable, or a list of these
        The model has one kernel: the average of these, scaled on the rows of all tasks together.
    solver : {"joint", "alternating"}
        "joint" closes the duality gap; "alternating" is the algorithm as published.
    C, normalize, loss, class_weight, task_column, tol, max_iter, n_jobs, verbose, callback
        As for `MKMTRLClassifier`.

    Attributes
    ----------
    task_relationship_ : array (T, T), ``(W'W)^(1/2) / tr``.
    effective_rank_ : exp of the entropy of the normalised singular values of W: how many features the tasks share.
    kernel_weights_ : array (T, K), 1/K throughout; the others as for `MKMTRLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MTFLClassifier().fit(X, y, tasks=tasks)
    >>> model.task_relationship_.shape
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_Feature._one_kernel_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class MTFLRegressor(_Feature, MultiKernelRegressor):
    """MTFL: multi-task feature learning, functions of all tasks from few features that they share.

    Parameters
    ----------
    kernels, solver
        As for `MTFLClassifier`.
    C, normalize, loss, epsilon, fit_intercept, task_column, tol, max_iter, n_jobs, verbose, callback
        As for `MKMTRLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTFLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MTFLRegressor(C=10).fit(X, Y)
    >>> bool(model.effective_rank_ < 2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_Feature._one_kernel_constraints,
    }
