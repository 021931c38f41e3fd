"""MK-MTRL: kernel weights of all tasks learned together with the relationship of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..couplings import Coupling
from ..data import Queries, TaskData, encode_tasks
from ..exceptions import CollapseWarning, warn_user
from ..grams import CoupledGrams, KernelBank
from ..objective import Objective
from ..penalties import RelationPenalty
from ..solvers import Alternating, Solution
from .coupled import CoupledClassifier, CoupledEstimator
from .iterative import PenalisedEstimator
from .kinds import MultiKernelClassifier, MultiKernelRegressor
from .scores import task_score


@dataclass(eq=False, repr=False, kw_only=True)
class _Relationship(CoupledEstimator, PenalisedEstimator):
    """What the two MK-MTRL estimators share: the relationship penalty and its numbers, and tasks to hold out."""

    prior: Any = None
    shrinkage: float = 0.1
    min_rank: float = 1.0
    evenness: float = 0.0
    holdout_tasks: Any = None

    _relation_constraints: ClassVar[dict[str, Any]] = {
        **PenalisedEstimator._penalised_constraints,
        **CoupledEstimator._coupled_constraints,
        "prior": ["array-like", None],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "min_rank": [Interval(Real, 1, None, closed="left")],
        "evenness": [Interval(Real, 0, 1, closed="left")],
        "holdout_tasks": ["array-like", None],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> RelationPenalty:
        if self.min_rank > n_tasks:
            raise ValueError(f"min_rank={self.min_rank:g} is above the number of tasks, which is {n_tasks}")
        if self.prior is not None and np.shape(self.prior) != (n_tasks, n_tasks):
            raise ValueError(f"prior has shape {np.shape(self.prior)}; {n_tasks} tasks need ({n_tasks}, {n_tasks})")
        if self.evenness and (self.solver == "alternating" or isinstance(self.solver, Alternating)):
            raise ValueError(
                "evenness is for solver='joint': the alternating one moves the weights of each kernel alone"
            )
        own = RelationPenalty(n_tasks, self.prior, self.shrinkage, self.min_rank, self.evenness)
        if not n_couplings:
            return own
        prior = None
        if self.prior is not None:
            # Couplings are as strong as a task is on average, and nothing is known of how they are related.
            prior = np.eye(n_tasks + n_couplings)
            prior[:n_tasks, :n_tasks] = np.asarray(self.prior) * (n_tasks / np.trace(self.prior))
        return RelationPenalty(n_tasks + n_couplings, prior, self.shrinkage, self.min_rank, self.evenness)

    def _set_aside(self, data: TaskData) -> tuple[TaskData, TaskData | None]:
        if self.holdout_tasks is None:
            return data, None
        if self.couplings is None:
            raise ValueError("holdout_tasks are predicted by what tasks have in common: set couplings='common'")
        held = np.unique(encode_tasks(np.asarray(self.holdout_tasks), data.labels))
        kept = np.setdiff1d(np.arange(data.n_tasks), held)
        return data.select(kept), data.select(held)

    def _score_aside(self, aside: TaskData) -> None:
        """`holdout_scores_`: how well the common part predicts tasks that were not fitted."""
        self._check_common()
        self.holdout_scores_ = {}
        for label, rows, y in zip(aside.labels.tolist(), aside.rows, aside.y, strict=True):
            prediction = self._predict(Queries(aside.X[rows], np.full(len(rows), -1)))
            self.holdout_scores_[label] = task_score(self, y, prediction, aside.sample_weight[rows])

    def _solve(self, objective: Objective) -> Solution:
        solution = super()._solve(objective)
        if isinstance(objective.grams, CoupledGrams):
            self.part_shares_ = objective.grams.part_shares(solution.B, [dual.a for dual in solution.duals])
        return solution

    def _store(self, data: TaskData, bank: KernelBank, couplings: Sequence[Coupling], solution: Solution) -> None:
        super()._store(data, bank, couplings, solution)
        self._store_couplings(couplings, solution.B[:, data.n_tasks :])
        free = self.shrinkage == 0 and self.min_rank == 1
        if free and min(self.kernel_weights_.shape) > 1 and self.effective_rank_ < 1 + 1e-3:
            warn_user(
                f"the relationship has collapsed: all {len(self.tasks_)} tasks use the same mix of kernels "
                f"(effective rank {self.effective_rank_:.4f}), as the optimum of the paper's penalty must, and "
                "task_relationship_ says nothing about groups. Try min_rank=2 or more, or shrinkage=0.1.",
                CollapseWarning,
            )


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTRLClassifier(CoupledClassifier, _Relationship, MultiKernelClassifier):
    """Multi-task multiple kernel relationship learning for classification.

    Learns for each task how much of each kernel to use, together with a task relationship that ties the tasks' weights,
    and one kernel machine for each task. The problem is convex; `duality_gap_` certifies how close to its optimum the
    fit is.

    Parameters
    ----------
    kernels : None, "precomputed", or a kernel, a name, a callable, or a list of these
        The base kernels. None: Gaussians of several widths around the median distance, and a linear kernel.
    C : float
        Cost of errors on training rows.
    mu : float or "scale"
        Strength of the penalty on the kernel weights. "scale": 1 for a classifier; for a regressor the variance of the
        targets within tasks, so that targets in other units lead to the same fit in these units. With C it makes one
        parameter, ``mu / C**3``: it is enough to tune C.
    couplings : None, "common", "inputs" or dict
        Parts of the function that tasks share, each with kernel weights of its own: "common", one part for all tasks;
        "inputs", a part that tasks share as far as their inputs are alike; a dict from names to these words, to group
        labels (one for each task, in order, or a dict from task to label), or to T x T positive semi-definite matrices
        with unit diagonal.
    prior : array (T, T), optional
        What is known about the relationship of the tasks, in the order of `tasks_`: a positive definite matrix.
    shrinkage : float in [0, 1]
        How far the relationship is held to the prior. 1: the prior itself.
    min_rank : float in [1, T]
        Over how many directions at least the relationship spreads. T: independent tasks.
    evenness : float in [0, 1)
        How alike a task's weights of different kernels are expected to be. 0: nothing is expected, as in the paper;
        towards 1: the average kernel, which is hard to beat where all kernels are of use.
    holdout_tasks : list of task labels, optional
        Tasks to leave out of the fit and to predict by the common part: `holdout_scores_` tells how well that works.
    normalize : {"trace", "cosine", "center"} or None
        How kernels are scaled, fitted on training rows.
    loss : {"hinge", "squared"}
        A support vector machine, or a least-squares one.
    class_weight : dict, "balanced" or None
        Weights of classes; "balanced" within each task.
    solver : {"joint", "alternating"} or a solver
        "joint" closes the duality gap; "alternating" is the paper's Algorithm 1.
    init : array (T, K), optional
        Kernel weights to start from, such as those a `callback` kept.
    task_column : int or str, optional
        The column of X that holds the task of each row: what survives `GridSearchCV` and pipelines.
    tol : float
        The relative duality gap to reach.
    max_iter : int
        How often all machines may be solved ("joint"), or the relationship updated ("alternating").
    n_jobs : int, optional
        Threads over tasks. The result does not depend on it.
    random_state : int, RandomState or None
        Not used by the solvers at hand, which are deterministic.
    verbose : int
        1 prints a line for each iteration.
    callback : callable, optional
        Called with an `Iterate` (weights, bounds, gap) after each iteration; what it keeps survives an interrupt.

    Attributes
    ----------
    tasks_ : array (T,), the task labels; the order of everything below.
    classes_ : array, all classes; `task_classes_` has those of each task.
    kernels_, kernel_names_ : the K fitted kernels and their names.
    kernel_weights_ : array (T, K), of the tasks' own parts.
    couplings_, coupling_weights_ : the couplings and the weights (n_couplings, K) of their parts.
    part_shares_ : array (T, 1 + n_couplings), with couplings: how much of the variance of each task's function on its
        training rows comes from its own part and from each coupling's.
    holdout_scores_ : dict, with `holdout_tasks`.
    task_relationship_, task_correlation_ : arrays (T, T), Omega, and Omega scaled to unit diagonal.
    dual_coef_ : list of arrays (n_t, outputs), signed dual variables of each task.
    intercept_ : array (T,), or a list where a task has several outputs.
    objective_, duality_gap_ : the objective, and how far at most it is above the optimum.
    effective_rank_ : exp of the entropy of the normalised singular values of the weights.
    history_ : dict of arrays, one entry per iteration.
    n_iter_ : int.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_Relationship._relation_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTRLRegressor(_Relationship, MultiKernelRegressor):
    """Multi-task multiple kernel relationship learning for regression.

    Parameters
    ----------
    loss : {"squared", "epsilon_insensitive"}
        Kernel ridge regression, or support vector regression.
    epsilon : float
        Half the width of the tube without loss, for ``loss="epsilon_insensitive"``.
    fit_intercept : bool
        Whether each task has an intercept.
    kernels, C, mu, couplings, prior, shrinkage, min_rank, evenness, holdout_tasks, normalize, solver, init, \
task_column, tol, max_iter, n_jobs, random_state, verbose, callback
        As for `MKMTRLClassifier`, which also lists the fitted attributes.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_Relationship._relation_constraints,
    }
