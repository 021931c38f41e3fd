"""Base classes of all estimators: read the data, check available memory, fit, predict and score.

This module does not depend on any model. The method `specification` of an estimator returns an object with
`plan(data)`. The plan has `memory(n_jobs)` and `run(options)`, which returns `Fitted`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context, clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .data.arrays import DICTS, Table, as_array, as_table, check_lengths, listing, match_names, missing, plain
from .data.checks import check_precomputed_queries, check_targets, check_weights, read_rows
from .data.forms import Queries, TaskData, read_queries, read_training, refuse_tiny_tasks, tiny_tasks
from .engines import Dask, SingleThreadedBLAS, count_workers, read_engine
from .exceptions import warn_user
from .kernels.families import is_precomputed
from .memory import check_memory
from .tables.cells import header
from .tables.encoder import unseen_warning

if TYPE_CHECKING:
    from .report.report import Report

# Attributes that are set while the data are read, before the fit.
_INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "encoder_")
# Parameters that do not change the model; kernels are shown elsewhere.
_NOT_SHOWN = ("kernels", "n_jobs", "engine", "random_state", "callback", "verbose")


class RunOptions(NamedTuple):
    """Options of a run. They do not change the result, unless the callback stops the solver by returning True."""

    n_jobs: int | None = None
    verbose: int = 0
    callback: Callable[..., object] | None = None
    engine: Dask | None = None  # None: threads of this process


class Fitted(NamedTuple):
    """Result of a fit."""

    attributes: dict[str, Any]  # fitted attributes of the estimator, by name; `functions_` makes predictions
    warnings: tuple[tuple[str, type[Warning]], ...] = ()  # messages and their categories


class TaskRouted(BaseEstimator):
    """Base class of models and searches: with metadata routing, tasks are passed on without a request."""

    __metadata_request__fit: ClassVar = {"tasks": True}
    __metadata_request__score: ClassVar = {"tasks": True}
    __metadata_request__predict: ClassVar = {"tasks": True, "split": UNUSED, "return_std": UNUSED}


class MultiTaskEstimator(TaskRouted):
    """Base class of multi-task estimators. Subclasses define parameters and `specification`."""

    task_column: Any
    # Whether `tasks` may have several columns.
    takes_groupings: ClassVar[bool] = False
    default_jobs: ClassVar[int | None] = None  # for n_jobs=None
    tasks_: np.ndarray
    functions_: Any

    @abstractmethod
    def specification(self) -> Any:
        """Return the specification of the model that the parameters describe, without data."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Fit the functions of all tasks.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array of shape (n,), or (n, T) with NaN for missing labels
            Targets. If y has two dimensions, every column is a task, and all tasks share the rows of X.
        tasks : array of shape (n,), optional
            The task label of each row. Not needed with `task_column`, with two-dimensional y, or for a single task.
        sample_weight : array of shape (n,), optional
            Weights of rows; a weight of 2 equals a copy of the row in its fold. Two-stage models sample rows with them.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If the data or parameters are invalid. Messages name the array, column, task or parameter.
        GramMemoryError
            If the fit may need more memory than is available, or than ``KERNELKIN_MEMORY_GIB`` allows.
        """
        return self.fit_data(self.training_data(X, y, tasks, sample_weight), X)

    def fit_data(self, data: TaskData, X: Any = None) -> Self:
        """Fit to checked training data; the fit of a tensor X runs on its device."""
        options = self.run_options()
        with SingleThreadedBLAS():
            specification = self.specification()
            plan = (place(specification, X, data) if hasattr(X, "detach") else specification).plan(data)
            if options.engine is None:
                check_memory(plan.memory(count_workers(options.n_jobs)))
            fitted = plan.run(options)
        return self.store(fitted)

    def training_data(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        sample_weight: Any = None,
        encode: Callable[[Table], Table] | None = None,
    ) -> TaskData:
        """Return the validated arguments of `fit`; `encode` converts the columns of a table to numbers.

        Tasks that are too small raise an error, unless they share parts of their functions.
        """
        rows, classification = read_rows(X), is_classifier(self)
        # Sets `n_features_in_` and `feature_names_in_`.
        validate_data(self, header(X) if isinstance(rows, Table) and rows is not X else rows, skip_check_array=True)
        if isinstance(X, Mapping) and isinstance(y, Mapping) and set(X) == set(y):
            raise ValueError(f"X and y are dicts of the same names, {listing(list(X))}: columns or tasks? {DICTS}")
        data = read_training(
            rows,
            y,
            tasks,
            sample_weight,
            classification=classification,
            task_column=self.task_column,
            precomputed=self.__sklearn_tags__().input_tags.pairwise,
            encode=encode,
        )
        if data.groupings and not self.takes_groupings:
            further = listing([grouping.name for grouping in data.groupings])
            raise ValueError(
                f"{type(self).__name__} takes one grouping of rows, not {1 + len(data.groupings)}: leave out {further}"
            )
        if faults := tiny_tasks(data, classification=classification):
            refuse_tiny_tasks(data, faults, self.borrowing_tasks(data), classification=classification)
        return data

    def read_queries(self, X: Any, tasks: Any) -> Queries:
        """Return the validated arguments of `predict`; `unknown_tasks` decides whether new tasks are allowed."""
        check_is_fitted(self)
        encoder = getattr(self, "encoder_", None)
        precomputed = self.__sklearn_tags__().input_tags.pairwise
        if precomputed:
            names = self.kernel_names_ if hasattr(self, "kernel_names_") else self.functions_.kernels.names
            check_precomputed_queries(X, self.n_features_in_, len(names))
        rows = read_rows(X)
        named = header(X) if isinstance(rows, Table) and rows is not X else rows
        validate_data(self, named, skip_check_array=True, reset=False)
        if encoder is not None and isinstance(rows, Table):
            for name, texts in encoder.unseen(rows).items():
                warn_user(unseen_warning(name, texts), UserWarning)
        queries = read_queries(
            rows,
            tasks,
            known=self.tasks_,
            form=self.data_form_,
            task_column=self.task_column,
            precomputed=precomputed,
            encode=None if encoder is None else encoder.encode,
            allow_unknown=getattr(self, "unknown_tasks", "error") != "error",
            new_tasks=getattr(self.functions_, "new_tasks", None),
            task_name=getattr(self, "task_name_", None),
            groupings=getattr(self, "groupings_", ()),
        )
        return queries._replace(device=device_of(X))

    def read_labels(self, y: Any, wide: bool) -> np.ndarray:
        """Return the checked targets (n,) to score, or (n, T): a data frame is matched to `tasks_` by its columns."""
        if wide and (table := as_table(y, "y")) is not None:
            y = table.select(match_names(table.names, self.tasks_.tolist(), "columns of y"))
        y = y if wide or np.ndim(y) < 2 else column_or_1d(as_array(y, "y"))
        return check_targets(y, classification=is_classifier(self), tasks_given=not wide)

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        """Return the positions of tasks that share parts of their functions with other tasks."""
        return set()

    def run_options(self) -> RunOptions:
        """Return the run options of this estimator."""
        n_jobs, engine = getattr(self, "n_jobs", None), getattr(self, "engine", "threads")
        n_jobs = self.default_jobs if n_jobs is None else n_jobs
        return RunOptions(n_jobs, getattr(self, "verbose", 0), getattr(self, "callback", None), read_engine(engine))

    def store(self, fitted: Fitted) -> Self:
        """Store the fitted attributes and issue the warnings."""
        before = [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]
        for name in set(before) - set(_INPUT_ATTRIBUTES):
            delattr(self, name)
        for name, value in fitted.attributes.items():
            setattr(self, name, value)
        for message, category in fitted.warnings:
            warn_user(f"{type(self).__name__}: {message}", category)
        return self

    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        """Return an upper bound on the memory of `fit` in bytes, without the data. Nothing is fitted.

        `fit` raises an error if this is more than the available memory (of the machine, and of the control groups of
        the process), or more than the environment variable ``KERNELKIN_MEMORY_GIB`` allows.

        Parameters
        ----------
        X, y, tasks : as for `fit`

        Returns
        -------
        n_bytes : int

        Examples
        --------
        >>> import numpy as np
        >>> from kernelkin import MKMTRLRegressor
        >>> X, Y = np.random.default_rng(0).normal(size=(1000, 3)), np.zeros((1000, 4))
        >>> MKMTRLRegressor().estimate_memory(X, Y) < 2**28
        True
        """
        model = clone(self)
        plan = model.specification().plan(model.training_data(X, y, tasks))
        return plan.memory(count_workers(self.run_options().n_jobs)).peak

    def predict(self, X: Any, tasks: Any = None, split: bool = False, return_std: bool = False) -> Any:
        """Predict targets or class labels.

        Parameters
        ----------
        X : array or DataFrame of shape (q, d); (q, n, K) with ``kernels="precomputed"``
        tasks : array of shape (q,), optional
            The task of each row, as in `fit`.
        split : bool, default False
            Whether to also return the contribution of each kernel.
        return_std : bool, default False
            Whether to also return the standard deviation of the target around each prediction. Only for regressors.

        Returns
        -------
        prediction : array of shape (q,), or (q, T) if the model was fitted on wide data
            With ``split=True``, a Bunch with these entries: `prediction`; `parts` of shape (q, K), or (q, T, K) on wide
            data, the contribution of each kernel (with one more axis if a task has more than two classes);
            `intercept`; `kernels`, the names of the kernels. With couplings, also `own`, the contributions to the
            tasks' own parts, and `shared`, a dict from the name of each coupling to the contributions to its part.
            Parts and intercept sum to the prediction of a regressor, or to the `decision_function`.
        std : array of the shape of the prediction, only with ``return_std=True``
            The standard deviation, estimated from held-out residuals of the task; see `predict_interval`.
        """
        if return_std and (split or is_classifier(self)):
            raise ValueError("return_std=True is only for regressors, without split; classifiers have predict_proba")
        queries = self.read_queries(X, tasks)
        prediction = self._predict(queries)
        if return_std:
            return prediction, self._deviations(queries)
        return self._split(queries, prediction) if split else prediction

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """Return the score of each task: accuracy for a classifier, R^2 for a regressor.

        Tasks without rows in X are left out; R^2 of a single row is NaN. Tasks that were not in training are scored
        too if the model can predict them (`unknown_tasks`, `task_features`).

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        scores : dict from task to float
        """
        queries = self.read_queries(X, tasks)
        score, least = (accuracy_score, 1) if is_classifier(self) else (r2_of_targets, 2)
        return self._score_each(queries, y, self._predict(queries), sample_weight, score, least)

    def _score_each(self, queries: Queries, y, prediction, sample_weight, score, least: int) -> dict[Any, float]:
        """Return the score of the predictions of each task; NaN for tasks with fewer than `least` rows."""
        y = self.read_labels(y, queries.codes is None)
        check_lengths(queries.X, y=y)
        weight = np.ones(len(y)) if sample_weight is None else check_weights(sample_weight, queries.X)
        return {
            label: float(score(plain(true), predicted, sample_weight=w)) if len(true) >= least else float("nan")
            for label, true, predicted, w in _by_task(self.tasks_, queries, y, prediction, weight)
        }

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of `score_tasks` over tasks, ignoring NaN; if all are NaN, R^2 of all rows together.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        score : float
        """
        scores = list(self.score_tasks(X, y, tasks, sample_weight).values())
        if np.isfinite(scores).any():
            return float(np.nanmean(scores))
        if len(scores) < 2:
            return float("nan")
        return float(r2_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    def report(self, path=None, X=None, y=None, tasks=None, *, sharing=None, relations=None, title=None) -> Report:
        """Return an HTML report on how well this model predicts and what drives its predictions.

        Parameters
        ----------
        path : str or path, optional
            Also write the report to this HTML file. The file works offline.
        X, y, tasks : as for `score`, optional
            Test data. By default, the report uses held-out predictions of the training rows. Models of the paper that
            were copied or loaded from a file have none and need test data.
        sharing, relations : SharingReport, TaskRelations, optional
            Results of `sharing_report` (comparison with simpler models) and `task_relations` (similar tasks).
        title : str, optional
            Title of the page.

        Returns
        -------
        report : Report
            Displayed by notebooks.
        """
        from .report.report import report_of_fit

        return report_of_fit(self, path, X, y, tasks, sharing=sharing, relations=relations, title=title)

    def _values(self, queries: Queries) -> np.ndarray:
        """Return values of the functions: (q, M) for rows with a task, (q, T, M) for wide data."""
        return self.functions_.values(queries.X, queries.codes)

    def _predict(self, queries: Queries) -> np.ndarray:
        """Return predictions (q,) for rows with a task, (q, T) for wide data."""
        return self._classes(queries) if is_classifier(self) else self._values(queries)[..., 0]

    def _classes(self, queries: Queries) -> np.ndarray:
        values = self._decisions(queries)
        if values.ndim == (3 if queries.codes is None else 2):
            return self.classes_[values.argmax(axis=-1)]
        positive = (values > 0).astype(np.intp)
        if queries.codes is not None or len(self.classes_) == 2:
            return self.classes_[positive]
        return np.stack([c[p] for c, p in zip(self.task_classes_, positive.T, strict=True)], axis=1)

    def _decisions(self, queries: Queries) -> np.ndarray:
        """Return decision values: (q,) or (q, T) for two classes, else with an axis of classes."""
        values = self._values(queries)
        binary = all(len(classes) == 2 for classes in self.task_classes_)
        if binary and (queries.codes is None or len(self.classes_) == 2):
            return values[..., 0]
        return spread_classes(self, queries, values, -np.inf, lambda f: np.hstack([-f, f]) if f.shape[1] == 1 else f)

    def _split(self, queries: Queries, prediction: np.ndarray) -> Any:
        raise ValueError(f"{type(self).__name__} has no kernels, so it does not support split=True")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.pairwise = tags.input_tags.three_d_array = is_precomputed(getattr(self, "kernels", None))
        return tags


class MultiTaskClassifier(ClassifierMixin, MultiTaskEstimator):
    """Base class of multi-task classifiers."""

    # The method of scikit-learn's mixin does not handle tasks.
    score = MultiTaskEstimator.score

    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return decision values of the classes.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        values : array
            Shape (q,) if all tasks have the same two classes: positive values mean the second class. Otherwise shape
            (q, n_classes) in the order of `classes_`, with -inf for classes that the row's task does not have. On wide
            data, (q, T) if every task has two classes, else (q, T, n_classes).
        """
        return self._decisions(self.read_queries(X, tasks))

    def predict_proba(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return the probability of each class, calibrated on held-out rows.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        probabilities : array of shape (q, n_classes)
            In the order of `classes_`; zero for classes that the row's task does not have. On wide data, shape (q, T)
            with the probability of the second class if there are two classes, else (q, T, n_classes).
        """
        p = self._probabilities(self.read_queries(X, tasks))
        return p[..., 1] if p.ndim == 3 and p.shape[2] == 2 else p


class MultiTaskRegressor(RegressorMixin, MultiTaskEstimator):
    """Base class of multi-task regressors."""

    # The method of scikit-learn's mixin does not handle tasks.
    score = MultiTaskEstimator.score


def spread_classes(
    model: Any, queries: Queries, values: np.ndarray, fill: float, convert: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return numbers for all classes (q, n_classes), or (q, T, n_classes) for wide data; `fill` where a task lacks one.

    `convert` takes the values (q, m_t) of a task's functions and returns a number for each of its classes. Tasks that
    were not in training have the classes of the first task.
    """
    out = np.full((*values.shape[:-1], len(model.classes_)), fill)
    codes, tasks = queries.codes, list(enumerate(model.task_classes_))
    if codes is not None:
        codes = np.where(codes < len(tasks), codes, -1)
        tasks.append((-1, model.task_classes_[0]))
    for t, classes in tasks:
        rows = np.index_exp[:, t] if codes is None else np.nonzero(codes == t)
        block, width = out[rows], 1 if len(classes) == 2 else len(classes)
        block[:, np.searchsorted(model.classes_, classes)] = convert(values[rows][:, :width])
        out[rows] = block
    return out


def device_of(X: Any) -> str | None:
    """Return the device of a torch tensor, such as "cuda:0"; None for CPU tensors and other arrays."""
    device = X.device if hasattr(X, "detach") and hasattr(X, "device") else None
    return None if device is None or device.type == "cpu" else str(device)


def place(specification: Any, X: Any, data: TaskData) -> Any:
    """Return the specification with the device of the tensor X, for wide data if no device was set."""
    device = device_of(X)
    if device is None or data.form != "wide" or getattr(specification, "device", device) is not None:
        return specification
    return replace(specification, device=device)


def r2_of_targets(y: np.ndarray, predicted: np.ndarray, sample_weight: Any = None) -> float:
    """Return R^2 as scikit-learn does; the rounding of the mean of equal targets is no variance."""
    if (y == y[0]).all():
        y, predicted = y - y[0], predicted - y[0]
    return float(r2_score(y, predicted, sample_weight=sample_weight))


def _by_task(
    tasks: np.ndarray, queries: Queries, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray
) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the label, targets, predictions and weights of each task that has rows with a label and positive weight."""
    if queries.codes is None:
        y = y[:, np.newaxis] if y.ndim == 1 else y
        if y.shape != prediction.shape:
            raise ValueError(f"y has shape {y.shape}, but the predictions of all tasks have shape {prediction.shape}")
        for t, label in enumerate(tasks.tolist()):
            rows = np.flatnonzero(~missing(y[:, t]) & (weight > 0))
            if len(rows):
                yield label, y[rows, t], prediction[rows, t], weight[rows]
        return
    y = column_or_1d(y)
    # New tasks are scored under their own labels.
    labels = tasks[queries.codes] if queries.labels is None else queries.labels
    order = np.flatnonzero(weight > 0)
    order = order[np.argsort(labels[order], kind="stable")]
    names, starts = np.unique(labels[order], return_index=True)
    for label, rows in zip(names.tolist(), np.split(order, starts[1:]), strict=False):
        yield label, y[rows], prediction[rows], weight[rows]


def relative_gap(model: Any) -> float | None:
    """Return the duality gap relative to the objective; None for models without a gap."""
    gap, objective = getattr(model, "duality_gap_", None), getattr(model, "objective_", None)
    return None if gap is None or not objective else float(max(gap, 0.0) / abs(objective))


def changed_parameters(model: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, as text."""
    default = type(model)() if not hasattr(model, "estimator") else model
    parameters, defaults = model.get_params(deep=False), default.get_params(deep=False)
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in parameters.items()
        if name not in _NOT_SHOWN and str(value) != str(defaults[name])
    }
