"""Cross-validation of any model of this library."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods

from ...parameters import Parameter, describe
from .base import BaseSearch
from .search_parameters import SEARCH_ATTRIBUTES, SEARCH_PARAMETERS


@describe(
    (),
    SEARCH_ATTRIBUTES,
    estimator=Parameter("estimator", "Any model of this library.", [HasMethods(["fit", "predict", "specification"])]),
    **SEARCH_PARAMETERS,
)
class MultiTaskCV(BaseSearch):
    """Choose the parameters of a multi-task model by cross-validation inside the tasks.

    Kernels are evaluated once, on all rows; every fold works on slices of them, scaled by its own training rows. (The
    widths of Gaussian kernels, where they are relative to the median distance, are fitted once, on all rows.)
    Candidates that differ in C and mu alone are solved one after the other, each from the last; those of equal
    ``mu / C**3`` are the same model, and are solved once.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.paper.model_selection import MultiTaskCV
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    >>> search = MultiTaskCV(MKMTRLRegressor(), {"mu": [1e-3, 1e3]}, random_state=0).fit(X, y, tasks=tasks)
    >>> search.best_params_
    {'mu': 0.001}
    """

    def __init__(
        self,
        estimator,
        grid=None,
        *,
        cv=5,
        scoring=None,
        search_tol=1e-3,
        cache=None,
        n_jobs=None,
        engine="threads",
        random_state=None,
        verbose=0,
        callback=None,
    ):
        self.estimator = estimator
        self.grid = grid
        self.cv = cv
        self.scoring = scoring
        self.search_tol = search_tol
        self.cache = cache
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def make_model(self) -> Any:
        return clone(self.estimator)
