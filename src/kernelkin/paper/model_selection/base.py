"""What every cross-validated estimator does: search a grid, fit the best candidate, and predict with it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ...data import Fold, TaskData, make_folds
from ...engines import SingleThreadedBLAS, clone_with_engine, count_workers, read_engine, state_without_engine
from ...estimators import Fitted, device_of
from ...exceptions import warn_user
from ...facts import with_facts
from ...memory import check_memory
from .default_grid import MAX_EXTENSIONS, beyond, default_grid
from .grid import Line, make_lines, read_grid
from .pooled import PooledScorer
from .scoring import Scorer, read_scoring
from .search import SharedGrams, run_search, separate_need, shares_grams, tabulate

if TYPE_CHECKING:
    from ...report import Report


class BaseSearch(MetaEstimatorMixin, BaseEstimator):
    """A search over the parameters of a model. A subclass says which model."""

    grid: Any
    cv: Any
    scoring: Any
    search_tol: float
    cache: Any
    n_jobs: int | None
    engine: Any
    random_state: Any
    verbose: int
    callback: Any

    __metadata_request__predict: ClassVar = {"split": UNUSED, "return_std": UNUSED}

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
            device = device_of(X) if data.form == "wide" and getattr(model, "device", "") is None else None
            if device is None:
                return self._fit_data(model, data)
            self._fit_data(model.set_params(device=device), data)
            self.best_estimator_.set_params(device=None)
            return self

    def _fit_data(self, model: Any, data: TaskData) -> Self:
        """Search, and fit the best candidate."""
        self.best_estimator_ = model.store(self._search_and_fit(model, data))
        return self

    def _search_and_fit(self, model: Any, data: TaskData) -> Fitted:
        began, classification = time.perf_counter(), is_classifier(model)
        metric = None if self.scoring is None else read_scoring(self.scoring, classification=classification)
        candidates, lines, folds, grams = self._prepare(model, data)
        if metric is None:
            scorer: Scorer | PooledScorer = PooledScorer(data, folds, classification=classification)
        else:
            scorer = Scorer(data, folds, metric, classification=classification)
        self._search(model, candidates, lines, data, folds, grams, scorer)
        self.n_splits_ = len(folds)
        self.search_time_ = time.perf_counter() - began
        self._choose(candidates)
        model.set_params(**self.best_params_)
        specification = model.specification()
        if grams is None or read_engine(self.engine).splits:
            fitted = specification.plan(data).run(model.run_options())
        else:
            fitted = grams.refit(specification, self.best_params_, model.run_options())
        self.refit_time_ = time.perf_counter() - began - self.search_time_
        return fitted

    def _search(
        self,
        model: Any,
        candidates: list[dict[str, Any]],
        lines: list[Line],
        data: TaskData,
        folds: list[Fold],
        grams: SharedGrams | None,
        scorer: Scorer | PooledScorer,
    ) -> None:
        """Try the candidates, and those beyond the end of the default values of C where that is best."""
        options = {name: getattr(self, name) for name in ("n_jobs", "verbose", "callback", "cache")}
        options["engine"] = read_engine(self.engine, self.n_jobs)
        found, self.n_cached_ = run_search(lines, data, folds, grams, **options)
        self.cv_results_ = tabulate(candidates, found, scorer)
        for _ in range(MAX_EXTENSIONS if self.grid is None else 0):
            more = beyond(candidates, self.cv_results_["mean_test_score"], self.cv_results_["standard_error"])
            if not more:
                break
            lines = make_lines(model, more, self.search_tol, first=len(candidates))
            candidates += more
            outcomes, n_cached = run_search(lines, data, folds, grams, **options)
            found |= outcomes
            self.n_cached_ += n_cached
            self.cv_results_ = tabulate(candidates, found, scorer)

    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        """Return an upper bound on the bytes that `fit` takes besides the data; nothing is fitted.

        Parameters
        ----------
        X, y, tasks : as for `fit`

        Returns
        -------
        n_bytes : int
        """
        model = self.make_model()
        return self._bytes(model, model.training_data(X, y, tasks))

    def _bytes(self, model: Any, data: TaskData) -> int:
        """Bound the bytes that `_fit_data` takes."""
        _, lines, folds, grams = self._prepare(model, data, check=False)
        if grams is None:
            return separate_need(lines, data, folds, self.n_jobs).peak
        return max(grams.need(line.specification, line.params).peak for line in lines)

    def _prepare(
        self, model: Any, data: Any, check: bool = True
    ) -> tuple[list[dict[str, Any]], list[Line], list[Fold], SharedGrams | None]:
        """Read the grid, plan every line once so that errors show early, and check the memory."""
        candidates = read_grid(model, default_grid(model, data) if self.grid is None else self.grid)
        folds = make_folds(data, self.cv, classification=is_classifier(model), random_state=self.random_state)
        lines = make_lines(model, candidates, self.search_tol)
        if not shares_grams(lines):
            if check and not read_engine(self.engine).splits:
                check_memory(separate_need(lines, data, folds, self.n_jobs))
            return candidates, lines, folds, None
        grams = SharedGrams(data, lines, len(folds), count_workers(self.n_jobs))
        for line in lines:
            line.specification.plan(data)
        return candidates, lines, folds, grams

    def _choose(self, candidates: Sequence[dict[str, Any]]) -> None:
        scores, converged = self.cv_results_["mean_test_score"], self.cv_results_["converged"]
        if np.isnan(scores).all():
            raise ValueError("no candidate has a score: no task has held-out rows on which it is defined")
        self.best_index_ = int(np.nanargmax(scores))
        self.best_params_ = dict(candidates[self.best_index_])
        self.best_score_ = float(scores[self.best_index_])
        if not converged[self.best_index_]:
            warn_user(
                f"the best candidate, {self.best_params_}, did not reach search_tol={self.search_tol:g} on every fold; "
                "raise max_iter or loosen search_tol",
                ConvergenceWarning,
            )

    def __getattr__(self, name: str) -> Any:
        """Return fitted attributes of the best estimator."""
        if name.endswith("_") and not name.startswith("_") and "best_estimator_" in vars(self):
            return getattr(self.best_estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def report(self, path=None, X=None, y=None, tasks=None, *, sharing=None, relations=None, title=None) -> Report:
        """Return a page on how well the best estimator predicts and what drives predictions; a notebook shows it.

        Parameters
        ----------
        path, X, y, tasks, sharing, relations, title : as for `report` of the model

        Returns
        -------
        report : Report
        """
        # Reports look at searches, so that they cannot be imported first.
        from ...report import report_of_fit

        return report_of_fit(self, path, X, y, tasks, sharing=sharing, relations=relations, title=title)

    def _repr_html_inner(self) -> str:
        return with_facts(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        found = super()._repr_mimebundle_(**kwargs)
        return {**found, "text/html": with_facts(self, found["text/html"])} if "text/html" in found else found

    __getstate__, __sklearn_clone__ = state_without_engine, clone_with_engine

    def __sklearn_is_fitted__(self) -> bool:
        return "best_estimator_" in vars(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = self.make_model().__sklearn_tags__()
        for name in (
            "estimator_type",
            "classifier_tags",
            "regressor_tags",
            "input_tags",
            "target_tags",
        ):
            setattr(tags, name, getattr(inner, name))
        return tags

    def predict(self, X: Any, tasks: Any = None, split: bool = False, return_std: bool = False) -> Any:
        """Predict with the best estimator.

        Parameters
        ----------
        X, tasks, split, return_std : as for the `predict` of the model

        Returns
        -------
        prediction : array, Bunch with ``split=True``, pair of arrays with ``return_std=True``
        """
        return self._best().predict(X, tasks, split=split, return_std=return_std)

    @available_if(lambda self: hasattr(self.make_model(), "predict_proba"))
    def predict_proba(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return the probabilities of the best estimator, a classifier.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        probabilities : array of shape (q, n_classes), or (q, T, n_classes) on wide data
        """
        return self._best().predict_proba(X, tasks)

    @available_if(lambda self: hasattr(self.make_model(), "predict_interval"))
    def predict_interval(self, X: Any, tasks: Any = None, coverage: float = 0.9) -> np.ndarray:
        """Return the intervals of the best estimator, a regressor.

        Parameters
        ----------
        X, tasks : as for `predict`
        coverage : float in (0, 1), default 0.9

        Returns
        -------
        intervals : array of shape (q, 2), or (q, T, 2) on wide data
        """
        return self._best().predict_interval(X, tasks, coverage)

    @available_if(lambda self: hasattr(self.make_model(), "decision_function"))
    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return the decision values of the best estimator, a classifier.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        values : array
        """
        return self._best().decision_function(X, tasks)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the best estimator: the mean over tasks of accuracy, or R^2.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        score : float
        """
        return self._best().score(X, y, tasks, sample_weight)

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """Return the score of each task.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        scores : dict from task to float
        """
        return self._best().score_tasks(X, y, tasks, sample_weight)

    def _best(self) -> Any:
        check_is_fitted(self)
        # Where predictions are made may change after the fit.
        if hasattr(self, "device") and self.best_estimator_.device != self.device:
            self.best_estimator_.set_params(device=self.device)
        return self.best_estimator_
