"""Random pairs of rows of a data set, as rounds for the online solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....data import TaskData
from ....kernels import Scaling, fit_diagonal_scaling
from ...grams import RowKernels
from ...learners import Machine
from .solver import Rounds

# Bytes of rows and kernel values that a block of pairs takes, and its largest length.
_BLOCK_BYTES = 1 << 25
_BLOCK_LENGTH = 1 << 14


def block_length(n_features: int, n_kernels: int) -> int:
    """Return how many pairs of rows to evaluate at one time."""
    return int(np.clip(_BLOCK_BYTES // (8 * (2 * n_features + 2 * n_kernels)), 64, _BLOCK_LENGTH))


class PairSource:
    """Random pairs of rows of the tasks of a data set.

    A round draws a task, each with the same chance, then two of its rows, each with a chance in proportion to its cost:
    a row that counts twice is drawn twice as often. Memory is O(TK) for ``normalize="trace"``, besides the data.

    Parameters
    ----------
    data : TaskData
    values : RowKernels
        The kernels on its rows.
    machines : sequence of Machine
        Their costs are the weights of the rows.
    normalize : {"trace", "cosine", "center"} or None
    classes : bool
        Whether targets are classes.
    """

    def __init__(
        self, data: TaskData, values: RowKernels, machines: Sequence[Machine], normalize: str | None, *, classes: bool
    ) -> None:
        self.values, self.normalize = values, normalize
        self.rows = np.concatenate(data.rows)
        self.sizes = np.array([len(rows) for rows in data.rows])
        self.cost = np.concatenate([machine.C[:, 0] for machine in machines])
        self.ends = np.cumsum(self.cost)
        self.last = np.cumsum(self.sizes) - 1
        costs = np.split(self.cost, self.last[:-1] + 1)
        self.targets = np.concatenate(
            [_class_codes(y) if classes else _standard(y, cost) for y, cost in zip(data.y, costs, strict=True)]
        )
        self.classes = classes
        # Tasks on the same rows share one scaling.
        self.one_scaling = data.form == "wide"
        sets = [np.arange(len(data.X))] if self.one_scaling else data.rows
        self.scalings: Any = self._fit_scalings(sets, data.sample_weight)

    def draw(self, rng: np.random.Generator, n_rounds: int) -> Iterator[Rounds]:
        """Yield rounds in blocks."""
        length = block_length(1 if self.values.kernels is None else self.values.X.shape[1], self.values.n_kernels)
        for start in range(0, n_rounds, length):
            tasks, i, j = self.pairs(rng.random((min(length, n_rounds - start), 3)))
            yield self._rounds(tasks, i, j)

    def pairs(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Uniform numbers u (n, 3) -> tasks (n,) and the positions (n,) of two rows among those of all tasks."""
        tasks = (u[:, 0] * len(self.sizes)).astype(np.intp)
        last = self.last[tasks]
        first = last - self.sizes[tasks] + 1
        floor = self.ends[first] - self.cost[first]
        total = self.ends[last] - floor
        i = np.clip(np.searchsorted(self.ends, floor + u[:, 1] * total, side="right"), first, last)
        # The other row comes from what is left of the task without this one.
        mark = floor + u[:, 2] * (total - self.cost[i])
        mark += np.where(mark >= self.ends[i] - self.cost[i], self.cost[i], 0.0)
        j = np.clip(np.searchsorted(self.ends, mark, side="right"), first, last)
        # By rounding at the very ends, or where nothing else has weight, it may be the same one: take a neighbour.
        return tasks, i, np.where(i == j, np.where(j == last, first, j + 1), j)

    def scaled_values(self, tasks: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the scaled kernels (K, n) at pairs of rows, by their positions i, j (n,) among those of all tasks."""
        row_i, row_j = self.rows[i], self.rows[j]
        z = self.values.pairs(row_i, row_j)
        if self.normalize is None:
            return z
        if self.normalize == "cosine":
            diagonal = self.values.diagonals(np.concatenate([row_i, row_j]))
            where = np.arange(len(tasks))
            return fit_diagonal_scaling("cosine", diagonal).apply_pairs(z, where, where + len(tasks))
        if self.normalize == "trace":
            return z * self.scalings[np.zeros_like(tasks) if self.one_scaling else tasks].T
        if self.one_scaling:
            return self.scalings[0].apply_pairs(z, row_i, row_j)
        return self._centred(z, tasks, i, j)

    def _rounds(self, tasks: np.ndarray, i: np.ndarray, j: np.ndarray) -> Rounds:
        agree = self.targets[i] == self.targets[j]
        signs = np.where(agree, 1.0, -1.0) if self.classes else self.targets[i] * self.targets[j]
        z = self.scaled_values(tasks, i, j)
        return Rounds(tasks, signs, np.ascontiguousarray(z.T, dtype=np.float64))

    def _centred(self, z: np.ndarray, tasks: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Centre values z (K, n) task by task; a task's scaling knows rows by their positions within the task."""
        first = self.last - self.sizes + 1
        out = np.empty(z.shape)
        for t in np.unique(tasks):
            own = np.flatnonzero(tasks == t)
            out[:, own] = self.scalings[t].apply_pairs(z[:, own], i[own] - first[t], j[own] - first[t])
        return out

    def _fit_scalings(self, sets: Sequence[np.ndarray], weight: np.ndarray) -> np.ndarray | list[Scaling] | None:
        if self.normalize == "center":
            return [self.values.scaling(rows, weight[rows], self.normalize) for rows in sets]
        if self.normalize == "trace":
            return np.array([self.values.scaling(rows, weight[rows], self.normalize).factor for rows in sets])
        return None


def _class_codes(y: np.ndarray) -> np.ndarray:
    return np.unique(y, return_inverse=True)[1].astype(np.float64)


def _standard(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return targets with weighted mean 0 and mean square 1; all 0 where they are constant."""
    centred = y - np.average(y, weights=weight)
    size = np.sqrt(np.average(centred**2, weights=weight))
    return centred / size if size > 0 else centred


class PairCenter:
    """Subtracts from the values of a task's pairs their mean so far, which gives the pairs' classifier an intercept.

    Without it b'z of kernels that are never negative has one sign for every b >= 0, and is wrong about every pair of
    the other. The mean of few pairs is shrunk to that of all tasks, as if `PRIOR` more of its pairs had that mean.
    """

    def __init__(self, n_kernels: int) -> None:
        self.sums = np.zeros((1, n_kernels))
        self.counts = np.zeros(1)

    def __call__(self, rounds: Rounds) -> None:
        """Centre the values of rounds, in order and in place."""
        from .loops import center_pairs

        more = int(rounds.tasks.max(initial=-1)) + 2 - len(self.counts)
        if more > 0:
            more = max(more, len(self.counts) // 2)
            self.sums, self.counts = np.pad(self.sums, ((0, more), (0, 0))), np.pad(self.counts, (0, more))
        center_pairs(rounds.tasks, rounds.values, self.sums, self.counts)
