"""Algorithm 2 of the paper: learn kernel weights and relationship from pairs of rows, without Gram or T x T matrices.

`PairSource` draws `Rounds`, pairs of rows of a data set. They update an `OnlineState`, which has the kernel weights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...kernels.grams import fit_diagonal_scaling
from ..grams.row_kernels import RowKernels
from ..penalties.relation import Relation, RelationPenalty

# Bytes of rows and kernel values that a block of pairs takes, and its largest length.
_BLOCK_BYTES = 1 << 25
_BLOCK_LENGTH = 1 << 14


def block_length(n_features: int, n_kernels: int) -> int:
    """Return how many pairs of rows to evaluate at one time."""
    return int(np.clip(_BLOCK_BYTES // (8 * (2 * n_features + 2 * n_kernels)), 64, _BLOCK_LENGTH))


class Rounds(NamedTuple):
    """Pairs of rows, in order.

    The task of each pair (n,); its sign, positive if the two rows belong together, times its weight (n,); and the
    kernel values of each pair (n, K).
    """

    tasks: np.ndarray
    signs: np.ndarray
    values: np.ndarray


class OnlineState:
    """State of an online run, of size O(TK); initially B = 0 and Omega = I/T. `online_loops` explains the arrays."""

    def __init__(self, n_kernels: int, n_tasks: int) -> None:
        self.held, self.own, self.late_own, self.total = np.zeros((4, n_tasks, n_kernels))
        self.L, (self.late, self.P) = np.eye(n_kernels), np.zeros((2, n_kernels, n_kernels))
        self.rest, self.counts = np.array([1.0 / n_tasks]), np.zeros(4, dtype=np.int64)

    @property
    def rounds(self) -> int:
        return int(self.counts[0])

    @property
    def mistakes(self) -> int:
        """Rounds that changed the weights."""
        return int(self.counts[1])

    def weights(self, average: bool = False) -> np.ndarray:
        """Return B (K, T), or its average over rounds; projected only as far as the run has done so."""
        return (self._sums() / self.rounds if average and self.rounds else self.held @ self.L + self.own).T

    def fold(self, project: bool) -> None:
        """Move all changes since the last refresh into `held`, projected on request."""
        self.total = self._sums()
        held = self.held @ self.L + self.own
        self.held = np.maximum(held, 0.0) if project else held
        self.L[:] = np.eye(len(self.L))
        for array in (self.own, self.late_own, self.late):
            array[:] = 0.0
        self.counts[2:4] = 0

    def _sums(self) -> np.ndarray:
        """Return the sum of every task's weights over all rounds (T, K)."""
        n = self.counts[2]
        return self.total + self.held @ (n * self.L - self.late) + n * self.own - self.late_own


@dataclass(frozen=True)
class Online:
    """Algorithm 2 of the paper.

    As published (``refresh=1, shrinkage=0, project=False``) it learns only about the task of the first mistake: Omega
    is then zero for all other tasks, and so are their updates. Fewer updates of Omega or some shrinkage avoid this.

    Parameters
    ----------
    mu : float
        Steps are divided by mu.
    update : {"perceptron", "hinge"}
        "perceptron" learns from wrong signs, "hinge" also from right ones with b'z below one.
    shrinkage, min_rank : float
        The limits of Omega, as in `RelationPenalty`.
    refresh : int, optional
        Number of mistakes between updates of Omega. None: the number of tasks, but at least 100.
    project : bool
        Whether negative weights are set to zero; the published algorithm does not do this.
    """

    name: ClassVar[str] = "online"
    mu: float = 1.0
    update: str = "perceptron"
    shrinkage: float = 0.1
    min_rank: float = 1.0
    refresh: int | None = None
    project: bool = True

    def step(self, state: OnlineState, rounds: Rounds) -> None:
        """Learn from rounds, in order."""
        from .online_loops import run_rounds

        settings = (1.0 / self.mu, float(self.update == "hinge"), self.project, self.refresh or 0)
        done = 0
        while True:
            tasks = state.held, state.own, state.late_own
            done = run_rounds(*rounds, done, *settings, *tasks, state.L, state.late, state.P, state.rest, state.counts)
            if done == len(rounds.tasks):
                return
            self.refresh_relation(state)

    def refresh_relation(self, state: OnlineState) -> None:
        """Set Omega to the minimiser at the current weights."""
        state.fold(self.project)
        B = state.held.T
        state.P[:], state.rest[0] = self._penalty(B).relation_factors(B)

    def relation(self, B: np.ndarray) -> Relation:
        """Return Omega at weights B (K, T): what the relationship penalty has there."""
        return self._penalty(B).relation(B)

    def _penalty(self, B: np.ndarray) -> RelationPenalty:
        return RelationPenalty(B.shape[1], None, self.shrinkage, self.min_rank)


