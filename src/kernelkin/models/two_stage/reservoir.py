"""A stream of rows: each plays one round with a partner from its task's reservoir, and is then offered to it."""

from __future__ import annotations

import numpy as np

from ...data import Form, TaskData
from ...kernels import FittedKernel, diagonals, fit_diagonal_scaling, pairs
from .pairs import Rounds, block_length


class Reservoirs:
    """At most `capacity` rows of each task, every row seen so far with the same chance, and the rounds rows play.

    Every row takes the same two numbers from `rng` wherever a block of the stream ends, so that blocks do not matter.
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
        self.kernels, self.normalize, self.rng, self.classes = kernels, normalize, rng, classes
        self.slots = np.zeros((0, capacity), dtype=np.int64)
        self.sizes = np.zeros(0, dtype=np.int64)
        self.seen = np.zeros(0, dtype=np.int64)
        self.used = np.zeros(1, dtype=np.int64)
        self.X = np.zeros((0, 0))
        self.y = np.zeros(0)
        self.sums = np.zeros((0, len(kernels)))
        self.counts = np.zeros(0)
        self.moments = np.zeros((0, 2))
        self.n_skipped = 0

    def rounds(self, X: np.ndarray, rows: np.ndarray, codes: np.ndarray, y: np.ndarray):
        """Take in rows X[rows] of tasks `codes` (n,) with targets y (n,), and yield blocks of `Rounds`."""
        self._make_room(int(codes.max(initial=-1)) + 1)
        length = block_length(X.shape[1], len(self.kernels))
        for start in range(0, len(rows), length):
            part = slice(start, start + length)
            yield self._block(X[rows[part]], codes[part], y[part])

    def data(self, labels: np.ndarray, classes: np.ndarray | None, form: Form = "long") -> TaskData:
        """What the reservoirs hold, as data; `classes` decodes targets."""
        rows = tuple(places[:size] for places, size in zip(self.slots, self.sizes, strict=True))[: len(labels)]
        y = self.y if classes is None else classes[self.y.astype(np.intp)]
        return TaskData(self.X, rows, tuple(y[mine] for mine in rows), np.ones(len(self.X)), labels, form)

    def _block(self, X: np.ndarray, codes: np.ndarray, y: np.ndarray) -> Rounds:
        from .pair_loops import plan_pairs, scale_stream

        n = len(codes)
        self._make_store(n, X)
        source = np.full(len(self.X), -1)
        partner, held = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        u = self.rng.random((n, 2))
        plan_pairs(codes, u, self.slots, self.sizes, self.seen, self.used, source, partner, held)

        playing = np.flatnonzero((partner >= 0) | (held >= 0))
        rounds = np.full(n, -1)
        rounds[playing] = np.arange(len(playing))
        old = np.flatnonzero(held >= 0)
        partner[old] = n + np.arange(len(old))
        everything = np.concatenate([X, self.X[held[old]]])
        other = np.concatenate([y, self.y[held[old]]])[partner]
        z = np.ascontiguousarray(self._values(everything, playing, partner[playing]).T, dtype=np.float64)
        signs = np.empty(len(playing))
        diagonal = np.ascontiguousarray(diagonals(self.kernels, X).T, dtype=np.float64)
        trace = self.normalize == "trace"
        statistics = (self.sums, self.counts, self.moments)
        scale_stream(codes, y, other, rounds, diagonal, z, signs, self.classes, trace, *statistics)

        changed = np.flatnonzero(source >= 0)
        self.X[changed], self.y[changed] = X[source[changed]], y[source[changed]]
        self.n_skipped += n - len(playing)
        return codes[playing], signs, z

    def _values(self, X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        values = pairs(self.kernels, X, i, j)
        if self.normalize == "cosine":
            return fit_diagonal_scaling("cosine", diagonals(self.kernels, X)).apply_pairs(values, i, j)
        return values

    def _make_room(self, n_tasks: int) -> None:
        more = n_tasks - len(self.sizes)
        if more > 0:
            for name in ("slots", "sums", "moments"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            for name in ("sizes", "seen", "counts"):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))

    def _make_store(self, n: int, X: np.ndarray) -> None:
        """Room for n more rows, as far as the reservoirs can take them."""
        most = self.slots.size
        needed = min(int(self.used[0]) + n, most)
        if needed > len(self.X):
            grown = min(max(needed, len(self.X) + len(self.X) // 2), most)
            store, y = np.zeros((grown, X.shape[1]), dtype=X.dtype), np.zeros(grown)
            store[: len(self.X)], y[: len(self.y)] = self.X if len(self.X) else 0.0, self.y
            self.X, self.y = store, y
