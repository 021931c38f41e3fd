"""MK-MTRL: kernel weights of all tasks learned together with the relationship of the tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..fitting import Classification, Fit, Regression, Shape
from ..penalties import RelationPenalty
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, COUPLED, KERNEL_MACHINE, REGRESSION_LOSS, describe


def relation_penalty(
    shape: Shape,
    *,
    prior: Any = None,
    shrinkage: float = 0.1,
    min_rank: float = 1.0,
    evenness: float = 0.0,
) -> RelationPenalty:
    """Return the relationship penalty of tasks and couplings; `prior` and `min_rank` are about tasks alone."""
    T, J = shape.n_tasks, shape.n_components
    if min_rank > T:
        raise ValueError(f"min_rank={min_rank:g} is above the number of tasks, which is {T}")
    if prior is not None:
        if np.shape(prior) != (T, T):
            raise ValueError(f"prior has shape {np.shape(prior)}; {T} tasks need ({T}, {T})")
        # Reads and checks the prior of the tasks alone, so that errors name its own shape and values.
        RelationPenalty(T, prior)
    if prior is not None and J > T:
        # Couplings are as strong as a task is on average, and nothing is known of how they are related.
        extended = np.eye(J)
        extended[:T, :T] = np.asarray(prior) * (T / np.trace(prior))
        prior = extended
    return RelationPenalty(J, prior, shrinkage, min_rank, evenness)


@describe((*KERNEL_MACHINE, *CLASSES, *COUPLED))
class MKMTRLClassifier(MultiTaskClassifier):
    """Multi-task multiple kernel relationship learning for classification.

    Learns for each task how much of each kernel to use, together with a task relationship that ties the tasks' weights,
    and one kernel machine for each task. The problem is convex; `duality_gap_` certifies how close to its optimum the
    fit is.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTRLClassifier().fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        parsimony=0.0,
        couplings=None,
        sharing=1.0,
        task_features=None,
        shared_rank="auto",
        prior=None,
        shrinkage=0.1,
        min_rank=1.0,
        evenness=0.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
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
        self.parsimony = parsimony
        self.couplings = couplings
        self.sharing = sharing
        self.task_features = task_features
        self.shared_rank = shared_rank
        self.prior = prior
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.evenness = evenness
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
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


@describe((*KERNEL_MACHINE, *COUPLED), loss=REGRESSION_LOSS)
class MKMTRLRegressor(MultiTaskRegressor):
    """Multi-task multiple kernel relationship learning for regression.

    Learns for each task how much of each kernel to use, together with a task relationship that ties the tasks' weights,
    and one kernel machine for each task. The problem is convex; `duality_gap_` certifies how close to its optimum the
    fit is.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])  # wide: two tasks on the same rows
    >>> model = MKMTRLRegressor(C=10).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        parsimony=0.0,
        couplings=None,
        sharing=1.0,
        task_features=None,
        shared_rank="auto",
        prior=None,
        shrinkage=0.1,
        min_rank=1.0,
        evenness=0.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
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
        self.parsimony = parsimony
        self.couplings = couplings
        self.sharing = sharing
        self.task_features = task_features
        self.shared_rank = shared_rank
        self.prior = prior
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.evenness = evenness
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
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


def _specification(model: MKMTRLClassifier | MKMTRLRegressor, targets: Classification | Regression) -> Fit:
    penalty = partial(
        relation_penalty,
        prior=model.prior,
        shrinkage=model.shrinkage,
        min_rank=model.min_rank,
        evenness=model.evenness,
    )
    return Fit(
        targets=targets,
        has_path=True,
        penalty=penalty,
        kernels=model.kernels,
        C=model.C,
        mu=model.mu,
        couplings=model.couplings,
        sharing=model.sharing,
        task_features=model.task_features,
        shared_rank=model.shared_rank,
        parsimony=model.parsimony,
        normalize=model.normalize,
        unknown_tasks=model.unknown_tasks,
        solver=model.solver,
        init=model.init,
        tol=model.tol,
        max_iter=model.max_iter,
        device=model.device,
    )
