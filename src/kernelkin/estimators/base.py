"""The shell every multi-kernel, multi-task estimator shares: validate, build, solve, store; then predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.utils import Bunch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..couplings import Coupling, connected_tasks, width
from ..data import Queries, TaskData, read_queries, read_training
from ..grams import Grams, KernelBank, Use, build_grams, plan_grams, task_functions
from ..kernels import FittedKernel, fit_kernels, resolve_kernels
from ..learners import Learner, Machine
from ..objective import Objective
from ..parallel import count_workers
from ..penalties import Penalty, effective_rank
from ..solvers import Solution
from .scores import score_each_task
from .targets import link_machines, stack_intercepts, tasks_of_machines


@dataclass(eq=False, repr=False)
class MultiKernelEstimator(BaseEstimator):
    """Kernel machines for many tasks, with weights on several kernels.

    Parameters are the fields of these dataclasses: every estimator is one, and adds its own. A subclass says which
    penalty holds the kernel weights (`_penalty`), which machine each task is (`_learner`, `_machines`), and how the
    problem these pose is solved (`_solve`).
    """

    kernels: Any = None
    _: KW_ONLY
    C: float = 1.0
    normalize: str | None = "trace"
    task_column: Any = None
    tol: float = 1e-3
    n_jobs: int | None = None

    __metadata_request__predict: ClassVar = {"split": UNUSED, "unknown_tasks": UNUSED}

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernels": "no_validation",
        "C": [Interval(Real, 0, None, closed="neither")],
        "normalize": [StrOptions({"trace", "cosine", "center"}), None],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    @abstractmethod
    def _penalty(self, n_tasks: int, n_couplings: int) -> Penalty:
        """The term that holds the kernel weights; raises where its parameters do not fit the tasks."""

    @abstractmethod
    def _solve(self, objective: Objective) -> Solution:
        """Find kernel weights and machines."""

    def _couplings(self, data: TaskData) -> tuple[Coupling, ...]:
        """The parts of the function that tasks share."""
        return ()

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

        Raises
        ------
        ValueError, TypeError
            Naming the culprit, before any kernel is evaluated: arrays of the wrong shape or length, NaN, infinite, too
            large or too small values, sparse X, task labels that are missing or of mixed types, classes of mixed types,
            tasks with one row or one class, and parameters that do not fit the data. Then: kernels that are not finite,
            symmetric and positive semi-definite on the rows, or zero on all of them.
        GramMemoryError
            Where the fit would need more memory than there is, or than ``KERNELKIN_MEMORY_GIB`` allows.
        """
        data, aside = self._set_aside(self._read(X, y, tasks, sample_weight))
        couplings = self._couplings(data)
        pose = self._pose(data, couplings)
        grams, bank = build_grams(data, self._fit_kernels(data), self.normalize, couplings, self._use())
        self._store(data, bank, couplings, self._solve(pose(grams)))
        if aside is not None:
            self._score_aside(aside)
        return self

    @available_if(lambda self: type(self).fit is MultiKernelEstimator.fit)
    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        """Bytes that `fit` of these data will take at its peak, besides the data; nothing is fitted.

        `fit` refuses to start where this is more than the memory that is free, or than the environment variable
        ``KERNELKIN_MEMORY_GIB`` allows. Kernels are fitted to count them and to see whether they have low rank.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelkin import MKMTRLRegressor
        >>> X, Y = np.random.default_rng(0).normal(size=(1000, 3)), np.zeros((1000, 4))
        >>> f"{MKMTRLRegressor().estimate_memory(X, Y) / 2**20:.0f} MiB"
        '114 MiB'
        """
        model = clone(self)
        data, _ = model._set_aside(model._read(X, y, tasks, None))
        linked = width(model._couplings(data))
        plan = plan_grams(data, model._fit_kernels(data), self.normalize, linked)
        return plan.peak_bytes(model._use())

    def _use(self) -> Use:
        return Use(self._learner().name, count_workers(self.n_jobs))

    def _read(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskData:
        return read_training(self, X, y, tasks, sample_weight, classification=is_classifier(self))

    def _set_aside(self, data: TaskData) -> tuple[TaskData, TaskData | None]:
        """The tasks to fit, and those to hold out."""
        return data, None

    def _score_aside(self, aside: TaskData) -> None:
        """Measure the fit on tasks that were held out."""

    def _pose(self, data: TaskData, couplings: Sequence[Coupling]) -> Callable[[Grams], Objective]:
        """Everything about the problem but its Grams, so that what is wrong shows before these are computed."""
        penalty = self._penalty(data.n_tasks, len(couplings))
        machines, strength = self._machines(data), self._strength(data)
        if couplings:
            machines = link_machines(machines, connected_tasks(couplings, data.n_tasks), data.labels)
        return lambda grams: Objective(grams, machines, self._learner(), penalty, strength)

    def _fit_kernels(self, data: TaskData) -> list[FittedKernel] | None:
        if self._precomputed:
            return None
        return fit_kernels(resolve_kernels(self.kernels), data.X, data.feature_names, data.sample_weight)

    def _count_kernels(self, data: TaskData) -> int:
        """How many there will be, without evaluating or fitting any."""
        if self._precomputed:
            return data.X.shape[2]
        kernels = resolve_kernels(self.kernels)
        return sum(len(kernel.targets(data.X.shape[1], data.feature_names)) for kernel in kernels)

    def _store(self, data: TaskData, bank: KernelBank, couplings: Sequence[Coupling], solution: Solution) -> None:
        self.tasks_ = data.labels
        self.data_form_ = data.form
        self.kernels_ = bank.names if bank.kernels is None else bank.kernels
        self.kernel_names_ = np.array(bank.names)
        self.kernel_weights_ = solution.B[:, : data.n_tasks].T.copy()
        Omega = solution.Omega[: data.n_tasks, : data.n_tasks]
        self.task_relationship_ = Omega / np.trace(Omega)
        root = np.sqrt(np.maximum(np.diag(Omega), np.finfo(float).tiny))
        # In place: there may be many tasks.
        self.task_correlation_ = np.divide(Omega, root)
        np.divide(self.task_correlation_, root[:, np.newaxis], out=self.task_correlation_)
        self.objective_ = solution.primal
        self.duality_gap_ = solution.gap
        self.effective_rank_ = effective_rank(solution.B)
        self.history_ = solution.history
        self.n_iter_ = len(solution.history["iteration"])
        self.dual_coef_, intercepts = tasks_of_machines(solution.duals, data, couplings)
        self.intercept_ = stack_intercepts(intercepts)
        self.functions_ = task_functions(data, bank, solution.B, self.dual_coef_, intercepts, couplings)

    def _strength(self, data: TaskData) -> float:
        """The factor mu of the penalty."""
        return 1.0

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.three_d_array = self._precomputed
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, tasks: Any = None, split: bool = False) -> np.ndarray | Bunch:
        """Predicted targets or class labels, (q,) or on wide data (q, T).

        With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds to
        the value behind the prediction (one axis more where a task has more than two classes); `intercept`; `kernels`,
        their names. Parts and intercept sum to the value of a regressor, or of the `decision_function`.

        Raises
        ------
        ValueError, TypeError
            As `fit` does of X and tasks; where the columns of X are not those of `fit`; and by name where a task is
            unknown or not given.
        """
        queries = self._read_queries(X, tasks)
        return self._split(queries) if split else self._predict(queries)

    def _read_queries(self, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
        check_is_fitted(self)
        return read_queries(self, X, tasks, allow_unknown)

    def _split(self, queries: Queries) -> Bunch:
        """A prediction with what each kernel and the intercept contribute to the values behind it."""
        return Bunch(
            prediction=self._predict(queries),
            parts=squeeze(self.functions_.parts(queries.X, queries.codes)),
            intercept=squeeze(self.functions_.intercepts(queries.X, queries.codes)),
            kernels=self.kernel_names_,
        )

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


def squeeze(values: np.ndarray) -> np.ndarray:
    """Without the axis of outputs, where there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values
