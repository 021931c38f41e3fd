"""MK-MTRL: kernel weights of all tasks, learned together with a task relationship."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...parameters import CLASSES, COUPLED, KERNEL_MACHINE, REGRESSION_LOSS, describe, set_parameters
from ..fitting.fit import Fit
from .base import PaperClassifier, PaperRegressor
from .machines import kernel_fit, relation_penalty


class _MKMTRL:
    def specification(self) -> Fit:
        model: Any = self
        names = ("prior", "shrinkage", "min_rank", "evenness")
        return kernel_fit(model, partial(relation_penalty, **{n: getattr(model, n) for n in names}), has_path=True)


@describe((*KERNEL_MACHINE, *CLASSES, *COUPLED))
class MKMTRLClassifier(_MKMTRL, PaperClassifier):
    """Multi-task multiple kernel relationship learning (MK-MTRL) for classification.

    It learns kernel weights for each task, a task relationship between these weights, and one kernel machine for each
    task. The problem is convex; `duality_gap_` certifies how close the fit is to the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTRLClassifier().fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
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
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        solver="joint",
        init=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        set_parameters(self, locals())


@describe((*KERNEL_MACHINE, *COUPLED), loss=REGRESSION_LOSS)
class MKMTRLRegressor(_MKMTRL, PaperRegressor):
    """Multi-task multiple kernel relationship learning (MK-MTRL) for regression.

    It learns kernel weights for each task, a task relationship between these weights, and one kernel machine for each
    task. The problem is convex; `duality_gap_` certifies how close the fit is to the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])  # wide: two tasks on the same rows
    >>> model = MKMTRLRegressor(C=10).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
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
        normalize="trace",
        unknown_tasks="error",
        min_rows=None,
        task_column=None,
        solver="joint",
        init=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        set_parameters(self, locals())
