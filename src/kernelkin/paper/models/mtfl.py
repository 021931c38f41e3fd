"""MTFL (Argyriou, Evgeniou and Pontil): tasks that share a few features of one kernel."""

from __future__ import annotations

from sklearn.utils._param_validation import StrOptions

from ..fitting import Classification, PooledFit, Regression
from ..penalties import SpectralNorm
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, POOLED_KERNELS, REGRESSION_LOSS, Parameter, describe

_SOLVER = Parameter(
    '{"joint", "alternating"}',
    '"joint" closes the duality gap; "alternating" is the algorithm as published.',
    [StrOptions({"joint", "alternating"})],
)


@describe((*KERNEL_MACHINE, *CLASSES), kernels=POOLED_KERNELS, solver=_SOLVER)
class MTFLClassifier(MultiTaskClassifier):
    """MTFL: multi-task feature learning, functions of all tasks from few features that they share.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_*^2``, the squared trace norm of all tasks' functions W = (w_t), by machines
    with the kernel ``phi' D phi`` and ``D = (WW')^(1/2) / tr`` in turn. Convex; `duality_gap_` is certified.
    `task_relationship_` is ``(W'W)^(1/2) / tr``, and `effective_rank_` says how many features the tasks share.

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

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        task_column=None,
        solver="joint",
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.task_column = task_column
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> PooledFit:
        return _specification(self, Classification(self.loss, self.class_weight))


@describe(kernels=POOLED_KERNELS, solver=_SOLVER, loss=REGRESSION_LOSS)
class MTFLRegressor(MultiTaskRegressor):
    """MTFL: multi-task feature learning, functions of all tasks from few features that they share.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_*^2``, the squared trace norm of all tasks' functions W = (w_t), by machines
    with the kernel ``phi' D phi`` and ``D = (WW')^(1/2) / tr`` in turn. Convex; `duality_gap_` is certified.
    `task_relationship_` is ``(W'W)^(1/2) / tr``, and `effective_rank_` says how many features the tasks share.

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

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        normalize="trace",
        task_column=None,
        solver="joint",
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.task_column = task_column
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> PooledFit:
        return _specification(self, Regression(self.loss, self.epsilon, self.fit_intercept))


def _specification(model: MTFLClassifier | MTFLRegressor, targets: Classification | Regression) -> PooledFit:
    return PooledFit(
        targets=targets,
        norm=SpectralNorm(l1=0.0, l2=1.0),
        kernels=model.kernels,
        C=model.C,
        normalize=model.normalize,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
    )
