"""Estimators that choose parameters by cross-validation within tasks, for MK-MTRL and any model of the paper."""

from __future__ import annotations

import inspect
import time
from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ...data.folds import make_folds
from ...data.forms import TaskData
from ...engines.threads import SingleThreadedBLAS
from ...estimators import Fitted, MultiTaskEstimator, TaskRouted, device_of
from ...exceptions import warn_user
from ...memory import check_memory
from ...parameters import PARAMETERS, Parameter, describe
from ..fitting.targets import Regression
from ..mixes import TaskMixFit, TaskMixPlan
from ..models.base import PaperClassifier, PaperEstimator, PaperRegressor
from ..models.machines import MKMTRLClassifier, MKMTRLRegressor, even_weights
from .grid import MAX_EXTENSIONS, Line, beyond, default_grid, make_lines, read_grid
from .scoring import PooledScorer, Scorer, read_scoring
from .search import CandidateSearch, Outcome, tabulate

_PARAMETERS: dict[str, Parameter] = {
    "grid": Parameter(
        "dict of lists, list of such dicts, or None",
        'Values of the model\'s parameters to try, as for `GridSearchCV`, such as ``{"C": [0.1, 1, 10], '
        '"couplings": [None, "common"]}``. None: a default grid for the parameters that are at their defaults: C from '
        "0.01 to 1,000 (extended if the best C is at an end); for MK-MTRL also values of `parsimony`, `shrinkage` and "
        "`evenness` and, if tasks have different rows, a part that all tasks share. Do not search both mu and C: "
        "MK-MTRL depends only on ``mu / C**3``.",
        [dict, list, None],
    ),
    "cv": Parameter(
        "int, or iterable of (training rows, test rows)",
        "Number of folds, or the folds. The rows of every task are divided into folds, stratified by class. On wide "
        "data a row is held out for all tasks at once, unless training and test rows are given as masks of labels, of "
        "shape (n, T). If a class has a single row in a task, this row is always in training.",
        [Interval(Integral, 2, None, closed="left"), HasMethods("__iter__")],
        5,
    ),
    "scoring": Parameter(
        "None, str or callable",
        "None: a score over the held-out rows of all tasks together, which compares candidates best if tasks have few "
        "rows: the R^2 of targets divided by the standard deviation of their task, or the negative logistic loss for "
        "classifiers. Otherwise, the name of a scorer of scikit-learn, or a callable ``(y, values) -> float``. For a "
        "classifier, the callable gets decision values, and y is True for the second of two classes. The held-out "
        "values of each task are pooled over the folds and scored; the score is the mean over tasks, without "
        "undefined scores.",
        [str, callable, None],
    ),
    "search_tol": Parameter(
        "float",
        "Tolerance for candidates during the search; the larger of `search_tol` and `tol` is used. The final fit uses "
        "`tol`.",
        [Interval(Real, 0, None, closed="neither")],
        1e-3,
    ),
    "verbose": Parameter("int", "1 shows progress and the time left.", ["verbose"], 0),
    "callback": Parameter(
        "callable, optional",
        "Called after each candidate on each fold, with the number of finished fits and the total number. Candidates "
        "that are equivalent count as one.",
        [callable, None],
    ),
}

_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "cv_results_": (
        "dict of arrays",
        "One row per candidate: `params`, `param_*`, `mean_test_score`, `standard_error` (jackknife over folds), "
        "`split*_test_score` (score of a single fold), `rank_test_score`, `converged`, `seconds` (sum over folds; "
        "equivalent candidates have the same time).",
    ),
    "best_index_": ("int", "Index of the first candidate with the best score."),
    "best_params_": ("dict", "Parameters of the best candidate."),
    "best_score_": ("float", "Score of the best candidate."),
    "best_estimator_": (
        "estimator",
        "The model with the best parameters, fitted on all rows. Its fitted attributes (`kernel_weights_` etc.) are "
        "also available on the search itself.",
    ),
    "n_splits_": ("int", "Number of folds."),
    "search_time_": ("float", "Time of the search in seconds."),
    "refit_time_": ("float", "Time of the final fit in seconds."),
}

_PER_TASK = Parameter(
    "bool",
    "Whether to choose kernel weights and strength separately for each task, by its held-out errors. Errors of tasks "
    "with few rows are shrunk towards those of all tasks. Only for the squared loss on wide data without missing "
    "labels (see the guide on large data). This replaces the search over `grid`. `kernel_weights_` are then those "
    "for C = 1; `cv`, `scoring` and the parameters of the penalty (`mu`, `shrinkage` etc.) are not used.",
    ["boolean"],
    False,
)
# Parameters of the searches, in order.
_CHOICE = "cv scoring search_tol"
_MODEL = "kernels * C mu parsimony couplings sharing prior shrinkage min_rank evenness"
_SEARCHED = (
    f"{_CHOICE} normalize unknown_tasks task_column solver tol max_iter n_jobs device random_state verbose callback"
)


