"""MK-MTRL with its parameters chosen by cross-validation."""

from __future__ import annotations

from typing import Any, Self

from ...data import TaskData
from ...parameters import REGRESSION_LOSS, Parameter, describe
from ..models import MKMTRLClassifier, MKMTRLRegressor
from .base import BaseSearch
from .search_parameters import SEARCH_ATTRIBUTES, SEARCH_PARAMETERS
from .task_mixes import fit_task_mixes, mix_specification

_GRID = Parameter(
    "dict of lists, list of such dicts, or None",
    'Values of the model\'s parameters to choose from, such as ``{"C": [0.1, 1, 10], "min_rank": [1, 2], '
    '"couplings": [None, "common"]}``. None: C from 0.01 to 1,000, and further where an end is best, with values '
    "of `parsimony`, `shrinkage` and `evenness` and, where tasks have rows of their own, with a part that all tasks "
    "share; parameters that you set are not searched. A grid of mu beside C repeats itself, for the model depends on "
    "``mu / C**3`` alone.",
    [dict, list, None],
)
_PER_TASK = Parameter(
    "bool",
    "Whether to choose for each task by its own held-out errors, drawn towards all tasks by how much its rows can "
    "tell; for the squared loss on wide data, labels of which may be missing (see the guide on large data). Kernel "
    "weights and strength are chosen in place of the search over `grid`; `kernel_weights_` are then those at C = 1, "
    "and what describes the penalty (`mu`, `shrinkage` and so on), `cv` and `scoring` are not used.",
    ["boolean"],
)
_SEARCH = {**SEARCH_PARAMETERS, "grid": _GRID}
_REGRESSOR_ATTRIBUTES = {
    **SEARCH_ATTRIBUTES,
    "task_choices_": (
        "array of shape (T, 2)",
        "With ``per_task=True``, the mix of kernels and the strength that each task chose, by position "
        "among those that `cv_results_` lists.",
    ),
}


@describe((), SEARCH_ATTRIBUTES, **_SEARCH)
class MKMTRLClassifierCV(BaseSearch):
    """`MKMTRLClassifier` with parameters chosen by cross-validation inside the tasks.

    Parameters that the grid does not name are those of the model. All attributes of a fitted `MKMTRLClassifier` are
    available here too.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTRLClassifierCV(grid={"mu": [0.01, 1e6]}, random_state=0).fit(X, y, tasks=tasks)
    >>> model.best_params_
    {'mu': 0.01}
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        parsimony=0.0,
        couplings=None,
        sharing=1.0,
        task_features=None,
        shared_rank="auto",
        prior=None,
        shrinkage=0.1,
        min_rank=1.0,
        evenness=0.0,
        loss="hinge",
        class_weight=None,
        grid=None,
        cv=5,
        scoring=None,
        search_tol=1e-3,
        cache=None,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        solver="joint",
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.parsimony = parsimony
        self.couplings = couplings
        self.sharing = sharing
        self.task_features = task_features
        self.shared_rank = shared_rank
        self.prior = prior
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.evenness = evenness
        self.loss = loss
        self.class_weight = class_weight
        self.grid = grid
        self.cv = cv
        self.scoring = scoring
        self.search_tol = search_tol
        self.cache = cache
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.task_column = task_column
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def make_model(self) -> MKMTRLClassifier:
        return MKMTRLClassifier(**_model_parameters(self, MKMTRLClassifier))


@describe((), _REGRESSOR_ATTRIBUTES, loss=REGRESSION_LOSS, per_task=_PER_TASK, **_SEARCH)
class MKMTRLRegressorCV(BaseSearch):
    """`MKMTRLRegressor` with parameters chosen by cross-validation inside the tasks.

    Parameters that the grid does not name are those of the model. All attributes of a fitted `MKMTRLRegressor` are
    available here too.

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

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        mu="scale",
        parsimony=0.0,
        couplings=None,
        sharing=1.0,
        task_features=None,
        shared_rank="auto",
        prior=None,
        shrinkage=0.1,
        min_rank=1.0,
        evenness=0.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        grid=None,
        per_task=False,
        cv=5,
        scoring=None,
        search_tol=1e-3,
        cache=None,
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        solver="joint",
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.mu = mu
        self.parsimony = parsimony
        self.couplings = couplings
        self.sharing = sharing
        self.task_features = task_features
        self.shared_rank = shared_rank
        self.prior = prior
        self.shrinkage = shrinkage
        self.min_rank = min_rank
        self.evenness = evenness
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.grid = grid
        self.per_task = per_task
        self.cv = cv
        self.scoring = scoring
        self.search_tol = search_tol
        self.cache = cache
        self.normalize = normalize
        self.unknown_tasks = unknown_tasks
        self.min_rows = min_rows
        self.task_column = task_column
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _fit_data(self, model: MKMTRLRegressor, data: TaskData) -> Self:
        vars(self).pop("task_choices_", None)
        if self.per_task:
            return fit_task_mixes(self, model, data)
        return super()._fit_data(model, data)

    def _bytes(self, model: MKMTRLRegressor, data: TaskData) -> int:
        if self.per_task:
            return mix_specification(self).plan(data).memory().peak
        return super()._bytes(model, data)

    def make_model(self) -> MKMTRLRegressor:
        return MKMTRLRegressor(**_model_parameters(self, MKMTRLRegressor))


def _model_parameters(search: Any, model: type) -> dict[str, Any]:
    """Return the parameters of the model; progress, callbacks and engine are those of the search."""
    shared = set(search.get_params(deep=False)) - {"callback", "verbose", "engine"}
    return {name: getattr(search, name) for name in model().get_params(deep=False) if name in shared}
