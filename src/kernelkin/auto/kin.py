"""KinRegressor and KinClassifier: multi-task learning without a parameter to set."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike
from typing import Any

from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from ..data import Table, TaskData
from ..exceptions import warn_user
from ..fitting import Classification, Regression
from ..kernels.encoded import refuse_positions
from ..models.base import MultiTaskEstimator
from ..models.kinds import MultiTaskClassifier, MultiTaskRegressor
from ..models.parameters import CLASSES, Parameter, describe
from ..tables import TableEncoder
from .explain import explain
from .kin_fit import KinFit

_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels."),
    "members_": ("tuple of dicts", "The models that are averaged: name, C, weight, kernels and their weights, gap."),
    "task_weights_": (
        "array of shape (T, n_members)",
        "The weights of the members for each task: those of all tasks, unless the task's own held-out rows show "
        "another model to be better by two standard errors (regression).",
    ),
    "search_results_": (
        "dict of arrays",
        "A row for each candidate and value of C: `candidate`, `C` (1 for strengths that are chosen for each task), "
        "`error` (pooled out-of-fold error), "
        "`standard_error`, `weight` in the average (the mean over tasks), `n_folds` that it was tried on (candidates "
        "that are hopeless on the first are dropped), whether it `converged` on these and in the last fit (what did "
        "not is no member, unless nothing did), `seconds`.",
    ),
    "best_candidate_": ("str", "The candidate with the largest weight."),
    "best_C_": ("float", "Its C."),
    "best_error_": ("float", "Its pooled out-of-fold error."),
    "n_candidates_": ("int", "Number of candidates and values of C that were tried."),
    "is_complete_": ("bool", "Whether all candidates were tried, or time ran out."),
    "column_shares_": ("dict", "Share of the kernel weights on each column or group of columns, the largest first."),
    "kernel_names_": ("array of shape (K,)", "Kernels of the member with the largest weight, as all below."),
    "kernel_weights_": ("array of shape (T, K)", "Its kernel weights."),
    "relation_": ("Relation", "Its task relationship, in factors."),
    "objective_": ("float", "Its objective."),
    "duality_gap_": ("float", "Upper bound on the distance of its objective from the optimum."),
    "functions_": ("object", "The fitted functions of all tasks."),
    "encoder_": ("TableEncoder or None", "How columns of a table became numbers; None where X was an array."),
    "n_features_in_": ("int", "Number of columns of X in `fit`."),
    "feature_names_in_": ("array of str", "Names of the columns of X, where it had names."),
}
NO_TASKS = (
    "no tasks were given: all rows are taken for one task. If they belong to several groups, pass tasks=, the group of "
    "each row, or give the estimator a task_column; tasks=np.zeros(len(X)) says that there is one group"
)
_PARAMETERS: dict[str, Parameter] = {
    "kernels": Parameter(
        "None, or what the other models take",
        "None: Gaussians on all columns, on groups of columns, and with learned length scales are all tried. Otherwise "
        "these kernels alone.",
    ),
    "encoder": Parameter(
        "TableEncoder, optional",
        "How the columns of a DataFrame become numbers (arrays hold numbers already). None: a `TableEncoder` as it is.",
        [TableEncoder, None],
    ),
    "cv": Parameter(
        "int, or iterable of (training rows, test rows)",
        "A number of folds, made inside every task; on wide data a row is held out for all tasks at once.",
        [Interval(Integral, 2, None, closed="left"), HasMethods("__iter__")],
    ),
    "time_limit": Parameter(
        "float, optional",
        "Seconds after which the search ends; the first group of candidates is always tried, and fits on all rows come "
        "on top.",
        [Interval(Real, 0, None, closed="neither"), None],
    ),
    "cache": Parameter(
        "path, optional",
        "A folder that keeps finished parts of the search, so that one that was killed continues from there, with the "
        "same data, parameters and `random_state` (an int).",
        [str, PathLike, None],
    ),
    "random_state": Parameter("int, RandomState or None", "Seed of the folds.", ["random_state"]),
    "verbose": Parameter("int", "1 shows progress.", ["verbose"]),
    "callback": Parameter(
        "callable, optional",
        "Called during the search with the seconds that were spent and those that the whole fit is expected to take.",
        [callable, None],
    ),
    "tol": Parameter(
        "float",
        "The relative duality gap of the models that are averaged.",
        [Interval(Real, 0, None, closed="neither")],
    ),
}


class TableEstimator(MultiTaskEstimator):
    """An estimator that reads tables of mixed columns by a `TableEncoder`, fitted on the training rows."""

    encoder: Any
    encoder_: Any

    def training_data(
        self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, encode: Any = None
    ) -> TaskData:
        """Return what `fit` is given, read and checked; a table is encoded."""
        self.encoder_ = None
        data = super().training_data(X, y, tasks, sample_weight, encode or self._fit_encoder)
        if data.form == "single":
            warn_user(NO_TASKS, UserWarning)
        return data

    def _fit_encoder(self, table: Table) -> Table:
        """Encode the training rows of a table, unless they are encoded."""
        if table.origins is not None:
            return table
        refuse_positions(self.kernels)
        self.encoder_ = (TableEncoder() if self.encoder is None else clone(self.encoder)).fit(table)
        return self.encoder_.encode(table)


@describe((), _ATTRIBUTES, **_PARAMETERS)
class KinRegressor(TableEstimator, MultiTaskRegressor):
    """Regression for many related tasks with few rows each; no parameter needs to be set.

    Columns and targets are standardised. Kernels on all columns, on each column and on groups of columns, and with
    length scales learned from all tasks, are combined with several models: MK-MTRL with and without a part that all
    tasks share, MK-MTFL, MTFL and the average kernel, each charged for its complexity to several degrees; on wide data
    with rows enough also kernel weights and strengths chosen for each task. Candidates are compared by their
    out-of-fold errors, pooled over tasks, and the best are averaged: the less the folds can distinguish them, the more.
    A task whose own rows show another candidate to be clearly better takes that one.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import KinRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(120, 4)), np.repeat(["a", "b", "c", "d"], 30)
    >>> y = np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=120)
    >>> model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    >>> bool(model.score(X, y, tasks=tasks) > 0.9)
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        encoder=None,
        task_features=None,
        cv=5,
        unknown_tasks="error",
        min_rows=None,
        time_limit=None,
        cache=None,
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        device=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.encoder = encoder
        self.task_features = task_features
        self.cv = cv
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.time_limit = time_limit
        self.cache = cache
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> KinFit:
        return _specification(self, Regression())

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        return set(range(data.n_tasks)) if data.n_tasks > 1 else set()

    def explain(self) -> str:
        """Return what was tried, what came out best and what is averaged, in a few sentences.

        Returns
        -------
        text : str
        """
        check_is_fitted(self)
        return explain(self)


