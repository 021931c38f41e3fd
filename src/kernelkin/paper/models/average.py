"""AVG: one machine per task on the average of all kernels. Every machine is solved once."""

from __future__ import annotations

import numpy as np

from ..fitting import Classification, Fit, Regression, Shape
from ..penalties import FixedWeights
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, REGRESSION_LOSS, describe


@describe((*KERNEL_MACHINE, *CLASSES))
class AverageClassifier(MultiTaskClassifier):
    """AVG: one kernel machine for each task on the average of the base kernels.

    Nothing is learned about the kernels, and tasks share nothing. A strong baseline where all kernels are reasonable.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import AverageClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = AverageClassifier().fit(X, y, tasks=tasks)
    >>> model.kernel_weights_[0].round(3)
    array([0.167, 0.167, 0.167, 0.167, 0.167, 0.167])
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        loss="hinge",
        class_weight=None,
        normalize="trace",
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        device=None,
    ):
        self.kernels = kernels
        self.C = C
        self.loss = loss
        self.class_weight = class_weight
        self.normalize = normalize
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device

    def specification(self) -> Fit:
        return _specification(self, Classification(self.loss, self.class_weight))


@describe(loss=REGRESSION_LOSS)
class AverageRegressor(MultiTaskRegressor):
    """AVG: one kernel machine for each task on the average of the base kernels.

    Nothing is learned about the kernels, and tasks share nothing. A strong baseline where all kernels are reasonable.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import AverageRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = AverageRegressor(C=10).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2)
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        loss="squared",
        epsilon=0.1,
        fit_intercept=True,
        normalize="trace",
        task_column=None,
        tol=1e-3,
        n_jobs=None,
        engine="threads",
        device=None,
    ):
        self.kernels = kernels
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.task_column = task_column
        self.tol = tol
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device

    def specification(self) -> Fit:
        return _specification(self, Regression(self.loss, self.epsilon, self.fit_intercept))


def even_weights(shape: Shape) -> FixedWeights:
    return FixedWeights(np.full((shape.n_kernels, shape.n_components), 1.0 / shape.n_kernels))


def _specification(model: AverageClassifier | AverageRegressor, targets: Classification | Regression) -> Fit:
    return Fit(
        targets=targets,
        penalty=even_weights,
        kernels=model.kernels,
        C=model.C,
        normalize=model.normalize,
        tol=model.tol,
        device=model.device,
    )
