"""Machines that are elsewhere, in blocks of tasks, and what is known here of their solutions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..learners import DualSolution, Machine

_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class BlockDuals(Sequence[DualSolution]):
    """Values of the solutions of machines that are elsewhere.

    Attributes
    ----------
    number : that of the evaluation; a block may still have its dual variables, and start from them.
    tol : the relative gap to which machines were solved.
    lin, quad, primal : (T,) as in `DualSolution`.
    """

    number: int
    tol: float
    lin: np.ndarray
    quad: np.ndarray
    primal: np.ndarray

    def __len__(self) -> int:
        return len(self.lin)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("the dual variables of machines in blocks are where the blocks are")


class RemoteMachines(Sequence[Machine]):
    """Machines that are solved elsewhere.

    Attributes
    ----------
    deviations : (T,) half the squared deviations of the targets of each machine, times their costs.
    """

    deviations: np.ndarray

    def __len__(self) -> int:
        return len(self.deviations)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("machines in blocks are where the blocks are")

    @abstractmethod
    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[Sequence[DualSolution], np.ndarray, np.ndarray | None]:
        """Solve all machines at B (K, T) -> their solutions, Q (K, T), and where requested the Hessians (T, K, K)."""


def deviation(machine: Machine) -> float:
    """Half the squared deviations of a machine's targets from their means, times their costs."""
    mean = np.average(machine.y, axis=0, weights=np.maximum(machine.C, _TINY))
    return 0.5 * float(np.sum(machine.C * np.square(machine.y - mean)))
