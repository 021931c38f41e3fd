"""The state of an online run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class OnlineState:
    """All that an online run needs to go on, O(TK) in size. The module `loops` says what the arrays are."""

    held: np.ndarray
    own: np.ndarray
    late_own: np.ndarray
    fresh: np.ndarray
    L: np.ndarray
    late: np.ndarray
    P: np.ndarray
    rest: np.ndarray
    counts: np.ndarray
    total: np.ndarray

    @classmethod
    def start(cls, n_kernels: int, n_tasks: int = 0) -> OnlineState:
        """Return B = 0 and Omega = I/T.

        A task that joins later has the identity's row of Omega until a refresh finds its weights not zero: until then
        there is nothing to relate it to others by.
        """
        columns = np.zeros((4, n_tasks, n_kernels))
        square = np.zeros((2, n_kernels, n_kernels))
        return cls(
            held=columns[0],
            own=columns[1],
            late_own=columns[2],
            fresh=np.zeros(n_tasks, dtype=bool),
            L=np.eye(n_kernels),
            late=square[0],
            P=square[1],
            rest=np.array([1.0 / max(n_tasks, 1)]),
            counts=np.array([0, 0, 0, 0, n_tasks]),
            total=columns[3],
        )

    @property
    def rounds(self) -> int:
        """Rounds so far."""
        return int(self.counts[0])

    @property
    def mistakes(self) -> int:
        """Rounds that changed the weights."""
        return int(self.counts[1])

    @property
    def n_tasks(self) -> int:
        """Tasks so far."""
        return int(self.counts[4])

    def grow(self, n_tasks: int) -> None:
        """Make the arrays long enough for so many tasks; each joins with its first round."""
        length = len(self.fresh)
        if n_tasks > length:
            more = max(n_tasks, length + length // 2) - length
            for name in ("held", "own", "late_own", "total"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            self.fresh = np.pad(self.fresh, (0, more), constant_values=True)

    def weights(self, average: bool = False) -> np.ndarray:
        """Return B (K, T), or its average over rounds; projected only as far as the run has done so."""
        last = self.held @ self.L.T + self.own
        if average and self.rounds:
            last = self._sums() / self.rounds
        return last[: self.n_tasks].T

    def fold(self, project: bool) -> None:
        """Move all changes since the last refresh into `held`, projected on request."""
        self.total = self._sums()
        held = self.held @ self.L.T + self.own
        self.held = np.maximum(held, 0.0) if project else held
        self.L[:] = np.eye(len(self.L))
        for array in (self.own, self.late_own, self.late):
            array[:] = 0.0
        self.counts[2:4] = 0

    def _sums(self) -> np.ndarray:
        """Return the sum of every task's weights over all rounds (T, K)."""
        n = self.counts[2]
        return self.total + self.held @ (n * self.L - self.late).T + n * self.own - self.late_own
