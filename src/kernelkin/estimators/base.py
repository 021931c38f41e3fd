"""The shell every multi-kernel, multi-task estimator shares: validate, build, solve, store; then predict."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from ..data import Queries, TaskData, read_queries, read_training
from ..grams import KernelBank, build_grams, task_functions
from ..kernels import FittedKernel, fit_kernels, resolve_kernels
from ..learners import SVM, SVR, Learner, Machine, Ridge
from ..objective import Objective
from ..parallel import Workers
from ..penalties import Penalty, effective_rank
from ..solvers import SOLVERS, Run, Solution, Solver, Status
from .scores import score_each_task
from .targets import class_machines, regression_machines


class MultiKernelEstimator(BaseEstimator):
    """Kernel machines for many tasks, with kernel weights learned for all of them at once.

    A subclass says which penalty holds the kernel weights (`_penalty`) and which machine each task is (`_learner`,
    `_machines`).
    """

    __metadata_request__predict: ClassVar = {"split": UNUSED}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernels": "no_validation",
        "C": [Interval(Real, 0, None, closed="neither")],
        "mu": [Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"trace", "cosine", "center"}), None],
        "solver": [StrOptions(set(SOLVERS)), *SOLVERS.values()],
        "init": ["array-like", None],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    kernels: Any
    C: float
    mu: float
    normalize: str | None
    solver: str | Solver
    init: Any
    task_column: Any
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callable | None

    @abstractmethod
    def _penalty(self, n_tasks: int) -> Penalty:
        """The term that holds the kernel weights; raises where its parameters do not fit the tasks."""

    @abstractmethod
    def _learner(self) -> Learner:
        """The kernel machine of each task."""

    @abstractmethod
    def _machines(self, data: TaskData) -> list[Machine]:
        """The coded targets and costs of each task."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> MultiKernelEstimator:
        """Learn kernel weights, task relationship and machines.

        Parameters
        ----------
        X : array or DataFrame (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array (n,), or (n, T) with NaN for missing labels
            Targets. With two dimensions every column is a task on the same rows.
        tasks : array (n,), optional
            The task of each row; any labels. Not needed with `task_column`, with wide y, or for one task.
        sample_weight : array (n,), optional
            Weights of rows; weighting a row by 2 equals repeating it.
        """
        data = read_training(self, X, y, tasks, sample_weight, classification=is_classifier(self))
        penalty = self._penalty(data.n_tasks)
        machines = self._machines(data)
        grams, bank = build_grams(data, self._fit_kernels(data), self.normalize)
        solution = self._solve(Objective(grams, machines, self._learner(), penalty, self.mu))
        self._store(data, bank, solution)
        return self

    def _fit_kernels(self, data: TaskData) -> list[FittedKernel] | None:
        if self._precomputed:
            return None
        return fit_kernels(resolve_kernels(self.kernels), data.X, data.feature_names, data.sample_weight)

    def _solve(self, objective: Objective) -> Solution:
        solver = SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver
        with Workers(self.n_jobs) as workers:
            run = Run(objective, self.tol, verbose=self.verbose, callback=self.callback, each=workers.map)
            solution = solver.minimise(run, self._start(objective), self.max_iter)
        if solution.status in (Status.MAX_ITER, Status.STALLED):
            warnings.warn(
                f"{type(self).__name__}: {solution.status.value}. The relative duality gap reached is "
                f"{solution.relative_gap:.1e}, and tol={self.tol:g}.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return solution

    def _start(self, objective: Objective) -> np.ndarray | None:
        if self.init is None:
            return None
        shape = (objective.grams.n_components, objective.grams.n_kernels)
        weights = np.asarray(self.init, dtype=np.float64)
        if weights.shape != shape or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"init must be non-negative kernel weights of shape {shape}, not {weights.shape}")
        return np.ascontiguousarray(weights.T)

    def _store(self, data: TaskData, bank: KernelBank, solution: Solution) -> None:
        self.tasks_ = data.labels
        self.data_form_ = data.form
        self.kernels_ = bank.names if bank.kernels is None else bank.kernels
        self.kernel_names_ = np.array(bank.names)
        self.kernel_weights_ = solution.B.T.copy()
        self.task_relationship_ = solution.Omega
        root = np.sqrt(np.maximum(np.diag(solution.Omega), np.finfo(float).tiny))
        self.task_correlation_ = solution.Omega / np.outer(root, root)
        self.objective_ = solution.primal
        self.duality_gap_ = solution.gap
        self.effective_rank_ = effective_rank(solution.B)
        self.history_ = solution.history
        self.n_iter_ = len(solution.history["iteration"])
        self.dual_coef_ = [dual.a for dual in solution.duals]
        intercepts = [dual.intercept.sum(axis=0) for dual in solution.duals]
        self.intercept_ = np.array([c[0] for c in intercepts]) if max(map(len, intercepts)) == 1 else intercepts
        self.functions_ = task_functions(data, bank, solution.B, self.dual_coef_, intercepts)

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = self._precomputed
        tags.target_tags.multi_output = True
        return tags

    def _read_queries(self, X: Any, tasks: Any) -> Queries:
        check_is_fitted(self)
        return read_queries(self, X, tasks)

    def _split(self, queries: Queries, prediction: np.ndarray) -> Bunch:
        """A prediction with what each kernel and the intercept contribute to the values behind it."""
        parts, intercept = self.functions_.parts(queries.X, queries.codes)
        return Bunch(prediction=prediction, parts=parts, intercept=intercept, kernels=self.kernel_names_)

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """The score of each task: accuracy for a classifier, R^2 for a regressor.

        Tasks without rows in X are left out; R^2 of a single row is NaN.
        """
        queries = self._read_queries(X, tasks)
        return score_each_task(self, queries, y, self._predict(queries), sample_weight)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """The mean over tasks of `score_tasks`, leaving out tasks whose score is undefined."""
        scores = list(self.score_tasks(X, y, tasks, sample_weight).values())
        return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")

    @abstractmethod
    def _predict(self, queries: Queries) -> np.ndarray:
        """Predictions (q,) for rows with a task, (q, T) for wide data."""