def _of_best(name: str, model: type) -> Any:
    """Return a method that calls the method of this name of the best estimator."""

    @wraps(getattr(model, name))
    def method(self: BaseSearch, *arguments: Any, **named: Any) -> Any:
        check_is_fitted(self)
        # The user may change the device after the fit.
        if hasattr(self, "device") and self.best_estimator_.device != self.device:
            self.best_estimator_.set_params(device=self.device)
        return getattr(self.best_estimator_, name)(*arguments, **named)

    return method


def _has(name: str) -> Callable[[Any], bool]:
    """Return a function that checks whether the model of a search has a method."""
    return lambda search: hasattr(search.make_model(), name)


class BaseSearch(MetaEstimatorMixin, TaskRouted):
    """Base class of searches over the parameters of a model; subclasses define `make_model`."""

    @abstractmethod
    def make_model(self) -> Any:
        """Return an unfitted model with the parameters that are not searched."""

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Search the grid, then fit the best candidate on all rows.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for the `fit` of the model

        Returns
        -------
        self : object
        """
        with SingleThreadedBLAS():
            model = self.make_model()
            data = model.training_data(X, y, tasks, sample_weight)
            # A tensor is searched where it is; this does not change the parameters of the model.
            given = getattr(model, "device", None)
            if given is None and data.form == "wide" and device_of(X) is not None and hasattr(model, "device"):
                model.set_params(device=device_of(X))
            self.best_estimator_ = model.store(self._fit_data(model, data))
            if hasattr(model, "device"):
                model.set_params(device=given)
        return self

    def _fit_data(self, model: Any, data: TaskData) -> Fitted:
        """Search, set the best parameters of the model, and fit it."""
        began, classification = time.perf_counter(), is_classifier(model)
        candidates, lines, search = self._prepare(model, data)
        check_memory(search.memory(lines))
        if self.scoring is None:
            scorer: Scorer | PooledScorer = PooledScorer(data, search.folds, classification=classification)
        else:
            metric = read_scoring(self.scoring, classification=classification)
            scorer = Scorer(data, search.folds, metric, classification=classification)
        found: dict[int, list[Outcome]] = {}
        extensions = MAX_EXTENSIONS if self.grid is None else 0
        while True:
            found |= search.run(lines, self.verbose, self.callback)
            self.cv_results_ = tabulate(candidates, found, scorer)
            # If the best C is at an end of the default grid, the grid is extended.
            results = self.cv_results_
            more = beyond(candidates, results["mean_test_score"], results["standard_error"]) if extensions else []
            if not more:
                break
            lines = make_lines(model, more, self.search_tol, first=len(candidates))
            candidates, extensions = candidates + more, extensions - 1
        self.n_splits_, self.search_time_ = len(search.folds), time.perf_counter() - began
        self._choose()
        specification = model.set_params(**self.best_params_).specification()
        fitted = search.refit(specification, self.best_params_, model.run_options())
        self.refit_time_ = time.perf_counter() - began - self.search_time_
        return fitted

    def _choose(self) -> None:
        """Find the best candidate in `cv_results_`."""
        scores, converged = self.cv_results_["mean_test_score"], self.cv_results_["converged"]
        if np.isnan(scores).all():
            raise ValueError("no candidate has a score: it is undefined on the held-out rows of every task")
        self.best_index_ = int(np.nanargmax(scores))
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(scores[self.best_index_])
        if not converged[self.best_index_]:
            warn_user(
                f"the best candidate, {self.best_params_}, did not reach search_tol={self.search_tol:g} on every fold; "
                "raise max_iter or loosen search_tol",
                ConvergenceWarning,
            )

    @wraps(MultiTaskEstimator.estimate_memory)
    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        model = self.make_model()
        return self._bytes(model, model.training_data(X, y, tasks))

    def _bytes(self, model: Any, data: TaskData) -> int:
        """Bound the memory of `_fit_data` in bytes."""
        _, lines, search = self._prepare(model, data)
        return search.memory(lines).peak

    def _prepare(self, model: Any, data: TaskData) -> tuple[list[dict[str, Any]], list[Line], CandidateSearch]:
        """Read the grid and deal the folds."""
        candidates = read_grid(model, default_grid(model, data) if self.grid is None else self.grid)
        folds = make_folds(data, self.cv, classification=is_classifier(model), random_state=self.random_state)
        lines = make_lines(model, candidates, self.search_tol)
        return candidates, lines, CandidateSearch(data, folds, lines, self.n_jobs)

    def __getattr__(self, name: str) -> Any:
        """Return fitted attributes of the best estimator."""
        if name.endswith("_") and not name.startswith("_") and "best_estimator_" in vars(self):
            return getattr(self.best_estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    predict = _of_best("predict", PaperEstimator)
    score_tasks = _of_best("score_tasks", PaperEstimator)
    predict_proba = available_if(_has("predict_proba"))(_of_best("predict_proba", PaperClassifier))
    decision_function = available_if(_has("decision_function"))(_of_best("decision_function", PaperClassifier))
    predict_interval = available_if(_has("predict_interval"))(_of_best("predict_interval", PaperRegressor))
    score, report = MultiTaskEstimator.score, MultiTaskEstimator.report

    def __sklearn_is_fitted__(self) -> bool:
        return "best_estimator_" in vars(self)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), self.make_model().__sklearn_tags__()
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags


@describe(
    (),
    _ATTRIBUTES,
    f"estimator grid * {_CHOICE} n_jobs random_state verbose callback",
    estimator=Parameter(
        "estimator",
        "Any model of this library.",
        [HasMethods(["fit", "predict", "specification"])],
        inspect.Parameter.empty,
    ),
    **_PARAMETERS,
)
class MultiTaskCV(BaseSearch):
    """Choose the parameters of a multi-task model by cross-validation within the tasks.

    Kernels are evaluated once on all rows. Every fold uses slices of these Gram matrices, scaled on its own training
    rows. (Relative widths of Gaussian kernels are fitted once, on all rows.) Candidates that differ only in C and mu
    are solved with warm starts. Candidates with equal ``mu / C**3`` are equivalent and solved once.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor, MultiTaskCV
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, random_state=0)
    >>> search = MultiTaskCV(MKMTRLRegressor(data.kernels), {"mu": [1e-3, 1e3]}, random_state=0)
    >>> search = search.fit(data.data, data.target, tasks=data.tasks)
    >>> search.best_params_
    {'mu': 0.001}
    """

    def make_model(self) -> Any:
        return clone(self.estimator)


@describe((), _ATTRIBUTES, f"{_MODEL} loss class_weight grid {_SEARCHED}", loss=PARAMETERS["loss"], **_PARAMETERS)
class MKMTRLClassifierCV(BaseSearch):
    """`MKMTRLClassifier` with parameters chosen by cross-validation within the tasks.

    Parameters that are not in the grid are passed to the model. Attributes of a fitted `MKMTRLClassifier` are here too.

    Examples
    --------
    >>> from kernelkin import MKMTRLClassifierCV
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(3, regression=False, random_state=0)
    >>> model = MKMTRLClassifierCV(data.kernels, grid={"mu": [0.01, 1e6]}, random_state=0)
    >>> model = model.fit(data.data, data.target, tasks=data.tasks)
    >>> model.best_params_
    {'mu': 0.01}
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    def make_model(self) -> MKMTRLClassifier:
        return MKMTRLClassifier(**_model_parameters(self, MKMTRLClassifier))


