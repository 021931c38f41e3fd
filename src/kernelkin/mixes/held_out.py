"""Whether tasks gain by weights of their own: measured on rows that took no part in finding these.

A leave-one-out error says nothing here, for a task's own weights were found from all of its rows. So they are found
again without a quarter of the rows, and both they and the mix that the task chose predict that quarter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..grams.arrays import in_blocks
from ..grams.operator import SharedOperator
from ..problems.columns import Block, solve_block
from .left_out import Targets

# The share of the rows that is held out, and the fewest rows that are worth a split.
_HELD, _FEWEST = 0.25, 12
# The relative gap to which machines are solved: far below what their errors tell.
_TOL = 1e-4


@dataclass(frozen=True)
class Group:
    """Tasks that share a mix.

    Attributes
    ----------
    members : their positions.
    mix : (K,) the mix, of sum one.
    strength : that which suits them.
    """

    members: np.ndarray
    mix: np.ndarray
    strength: float


def gains_of_own_weights(
    targets: Targets, groups: Sequence[Group], shared: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) by how much the error of each task falls with weights of its own, and the standard error of that.

    `shared` (K, T) are the weights, at cost 1, that own ones of the same sum would replace.
    """
    gains, errors = np.zeros((2, targets.Y.shape[1]))
    n_rows = len(targets.Y)
    if n_rows < _FEWEST:
        return gains, errors
    order = np.random.default_rng(0).permutation(n_rows)
    held, kept = np.sort(order[: int(_HELD * n_rows)]), np.sort(order[int(_HELD * n_rows) :])
    split = _Split.of(targets, kept, held)
    for group in groups:
        gains[group.members], errors[group.members] = split.gains(group, shared[:, group.members])
    return gains, errors


@dataclass(frozen=True)
class _Split:
    """Rows to learn from, rows to predict, and the kernels between them.

    Attributes
    ----------
    kept : the targets of rows to learn from.
    cross : (K, h, n) kernel values between rows to predict and these.
    held : (h, T) targets of rows to predict.
    """

    kept: Targets
    cross: Any
    held: np.ndarray

    @classmethod
    def of(cls, targets: Targets, kept: np.ndarray, held: np.ndarray) -> _Split:
        arrays, values = targets.arrays, targets.operator.values
        rows, others = arrays.array(kept), arrays.array(held)
        operator = SharedOperator(arrays, values[:, rows][:, :, rows])
        Y, away = targets.Y[kept], targets.Y[held]
        if targets.has_intercept:
            means = Y.mean(axis=0)
            Y, away = Y - means, away - means
        return cls(replace(targets, operator=operator, Y=Y), values[:, others][:, :, rows], away)

    def gains(self, group: Group, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much the errors of the members fall with weights of their own, and the standard errors of that."""
        targets, members = self.kept, group.members
        found = targets.own_weights(targets.decompose(group.mix), group.strength, members)
        sums = found.sum(axis=0)
        own = np.where(sums > 0, found * (shared.sum(axis=0) / np.where(sums > 0, sums, 1.0)), shared)
        arrays, size = targets.arrays, targets.arrays.columns(targets.operator.n_rows, targets.operator.n_kernels)

        def some(where: slice) -> np.ndarray:
            fall = self._squares(shared[:, where], members[where]) - self._squares(own[:, where], members[where])
            gain = fall.mean(0)
            return arrays.numpy(arrays.stack([gain, ((fall - gain) ** 2).mean(0)]))

        gain, variance = np.concatenate(in_blocks(arrays, len(members), size, some), axis=1)
        return gain, np.sqrt(variance / len(self.held))

    def _squares(self, b: np.ndarray, members: np.ndarray) -> Any:
        """(h, o) squared errors of some tasks at kernel weights b (K, o) and cost 1."""
        arrays, operator = self.kept.arrays, self.kept.operator
        weights, Y = arrays.array(b), arrays.array(self.kept.Y[:, members])
        block = Block(operator, weights, Y, arrays.array(np.ones((1, len(members)))), None, self.kept.has_intercept)
        solution, values = solve_block(block, None, _TOL), None
        for cross, weight in zip(self.cross, weights, strict=True):
            values = arrays.add_product(values, arrays.cast(cross, single=False), solution.a * weight)
        return (arrays.array(self.held[:, members]) - values - solution.intercept) ** 2