class MultiKernelClassifier(ClassifierMixin, MultiKernelEstimator):
    """A multi-kernel estimator whose tasks have classes."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelEstimator._parameter_constraints,
        "loss": [StrOptions({"hinge", "squared"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    loss: str
    class_weight: Any

    def _learner(self) -> Learner:
        return SVM() if self.loss == "hinge" else Ridge()

    def _machines(self, data: TaskData) -> list[Machine]:
        machines, self.task_classes_ = class_machines(data, self.C, self.class_weight)
        self.classes_ = np.unique(np.concatenate(self.task_classes_))
        return machines

    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """How far each row is on the side of each class.

        Returns
        -------
        values : (q,) where all tasks have the same two classes, positive for the second one; otherwise (q, n_classes)
            in the order of `classes_`, -inf for classes that a row's task does not have. On wide data (q, T) where
            every task has two classes, else (q, T, n_classes).
        """
        return self._decide(self._read_queries(X, tasks))

    def predict(self, X: Any, tasks: Any = None, split: bool = False) -> np.ndarray | Bunch:
        """Class labels, (q,) or on wide data (q, T).

        With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds to
        the decision value (one more axis where a task has more than two classes); `intercept`; `kernels`, their names.
        """
        queries = self._read_queries(X, tasks)
        prediction = self._predict(queries)
        return self._split(queries, prediction) if split else prediction

    def _decide(self, queries: Queries) -> np.ndarray:
        values = self.functions_.values(queries.X, queries.codes)
        binary = all(len(classes) == 2 for classes in self.task_classes_)
        if binary and (queries.codes is None or len(self.classes_) == 2):
            return values[..., 0]
        spread = np.full((*values.shape[:-1], len(self.classes_)), -np.inf)
        for t, classes in enumerate(self.task_classes_):
            where = np.searchsorted(self.classes_, classes)
            rows = np.index_exp[:, t] if queries.codes is None else np.nonzero(queries.codes == t)
            mine = values[rows]
            mine = np.stack([-mine[..., 0], mine[..., 0]], axis=-1) if len(classes) == 2 else mine[..., : len(classes)]
            block = spread[rows]
            block[:, where] = mine
            spread[rows] = block
        return spread

    def _predict(self, queries: Queries) -> np.ndarray:
        values = self._decide(queries)
        if values.ndim == (2 if queries.codes is None else 1):
            positive = (values > 0).astype(np.intp)
            if queries.codes is not None or len(self.classes_) == 2:
                return self.classes_[positive]
            return np.stack([c[p] for c, p in zip(self.task_classes_, positive.T, strict=True)], axis=1)
        return self.classes_[values.argmax(axis=-1)]


class MultiKernelRegressor(RegressorMixin, MultiKernelEstimator):
    """A multi-kernel estimator whose tasks have real targets."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelEstimator._parameter_constraints,
        "loss": [StrOptions({"squared", "epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    loss: str
    epsilon: float
    fit_intercept: bool

    def _learner(self) -> Learner:
        return Ridge() if self.loss == "squared" else SVR(self.epsilon)

    def _machines(self, data: TaskData) -> list[Machine]:
        return regression_machines(data, self.C, self.fit_intercept)

    def predict(self, X: Any, tasks: Any = None, split: bool = False) -> np.ndarray | Bunch:
        """Predicted targets, (q,) or on wide data (q, T).

        With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds;
        `intercept`; `kernels`, their names. Parts and intercept sum to the prediction.
        """
        queries = self._read_queries(X, tasks)
        prediction = self._predict(queries)
        return self._split(queries, prediction) if split else prediction

    def _predict(self, queries: Queries) -> np.ndarray:
        return self.functions_.values(queries.X, queries.codes)[..., 0]
