"""Whether tasks gain by weights of their own: measured on rows that took no part in finding these.

A leave-one-out error says nothing here, for a task's own weights were found from all of its rows. So they are found
again without a quarter of the rows, and both they and the mix that the task chose predict that quarter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grams.operator import in_blocks
from ..problems.columns import Block, solve_block
from .targets import TaskTargets

# The share of the rows that is held out, and the fewest rows that are worth a split.
_HELD, _FEWEST = 0.25, 12
# The fewest labels of a task among these that are counted.
_FEWEST_HELD = 3
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
    targets: TaskTargets, groups: Sequence[Group], shared: np.ndarray
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
    # Few labels held out say nothing of their own.
    few = split.n_held < _FEWEST_HELD
    return np.where(few, 0.0, gains), np.where(few, errors.max(initial=0.0), errors)


@dataclass(frozen=True)
class _Split:
    """Rows to learn from, rows to predict, and the kernels between them.

    Attributes
    ----------
    kept : the targets of rows to learn from.
    cross : (K, h, n) kernel values between rows to predict and these.
    held : (h, T) targets of rows to predict.
    mask : (h, T) one where there is a label, else zero; None where there are all.
    """

    kept: TaskTargets
    cross: Any
    held: np.ndarray
    mask: np.ndarray | None

    @classmethod
    def of(cls, targets: TaskTargets, kept: np.ndarray, held: np.ndarray) -> _Split:
        learned, means = targets.take(kept)
        cross = targets.operator.entries(held, kept)
        return cls(learned, cross, targets.Y[held] - means, None if targets.mask is None else targets.mask[held])

    @property
    def n_held(self) -> Any:
        """Labels to predict, of all tasks or of each (T,)."""
        return len(self.held) if self.mask is None else self.mask.sum(axis=0, dtype=np.float64)

    def gains(self, group: Group, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much the errors of the members fall with weights of their own, and the standard errors of that."""
        targets, members = self.kept, group.members
        found = targets.own_weights(targets.decompose(group.mix), group.strength, members)
        sums = found.sum(axis=0)
        own = np.where(sums > 0, found * (shared.sum(axis=0) / np.where(sums > 0, sums, 1.0)), shared)
        arrays, size = targets.arrays, targets.arrays.columns(targets.operator.n_rows, targets.operator.n_kernels)

        def some(where: slice) -> np.ndarray:
            fall = self._squares(shared[:, where], members[where]) - self._squares(own[:, where], members[where])
            known = self._known(members[where])
            count = known.sum(0) + 1e-300
            gain = (known * fall).sum(0) / count
            variance = (known * (fall - gain) ** 2).sum(0) / count
            return arrays.numpy(arrays.xp.stack([gain, variance, count]))

        gain, variance, count = np.concatenate(in_blocks(arrays, len(members), size, some), axis=1)
        return gain, np.sqrt(variance / np.maximum(count, 1.0))

    def _known(self, members: np.ndarray) -> Any:
        """(h, o) one where some tasks have a label to predict, else zero."""
        mask = np.ones((len(self.held), len(members))) if self.mask is None else self.mask[:, members]
        return self.kept.arrays.array(np.ascontiguousarray(mask, dtype=np.float64))

    def _squares(self, b: np.ndarray, members: np.ndarray) -> Any:
        """(h, o) squared errors of some tasks at kernel weights b (K, o) and cost 1."""
        arrays, operator, labels = self.kept.arrays, self.kept.operator, self.kept.mask
        weights, Y = arrays.array(b), arrays.array(self.kept.Y[:, members])
        mask = None if labels is None else arrays.array(labels[:, members].astype(np.float64))
        cost = arrays.array(np.ones((1, len(members)))) if mask is None else mask
        solution = solve_block(Block(operator, weights, Y, cost, mask, self.kept.has_intercept), None, _TOL)
        values = 0.0
        for cross, weight in zip(self.cross, weights, strict=True):
            values = values + arrays.cast(cross, single=False) @ (solution.a * weight)
        return (arrays.array(self.held[:, members]) - values - solution.intercept) ** 2