@describe((*CLASSES,), _ATTRIBUTES, **_PARAMETERS)
class KinClassifier(TableEstimator, MultiTaskClassifier):
    """Classification for many related tasks with few rows each; no parameter needs to be set.

    As `KinRegressor`, with support vector machines in place of kernel ridge regression, compared by the logistic loss
    of their out-of-fold values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import KinClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(120, 4)), np.repeat(["a", "b", "c", "d"], 30)
    >>> y = np.sin(2 * X[:, 1]) > 0
    >>> model = KinClassifier(random_state=0).fit(X, y, tasks=tasks)
    >>> bool(model.score(X, y, tasks=tasks) > 0.9)
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        encoder=None,
        class_weight="balanced",
        task_features=None,
        cv=5,
        unknown_tasks="error",
        min_rows=None,
        time_limit=None,
        cache=None,
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        device=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.encoder = encoder
        self.class_weight = class_weight
        self.task_features = task_features
        self.cv = cv
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.time_limit = time_limit
        self.cache = cache
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> KinFit:
        return _specification(self, Classification("hinge", self.class_weight))

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        return set(range(data.n_tasks)) if data.n_tasks > 1 else set()

    def explain(self) -> str:
        """Return what was tried, what came out best and what is averaged, in a few sentences.

        Returns
        -------
        text : str
        """
        check_is_fitted(self)
        return explain(self)


def _specification(model: Any, targets: Classification | Regression) -> KinFit:
    return KinFit(
        targets=targets,
        kernels=model.kernels,
        task_features=model.task_features,
        cv=model.cv,
        unknown_tasks=model.unknown_tasks,
        time_limit=model.time_limit,
        tol=model.tol,
        random_state=model.random_state,
        cache=model.cache,
        device=model.device,
    )
