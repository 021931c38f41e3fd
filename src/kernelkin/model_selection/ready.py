"""MK-MTRL with its parameters chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..estimators.base import MultiKernelEstimator
from ..estimators.mkmtrl import MKMTRLClassifier, MKMTRLRegressor
from .estimators import MultiTaskCV

# mu stays what it is: with C it makes one parameter, not two.
_GRID = {"C": np.logspace(-1, 5 / 3, 9), "shrinkage": [0.1, 1.0]}


@dataclass(eq=False, repr=False, kw_only=True)
class _Searched(MultiKernelEstimator):
    """A model with the parameters of a search beside its own; fitted, it is the best candidate."""

    grid: Any = None
    cv: Any = 5
    scoring: Any = None
    search_tol: float = 1e-3
    cache: Any = None

    _model: ClassVar[type[MultiKernelEstimator]]
    _search_constraints: ClassVar[dict[str, Any]] = {
        "grid": [dict, list, None],
        **{name: MultiTaskCV._search_constraints[name] for name in ("cv", "scoring", "search_tol", "cache")},
    }

    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> _Searched:
        """Search the grid, then fit the best candidate on all rows. Arguments are those of the model's `fit`."""
        self._validate_params()
        params = {name: getattr(self, name) for name in self._model._get_param_names()}
        search = MultiTaskCV(
            self._model(**{**params, "verbose": max(params["verbose"] - 1, 0)}),
            _GRID if self.grid is None else self.grid,
            **{name: params[name] for name in ("n_jobs", "random_state", "verbose")},
            **{name: getattr(self, name) for name in ("cv", "scoring", "search_tol", "cache")},
        ).fit(X, y, tasks, sample_weight)
        for fitted in (search.best_estimator_, search):
            own = fitted.get_params(deep=False)
            self.__dict__.update({name: value for name, value in vars(fitted).items() if name not in own})
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTRLClassifierCV(_Searched, MKMTRLClassifier):
    """`MKMTRLClassifier` with parameters chosen by cross-validation inside the tasks.

    Parameters
    ----------
    grid : dict of lists, or list of such dicts
        Values of the parameters of `MKMTRLClassifier` to choose from, such as ``{"mu": [0.01, 0.1, 1], "min_rank": [1,
        2], "couplings": [None, "common"]}``. None: nine values of C, with and without a learned relationship. A grid
        of mu beside C repeats itself, for the model depends on ``mu / C**3`` alone.
    cv, scoring, search_tol, cache
        As for `MultiTaskCV`, which says how the search is done.
    kernels, C, mu, couplings, prior, shrinkage, min_rank, evenness, holdout_tasks, normalize, loss, class_weight, \
solver, init, task_column, tol, max_iter, n_jobs, random_state, verbose, callback
        As for `MKMTRLClassifier`, where the grid does not name them; `n_jobs`, `random_state` (the folds) and `verbose`
        are the search's.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_
        As for `MultiTaskCV`. All attributes of a fitted `MKMTRLClassifier` are here too.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.model_selection import MKMTRLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTRLClassifierCV(grid={"mu": [0.01, 1e6]}, random_state=0).fit(X, y, tasks=tasks)
    >>> model.best_params_
    {'mu': 0.01}
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    _model: ClassVar[type[MultiKernelEstimator]] = MKMTRLClassifier
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MKMTRLClassifier._parameter_constraints,
        **_Searched._search_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class MKMTRLRegressorCV(_Searched, MKMTRLRegressor):
    """`MKMTRLRegressor` with parameters chosen by cross-validation inside the tasks.

    Parameters
    ----------
    grid, cv, scoring, search_tol, cache
        As for `MKMTRLClassifierCV`.
    kernels, C, mu, couplings, prior, shrinkage, min_rank, evenness, holdout_tasks, normalize, loss, epsilon, \
fit_intercept, solver, init, task_column, tol, max_iter, n_jobs, random_state, verbose, callback
        As for `MKMTRLRegressor`, where the grid does not name them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.model_selection import MKMTRLRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MKMTRLRegressorCV(grid={"mu": [1e-3, 1e3]}, cv=3, random_state=0).fit(X, Y)
    >>> model.best_params_
    {'mu': 0.001}
    """

    _model: ClassVar[type[MultiKernelEstimator]] = MKMTRLRegressor
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MKMTRLRegressor._parameter_constraints,
        **_Searched._search_constraints,
    }
