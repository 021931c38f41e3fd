"""Algorithm 2 of the paper: learn kernel weights and relationship from pairs of rows, without Gram or T x T matrices.

`Rounds` are pairs of rows, which update an `OnlineState`; kernel weights are available at any time. `PairSource` draws
rounds from a data set, and `Stream` makes them from the rows of a stream.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...kernels.grams import fit_diagonal_scaling
from ...kernels.kernel import FittedKernel, Kernel, diagonals, evaluate, fit_kernels
from ..grams.row_kernels import RowKernels
from ..learners.machines import Machine
from ..penalties.relation import Relation, RelationPenalty

# Bytes of rows and kernel values that a block of pairs takes, and its largest length.
_BLOCK_BYTES = 1 << 25
_BLOCK_LENGTH = 1 << 14
# Rows that a stream collects before it fits the kernels on them, whatever the pieces are that they come in.
START_ROWS = 1000


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
    """State of an online run, of size O(TK); initially B = 0 and Omega = I/T.

    The arrays are explained in `online_loops`. A new task is unrelated to others until its weights are not zero at an
    update of Omega.
    """

    def __init__(self, n_kernels: int, n_tasks: int = 0) -> None:
        self.held, self.own, self.late_own, self.total = np.zeros((4, n_tasks, n_kernels))
        self.L, (self.late, self.P) = np.eye(n_kernels), np.zeros((2, n_kernels, n_kernels))
        self.fresh, self.rest = np.zeros(n_tasks, dtype=bool), np.array([1.0 / max(n_tasks, 1)])
        self.counts = np.array([0, 0, 0, 0, n_tasks])

    @property
    def rounds(self) -> int:
        return int(self.counts[0])

    @property
    def mistakes(self) -> int:
        """Rounds that changed the weights."""
        return int(self.counts[1])

    @property
    def n_tasks(self) -> int:
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
        last = self._sums() / self.rounds if average and self.rounds else self.held @ self.L + self.own
        return last[: self.n_tasks].T

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
        state.grow(int(rounds.tasks.max(initial=-1)) + 1)
        done = 0
        while True:
            tasks = state.held, state.own, state.late_own, state.fresh
            done = run_rounds(*rounds, done, *settings, *tasks, state.L, state.late, state.P, state.rest, state.counts)
            if done == len(rounds.tasks):
                return
            self.refresh_relation(state)

    def refresh_relation(self, state: OnlineState) -> None:
        """Set Omega to the minimiser at the current weights."""
        state.fold(self.project)
        B = state.held[: state.n_tasks].T
        state.P[:], state.rest[0] = self._penalty(B).relation_factors(B)
        state.fresh &= ~state.held.any(axis=1)

    def relation(self, B: np.ndarray) -> Relation:
        """Return Omega at weights B (K, T): what the relationship penalty has there."""
        return self._penalty(B).relation(B)

    def _penalty(self, B: np.ndarray) -> RelationPenalty:
        # In a stream, tasks may still be fewer than min_rank.
        return RelationPenalty(B.shape[1], None, self.shrinkage, min(self.min_rank, B.shape[1]))


class OnlineRun:
    """A solver and its state, with a history: a record at every hundredth of `n_rounds`; in a stream (None) every 1000.

    With `center` the mean so far of a task's pairs is subtracted from their values, which gives the pairs' classifier
    an intercept. Without it b'z of kernels that are never negative has one sign for every b >= 0, and is wrong about
    every pair of the other. The mean of few pairs is shrunk to that of all tasks.
    """

    def __init__(
        self,
        solver: Online,
        n_kernels: int,
        n_tasks: int = 0,
        *,
        n_rounds: int | None = None,
        center: bool = False,
        verbose: int = 0,
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

            more = max(int(rounds.tasks.max(initial=-1)) + 2 - len(self.counts), 0)
            self.sums, self.counts = np.pad(self.sums, ((0, more), (0, 0))), np.pad(self.counts, (0, more))
            center_pairs(rounds.tasks, rounds.values, self.sums, self.counts)
        every, state, start = 1000 if self.n_rounds is None else max(1, self.n_rounds // 100), self.state, 0
        while start < len(rounds.tasks):
            stop = start + every - state.rounds % every
            self.solver.step(state, Rounds(*(array[start:stop] for array in rounds)))
            start = stop
            if state.rounds % every == 0:
                self.records.append((state.rounds, state.mistakes))
                if self.verbose:
                    of = "" if self.n_rounds is None else f"/{self.n_rounds:,}"
                    end, rate = "\n" if state.rounds == self.n_rounds else "\r", state.mistakes / state.rounds
                    text = f"[kernelkin] {state.rounds:,}{of} rounds  mistakes {rate:6.2%}"
                    print(text, end=end, file=sys.stderr, flush=True)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """At each record the round, the share of mistakes in all up to it, and in those since the last record."""
        now = (self.state.rounds, self.state.mistakes)
        records = self.records if now[0] == 0 or now in self.records[-1:] else [*self.records, now]
        rounds, mistakes = np.array(records, dtype=np.int64).reshape(-1, 2).T
        recent = np.diff(mistakes, prepend=0) / np.diff(rounds, prepend=0)
        return {"round": rounds, "mistake_rate": mistakes / rounds, "recent_mistake_rate": recent}


class PairSource:
    """Random pairs of rows of the tasks of a data set.

    A round draws a task, each with the same chance, then two of its rows, each with a chance in proportion to its cost:
    a row that counts twice is drawn twice as often. Memory is O(TK) for ``normalize="trace"``, besides the data.
    `values` are the kernels on the rows, `machines` have the costs; `classes`: whether targets are classes.
    """

    def __init__(
        self, data: TaskData, values: RowKernels, machines: Sequence[Machine], normalize: str | None, *, classes: bool
    ) -> None:
        self.values, self.normalize, self.classes = values, normalize, classes
        self.rows = np.concatenate(data.rows)
        self.sizes = np.array([len(rows) for rows in data.rows])
        costs = [machine.C[:, 0] for machine in machines]
        self.cost = np.concatenate(costs)
        self.ends, self.last = np.cumsum(self.cost), np.cumsum(self.sizes) - 1
        parts = zip(data.y, costs, strict=True)
        self.targets = np.concatenate(
            [
                np.unique(y, return_inverse=True)[1].astype(np.float64) if classes else _standard(y, cost)
                for y, cost in parts
            ]
        )
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
            tasks, i, j = self.pairs(rng.random((min(length, n_rounds - start), 3)))
            agree = np.where(self.targets[i] == self.targets[j], 1.0, -1.0)
            signs = agree if self.classes else self.targets[i] * self.targets[j]
            yield Rounds(tasks, signs, np.ascontiguousarray(self.scaled_values(tasks, i, j).T, dtype=np.float64))

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


class Reservoirs:
    """At most `capacity` rows of each task, every row seen so far with the same chance, and the rounds of new rows.

    Every row takes the same two numbers from `rng` wherever a block of the stream ends, so that blocks do not matter.
    Rows are stored once, however many tasks (of wide data) have them in their reservoirs.

    Attributes
    ----------
    slots, seen : for each task the numbers of the entries (a row and a target) that it holds, and its rows so far.
    n_seen, n_skipped : entries so far, which are numbered in the order in which they come; rows that had no partner.
    held, row, y : (h,) the numbers of all entries that are held, in rising order, their rows of `X`, their targets.
    sums, counts, moments : of each task the sum of k(x, x) (tasks, K), its rows, mean and sum of squares (tasks, 2).
    """

    def __init__(
        self,
        kernels: Sequence[FittedKernel],
        normalize: str | None,
        capacity: int,
        rng: np.random.Generator,
        *,
        classes: bool,
    ) -> None:
        self.kernels, self.normalize, self.capacity, self.rng = tuple(kernels), normalize, capacity, rng
        self.classes, self.n_skipped, self.n_seen = classes, 0, 0
        self.slots: list[list[int]] = []
        self.seen: list[int] = []
        self.held, self.row, self.y = np.zeros(0, dtype=int), np.zeros(0, dtype=int), np.zeros(0)
        self.X: np.ndarray | None = None
        self.sums, self.counts, self.moments = np.zeros((0, len(self.kernels))), np.zeros(0), np.zeros((0, 2))

    def take(
        self, X: np.ndarray, rows: np.ndarray, codes: np.ndarray, y: np.ndarray, *, learn: bool = True
    ) -> Iterator[Rounds]:
        """Take in rows X[rows] of tasks `codes` (n,) with targets y (n,), and yield their rounds in blocks.

        Without `learn` there are no rounds in the blocks, and no kernel is evaluated at a pair.
        """
        from .online_loops import scale_stream

        length = block_length(X.shape[1], len(self.kernels))
        for start in range(0, len(codes), length):
            part = slice(start, start + length)
            partner = self._plan(codes[part].tolist())
            found, at = np.unique(rows[part], return_inverse=True)
            # The rows of the block, after those that are held.
            X_all = X[found] if self.X is None else np.concatenate([self.X, X[found]])
            numbers = np.concatenate([self.held, np.arange(self.n_seen, self.n_seen + len(partner))])
            row, target = np.concatenate([self.row, len(X_all) - len(found) + at]), np.concatenate([self.y, y[part]])
            new = len(self.held) + np.arange(len(partner))
            paired = np.flatnonzero(partner >= 0) if learn else np.arange(0)
            other = np.searchsorted(numbers, np.maximum(partner, numbers[0]))
            z = self._values(X_all, row[new[paired]], row[other[paired]])
            rounds, signs = np.full(len(partner), -1), np.empty(len(paired))
            rounds[paired] = np.arange(len(paired))
            diagonal = np.ascontiguousarray(diagonals(self.kernels, X[found]).T, dtype=np.float64)[at]
            settings, statistics = (self.classes, self.normalize == "trace"), (self.sums, self.counts, self.moments)
            scale_stream(codes[part], y[part], target[other], rounds, diagonal, z, signs, *settings, *statistics)
            self._keep(X_all, numbers, row, target)
            self.n_skipped += len(partner) - len(paired) if learn else 0
            yield Rounds(codes[part][paired], signs, z)

    def data(self, labels: np.ndarray, classes: np.ndarray | None) -> TaskData:
        """Return the rows in the reservoirs as data; `classes` decodes targets."""
        assert self.X is not None
        places = [np.searchsorted(self.held, own) for own in self.slots]
        y = self.y if classes is None else classes[self.y.astype(np.intp)]
        return TaskData(
            X=self.X,
            rows=tuple(self.row[own] for own in places),
            y=tuple(y[own] for own in places),
            sample_weight=np.ones(len(self.X)),
            labels=labels,
            form="long",
        )

    def _plan(self, codes: list[int]) -> np.ndarray:
        """The number of each entry's partner from its task's reservoir, -1 without; then it is offered to that."""
        more = max(codes) + 1 - len(self.slots)
        if more > 0:
            self.slots += [[] for _ in range(more)]
            self.seen += [0] * more
            self.sums, self.moments = (np.pad(array, ((0, more), (0, 0))) for array in (self.sums, self.moments))
            self.counts = np.pad(self.counts, (0, more))
        partner = []
        for entry, (t, (u, v)) in enumerate(zip(codes, self.rng.random((len(codes), 2)).tolist(), strict=True)):
            own = self.slots[t]
            partner.append(own[int(u * len(own))] if own else -1)
            self.seen[t] += 1
            if len(own) < self.capacity:
                own.append(self.n_seen + entry)
            elif (place := int(v * self.seen[t])) < self.capacity:
                own[place] = self.n_seen + entry
        return np.array(partner)

    def _values(self, X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Return the kernels (p, K) at pairs of rows of X."""
        if not len(i):
            return np.empty((0, len(self.kernels)))
        rows, where = np.unique(np.concatenate([i, j]), return_inverse=True)
        X, i, j = X[rows], where[: len(i)], where[len(i) :]
        z = evaluate(self.kernels, X, at=(i, j))
        if self.normalize == "cosine":
            z = fit_diagonal_scaling("cosine", diagonals(self.kernels, X)).apply_pairs(z, i, j)
        return np.ascontiguousarray(z.T, dtype=np.float64)

    def _keep(self, X: np.ndarray, numbers: np.ndarray, row: np.ndarray, y: np.ndarray) -> None:
        """Store the entries that are in reservoirs, of those held before and those of a block."""
        self.held = np.sort(np.concatenate([np.array(own, dtype=int) for own in self.slots]))
        kept = np.searchsorted(numbers, self.held)
        used, self.row = np.unique(row[kept], return_inverse=True)
        self.X, self.y, self.n_seen = X[used], y[kept], int(numbers[-1]) + 1


