"""KinRegressor and KinClassifier: models for grouped data that need no tuning."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..data.arrays import Table, as_array, listing, plain
from ..data.checks import check_weights
from ..data.forms import Queries, TaskData
from ..estimators import MultiTaskClassifier, MultiTaskEstimator, MultiTaskRegressor
from ..exceptions import warn_user
from ..kernels.families import refuse_positions
from ..parameters import Parameter, describe
from ..tables.encoder import TableEncoder
from .effects import explain, task_effects
from .fit import KinFit
from .losses import LOSSES
from .task_features import join_task_features, read_task_kernels

_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "tasks_": ("array of shape (T,)", "Task labels."),
    "variance_components_": (
        "dict from str to float",
        "Share of each term in the variance of the targets, including `noise`, in descending order; the shares sum to "
        "one. `level`: levels of groups, including the mean of their own curves; `linear`: linear part "
        "common to all groups; `slopes`: differences between the slopes of groups; `common smooth`, `additive`: curves "
        "shared by all groups; `own smooth`, `own additive`: curves of each group. For two classes, on the scale of "
        "log odds; for counts, of logarithms.",
    ),
    "members_": ("tuple of dicts", "The averaged structures: `name`, `weight`, `error` on held-out rows."),
    "search_results_": (
        "dict of arrays",
        "One row for each structure that was not dropped after the first fold: `structure`, `error` of held-out rows "
        "(mean squared error in standard units, log loss for two classes, or half the mean deviance for counts), "
        "`standard_error`, `weight` in the average, `evidence`, `seconds`.",
    ),
    "best_structure_": ("str", "The structure with the largest weight."),
    "is_complete_": ("bool", "Whether all structures were tried within the time limit."),
    "column_shares_": (
        "dict",
        "Share of each column in the variance explained by columns, in descending order: by how much predictions of "
        "training rows change with a value of the column from another row.",
    ),
    "features_": (
        "dict or None",
        "How well features represent the smooth function common to all groups, with many rows: their `count`; "
        "`missed_variance`, the share of the prior variance of the targets that they cannot represent; `error` of the "
        "rows of the first fold, and `error_with_half` of the features. None if the structure with the largest weight "
        "has no such features.",
    ),
    "held_out_": ("object", "Predictions of the training rows by fits that left them out."),
    "functions_": ("object", "The fitted functions of all tasks."),
    "encoder_": ("TableEncoder or None", "Encoder of the columns of a table; None if X was an array."),
    "n_features_in_": ("int", "Number of columns of X in `fit`."),
    "feature_names_in_": ("array of str", "Names of the columns of X, if it has names."),
}
_PARAMETERS: dict[str, Parameter] = {
    "loss": Parameter(
        "{" + ", ".join(f'"{name}"' for name in LOSSES) + "}",
        " ".join(f'"{name}": {loss.about}' for name, loss in LOSSES.items()),
        [StrOptions(set(LOSSES))],
        "squared",
    ),
    "kernels": Parameter(
        "None, or what the other models take",
        "None: linear and smooth functions of the columns, with learned scales. Otherwise only these kernels, each "
        'with one variance for the part common to all groups and one for the part of each group. "precomputed": X '
        "holds the kernel values.",
    ),
    "encoder": Parameter(
        "TableEncoder, optional",
        "Encoder of the columns of a DataFrame; not used for arrays. None: a `TableEncoder` with default parameters.",
        [TableEncoder, None],
    ),
    "cv": Parameter(
        'int, "groups", or iterable of (training rows, test rows)',
        "Folds used to weight the structures and to calibrate intervals. A number splits the rows of every task; on "
        'wide data a row is held out for all tasks at once. "groups": five folds of whole tasks, for models that will '
        "only predict tasks that were not in training. Folds of rows of X hold out a row at most once, and train on "
        "all rows that they do not hold out.",
        [Interval(Integral, 2, None, closed="left"), StrOptions({"groups"}), HasMethods("__iter__")],
        5,
    ),
    "unknown_tasks": Parameter(
        '{"common", "error"}',
        'How to treat tasks that were not in training: "common" predicts them by the part common to all tasks, with '
        "intervals that are wider by the variation between tasks. For these predictions, structures are weighted by "
        'folds of whole tasks (with five tasks or more, and up to 5,000 rows). "error" raises an error.',
        [StrOptions({"common", "error"})],
        "common",
    ),
    "time_limit": Parameter(
        "float, optional",
        "Time limit of the fit in seconds. If it is reached, the results so far are used, with a warning.",
        [Interval(Real, 0, None, closed="neither"), None],
    ),
    "n_features": Parameter(
        "int, optional",
        "Number of features that represent the smooth function common to all groups if there are more than 300 rows. "
        "More features are more exact, but take more time; parameters are learned with at most 300 of them. See "
        "`features_`. None: 100 to 1,000, depending on the number of rows.",
        [Interval(Integral, 2, None, closed="left"), None],
    ),
    "engine": Parameter(
        '"threads" or a Dask client',
        'Where computations run; the result does not depend on it. "threads": `n_jobs` threads of this process. A '
        "`distributed.Client`: with more than 300 rows, the workers of its cluster hold the rows of blocks of groups.",
        default="threads",
    ),
    "device": Parameter(
        "str, optional",
        'A torch device for the fit, such as "cuda"; the result does not depend on it. Predictions are computed in '
        "main memory. Needs the extra `torch`.",
        [str, None],
    ),
    "n_jobs": Parameter(
        "int, optional",
        "Number of threads; the result does not depend on it. None and -1: as many as there are processors.",
        [Integral, None],
    ),
    "random_state": Parameter("int, RandomState or None", "Seed of the folds.", ["random_state"]),
    "verbose": Parameter("int", "1 shows progress on standard error.", ["verbose"], 0),
    "callback": Parameter(
        "callable, optional",
        "Called during the fit with the elapsed seconds and the expected total seconds.",
        [callable, None],
    ),
}
_USUAL = "task_features cv unknown_tasks time_limit n_features task_column n_jobs engine device random_state verbose"

LARGEST_OFFSET = 100.0  # larger numbers are exposures rather than their logarithms
NO_TASKS = (
    "no tasks were given: all rows are treated as one task. If they belong to several groups, pass the group of each "
    "row as tasks=, or give the estimator a task_column. If there is only one group, pass tasks=np.zeros(len(X))"
)
WEIGHTS = "a row of weight 2 counts as two equal rows, so large weights leave no noise. Divide precisions by their mean"


class KinEstimator(MultiTaskEstimator):
    """Base class of KinRegressor and KinClassifier; tables are encoded with a `TableEncoder` of the training rows."""

    takes_groupings, default_jobs = True, -1
    encoder: Any
    encoder_: Any
    engine: Any

    def training_data(
        self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, encode: Any = None
    ) -> TaskData:
        """Return the checked training data; tables are encoded."""
        self.encoder_ = None
        data = super().training_data(X, y, tasks, sample_weight, encode or self._fit_encoder)
        if data.form == "single":
            warn_user(NO_TASKS, UserWarning)
        return data

    def _fit_encoder(self, table: Table) -> Table:
        """Encode the training rows of a table, unless they are already encoded."""
        if table.origins is not None:
            return table
        refuse_positions(self.kernels)
        self.encoder_ = (TableEncoder() if self.encoder is None else clone(self.encoder)).fit(table)
        return self.encoder_.encode(table)

    def specification(self) -> KinFit:
        names, given = {field.name for field in fields(KinFit)}, self.get_params(deep=False)
        return KinFit(classification=is_classifier(self), **{name: given[name] for name in names & given.keys()})

    def __getstate__(self) -> dict[str, Any]:
        # A Dask client is a connection: copies and pickles use threads, and clones share the client.
        state = super().__getstate__()
        return state if isinstance(state["engine"], str | None) else {**state, "engine": "threads"}

    def __sklearn_clone__(self) -> Self:
        return BaseEstimator.__sklearn_clone__(copy(self)).set_params(engine=self.engine)

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        return set(range(data.n_tasks)) if data.n_tasks > 1 else set()

    def explain(self) -> str:
        """Return a few sentences on shares of variance, the averaged structures, and the most important columns.

        Returns
        -------
        text : str
        """
        check_is_fitted(self)
        return explain(self)

    def task_effects(self, grouping: Any = None) -> Any:
        """Return how each group differs from the average group, as a table with standard errors.

        `level` is the mean difference between the function of a group and the average function of all groups, over the
        training rows of all groups (200 with the same means if there are more). So it does not depend on which values
        the columns have in the rows of the group. The slope of a column is the coefficient of the linear function of
        all columns that is closest to this difference on the same rows. Both include the group's own smooth functions.
        Units are those of the target for a regressor, log odds of the second class for a classifier, and logarithms for
        counts; slopes are per unit of the column, or per day for dates. Means and standard errors are those of the
        posterior, averaged over structures; for slopes, over those that have slopes for each group.

        Parameters
        ----------
        grouping : name or position of a grouping, optional
            The grouping if there are several; the first by default.

        Returns
        -------
        effects : pandas DataFrame, indexed by group
            `rows`, the number of training rows; `level`, its `standard_error`, and the ends `low` and `high` of a 90%
            interval; `raw_level`, the level without pooling: `level` plus the mean residual of the group's rows. For
            columns of numbers and dates whose effect differs between groups, also `slope of NAME` and `standard_error
            of NAME`. Slopes are left out if there are more than 30 such columns.
        """
        check_is_fitted(self)
        return task_effects(self, grouping)

    def with_tasks(self, task_features: Any) -> Self:
        """Return a copy of this fitted model that also predicts new tasks from their features, without refitting.

        Tasks whose features were part of the estimator's `task_features` need no such copy.

        Parameters
        ----------
        task_features : DataFrame
            The features of the new tasks, with the same columns as the estimator's `task_features`.

        Returns
        -------
        model : object
        """
        check_is_fitted(self)
        if self.task_features is None:
            raise ValueError(f"this {type(self).__name__} was fitted without task_features and cannot use them")
        model = copy(self)
        kernels, new = read_task_kernels(join_task_features(self.task_features, task_features), self.tasks_)
        model.functions_ = self.functions_.with_task_kernels(kernels, new)
        return model


@describe((), _ATTRIBUTES, "kernels * loss encoder " + _USUAL + " callback", **_PARAMETERS)
class KinRegressor(KinEstimator, MultiTaskRegressor):
    """Regression for groups with few rows each; no parameter needs to be set.

    A mixed kernel model: levels, slopes and smooth functions of the columns, both common to all groups and specific to
    each group. The data determine the degree of pooling. Several structures of such terms are fitted by maximum
    evidence, compared on held-out rows, and averaged with weights that depend on their held-out errors. Losses without
    a closed form, such as that of counts, use Laplace's method.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import KinRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c", "d", "e", "f"], 10)
    >>> level = np.repeat(rng.normal(size=6), 10)
    >>> y = level + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=60)
    >>> model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    >>> bool(model.score(X, y, tasks=tasks) > 0.9)
    True
    >>> model.predict_interval(X[:1], tasks=["a task that was not in training"]).shape
    (1, 2)
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the functions of all tasks.

        Parameters
        ----------
        X, y, tasks, sample_weight : as for the other estimators
            X of shape (n, d), y of shape (n,), the group of each row, and weights of rows. `tasks` may have several
            columns, one for each grouping; `y` of shape (n, T) has one column per task.
        offset : array of shape (n,), optional
            Logarithm of the exposure of each row, such as its time at risk. Only for losses of counts.

        Returns
        -------
        self : object
        """
        data = self.training_data(X, y, tasks, sample_weight)
        mean = float(data.sample_weight[data.sample_weight > 0].mean())
        if LOSSES[self.loss].is_linear and not 1 / 3 <= mean <= 3:
            warn_user(f"sample_weight is {mean:.3g} on average: {WEIGHTS}", UserWarning)
        return self.fit_data(replace(data, offset=self._read_offset(offset, len(data.X))), X)

    def predict(
        self, X: Any, tasks: Any = None, split: bool = False, return_std: bool = False, offset: Any = None
    ) -> Any:
        """Predict the mean of the target.

        Parameters
        ----------
        X : array or DataFrame of shape (q, d)
        tasks : array of shape (q,), or with a column for each grouping, optional
            The task of each row, as in `fit`.
        split : bool, default False
            Not available for this model.
        return_std : bool, default False
            Whether to also return the standard deviation of the target around each prediction.
        offset : array of shape (q,), optional
            Logarithm of the exposure of each row, for counts. Without it, all rows have an exposure of one.

        Returns
        -------
        prediction : array of shape (q,), or (q, T) if the model was fitted on wide data
        std : array of the shape of the prediction, only with ``return_std=True``
        """
        if split:
            return super().predict(X, tasks, split, return_std)
        mean, deviation = self._moments(self.read_queries(X, tasks), offset)
        return (mean, deviation * self.functions_.scores.scale) if return_std else mean

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return R^2 over the rows of all tasks or, for counts, the share of deviance explained (D^2).

        On wide data it is the mean of R^2 over tasks, since columns of y may have different units.

        Parameters
        ----------
        X, y, tasks, sample_weight, offset : as for `fit`

        Returns
        -------
        score : float
        """
        if LOSSES[self.loss].is_linear and self.data_form_ == "wide":
            return super().score(X, y, tasks, sample_weight)
        predicted = self._moments(self.read_queries(X, tasks), offset, to_score=True)[0]
        y = self.read_labels(y, predicted.ndim == 2)
        if y.shape != predicted.shape:
            raise ValueError(f"y has shape {y.shape}, but the predictions have shape {predicted.shape}")
        known, weight = ~np.isnan(y), 1.0 if sample_weight is None else check_weights(sample_weight, predicted)
        weight = np.broadcast_to(weight, y.T.shape).T[known]
        return float(LOSSES[self.loss].score(y[known], predicted[known], sample_weight=weight))

    def score_tasks(
        self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> dict[Any, float]:
        """Return the score of each task: R^2 or, for counts, the share of deviance explained (D^2).

        Tasks without rows in X are left out. The score of a single row is NaN, and so is D^2 of equal counts. Tasks
        that were not in training are scored too.

        Parameters
        ----------
        X, y, tasks, sample_weight, offset : as for `fit`

        Returns
        -------
        scores : dict from task to float
        """
        queries = self.read_queries(X, tasks)
        prediction = self._moments(queries, offset, to_score=True)[0]
        return self._score_each(queries, y, prediction, sample_weight, LOSSES[self.loss].score, 2)

    def _read_offset(self, offset: Any, n: int) -> np.ndarray | None:
        if offset is None:
            return None
        if not LOSSES[self.loss].takes_offset:
            takers = listing([name for name, loss in LOSSES.items() if loss.takes_offset])
            raise ValueError(f"offset is for loss={takers}, but loss={self.loss!r}")
        values = plain(column_or_1d(as_array(offset, "offset")))
        if len(values) != n or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise ValueError(f"offset must hold {n} finite numbers, one for each row of X")
        if np.abs(values).max() > LARGEST_OFFSET:
            row = int(np.argmax(np.abs(values)))
            raise ValueError(f"offset is {values[row]:g} in row {row}: pass the logarithm of the exposure")
        return values.astype(np.float64)

    def _moments(self, queries: Queries, offset: Any, to_score: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if to_score and offset is None and np.ptp(self.functions_.members[0].model.parts[0].offset) > 1e-9:
            warn_user("this model was fitted with offsets: without offset=, all exposures are one", UserWarning)
        return self.functions_.moments(queries, self._read_offset(offset, len(queries.X)))

    def predict_interval(self, X: Any, tasks: Any = None, coverage: float = 0.9, offset: Any = None) -> np.ndarray:
        """Return intervals that contain the target with a given probability.

        The half-width is the standard deviation of the target times a quantile of the standardised residuals of
        held-out rows. Held-out rows are predicted by fits without them. For a task that was not in training, the
        standard deviation includes the variation between tasks. For counts, the ends are whole numbers: quantiles of a
        negative binomial distribution with the mean and variance of the prediction, at levels calibrated like that.

        Parameters
        ----------
        X, tasks : as for `predict`
        coverage : float in (0, 1), default 0.9
            Share of targets that the intervals should contain.
        offset : as for `predict`

        Returns
        -------
        intervals : array of shape (q, 2), or (q, T, 2) on wide data
            Lower and upper ends.
        """
        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
        return self.functions_.ends(*self._moments(self.read_queries(X, tasks), offset), float(coverage))


@describe((), _ATTRIBUTES, "kernels * encoder class_weight " + _USUAL + " callback", **_PARAMETERS)
class KinClassifier(KinEstimator, MultiTaskClassifier):
    """Classification for groups with few rows each; no parameter needs to be set.

    Like `KinRegressor`, but on the scale of log odds, with Laplace's method, and structures are compared by the log
    loss of held-out rows. More than two classes, and two classes in wide data without missing labels, class weights or
    task features, are fitted and compared by the squared loss on labels of -1 and 1. Held-out rows calibrate the
    probabilities. `predict` returns the most probable class.

    For numbers of successes in trials, pass two rows for each number, one of each class, with the numbers of successes
    and failures as `sample_weight`: this is the binomial likelihood.

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

    def _predict(self, queries: Queries) -> np.ndarray:
        return self.classes_[self._probabilities(queries).argmax(axis=-1)]

    def _probabilities(self, queries: Queries) -> np.ndarray:
        return self.functions_.probabilities(queries)
