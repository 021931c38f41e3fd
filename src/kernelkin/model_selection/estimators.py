"""Cross-validated estimators: one for any model of this library, and ready-made ones for each."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..data import read_training
from ..memory import check_memory
from .folds import make_folds
from .grid import make_lines, read_grid
from .memory import search_need
from .path import Inputs, shares_grams
from .scoring import Judge, read_scoring
from .search import RawStacks, run_search, tabulate


@dataclass(eq=False, repr=False)
class MultiTaskCV(MetaEstimatorMixin, BaseEstimator):
    """Choose the parameters of a multi-task model by cross-validation inside the tasks.

    Kernels are evaluated once, on all rows; every fold works on slices of them, scaled by its own training rows. (The
    widths of Gaussian kernels, where they are relative to the median distance, are fitted once, on all rows.)
    Candidates that differ in C and mu alone are solved one after the other, each from the last; those of equal
    ``mu / C**3`` are the same model, and are solved once.

    Parameters
    ----------
    estimator : estimator
        Any model of this library.
    grid : dict of lists, or list of such dicts
        Values of the estimator's parameters, as for `GridSearchCV`.
    cv : int, or iterable of (training rows, test rows)
        A number of folds, made inside every task and stratified by class; on wide data a row is held out for all tasks
        at once. A class with a single row in a task stays in training.
    scoring : None, str or callable
        Accuracy or R^2 by default; a name of scikit-learn's; or a callable ``(y, values) -> float``, which for a
        classifier gets decision values, with y True for the second of two classes. Each task's held-out values are
        pooled over the folds and scored, and the mean is taken over the tasks whose score is defined.
    search_tol : float
        The relative duality gap of candidates, where the estimator's own `tol` is smaller. The last fit keeps to `tol`.
    cache : path, optional
        A folder that keeps every finished line of candidates on every fold: a search that was killed goes on from
        there, if it has the same data, parameters, version of this library and `random_state` (an int). Several
        processes may share one. Kernels that are functions of yours are refused: a change to them would go unnoticed.
    n_jobs : int, optional
        Threads over folds and lines of candidates. The result does not depend on it.
    random_state : int, RandomState or None
        Makes the folds.
    verbose : int
        1 shows progress and the time left.
    callback : callable, optional
        Called with two numbers after each candidate on each fold: how many are done, of how many. (Candidates that are
        the same model count as one.)

    Attributes
    ----------
    cv_results_ : dict of arrays, a row for each candidate: `params`, `param_*`, `mean_test_score`, `standard_error`
        (jackknife over folds), `split*_test_score` (a fold alone), `rank_test_score`, `converged`, `seconds` (over all
        folds; candidates solved together share theirs).
    best_index_, best_params_, best_score_ : the first candidate with the best score.
    best_estimator_ : the model with the best parameters, fitted on all rows. Its fitted attributes (`kernel_weights_`
        and so on) can be asked for here too.
    n_splits_, refit_time_, search_time_ : the number of folds; seconds.
    n_cached_ : how many lines of candidates on a fold were found in the cache.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.model_selection import MultiTaskCV
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> search = MultiTaskCV(MKMTRLRegressor(), {"mu": [1e-3, 1e3]}, random_state=0).fit(X, y, tasks=tasks)
    >>> search.best_params_
    {'mu': 0.001}
    """

    estimator: Any
    grid: Any
    _: KW_ONLY
    cv: Any = 5
    scoring: Any = None
    search_tol: float = 1e-3
    cache: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    callback: Callable | None = None

    __metadata_request__predict: ClassVar = {"split": UNUSED, "unknown_tasks": UNUSED}

    _search_constraints: ClassVar[dict[str, Any]] = {
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods("__iter__")],
        "scoring": [str, callable, None],
        "search_tol": [Interval(Real, 0, None, closed="neither")],
        "cache": [str, PathLike, None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "grid": [dict, list],
        **_search_constraints,
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> MultiTaskCV:
        """Search the grid, then fit the best candidate on all rows. Arguments are those of the estimator's `fit`."""
        model = clone(self.estimator)
        if getattr(model, "holdout_tasks", None) is not None:
            raise ValueError("holdout_tasks are for a single fit, not for a search")
        classification = is_classifier(model)
        began = time.perf_counter()
        metric = read_scoring(self.scoring, classification=classification)
        candidates = read_grid(model, self.grid)
        data = read_training(model, X, y, tasks, sample_weight, classification=classification)
        folds = make_folds(data, self.cv, classification=classification, random_state=self.random_state)
        lines = make_lines(model, candidates, self.search_tol)
        stacks = RawStacks(data, lines, len(folds), self.n_jobs) if shares_grams(model) else None
        if stacks is None and hasattr(model, "estimate_memory"):
            check_memory(search_need(lines[0].estimator, data, folds, self.n_jobs))
        inputs = Inputs(X, y, tasks, sample_weight)
        how = {name: getattr(self, name) for name in ("n_jobs", "verbose", "callback", "cache")}
        found, self.n_cached_ = run_search(lines, data, inputs, folds, stacks=stacks, **how)
        self.cv_results_ = tabulate(candidates, found, Judge(data, folds, metric, classification=classification))
        self.n_splits_ = len(folds)
        self.search_time_ = time.perf_counter() - began
        self._choose(candidates)
        model.set_params(**self.best_params_)
        if stacks is None:
            given = {"tasks": tasks, "sample_weight": sample_weight}
            model.fit(X, y, **{name: value for name, value in given.items() if value is not None})
        else:
            stacks.refit(model, self.best_params_)
        self.best_estimator_ = model
        self.refit_time_ = time.perf_counter() - began - self.search_time_
        return self

    def _choose(self, candidates: list[dict[str, Any]]) -> None:
        scores, converged = self.cv_results_["mean_test_score"], self.cv_results_["converged"]
        if np.isnan(scores).all():
            raise ValueError("no candidate has a score: no task has held-out rows on which it is defined")
        self.best_index_ = int(np.nanargmax(scores))
        self.best_params_ = dict(candidates[self.best_index_])
        self.best_score_ = float(scores[self.best_index_])
        if not converged[self.best_index_]:
            warnings.warn(
                f"the best candidate, {self.best_params_}, did not reach search_tol={self.search_tol:g} on every fold; "
                "raise max_iter or loosen search_tol",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the best estimator."""
        if name.endswith("_") and not name.startswith("_") and "best_estimator_" in self.__dict__:
            return getattr(self.best_estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "best_estimator_" in self.__dict__

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags

    def predict(self, X: Any, tasks: Any = None, **options: Any) -> Any:
        """What the best estimator predicts; `options` are those of its `predict`."""
        return self._best().predict(X, tasks, **options)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """The decision values of the best estimator, a classifier."""
        return self._best().decision_function(X, tasks)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """The score of the best estimator: the mean over tasks of accuracy, or R^2."""
        return self._best().score(X, y, tasks, sample_weight)

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """The score of each task."""
        return self._best().score_tasks(X, y, tasks, sample_weight)

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_
