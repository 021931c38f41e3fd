"""Fixed kernel weights: AVG, the average of all kernels, and STL, one kernel. Every machine is solved once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..data import TaskData, listing
from ..estimators.kinds import MultiKernelClassifier, MultiKernelRegressor
from ..estimators.on_grams import GramEstimator
from ..kernels import FittedKernel, resolve_kernels
from ..objective import Objective
from ..parallel import Workers
from ..penalties import Penalty
from ..solvers import Run, Solution, Status
from ..solvers.base import Finished


class NoPenalty(Penalty):
    """R = 0 at weights that are given: the objective is the sum of the machines' values."""

    name: ClassVar[str] = "none"

    def value_and_gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """0 and zeros (K, J)."""
        return 0.0, np.zeros_like(B)

    def bound(self, Q: np.ndarray, B: np.ndarray, mu: float) -> float:
        """-<B, Q>: with the machines' linear terms, their dual values at B."""
        return -float(np.vdot(B, Q))

    def relation(self, B: np.ndarray) -> np.ndarray:
        """I/J (J, J): the tasks are unrelated."""
        return np.eye(B.shape[1]) / B.shape[1]


@dataclass(eq=False, repr=False, kw_only=True)
class _Fixed(GramEstimator):
    """One solve of the machines at weights that do not depend on the targets."""

    def _penalty(self, n_tasks: int, n_couplings: int) -> NoPenalty:
        return NoPenalty()

    def _solve(self, objective: Objective) -> Solution:
        mix = self._mix(objective.grams.n_kernels)
        with Workers(self.n_jobs) as workers:
            run = Run(objective, self.tol, each=workers.map)
            run.accuracy = self.tol
            with suppress(Finished):
                run.evaluate(np.repeat(mix[:, np.newaxis], objective.grams.n_components, axis=1))
                run.finish(Status.STALLED)
        return run.solution()

    def _mix(self, n_kernels: int) -> np.ndarray:
        """The weights (K,) that every task uses."""
        return np.full(n_kernels, 1.0 / n_kernels)


@dataclass(eq=False, repr=False, kw_only=True)
class _OneKernel(_Fixed):
    """The choice of one kernel from the list."""

    kernel: Any = None

    _choice_constraints: ClassVar[dict[str, Any]] = {"kernel": "no_validation"}

    def _fit_kernels(self, data: TaskData) -> list[FittedKernel] | None:
        kernels = super()._fit_kernels(data)
        if kernels is None:
            return None
        return [kernels[choose_kernel(self.kernel, [kernel.name for kernel in kernels])]]

    def _mix(self, n_kernels: int) -> np.ndarray:
        if not self._precomputed:
            return np.ones(1)
        mix = np.zeros(n_kernels)
        mix[_position(0 if self.kernel is None else self.kernel, n_kernels)] = 1.0
        return mix


def choose_kernel(kernel: Any, names: list[str]) -> int:
    """The position of the kernel a user means: by position, by name, or None for "rbf", else "linear", else the first.

    "rbf", "linear" and "poly" stand for the kernels of `resolve_kernels`.
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


@dataclass(eq=False, repr=False, kw_only=True)
class AverageClassifier(_Fixed, MultiKernelClassifier):
    """AVG: one kernel machine for each task on the average of the base kernels.

    Nothing is learned about the kernels, and tasks share nothing. A strong baseline when all kernels are reasonable.

    Parameters
    ----------
    kernels, C, normalize, loss, class_weight, task_column, n_jobs
        As for `MKMTRLClassifier`.
    tol : float
        The relative duality gap of the machines.

    Attributes
    ----------
    kernel_weights_ : array (T, K), 1/K throughout; the others as for `MKMTRLClassifier`.

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


@dataclass(eq=False, repr=False, kw_only=True)
class AverageRegressor(_Fixed, MultiKernelRegressor):
    """AVG: one kernel machine for each task on the average of the base kernels.

    Parameters
    ----------
    kernels, C, normalize, loss, epsilon, fit_intercept, task_column, n_jobs
        As for `MKMTRLRegressor`.
    tol : float
        The relative duality gap of the machines.

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


@dataclass(eq=False, repr=False, kw_only=True)
class STLClassifier(_OneKernel, MultiKernelClassifier):
    """STL: single-task learning, one machine for each task on one kernel.

    Parameters
    ----------
    kernels, C, normalize, loss, class_weight, task_column, n_jobs
        As for `MKMTRLClassifier`.
    kernel : str, int or None
        Which of `kernels`: its name ("rbf", "linear" and "poly" too) or position. None: the Gaussian at the median
        distance, or the linear kernel, or the first. Precomputed kernels go by position; None is the first.
    tol : float
        The relative duality gap of the machines.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **_OneKernel._choice_constraints,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class STLRegressor(_OneKernel, MultiKernelRegressor):
    """STL: single-task learning, one machine for each task on one kernel.

    Parameters
    ----------
    kernels, C, normalize, loss, epsilon, fit_intercept, task_column, n_jobs
        As for `MKMTRLRegressor`.
    kernel, tol
        As for `STLClassifier`.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelRegressor._parameter_constraints,
        **_OneKernel._choice_constraints,
    }
