"""The parameters and attributes that all searches have, and what their documentation says."""

from __future__ import annotations

from numbers import Integral, Real
from os import PathLike

from sklearn.utils._param_validation import HasMethods, Interval

from ...parameters import Parameter

SEARCH_PARAMETERS: dict[str, Parameter] = {
    "grid": Parameter(
        "dict of lists, list of such dicts, or None",
        "Values of the estimator's parameters, as for `GridSearchCV`. None: the values that suit most data, for "
        "parameters that are at their defaults; C goes on where an end of its values is best.",
        [dict, list, None],
    ),
    "cv": Parameter(
        "int, or iterable of (training rows, test rows)",
        "A number of folds, made inside every task and stratified by class; on wide data a row is held out for all "
        "tasks at once, unless training and test rows are given as masks of labels, of shape (n, T). A class with a "
        "single row in a task stays in training.",
        [Interval(Integral, 2, None, closed="left"), HasMethods("__iter__")],
    ),
    "scoring": Parameter(
        "None, str or callable",
        "None: errors pooled over the held-out rows of all tasks, which with few rows a task distinguish candidates "
        "best: an R^2 of targets in units of their task's spread, or for classifiers the logistic loss of the decision "
        "values, with its sign changed. Otherwise a name of scikit-learn's; or a callable ``(y, values) -> float``, "
        "which for a classifier gets decision values, with y True for the second of two classes; each task's held-out "
        "values are pooled over the folds and scored, and the mean is taken over the tasks whose score is defined.",
        [str, callable, None],
    ),
    "search_tol": Parameter(
        "float",
        "The relative duality gap of candidates, where the estimator's own `tol` is smaller. The last fit keeps to "
        "`tol`.",
        [Interval(Real, 0, None, closed="neither")],
    ),
    "cache": Parameter(
        "path, optional",
        "A folder that keeps every finished line of candidates on every fold: a search that was killed goes on from "
        "there, if it has the same data, parameters, version of this library and `random_state` (an int). Several "
        "processes may share one. Kernels that are functions of yours are refused: a change to them would not be "
        "noticed.",
        [str, PathLike, None],
    ),
    "n_jobs": Parameter(
        "int, optional",
        "Number of threads over folds and lines of candidates. The result does not depend on it.",
        [Integral, None],
    ),
    "engine": Parameter(
        '"threads", a Dask client or an engine',
        'Where folds and lines of candidates are tried: "threads", `n_jobs` threads of this process; '
        "a `distributed.Client`, the workers of its cluster, each of which gets all rows. "
        "The result does not depend on it.",
    ),
    "random_state": Parameter("int, RandomState or None", "Seed of the folds.", ["random_state"]),
    "verbose": Parameter("int", "1 shows progress and the time left.", ["verbose"]),
    "callback": Parameter(
        "callable, optional",
        "Called with two numbers after each candidate on each fold: how many are done, of how many. (Candidates that "
        "are the same model count as one.)",
        [callable, None],
    ),
}

SEARCH_ATTRIBUTES: dict[str, tuple[str, str]] = {
    "cv_results_": (
        "dict of arrays",
        "A row for each candidate: `params`, `param_*`, `mean_test_score`, `standard_error` (jackknife over folds), "
        "`split*_test_score` (a fold alone), `rank_test_score`, `converged`, `seconds` (over all folds; candidates "
        "solved together share theirs).",
    ),
    "best_index_": ("int", "The first candidate with the best score."),
    "best_params_": ("dict", "Its parameters."),
    "best_score_": ("float", "Its score."),
    "best_estimator_": (
        "estimator",
        "The model with the best parameters, fitted on all rows. Its fitted attributes (`kernel_weights_` and so on) "
        "are available here too.",
    ),
    "n_splits_": ("int", "Number of folds."),
    "search_time_": ("float", "Seconds of the search."),
    "refit_time_": ("float", "Seconds of the last fit."),
    "n_cached_": ("int", "How many lines of candidates on a fold were found in the cache."),
}
