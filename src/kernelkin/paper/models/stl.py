"""STL: one machine per task on one kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...data import listing
from ...kernels import is_precomputed, resolve_kernels
from ..fitting import Classification, Fit, Regression, Shape
from ..penalties import FixedWeights
from .kinds import MultiTaskClassifier, MultiTaskRegressor
from .parameters import CLASSES, KERNEL_MACHINE, REGRESSION_LOSS, Parameter, describe

_KERNEL = Parameter(
    "str, int or None",
    'Which of `kernels`: its name ("rbf", "linear" and "poly" too) or position. None: the Gaussian at the median '
    "distance, or the linear kernel, or the first. Precomputed kernels go by position; None is the first.",
)


@describe((*KERNEL_MACHINE, *CLASSES), kernel=_KERNEL)
class STLClassifier(MultiTaskClassifier):
    """STL: single-task learning, one machine for each task on one kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import STLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = STLClassifier(kernel="linear").fit(X, y, tasks=tasks)
    >>> model.kernel_names_.tolist()
    ['linear']
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        kernel=None,
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
        self.kernel = kernel
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


@describe(kernel=_KERNEL, loss=REGRESSION_LOSS)
class STLRegressor(MultiTaskRegressor):
    """STL: single-task learning, one machine for each task on one kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import STLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1 * X[:, 1]])
    >>> model = STLRegressor(C=10).fit(X, Y)
    >>> model.kernel_names_.tolist()
    ['rbf(1 x median)']
    """

    def __init__(
        self,
        kernels=None,
        *,
        C=1.0,
        kernel=None,
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
        self.kernel = kernel
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


def _specification(model: STLClassifier | STLRegressor, targets: Classification | Regression) -> Fit:
    precomputed = is_precomputed(model.kernels)
    return Fit(
        targets=targets,
        penalty=partial(_one_kernel, kernel=model.kernel if precomputed else None),
        kernels=model.kernels,
        choose_kernel=None if precomputed else partial(choose_kernel, model.kernel),
        C=model.C,
        normalize=model.normalize,
        tol=model.tol,
        device=model.device,
    )


def _one_kernel(shape: Shape, kernel: int | None) -> FixedWeights:
    weights = np.zeros((shape.n_kernels, shape.n_components))
    weights[_position(0 if kernel is None else kernel, shape.n_kernels)] = 1.0
    return FixedWeights(weights)


def choose_kernel(kernel: Any, names: list[str]) -> int:
    """Return the position of the kernel a user means: by position, by name, or None.

    "rbf", "linear" and "poly" stand for the kernels of `resolve_kernels`; None for "rbf", else "linear", else the
    first.
    """
    if kernel is None:
        wanted = [resolve_kernels(name)[0].name for name in ("rbf", "linear")]
        return next((names.index(name) for name in wanted if name in names), 0)
    if isinstance(kernel, str):
        if kernel not in names and kernel in ("rbf", "linear", "poly"):
            kernel = resolve_kernels(kernel)[0].name
        if kernel not in names:
            raise ValueError(f"kernel={kernel!r} is not one of the kernels, which are {listing(names)}")
        return names.index(kernel)
    return _position(kernel, len(names))


def _position(kernel: Any, n_kernels: int) -> int:
    if not isinstance(kernel, int | np.integer) or not -n_kernels <= kernel < n_kernels:
        raise ValueError(f"kernel={kernel!r} is not the position of one of the {n_kernels} kernels")
    return int(kernel) % n_kernels