class OnlineRun:
    """A solver and its state, with a history: a record at every hundredth of `n_rounds`.

    With `center` the mean so far of a task's pairs is subtracted from their values, which gives the pairs' classifier
    an intercept. Without it, b'z of non-negative kernels is positive for every b >= 0, and wrong for every pair of
    negative sign. The mean of few pairs is shrunk to that of all tasks.
    """

    def __init__(
        self, solver: Online, n_kernels: int, n_tasks: int, n_rounds: int, *, center: bool = False, verbose: int = 0
    ) -> None:
        self.solver, self.state = solver, OnlineState(n_kernels, n_tasks)
        self.n_rounds, self.center, self.verbose = n_rounds, center, verbose
        # Rounds and mistakes at each record; sums and numbers of the values of all pairs, and of each task's.
        self.records: list[tuple[int, int]] = []
        self.sums, self.counts = np.zeros((n_tasks + 1, n_kernels)), np.zeros(n_tasks + 1)

    def step(self, rounds: Rounds) -> None:
        """Learn from rounds, in order; their values are centred in place."""
        if self.center:
            from .online_loops import center_pairs

            center_pairs(rounds.tasks, rounds.values, self.sums, self.counts)
        every, state, start = max(1, self.n_rounds // 100), self.state, 0
        while start < len(rounds.tasks):
            stop = start + every - state.rounds % every
            self.solver.step(state, Rounds(*(array[start:stop] for array in rounds)))
            start = stop
            if state.rounds % every == 0:
                self.records.append((state.rounds, state.mistakes))
                if self.verbose:
                    end, rate = "\n" if state.rounds == self.n_rounds else "\r", state.mistakes / state.rounds
                    text = f"[kernelkin] {state.rounds:,}/{self.n_rounds:,} rounds  mistakes {rate:6.2%}"
                    print(text, end=end, file=sys.stderr, flush=True)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The round of each record, the share of mistakes so far, and that since the last record."""
        now = (self.state.rounds, self.state.mistakes)
        records = self.records if now[0] == 0 or now in self.records[-1:] else [*self.records, now]
        rounds, mistakes = np.array(records, dtype=np.int64).reshape(-1, 2).T
        recent = np.diff(mistakes, prepend=0) / np.diff(rounds, prepend=0)
        return {"round": rounds, "mistake_rate": mistakes / rounds, "recent_mistake_rate": recent}


class PairSource:
    """Random pairs of rows of the tasks of a data set.

    A round draws a task, each with the same chance, then two of its rows, each with a chance in proportion to its cost:
    a row that counts twice is drawn twice as often. Memory is O(TK) for ``normalize="trace"``, besides the data.
    `values` are the kernels on the rows, `costs` those of each task's rows; `classes`: whether targets are classes.
    """

    def __init__(
        self, data: TaskData, values: RowKernels, costs: Sequence[np.ndarray], normalize: str | None, *, classes: bool
    ) -> None:
        self.values, self.normalize, self.classes = values, normalize, classes
        self.rows = np.concatenate(data.rows)
        self.sizes = np.array([len(rows) for rows in data.rows])
        self.cost = np.concatenate(costs)
        self.ends, self.last = np.cumsum(self.cost), np.cumsum(self.sizes) - 1
        pairs = zip(data.y, costs, strict=True)
        parts = [np.unique(y, return_inverse=True)[1] * 1.0 if classes else _standard(y, cost) for y, cost in pairs]
        self.targets = np.concatenate(parts)
        # Tasks on the same rows share one scaling.
        self.one_scaling = data.form == "wide"
        self.scalings: Any = None
        if normalize in ("trace", "center"):
            sets = [np.arange(len(data.X))] if self.one_scaling else data.rows
            fitted = [values.scaling(rows, data.sample_weight[rows], normalize) for rows in sets]
            self.scalings = fitted if normalize == "center" else np.array([one.factor for one in fitted])

    def draw(self, rng: np.random.Generator, n_rounds: int) -> Iterator[Rounds]:
        """Yield rounds in blocks."""
        length = block_length(1 if self.values.kernels is None else self.values.X.shape[1], self.values.n_kernels)
        for start in range(0, n_rounds, length):
            yield self.rounds(*self.pairs(rng.random((min(length, n_rounds - start), 3))))

    def rounds(self, tasks: np.ndarray, i: np.ndarray, j: np.ndarray) -> Rounds:
        """Return the rounds of tasks (n,) and pairs of positions i, j (n,) of rows among those of all tasks."""
        agree = np.where(self.targets[i] == self.targets[j], 1.0, -1.0)
        signs = agree if self.classes else self.targets[i] * self.targets[j]
        return Rounds(tasks, signs, np.ascontiguousarray(self.scaled_values(tasks, i, j).T, dtype=np.float64))

    def pairs(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Uniform numbers u (n, 3) -> tasks (n,) and the positions (n,) of two rows among those of all tasks."""
        tasks = (u[:, 0] * len(self.sizes)).astype(np.intp)
        last = self.last[tasks]
        first = last - self.sizes[tasks] + 1
        floor = self.ends[first] - self.cost[first]
        total = self.ends[last] - floor
        i = np.clip(np.searchsorted(self.ends, floor + u[:, 1] * total, side="right"), first, last)
        # Draw the other row from the remaining rows of the task.
        mark = floor + u[:, 2] * (total - self.cost[i])
        mark += np.where(mark >= self.ends[i] - self.cost[i], self.cost[i], 0.0)
        j = np.clip(np.searchsorted(self.ends, mark, side="right"), first, last)
        # Because of rounding, or if no other row has weight, it may be the same row: take a neighbour.
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
        # Centred task by task: a task's scaling knows rows by their positions within the task.
        first, out = self.last - self.sizes + 1, np.empty(z.shape)
        for t in np.unique(tasks):
            own = np.flatnonzero(tasks == t)
            out[:, own] = self.scalings[t].apply_pairs(z[:, own], i[own] - first[t], j[own] - first[t])
        return out


def _standard(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return targets with weighted mean 0 and mean square 1; all 0 where they are constant."""
    centred = y - np.average(y, weights=weight)
    size = np.sqrt(np.average(centred**2, weights=weight))
    return centred / size if size > 0 else centred
