"""MTRL (Zhang and Yeung): tasks whose functions of one kernel have a covariance that is learned."""

from __future__ import annotations

from sklearn.utils._param_validation import StrOptions

from ..fitting import Classification, PooledFit, Regression
from ..penalties import SpectralNorm
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, POOLED_KERNELS, POSITIVE, REGRESSION_LOSS, Parameter, describe

_SOLVER = Parameter(
    '{"joint", "alternating"}',
    '"joint" closes the duality gap; "alternating" is the algorithm as published.',
    [StrOptions({"joint", "alternating"})],
)

_MU = Parameter("float", "Strength of the relationship beside the norm of each task's function.", POSITIVE)


@describe((*KERNEL_MACHINE, *CLASSES), kernels=POOLED_KERNELS, solver=_SOLVER, mu=_MU)
class MTRLClassifier(MultiTaskClassifier):
    """MTRL: multi-task relationship learning, with a task covariance in the feature space of one kernel.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_F^2 + (mu/2) tr(W inv(Omega) W')`` over W and Omega of trace one, by
    machines with the kernel ``[Omega inv(Omega + mu I)]_tt' k(x, x')`` and ``Omega = (W'W)^(1/2) / tr`` in turn.
    Convex; `duality_gap_` is certified. `effective_rank_` says how many features the tasks share.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTRLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MTRLClassifier().fit(X, y, tasks=tasks)
    >>> min(model.related_tasks("a", X, y, tasks).values()) > 0.5
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu=1.0,
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
        self.mu = mu
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


@describe(kernels=POOLED_KERNELS, solver=_SOLVER, mu=_MU, loss=REGRESSION_LOSS)
class MTRLRegressor(MultiTaskRegressor):
    """MTRL: multi-task relationship learning, with a task covariance in the feature space of one kernel.

    Minimises ``sum_t loss_t(w_t) + 1/2 |W|_F^2 + (mu/2) tr(W inv(Omega) W')`` over W and Omega of trace one, by
    machines with the kernel ``[Omega inv(Omega + mu I)]_tt' k(x, x')`` and ``Omega = (W'W)^(1/2) / tr`` in turn.
    Convex; `duality_gap_` is certified. `effective_rank_` says how many features the tasks share.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MTRLRegressor(C=10).fit(X, Y)
    >>> model.related_tasks(0, X, Y)[1] > 0.9
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu=1.0,
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
        self.mu = mu
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


def _specification(model: MTRLClassifier | MTRLRegressor, targets: Classification | Regression) -> PooledFit:
    return PooledFit(
        targets=targets,
        norm=SpectralNorm(l1=1.0, l2=model.mu),
        kernels=model.kernels,
        C=model.C,
        normalize=model.normalize,
        solver=model.solver,
        tol=model.tol,
        max_iter=model.max_iter,
    )
