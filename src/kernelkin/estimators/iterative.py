"""Estimators that iterate: watched on their way, and those that minimise machines plus penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from ..couplings import Coupling
from ..data import TaskData
from ..exceptions import warn_user
from ..grams import Grams, Use
from ..objective import Objective
from ..parallel import Workers
from ..solvers import SOLVERS, Joint, Run, Solution, Solver, Status
from .base import MultiKernelEstimator
from .on_grams import GramEstimator
from .targets import target_variance


@dataclass(eq=False, repr=False, kw_only=True)
class WatchedEstimator(MultiKernelEstimator):
    """An estimator that iterates: bounded, shown and watched."""

    max_iter: int = 100
    verbose: int = 0
    callback: Callable | None = None

    _watched_constraints: ClassVar[dict[str, Any]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    def _run(self, solver: Solver, objective: Objective, start: np.ndarray | None = None) -> Solution:
        """Let a solver run, and warn where it ended before the gap was closed."""
        with Workers(self.n_jobs) as workers:
            run = Run(objective, self.tol, verbose=self.verbose, callback=self.callback, each=workers.map)
            solution = solver.minimise(run, start, self.max_iter)
        if solution.status in (Status.MAX_ITER, Status.STALLED):
            warn_user(
                f"{type(self).__name__}: {solution.status.value}. The relative duality gap reached is "
                f"{solution.relative_gap:.1e}, and tol={self.tol:g}.",
                ConvergenceWarning,
            )
        return solution


@dataclass(eq=False, repr=False, kw_only=True)
class PenalisedEstimator(WatchedEstimator, GramEstimator):
    """An estimator whose kernel weights minimise machines plus penalty, by one of `SOLVERS`."""

    mu: float | str = "scale"
    solver: str | Solver = "joint"
    init: Any = None
    random_state: Any = None

    _penalised_constraints: ClassVar[dict[str, Any]] = {
        **WatchedEstimator._watched_constraints,
        "mu": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "solver": [StrOptions(set(SOLVERS)), *SOLVERS.values()],
        "init": ["array-like", None],
        "random_state": ["random_state"],
    }

    def _strength(self, data: TaskData) -> float:
        if isinstance(self.mu, str):
            return 1.0 if is_classifier(self) else target_variance(data)
        return self.mu

    @property
    def _place(self) -> float:
        """Where the model is on its path: the logarithm of mu / C^3, with 1 for the scale of the targets."""
        return float(np.log(1.0 if isinstance(self.mu, str) else self.mu) - 3.0 * np.log(self.C))

    def _use(self) -> Use:
        return replace(super()._use(), curved=self.solver == "joint" or isinstance(self.solver, Joint))

    def _solve(self, objective: Objective) -> Solution:
        solver = SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver
        return self._run(solver, objective, self._start(objective))

    def _pose(self, data: TaskData, couplings: Sequence[Coupling]) -> Callable[[Grams], Objective]:
        if self.init is not None:
            self._check_init((data.n_tasks + len(couplings), self._count_kernels(data)))
        return super()._pose(data, couplings)

    def _check_init(self, shape: tuple[int, int]) -> None:
        weights = np.asarray(self.init)
        if weights.shape != shape:
            raise ValueError(f"init must be kernel weights of shape {shape}, got {weights.shape}")
        if weights.dtype.kind not in "fiu" or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise ValueError("init must be kernel weights that are finite, not negative, and not all zero")

    def _start(self, objective: Objective) -> np.ndarray | None:
        return None if self.init is None else np.array(self.init, dtype=np.float64).T.copy()
