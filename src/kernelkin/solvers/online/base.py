"""What an online solver takes and does."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .state import OnlineState


class Rounds(NamedTuple):
    """Pairs of rows, in the order in which they are learned from.

    Attributes
    ----------
    tasks : (n,) intp array
        The task of each pair.
    signs : (n,) array
        Whether the two rows belong together (above zero) or not (below); the size is the weight of the round.
    values : (n, K) array
        The kernels at each pair.
    """

    tasks: np.ndarray
    signs: np.ndarray
    values: np.ndarray

    def part(self, start: int, stop: int) -> Rounds:
        """The rounds from `start` to `stop`."""
        return Rounds(self.tasks[start:stop], self.signs[start:stop], self.values[start:stop])


class OnlineSolver(Protocol):
    """A rule for changing kernel weights after each round."""

    def init(self, n_kernels: int, n_tasks: int = 0) -> OnlineState:
        """Return the state before the first round."""
        ...

    def step(self, state: OnlineState, rounds: Rounds) -> None:
        """Change the state by these rounds, in order; in how many pieces they come does not matter."""
        ...
