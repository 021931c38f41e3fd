"""MK-MTFL (Jawanpuria and Nath): all tasks select the same few kernels, and share them out unequally."""

from __future__ import annotations

from functools import partial
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from ..fitting import Classification, Fit, Regression, Shape
from ..penalties import MixedNorm
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, REGRESSION_LOSS, Parameter, describe

_P = Parameter(
    "float in [2, inf]",
    "How unequally tasks may use a kernel: with 2 they use it as they like, with larger p ever more alike.",
    [Interval(Real, 2, np.inf, closed="both")],
)


@describe((*KERNEL_MACHINE, *CLASSES), p=_P)
class MKMTFLClassifier(MultiTaskClassifier):
    """MK-MTFL: all tasks select the same few kernels, by a 1-norm over kernels of a p-norm over tasks.

    The saddle-point problem is convex in the functions; `duality_gap_` is certified. `kernel_weights_` are
    ``gamma_k / lambda_tk``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKMTFLClassifier(p=4).fit(X, y, tasks=tasks)
    >>> model.kernel_weights_.shape
    (3, 6)
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        p=2.0,
        parsimony=0.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        task_column=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.p = p
        self.parsimony = parsimony
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> Fit:
        return _specification(self, Classification(self.loss, self.class_weight))


@describe(p=_P, loss=REGRESSION_LOSS)
class MKMTFLRegressor(MultiTaskRegressor):
    """MK-MTFL: all tasks select the same few kernels, by a 1-norm over kernels of a p-norm over tasks.

    The saddle-point problem is convex in the functions; `duality_gap_` is certified. `kernel_weights_` are
    ``gamma_k / lambda_tk``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTFLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = MKMTFLRegressor(C=10, tol=1e-2).fit(X, Y)
    >>> bool(model.duality_gap_ <= 1e-2 * model.objective_)
    True
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        p=2.0,
        parsimony=0.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        normalize="trace",
        task_column=None,
        tol=1e-3,
        max_iter=100,
        n_jobs=None,
        engine="threads",
        device=None,
        verbose=0,
        callback=None,
    ):
        self.kernels = kernels
        self.C = C
        self.p = p
        self.parsimony = parsimony
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.verbose = verbose
        self.callback = callback

    def specification(self) -> Fit:
        return _specification(self, Regression(self.loss, self.epsilon, self.fit_intercept))


def _norm(shape: Shape, p: float) -> MixedNorm:
    return MixedNorm(p)


def _specification(model: MKMTFLClassifier | MKMTFLRegressor, targets: Classification | Regression) -> Fit:
    return Fit(
        targets=targets,
        penalty=partial(_norm, p=float(model.p)),
        kernels=model.kernels,
        C=model.C,
        parsimony=model.parsimony,
        normalize=model.normalize,
        tol=model.tol,
        max_iter=model.max_iter,
        device=model.device,
    )
