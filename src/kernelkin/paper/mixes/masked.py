"""Errors of all tasks at mixes and strengths where labels are missing: out-of-fold, by conjugate gradients.

Every task may miss other labels, so that no decomposition serves all of them. Each task's labels are dealt into folds,
and the machines without a fold predict it: all tasks at once, and all strengths in the time of the largest. Memory is
`O(K n^2 + n T)`, as for complete labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..grams.operator import Arrays, Result, SharedOperator, in_blocks
from ..problems.columns import Block, ratio
from .components import component_weights, information
from .targets import Errors

# Iterations, and the norm of a residual, relative to the targets, at which a strength is solved: predictions are wrong
# by no more than that share of the targets.
_ITERATIONS, _TOL = 300, 5e-3


def solutions_at_strengths(block: Block, strengths: np.ndarray) -> Any:
    """x (c, n, o) of the columns of a block of one mix, at strengths (c,) in descending order, in single precision.

    By conjugate gradients. At the strength c a machine on the mix G solves `P (G + I/c) P x = P y`, P leaving out rows
    without a label and, where there is an intercept, the mean. Systems that differ in c alone differ by a multiple of
    the identity, so that they share their Krylov space (Jegerlehner, 1996): all strengths take the products with G of
    the largest one.
    """
    arrays, residual = block.arrays, block.project(block.y)
    first, shifts = 1.0 / float(strengths[0]), (1.0 / strengths - 1.0 / strengths[0]).reshape(-1, 1)
    shifts = arrays.cast(arrays.array(shifts), single=True)
    x = arrays.xp.stack([0.0 * residual for _ in strengths])
    directions = x + residual
    square = goal = block.sums(residual * residual)
    # Residuals at smaller strengths are multiples of those at the first: now, and one iteration before.
    multiple = before = 0.0 * shifts + 0.0 * square + 1.0
    step_before, turn = 0.0 * square + 1.0, 0.0 * square
    for _ in range(_ITERATIONS):
        m = len(multiple)
        image = block.project(block.apply(directions[0])) + first * directions[0]
        step = ratio(arrays, square, block.sums(directions[0] * image))
        residual = residual - step * image
        square, old = block.sums(residual * residual), square
        below = step_before * before * (1.0 + step * shifts[:m]) + step * turn * (before - multiple)
        after = ratio(arrays, multiple * before * step_before, below)
        share, turn = ratio(arrays, after, multiple), ratio(arrays, square, old)
        x[:m] += (step * share)[:, None, :] * directions[:m]
        directions[:m] *= (turn * share**2)[:, None, :]
        directions[:m] += after[:, None, :] * residual
        # Smaller strengths are solved first, and are left as they are.
        m = int(((after**2 * square > _TOL**2 * goal).sum(1) > 0).sum())
        if m == 0:
            break
        before, multiple, step_before = multiple[:m], after[:m], step
    return x


# Folds that the labels of a task are dealt into.
FOLDS = 5
# The largest strength that is tried at first, how many more at one time, how many beside those that suit tasks, and the
# share of the tasks at either end that does not count.
_FIRST_LIMIT, _MORE, _MARGIN, _EXTREME = 10.0, 4, 2, 0.05
# So many labels count as spread like those of all tasks: the spread of few is uncertain.
_PRIOR_LABELS = 10
# Sets of rows for which the information about components is computed, at most.
_PATTERNS = 4


@dataclass(frozen=True)
class MixMatrix:
    """One mix of kernels: weights (K,) of sum one, and their sum as an operator, in single precision."""

    mix: np.ndarray
    operator: SharedOperator


@dataclass(frozen=True)
class Reference:
    """Squared out-of-fold errors (n, T) where the operator is, zero where there is no label."""

    squares: Any


@dataclass(frozen=True)
class MaskedTargets:
    """The targets of all tasks on shared rows, of which labels are missing, and the strengths to try.

    Attributes
    ----------
    operator : the kernels.
    Y : (n, T), zero where there is no label, and less the mean of a task's labels where there is an intercept.
    mask : (n, T), one where there is a label, else zero.
    has_intercept : whether there is an intercept.
    strengths : (c,) in ascending order.
    """

    operator: SharedOperator
    Y: np.ndarray
    mask: np.ndarray
    has_intercept: bool
    strengths: np.ndarray

    @classmethod
    def of(cls, operator: SharedOperator, Y: np.ndarray, has_intercept: bool, strengths: np.ndarray) -> MaskedTargets:
        """From targets (n, T) with NaN for missing labels."""
        mask = (~np.isnan(Y)).astype(np.float32)
        known = np.nan_to_num(Y, nan=0.0)
        if has_intercept:
            known = mask * (known - label_means(known, mask))
        return cls(operator, known, mask, has_intercept, strengths)

    def with_useful_strengths(self) -> MaskedTargets:
        """The same with the strengths that suit tasks at an even mix, and some more on either side.

        Large strengths take many iterations, and are tried only where smaller ones are not enough.
        """
        plain = self.decompose(np.full(self.operator.n_kernels, 1.0 / self.operator.n_kernels))
        count = int((self.strengths <= _FIRST_LIMIT).sum())
        while True:
            tried = replace(self, strengths=self.strengths[: max(count, 1)])
            least, most = np.quantile(tried.losses(plain).argmin(axis=0), [_EXTREME, 1.0 - _EXTREME])
            if most < count - 1 or count >= len(self.strengths):
                break
            count += _MORE
        first, last = max(int(least) - _MARGIN, 0), min(int(np.ceil(most)) + _MARGIN, len(self.strengths) - 1)
        return replace(self, strengths=self.strengths[first : last + 1])

    @property
    def arrays(self) -> Arrays:
        return self.operator.arrays

    @cached_property
    def n_labels(self) -> np.ndarray:
        """(T,) labels of each task; at least one."""
        return np.maximum(self.mask.sum(axis=0, dtype=np.float64), 1.0)

    @cached_property
    def variance(self) -> np.ndarray:
        """(T,) mean squares of the targets."""
        return np.maximum(np.square(self.Y).sum(axis=0) / self.n_labels, np.finfo(float).tiny)

    def take(self, rows: np.ndarray) -> tuple[MaskedTargets, np.ndarray]:
        """The targets at some rows, and the means (T,) that were taken off."""
        Y, mask = self.Y[rows], self.mask[rows]
        means = label_means(Y, mask) if self.has_intercept else np.zeros(Y.shape[1])
        return replace(self, operator=self.operator.take(rows), Y=mask * (Y - means), mask=mask), means

    def decompose(self, mix: np.ndarray) -> MixMatrix:
        arrays = self.arrays
        gram = sum(float(mix[k]) * self.operator.matrix(k) for k in np.flatnonzero(mix).tolist())
        return MixMatrix(mix, SharedOperator(arrays, arrays.cast(gram, single=True)[None]))

    def losses(self, matrix: MixMatrix) -> np.ndarray:
        """(c, T) mean squares of the out-of-fold errors."""

        def work(where: slice) -> np.ndarray:
            return self.arrays.numpy(self._squares(matrix, where, self.strengths).sum(1))

        return self._side_by_side(work) / self.n_labels

    def reference(self, matrix: MixMatrix, strength: float) -> Reference:
        """The errors at a mix and strength, for others to be compared with."""
        parts = self._in_blocks(lambda where: self._squares(matrix, where, np.array([strength]))[0])
        return Reference(self.arrays.xp.hstack(parts))

    def errors(self, matrix: MixMatrix, reference: Reference) -> Errors:
        """The errors at a mix, beside those of the reference."""

        def work(where: slice) -> np.ndarray:
            arrays, counts = self.arrays, self._rough(self.n_labels[where])
            squares = self._squares(matrix, where, self.strengths)
            fall = reference.squares[:, where] - squares
            gain = fall.sum(1) / counts
            spread = (self._shown[:, where] * (fall - gain[:, None, :]) ** 2).sum(1) / counts
            return arrays.numpy(arrays.xp.stack([squares.sum(1) / counts, gain, spread]))

        loss, gain, variance = self._side_by_side(work)
        return Errors(loss, gain, np.sqrt(self._steady(variance) / self.n_labels))

    def _steady(self, variance: np.ndarray) -> np.ndarray:
        """Variances (c, T) of differences of squares; those of few labels are drawn towards those of all tasks."""
        relative = variance / self.variance**2
        pooled = (relative @ self.n_labels / self.n_labels.sum())[:, np.newaxis]
        return (self.n_labels * relative + _PRIOR_LABELS * pooled) / (self.n_labels + _PRIOR_LABELS) * self.variance**2

    def own_weights(self, matrix: MixMatrix, strength: float, members: np.ndarray) -> np.ndarray:
        """(K, members) kernel weights of some tasks, by a step from a mix and strength."""
        arrays = self.arrays

        def work(where: slice) -> np.ndarray:
            block = self.block(matrix, arrays.array(members[where]))
            a = solutions_at_strengths(block, np.array([strength]))[0] / strength
            images = self.operator.images(a)
            forms = [(a * a).sum(0), *((a * images).sum(1)), (block.y * a).sum(0)]
            return arrays.numpy(arrays.xp.stack(forms))

        size = arrays.columns(self.operator.n_rows, self.operator.n_kernels)
        moments = np.concatenate(in_blocks(arrays, len(members), size, work), axis=1)
        S, classes = self._information(matrix, strength, members)
        free = self.n_labels[members] - (1 if self.has_intercept else 0)
        return component_weights(S, moments, free, classes)

    def _information(self, matrix: MixMatrix, strength: float, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matrices S of a few sets of rows (q, K + 1, K + 1), and which of them each member has.

        Members that have one of a few patterns have that of their own; otherwise that of a member with about as many
        labels: what follows from it is compared on rows that took no part.
        """
        packed = np.packbits(self.mask[:, members].T > 0, axis=1)
        _, first, classes = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        classes = classes.reshape(-1)
        if len(first) > _PATTERNS:
            order = np.argsort(self.n_labels[members], kind="stable")
            runs = np.array_split(order, _PATTERNS)
            first, classes = np.array([run[len(run) // 2] for run in runs]), np.empty(len(members), dtype=np.intp)
            for number, run in enumerate(runs):
                classes[run] = number
        found = []
        for member in members[first].tolist():
            rows = np.flatnonzero(self.mask[:, member])
            gram = matrix.operator.take(rows).matrix(0)
            found.append(information(self.operator.take(rows), self._inverse(gram, strength)))
        return np.array(found), classes

    def _inverse(self, gram: Any, strength: float) -> Any:
        """R (n, n), from a mix (n, n): the inverse of V without the direction of the intercept."""
        arrays, n = self.arrays, len(gram)
        R = arrays.inverses((strength * gram + arrays.diagonals(arrays.array(np.ones((1, n))))[0])[None])[0]
        if not self.has_intercept:
            return R
        sums = R.sum(1)
        return R - sums[:, None] * sums[None, :] / sums.sum()

    def _squares(self, matrix: MixMatrix, where: slice, strengths: np.ndarray) -> Any:
        """(c, n, o) squared out-of-fold errors of columns at ascending strengths; zero where there is no label."""
        arrays, total = self.arrays, None
        for number in range(FOLDS):
            block = self.block(matrix, where, number)
            x = solutions_at_strengths(block, strengths[::-1])
            held = self._shown[:, where] * (self._dealt[:, where] == number)
            parts = [self._fold_squares(block, x[i], self._known[:, where], held) for i in range(len(x))][::-1]
            total = arrays.xp.stack(parts) if total is None else total + arrays.xp.stack(parts)
        return total

    def _fold_squares(self, block: Block, x: Any, Y: Any, held: Any) -> Any:
        """(n, o) squared errors at the rows of a fold."""
        values = Y - block.apply(x)
        if self.has_intercept:
            kept = block.mask
            count = kept.sum(0)
            values = values - (kept * values).sum(0) / self.arrays.xp.where(count > 0, count, count + 1.0)
        return held * values**2

    def block(self, matrix: MixMatrix, columns: Any, without: int | None = None) -> Block:
        """Columns of Y, a slice or positions where the operator is, at one mix; without the labels of a fold."""
        mask = self._shown[:, columns]
        if without is not None:
            mask = mask * (self._dealt[:, columns] != without)
        ones = 0.0 * mask[:1] + 1.0
        return Block(matrix.operator, ones, mask * self._known[:, columns], mask, mask, self.has_intercept)

    def _rough(self, values: np.ndarray) -> Any:
        """Values in single precision where the operator is."""
        return self.arrays.cast(self.arrays.array(values), single=True)

    @cached_property
    def _known(self) -> Any:
        """Y where the operator is."""
        return self._rough(self.Y)

    @cached_property
    def _shown(self) -> Any:
        """The mask where the operator is."""
        return self._rough(self.mask)

    @cached_property
    def _dealt(self) -> Any:
        """The folds where the operator is."""
        return self.arrays.array(self.folds)

    @cached_property
    def folds(self) -> np.ndarray:
        """(n, T) the fold of each label: those of a task are dealt out in a random order of the rows."""
        order = np.random.default_rng(0).permutation(len(self.Y))
        dealt = np.empty(self.mask.shape, dtype=np.int8)
        dealt[order] = (np.cumsum(self.mask[order], axis=0, dtype=np.int64) % FOLDS).astype(np.int8)
        return dealt

    def _side_by_side(self, work: Callable[[slice], np.ndarray]) -> np.ndarray:
        """What `work` makes of runs of columns, side by side."""
        return np.concatenate(self._in_blocks(work), axis=-1)

    def _in_blocks(self, work: Callable[[slice], Result]) -> list[Result]:
        """What `work` makes of runs of columns; fewer columns at one time where memory does not suffice."""
        # Solutions, directions and errors at every strength are there at one time, in single precision.
        size = self.arrays.columns(self.operator.n_rows, len(self.strengths))
        return in_blocks(self.arrays, self.Y.shape[1], size, work)


def label_means(Y: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(T,) the means of the labels of each task, zero where it has none."""
    return (mask * Y).sum(axis=0) / np.maximum(mask.sum(axis=0), 1.0)
