"""IKL: one vector of kernel weights for all tasks."""

from __future__ import annotations

from functools import partial

from ..fitting import Classification, Fit, Regression, Shape
from ..penalties import SharedLpPenalty
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, REGRESSION_LOSS, describe


@describe((*KERNEL_MACHINE, *CLASSES))
class IKLClassifier(MultiTaskClassifier):
    """IKL: input kernel learning, one vector of kernel weights that all tasks share.

    ``R(B) = |b|_p^2`` with every column of B equal to b. The fit is convex and its `duality_gap_` certified.

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

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        p=2.0,
        parsimony=0.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        task_column=None,
        solver="joint",
        init=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.p = p
        self.parsimony = parsimony
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.task_column = task_column
        self.solver = solver
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> Fit:
        return _specification(self, Classification(self.loss, self.class_weight))


@describe(loss=REGRESSION_LOSS)
class IKLRegressor(MultiTaskRegressor):
    """IKL: input kernel learning, one vector of kernel weights that all tasks share.

    ``R(B) = |b|_p^2`` with every column of B equal to b. The fit is convex and its `duality_gap_` certified.

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

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        p=2.0,
        parsimony=0.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        normalize="trace",
        task_column=None,
        solver="joint",
        init=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.p = p
        self.parsimony = parsimony
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.task_column = task_column
        self.solver = solver
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> Fit:
        return _specification(self, Regression(self.loss, self.epsilon, self.fit_intercept))


def _penalty(shape: Shape, p: float) -> SharedLpPenalty:
    return SharedLpPenalty(shape.n_components, p)


def _specification(model: IKLClassifier | IKLRegressor, targets: Classification | Regression) -> Fit:
    return Fit(
        targets=targets,
        has_path=True,
        penalty=partial(_penalty, p=model.p),
        kernels=model.kernels,
        C=model.C,
        parsimony=model.parsimony,
        mu=model.mu,
        normalize=model.normalize,
        solver=model.solver,
        init=model.init,
        tol=model.tol,
        max_iter=model.max_iter,
        device=model.device,
    )
