"""What every estimator does: read the data, plan, check the memory, run; then predict and score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from ...data import Queries, Table, TaskData, listing, read_rows, read_training, settle_tiny_tasks, tiny_tasks
from ...engines import SingleThreadedBLAS, clone_with_engine, count_workers, read_engine, state_without_engine
from ...exceptions import warn_user
from ...kernels import is_precomputed
from ...memory import check_memory, check_square
from ...uncertainty import Uncertainty, prediction_deviations
from ..fitting import Fitted, RunOptions, Specification
from ..functions import function_values
from ..penalties import Relation
from .array_api import array_home, as_rows_are, in_main_memory, supports_array_api
from .classes import predicted_classes
from .facts import with_facts
from .new_tasks import coupled_tasks, functions_with_tasks, read_model_queries
from .scoring import score_each_task
from .split import split_prediction

if TYPE_CHECKING:
    from ...report import Report

# Set while the data are read, before a fit.
_INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "encoder_")


class MultiTaskEstimator(BaseEstimator):
    """An estimator of many tasks. A subclass has parameters, and says by `specification` what they mean."""

    task_column: Any
    # Whether `tasks` may have several columns.
    takes_groupings: ClassVar[bool] = False
    tasks_: np.ndarray
    functions_: Any
    uncertainty_: Uncertainty

    __metadata_request__predict: ClassVar = {"split": UNUSED, "return_std": UNUSED}

    @abstractmethod
    def specification(self) -> Specification:
        """Return what this estimator fits, as its parameters say; data are not needed."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Learn the functions of all tasks from their rows.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array of shape (n,), or (n, T) with NaN for missing labels
            Targets. With two dimensions every column is a task on the same rows.
        tasks : array of shape (n,), optional
            The task of each row; any labels. Not needed with `task_column`, with wide y, or for one task.
        sample_weight : array of shape (n,), optional
            Weights of rows; weighting a row by 2 equals repeating it. (Two-stage models also draw pairs by them.)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            Where data or parameters are not valid. Messages name the array, the column, the task or the parameter.
        GramMemoryError
            Where the fit would need more memory than there is, or than ``KERNELKIN_MEMORY_GIB`` allows.
        """
        options = self.run_options()
        home, specification = array_home(X), self.specification()
        if home is not None:
            specification = home.place(specification, self)
        data = self.training_data(X, y, tasks, sample_weight)
        with SingleThreadedBLAS():
            plan = specification.plan(data if home is None else home.arrange(data))
            if not options.engine.splits:
                check_memory(plan.memory(count_workers(options.n_jobs)))
            fitted = plan.run(options)
        return self.store(fitted if home is None else home.move(fitted, data))

    def training_data(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        sample_weight: Any = None,
        encode: Callable[[Table], Table] | None = None,
    ) -> TaskData:
        """Return what `fit` is given, read and checked; `encode` turns the columns of a table into numbers."""
        min_rows = getattr(self, "min_rows", None)
        return self._settle(self._read_training(X, y, tasks, sample_weight, min_rows=min_rows, encode=encode))

    def _read_training(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any = None, *, reset: bool = True, **options: Any
    ) -> TaskData:
        """Return what `fit` or, with reset=False, a later `partial_fit` is given; tasks may have too few rows."""
        data = read_training(
            self.read_columns(X, reset=reset),
            y,
            tasks,
            sample_weight,
            classification=is_classifier(self),
            task_column=self.task_column,
            precomputed=self.__sklearn_tags__().input_tags.pairwise,
            **options,
        )
        if data.groupings and not self.takes_groupings:
            further = listing([grouping.name for grouping in data.groupings])
            raise ValueError(
                f"{type(self).__name__} takes one grouping of rows, and here are {1 + len(data.groupings)}: leave out "
                f"{further}"
            )
        return data

    def _settle(self, data: TaskData) -> TaskData:
        """Refuse tasks that are too small, or set them aside, unless they share parts of their functions."""
        classification = is_classifier(self)
        sharing = self.borrowing_tasks(data) if tiny_tasks(data, classification=classification) else ()
        min_rows = getattr(self, "min_rows", None)
        return settle_tiny_tasks(data, sharing, classification=classification, min_rows=min_rows)

    def read_columns(self, X: Any, *, reset: bool) -> Any:
        """Return X as a table or an array; sets, or compares, `n_features_in_` and `feature_names_in_`."""
        rows = read_rows(X)
        validate_data(self, X if isinstance(rows, Table) else rows, skip_check_array=True, reset=reset)
        return rows

    def store(self, fitted: Fitted) -> Self:
        """Take over what a fit has left behind, and show its warnings."""
        fitted_before = [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]
        for name in set(fitted_before) - set(_INPUT_ATTRIBUTES):
            delattr(self, name)
        for name, value in fitted.attributes.items():
            setattr(self, name, value)
        for message, category in fitted.warnings:
            warn_user(f"{type(self).__name__}: {message}", category)
        return self

    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        """Return an upper bound on the bytes that `fit` takes besides the data; nothing is fitted.

        `fit` refuses to start where this is more than the memory that is available (to the machine, the control group
        and the process), or than the environment variable ``KERNELKIN_MEMORY_GIB`` allows.

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
        return plan.memory(count_workers(getattr(self, "n_jobs", None))).peak

    def predict(self, X: Any, tasks: Any = None, split: bool = False, return_std: bool = False) -> Any:
        """Predict targets or class labels.

        Parameters
        ----------
        X : array or DataFrame of shape (q, d); (q, n, K) with ``kernels="precomputed"``
        tasks : array of shape (q,), optional
            The task of each row, as in `fit`.
        split : bool, default False
            Whether to return also what each kernel contributes.
        return_std : bool, default False
            Whether to return also the standard deviation of the target around each prediction; for regressors.

        Returns
        -------
        prediction : array of shape (q,), or (q, T) where the model was fitted on wide data
            With ``split=True``, a Bunch: `prediction`; `parts` (q, K), or (q, T, K) on wide data, what each kernel adds
            to the value behind the prediction (one axis more where a task has more than two classes); with couplings
            `own`, and `shared` by the name of each coupling, the same for the tasks' own parts and those they share;
            `intercept`; `kernels`, their names. Parts and intercept sum to the value of a regressor, or of the
            `decision_function`.
        std : array of the shape of the prediction, with ``return_std=True``
            For the squared loss, that of a Gaussian process with the learned kernels; otherwise the same for all rows
            of a task. Its scale is that of the task's held-out residuals; see `predict_interval`.
        """
        queries = self._read_queries(X, tasks)
        if not return_std:
            found = self._predict(queries)
            return split_prediction(self, queries, found) if split else as_rows_are(X, found)
        if split or is_classifier(self):
            raise ValueError("return_std=True is for regressors, without split; classifiers have predict_proba")
        return as_rows_are(X, self._predict(queries)), as_rows_are(X, self._deviations(queries))

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """Return the score of each task: accuracy for a classifier, R^2 for a regressor.

        Tasks without rows in X are left out; R^2 of a single row is NaN. Tasks that were not in training are scored
        too, where the model predicts them (`unknown_tasks`, `task_features`).

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        scores : dict from task to float
        """
        queries = self._read_queries(X, tasks)
        return score_each_task(self, queries, y, self._predict(queries), sample_weight)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """Return the mean over tasks of `score_tasks`, leaving out tasks whose score is undefined.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for `fit`

        Returns
        -------
        score : float
        """
        scores = list(self.score_tasks(X, y, tasks, sample_weight).values())
        return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")

    def with_tasks(self, task_features: Any) -> Self:
        """Return a copy of this fitted model that also predicts new tasks, from features that the fit did not have.

        Tasks whose features were part of the estimator's `task_features` need no such copy. Nothing is fitted anew.

        Parameters
        ----------
        task_features : DataFrame or dict
            The features of the new tasks, in the same form as the estimator's `task_features`.

        Returns
        -------
        model : object
        """
        check_is_fitted(self)
        model = copy(self)
        model.functions_ = functions_with_tasks(self, task_features)
        return model

    @property
    def task_relationship_(self) -> np.ndarray:
        """Omega (T, T), of trace one; computed on access.

        It ties the kernel weights of tasks, and depends on how much weight a task has in all, hence on its number of
        rows: it is a parameter of the model, not a measure of likeness.
        """
        relation = self._relation()
        check_square(len(self.tasks_), "task_relationship_", "use `relation_`, which has its factors")
        return relation.matrix() / relation.trace()

    def report(self, path=None, X=None, y=None, tasks=None, *, sharing=None, relations=None, title=None) -> Report:
        """Return a page on how well this model predicts and what drives predictions; a notebook shows it.

        Parameters
        ----------
        path : str or path, optional
            An HTML file to write too; the page needs no network.
        X, y, tasks : as for `score`, optional
            Rows it was not fitted to. By default its training rows, each predicted by a fit without it; a model from a
            file has no such values and needs rows.
        sharing, relations : SharingReport, TaskRelations, optional
            What `sharing_report` and `task_relations` returned: simpler models beside it, and tasks that are alike.
        title : str, optional
            The headline.

        Returns
        -------
        report : Report
        """
        # Reports look at models, so that they cannot be imported first.
        from ...report import report_of_fit

        return report_of_fit(self, path, X, y, tasks, sharing=sharing, relations=relations, title=title)

    def related_tasks(
        self,
        task: Any,
        X: Any,
        y: Any,
        tasks: Any = None,
        *,
        n: int = 10,
        random_state: Any = 0,
    ) -> dict[Any, float]:
        """Return the tasks most like one task, and their tested likeness, which does not depend on numbers of rows.

        Runs `task_relations`: tasks that could not be told apart are equally like every other task, and without
        structure all tasks are. Use its result where several tasks are asked about.

        Parameters
        ----------
        task : label
            A task of `tasks_`.
        X, y, tasks : as for `fit`
            Rows with targets; those that the model was fitted to will do.
        n : int, default 10
            Number of tasks to return, at most.
        random_state : int, RandomState or None, default 0
            Seed of the test.

        Returns
        -------
        likeness : dict from task to float
            The largest first.
        """
        # Relations are compared by models too, so that they cannot be imported first.
        from ...relations import task_relations

        return task_relations(self, X, y, tasks, random_state=random_state).related_tasks(task, n)

    def _relation(self) -> Relation:
        if "relation_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no relationship of tasks; is it fitted?")
        return vars(self)["relation_"]

    def _read_queries(self, X: Any, tasks: Any) -> Queries:
        return read_model_queries(self, X, tasks)

    def _predict(self, queries: Queries) -> np.ndarray:
        """Return predictions (q,) for rows with a task, (q, T) for wide data."""
        if is_classifier(self):
            return predicted_classes(self, queries)
        return function_values(self, queries)[..., 0]

    def _deviations(self, queries: Queries) -> np.ndarray:
        """Return standard deviations of targets around predictions (q,), or (q, T) for wide data."""
        return prediction_deviations(self, queries)

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        """Return the tasks, by position, that share parts of their functions with other tasks."""
        return coupled_tasks(self, data)

    def run_options(self) -> RunOptions:
        """Return how this estimator runs a fit."""
        n_jobs, engine = getattr(self, "n_jobs", None), getattr(self, "engine", None)
        given = getattr(self, "verbose", 0), getattr(self, "callback", None)
        return RunOptions(n_jobs, *given, read_engine(engine, n_jobs))

    def __getstate__(self) -> dict[str, Any]:
        return in_main_memory(state_without_engine(self))

    __sklearn_clone__ = clone_with_engine

    def _repr_html_inner(self) -> str:
        return with_facts(self, super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        found = super()._repr_mimebundle_(**kwargs)
        return {**found, "text/html": with_facts(self, found["text/html"])} if "text/html" in found else found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        precomputed = is_precomputed(getattr(self, "kernels", None))
        tags.input_tags.pairwise = precomputed
        tags.input_tags.three_d_array = precomputed
        tags.array_api_support = supports_array_api(self)
        return tags
