"""What every learner takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

# From the images G_k a (K, n, m) of a machine's dual variables to the Hessian (K, K) of its value in kernel weights.
HessianFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Machine:
    """The data of one kernel machine, its Gram matrix aside.

    Parameters
    ----------
    y : (n, m) array
        Coded targets: -1 and +1 for classification (one column for each one-vs-rest problem), reals for regression.
    C : (n, m) array
        Cost of each row in each output, not negative. A row with zero cost takes no part: its ``a`` is zero.
    groups : (n,) array of intp
        The intercept of each row, 0 to ``n_groups - 1``.
    n_groups : int
        Number of intercepts. Zero: no intercept, and ``groups`` is ignored.
    """

    y: np.ndarray
    C: np.ndarray
    groups: np.ndarray
    n_groups: int


@dataclass(frozen=True)
class DualSolution:
    """A feasible point of a machine's dual, with the values that bound the optimum from both sides.

    Parameters
    ----------
    a : (n, m) array
        Signed dual variables: inside their box exactly, every group's sum zero to rounding.
    intercept : (n_groups, m) array
        The intercepts that minimise the primal at this ``a``.
    lin : float
        The terms of the dual without the Gram matrix, summed over outputs.
    quad : float
        ``1/2 a'Ga`` summed over outputs.
    primal : float
        Value of the primal at ``w = sum_i a_i phi(x_i)`` and these intercepts.
    """

    a: np.ndarray
    intercept: np.ndarray
    lin: float
    quad: float
    primal: float

    @property
    def dual(self) -> float:
        """Lower bound on the machine's optimal value."""
        return self.lin - self.quad

    @property
    def gap(self) -> float:
        """Distance of the two bounds; never negative but for rounding."""
        return self.primal - self.dual


class Learner(Protocol):
    """A loss: it solves one kernel machine given the machine's Gram matrix.

    Attributes
    ----------
    name : str
        Its key in `LEARNERS`.
    homogeneous : bool
        Whether the terms of the dual without the Gram matrix are proportional to `a`: then a Gram ``t G`` with dual
        variables ``a / t`` is the same function.
    """

    name: ClassVar[str]
    homogeneous: ClassVar[bool]

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Solve to a relative duality gap of ``tol``.

        Parameters
        ----------
        gram : (n, n) array
            Symmetric, positive semi-definite.
        machine : Machine
        a0 : (n, m) array, optional
            Where to start; it need not be feasible.
        tol : float
            The gap is at most ``tol`` times the primal value, unless rounding forbids.
        """
        ...

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m) of a function, intercept included, at the rows of a machine."""
        ...

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights.

        The Hessian is returned as a function of the images ``G_k a`` (K, n, m), to (K, K): they are needed for the
        gradient too. `gram` must be an array; the function keeps it, or a factor of it, in memory.
        """
        ...