class Codes:
    """Labels as numbers, in the order in which they are first seen; `labels` is in the order of the numbers."""

    def __init__(self, labels: Sequence[Any] = ()) -> None:
        self.index = {label: code for code, label in enumerate(labels)}

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        """labels (n,) -> codes (n,); new labels get the next numbers."""
        values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        for value in values[np.argsort(first)].tolist():
            self.index.setdefault(value, len(self.index))
        return np.array([self.index[value] for value in values.tolist()], dtype=np.intp)[inverse]

    @property
    def labels(self) -> np.ndarray:
        return np.array(list(self.index))


class Stream:
    """Learn from the rows of a stream; the result does not depend on how the stream is divided into pieces.

    The kernels are fitted on the first rows. `run` and `storage` are options of its `OnlineRun` and its `Reservoirs`;
    `seed` is that of the draws, and of all else that is random about a fit on these rows.
    """

    def __init__(
        self, kernels: Sequence[Kernel], solver: Online, *, run: dict[str, Any], storage: dict[str, Any], seed: int
    ) -> None:
        self.kernels, self.solver, self.options, self.storage, self.seed = kernels, solver, run, storage, seed
        self.rng = np.random.default_rng(seed)
        self.tasks, self.classes = Codes(), Codes() if storage["classes"] else None
        self.waiting: list[TaskData] = []
        self.reservoirs: Reservoirs | None = None
        self.run: OnlineRun | None = None

    def after(
        self, run: OnlineRun, data: TaskData, kernels: Sequence[FittedKernel], rng: np.random.Generator
    ) -> Stream:
        """Return this stream, to go on where a run on `data` has ended, with rows of it in the reservoirs."""
        self.rng, self.tasks = rng, Codes(data.labels.tolist())
        self.run, self.reservoirs = copy.copy(run), Reservoirs(kernels, rng=rng, **self.storage)
        self.run.n_rounds = None
        for _ in self.reservoirs.take(data.X, *self._rows(data), learn=False):
            pass
        return self

    def feed(self, piece: TaskData) -> None:
        """Learn from the rows of a piece, or keep them until there are enough to fit the kernels on."""
        self.waiting.append(piece)
        if self.reservoirs is not None or sum(len(part.X) for part in self.waiting) >= START_ROWS:
            self._learn()

    def begun(self) -> Stream:
        """Return this stream, or while it waits for rows a copy that has begun with those it has."""
        if self.reservoirs is not None:
            return self
        early = copy.deepcopy(self)
        early._learn()
        return early

    def data(self) -> TaskData:
        """Return the rows in the reservoirs of a stream that has begun."""
        classes = None if self.classes is None else self.classes.labels
        if self.reservoirs is None:
            raise ValueError("this stream has too few rows: its kernels are not fitted yet")
        return self.reservoirs.data(self.tasks.labels, classes)

    def _learn(self) -> None:
        """Learn from the waiting pieces; the first pieces fit the kernels."""
        if self.reservoirs is None or self.run is None:
            X = np.concatenate([piece.X for piece in self.waiting])[:START_ROWS]
            kernels = fit_kernels(self.kernels, X, self.waiting[0].feature_names)
            self.run = OnlineRun(self.solver, len(kernels), **self.options)
            self.reservoirs = Reservoirs(kernels, rng=self.rng, **self.storage)
        for piece in self.waiting:
            for rounds in self.reservoirs.take(piece.X, *self._rows(piece)):
                self.run.step(rounds)
        self.waiting = []

    def _rows(self, piece: TaskData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of X, their tasks and targets as they came: by row, and on wide data by task within it."""
        rows = np.concatenate(piece.rows)
        order = np.argsort(rows, kind="stable")
        own = np.repeat(np.arange(piece.n_tasks), [len(part) for part in piece.rows])[order]
        y = np.concatenate(piece.y)[order]
        targets = y if self.classes is None else self.classes(y)
        return rows[order], self.tasks(piece.labels[own]), targets.astype(np.float64)
