"""A stream of rows: each makes one round with a partner from its task's reservoir, and is then offered to it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....data import TaskData
from ....kernels import FittedKernel, Kernel, diagonals, fit_diagonal_scaling, fit_kernels, pairs
from .pairs import PairCenter, block_length
from .solver import Online, OnlineRun, Rounds


class Reservoirs:
    """At most `capacity` rows of each task, every row seen so far with the same chance, and the rounds of new rows.

    Every row takes the same two numbers from `rng` wherever a block of the stream ends, so that blocks do not matter.
    Rows are stored once, however many tasks (of wide data) have them in their reservoirs.

    Attributes
    ----------
    slots : (tasks, at most capacity) places of each task; sizes, seen : (tasks,) places in use, and rows so far.
    used : (1,) places in use in all.
    row, y : (places,) the row of X at each place, and its target.
    X, n_rows : the rows, of which the first `n_rows` are in use.
    sums, counts, moments : of each task the sum of k(x, x) (tasks, K), the number of rows, and mean and sum of squares
        about the mean of the targets (tasks, 2).
    n_skipped : rows that had no partner.
    """

    def __init__(
        self,
        kernels: tuple[FittedKernel, ...],
        normalize: str | None,
        capacity: int,
        rng: np.random.Generator,
        *,
        classes: bool,
    ) -> None:
        self.kernels, self.normalize, self.capacity, self.rng = kernels, normalize, capacity, rng
        self.classes = classes
        self.slots = np.zeros((0, 0), dtype=np.int64)
        self.sizes = np.zeros(0, dtype=np.int64)
        self.seen = np.zeros(0, dtype=np.int64)
        self.used = np.zeros(1, dtype=np.int64)
        self.row = np.zeros(0, dtype=np.int64)
        self.y = np.zeros(0)
        self.X = np.zeros((0, 0))
        self.n_rows = 0
        self.sums = np.zeros((0, len(kernels)))
        self.counts = np.zeros(0)
        self.moments = np.zeros((0, 2))
        self.n_skipped = 0

    def rounds(self, X: np.ndarray, rows: np.ndarray, codes: np.ndarray, y: np.ndarray) -> Iterator[Rounds]:
        """Take in rows X[rows] of tasks `codes` (n,) with targets y (n,), and yield their rounds in blocks."""
        for part in self._blocks(X, codes):
            yield self._take(X, rows[part], codes[part], y[part], learn=True)

    def add(self, X: np.ndarray, rows: np.ndarray, codes: np.ndarray, y: np.ndarray) -> None:
        """Take in rows as `rounds` does, of which nothing is learned: no kernel is evaluated at a pair."""
        for part in self._blocks(X, codes):
            self._take(X, rows[part], codes[part], y[part], learn=False)

    def data(self, labels: np.ndarray, classes: np.ndarray | None) -> TaskData:
        """Return the rows in the reservoirs as data; `classes` decodes targets."""
        places = [slots[:size] for slots, size in zip(self.slots, self.sizes, strict=True)][: len(labels)]
        y = self.y if classes is None else classes[self.y.astype(np.intp)]
        return TaskData(
            X=self.X[: self.n_rows],
            rows=tuple(self.row[own] for own in places),
            y=tuple(y[own] for own in places),
            sample_weight=np.ones(self.n_rows),
            labels=labels,
            form="long",
        )

    def compact(self) -> None:
        """Free the memory that is kept for further rows."""
        used, width = int(self.used[0]), int(self.sizes.max(initial=0))
        self.slots = self.slots[:, :width].copy()
        self.row, self.y = self.row[:used].copy(), self.y[:used].copy()
        self._collect(np.ones(used, dtype=bool), 0, self.X)

    def _blocks(self, X: np.ndarray, codes: np.ndarray) -> Iterator[slice]:
        self._add_tasks(int(codes.max(initial=-1)) + 1)
        length = block_length(X.shape[1], len(self.kernels))
        for start in range(0, len(codes), length):
            part = slice(start, start + length)
            self._add_places(codes[part])
            yield part

    def _take(self, X: np.ndarray, rows: np.ndarray, codes: np.ndarray, y: np.ndarray, *, learn: bool) -> Rounds:
        from .loops import plan_pairs, scale_stream

        n = len(codes)
        rows, at = np.unique(rows, return_inverse=True)
        X = X[rows]
        source = np.full(len(self.row), -1)
        partner, held = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        u = self.rng.random((n, 2))
        state = (self.slots, self.sizes, self.seen, self.used)
        plan_pairs(codes, u, self.capacity, *state, source, partner, held)

        paired = np.flatnonzero((partner >= 0) | (held >= 0)) if learn else np.arange(0)
        rounds = np.full(n, -1)
        rounds[paired] = np.arange(len(paired))
        z, other = self._pairs(X, at, y, paired, partner, held)
        signs = np.empty(len(paired))
        diagonal = np.ascontiguousarray(diagonals(self.kernels, X).T, dtype=np.float64)[at]
        trace = self.normalize == "trace"
        statistics = (self.sums, self.counts, self.moments)
        scale_stream(codes, y, other, rounds, diagonal, z, signs, self.classes, trace, *statistics)
        self._keep(X, at, y, source)
        self.n_skipped += n - len(paired) if learn else 0
        return Rounds(codes[paired], signs, z)

    def _pairs(self, X, at, y, paired, partner, held) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernels (p, K) at the pairs of a block, and the target (n,) of each row's partner.

        at (n,) are the rows of X (u, d) that the block consists of; partners are in the block, or at a place of the
        store in `held` (n,).
        """
        old = paired[held[paired] >= 0]
        new = paired[held[paired] < 0]
        row, other = np.zeros(len(at), dtype=np.intp), np.zeros(len(at))
        row[new], other[new] = at[partner[new]], y[partner[new]]
        row[old], other[old] = len(X) + np.arange(len(old)), self.y[held[old]]
        together = np.concatenate([X, self.X[self.row[held[old]]]]) if len(old) else X
        z = self._values(together, at[paired], row[paired])
        return np.ascontiguousarray(z.T, dtype=np.float64), other

    def _values(self, X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        if not len(i):
            return np.empty((len(self.kernels), 0))
        values = pairs(self.kernels, X, i, j)
        if self.normalize == "cosine":
            return fit_diagonal_scaling("cosine", diagonals(self.kernels, X)).apply_pairs(values, i, j)
        return values

    def _keep(self, X: np.ndarray, at: np.ndarray, y: np.ndarray, source: np.ndarray) -> None:
        """Store the rows of a block that are now at places; source (places,) are their positions in the block."""
        changed = np.flatnonzero(source >= 0)
        added, position = np.unique(at[source[changed]], return_inverse=True)
        if self.n_rows + len(added) > len(self.X):
            self._collect(source[: int(self.used[0])] < 0, len(added), X)
        self.X[self.n_rows : self.n_rows + len(added)] = X[added]
        self.row[changed], self.y[changed] = self.n_rows + position, y[source[changed]]
        self.n_rows += len(added)

    def _collect(self, live: np.ndarray, more: int, like: np.ndarray) -> None:
        """Drop rows that no live place (used,) has, and make space for `more` new ones shaped as those of `like`."""
        places = np.flatnonzero(live)
        kept, position = np.unique(self.row[places], return_inverse=True)
        X = np.zeros((len(kept) + more + (len(kept) // 2 if more else 0), like.shape[1]), dtype=like.dtype)
        if len(kept):
            X[: len(kept)] = self.X[kept]
        self.X, self.n_rows, self.row[places] = X, len(kept), position

    def _add_tasks(self, n_tasks: int) -> None:
        more = n_tasks - len(self.sizes)
        if more > 0:
            more = max(more, len(self.sizes) // 2)
            for name in ("slots", "sums", "moments"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            for name in ("sizes", "seen", "counts"):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))

    def _add_places(self, codes: np.ndarray) -> None:
        """Make the arrays long enough for the rows of a block, as far as the reservoirs can take them."""
        sizes = np.minimum(self.sizes + np.bincount(codes, minlength=len(self.sizes)), self.capacity)
        width = self.slots.shape[1]
        if sizes.max() > width:
            wider = min(max(int(sizes.max()), width + width // 2), self.capacity)
            self.slots = np.pad(self.slots, ((0, 0), (0, wider - width)))
        length, needed = len(self.row), int(sizes.sum())
        if needed > length:
            more = max(needed, length + length // 2) - length
            self.row, self.y = np.pad(self.row, (0, more)), np.pad(self.y, (0, more))


# Rows that a stream collects before it fits the kernels on them, whatever the pieces are that they come in.
START_ROWS = 1000


class Codes:
    """Labels as numbers, in the order in which they are first seen."""

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
        """The labels in the order of their codes."""
        return np.array(list(self.index))


@dataclass(frozen=True)
class StreamSettings:
    """How a stream is learned from.

    Attributes
    ----------
    kernels : the kernels, to be fitted on the first rows of the stream.
    solver : the online solver.
    normalize : how kernels are scaled.
    capacity : rows of each task that its reservoir keeps.
    center : whether the values of pairs are centred.
    classes : whether targets are classes.
    verbose : whether progress is shown.
    """

    kernels: Sequence[Kernel]
    solver: Online
    normalize: str | None
    capacity: int
    center: bool
    classes: bool
    verbose: int = 0


class Stream:
    """Learns from the rows of a stream as they come; the pieces they come in do not matter.

    Parameters
    ----------
    settings : StreamSettings
    rng : numpy.random.Generator
        Of the draws.
    seed : int
        Of all else that is random about a fit on these rows.
    """

    def __init__(self, settings: StreamSettings, rng: np.random.Generator, *, seed: int = 0) -> None:
        self.settings, self.rng, self.seed = settings, rng, seed
        self.tasks = Codes()
        self.classes = Codes() if settings.classes else None
        self.waiting: list[TaskData] = []
        self.reservoirs: Reservoirs | None = None
        self.run: OnlineRun | None = None
        self.center: PairCenter | None = None

    @classmethod
    def after(
        cls,
        settings: StreamSettings,
        rng: np.random.Generator,
        data: TaskData,
        kernels: tuple[FittedKernel, ...],
        run: OnlineRun,
        center: PairCenter,
        *,
        seed: int = 0,
    ) -> Stream:
        """Return the stream that goes on where a run on `data` has ended, with rows of it in the reservoirs."""
        stream = cls(settings, rng, seed=seed)
        stream.tasks = Codes(data.labels.tolist())
        stream._open(kernels, replace(run, n_rounds=None), center)
        reservoirs = stream._opened()[0]
        reservoirs.add(data.X, *stream._rows(data))
        reservoirs.compact()
        return stream

    def feed(self, piece: TaskData) -> None:
        """Learn from the rows of a piece, or keep them until there are enough to fit the kernels on."""
        if self.reservoirs is not None:
            self._learn(piece)
            return
        self.waiting.append(piece)
        if sum(len(part.X) for part in self.waiting) >= START_ROWS:
            self._begin()

    def begun(self) -> Stream:
        """Return this stream, or while it waits for rows a copy that has begun with those it has."""
        if self.reservoirs is not None:
            return self
        early = copy.deepcopy(self)
        early._begin()
        return early

    def state(self) -> tuple[Reservoirs, OnlineRun]:
        """Return the reservoirs and the run of a stream that has begun."""
        reservoirs, run, _ = self._opened()
        return reservoirs, run

    def data(self) -> TaskData:
        """Return the rows in the reservoirs of a stream that has begun."""
        classes = None if self.classes is None else self.classes.labels
        return self._opened()[0].data(self.tasks.labels, classes)

    def _begin(self) -> None:
        X = np.concatenate([piece.X for piece in self.waiting])[:START_ROWS]
        kernels = tuple(fit_kernels(self.settings.kernels, X, self.waiting[0].feature_names))
        solver = self.settings.solver
        run = OnlineRun(solver, solver.init(len(kernels)), verbose=self.settings.verbose)
        self._open(kernels, run, PairCenter(len(kernels)))
        for piece in self.waiting:
            self._learn(piece)
        self.waiting = []

    def _open(self, kernels: tuple[FittedKernel, ...], run: OnlineRun, center: PairCenter) -> None:
        settings = self.settings
        self.reservoirs = Reservoirs(kernels, settings.normalize, settings.capacity, self.rng, classes=settings.classes)
        self.run, self.center = run, center

    def _opened(self) -> tuple[Reservoirs, OnlineRun, PairCenter]:
        if self.reservoirs is None or self.run is None or self.center is None:
            raise ValueError("this stream has not begun: its kernels are not fitted yet")
        return self.reservoirs, self.run, self.center

    def _learn(self, piece: TaskData) -> None:
        reservoirs, run, center = self._opened()
        for rounds in reservoirs.rounds(piece.X, *self._rows(piece)):
            if self.settings.center:
                center(rounds)
            run.step(rounds)

    def _rows(self, piece: TaskData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of X, their tasks and targets as they came: by row, and on wide data by task within it."""
        rows = np.concatenate(piece.rows)
        order = np.argsort(rows, kind="stable")
        own = np.repeat(np.arange(piece.n_tasks), [len(part) for part in piece.rows])[order]
        y = np.concatenate(piece.y)[order]
        targets = y if self.classes is None else self.classes(y)
        return rows[order], self.tasks(piece.labels[own]), targets.astype(np.float64)