@describe(
    (),
    {
        **_ATTRIBUTES,
        "task_choices_": (
            "array of shape (T, 2)",
            "With ``per_task=True``: the positions of each task's kernel weights and strength among those in "
            "`cv_results_`.",
        ),
    },
    f"{_MODEL} loss epsilon fit_intercept grid per_task {_SEARCHED}",
    per_task=_PER_TASK,
    **_PARAMETERS,
)
class MKMTRLRegressorCV(BaseSearch):
    """`MKMTRLRegressor` with parameters chosen by cross-validation within the tasks.

    Parameters that are not in the grid are passed to the model. Attributes of a fitted `MKMTRLRegressor` are here too.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MKMTRLRegressorCV(grid={"mu": [1e-3, 1e3]}, cv=3, random_state=0).fit(X, Y)
    >>> model.best_params_
    {'mu': 0.001}
    """

    def _fit_data(self, model: MKMTRLRegressor, data: TaskData) -> Fitted:
        if hasattr(self, "task_choices_"):
            del self.task_choices_  # of an earlier fit
        if not self.per_task:
            return super()._fit_data(model, data)
        began, plan = time.perf_counter(), self._task_mixes(model, data)
        check_memory(plan.memory())
        fitted = plan.run(model.run_options())
        found = fitted.attributes.pop("task_mixes")
        self.cv_results_ = found.table()
        self.task_choices_: Any = found.choices
        self._choose()
        self.n_splits_, self.refit_time_ = len(data.X), float(fitted.attributes["history_"]["seconds"][-1])
        self.search_time_ = time.perf_counter() - began - self.refit_time_
        return fitted

    def _bytes(self, model: MKMTRLRegressor, data: TaskData) -> int:
        return self._task_mixes(model, data).memory().peak if self.per_task else super()._bytes(model, data)

    def _task_mixes(self, model: MKMTRLRegressor, data: TaskData) -> TaskMixPlan:
        """Return the plan for `per_task=True`; see `kernelkin.paper.mixes`."""
        for name in ("grid", "couplings"):
            if getattr(self, name) is not None:
                raise ValueError(f"per_task=True chooses kernel weights for each task and cannot use {name}")
        names = ("kernels", "parsimony", "normalize", "tol", "device")
        targets = Regression(model.loss, model.epsilon, model.fit_intercept)
        given = {name: getattr(model, name) for name in names}
        return TaskMixFit(targets=targets, penalty=even_weights, **given).plan(data)

    def make_model(self) -> MKMTRLRegressor:
        return MKMTRLRegressor(**_model_parameters(self, MKMTRLRegressor))


def _model_parameters(search: Any, model: type) -> dict[str, Any]:
    """Return the parameters that a search passes to its model; not callback and verbose."""
    shared = set(search.get_params(deep=False)) - {"callback", "verbose"}
    return {name: getattr(search, name) for name in model().get_params(deep=False) if name in shared}
