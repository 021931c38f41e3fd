"""The covariance of all rows, `K = V + Phi Phi'`: V is block diagonal, and the features Phi link the blocks.

`Prior` evaluates the terms at given parameters; `Solved` adds noise and factorises, block by block:

    log det(V + N + Phi Phi') = sum_t log det V_t + log det A,   A = I + Phi' inv(V + N) Phi
    a = inv(K + N) z = inv(V + N) (z - Phi beta),                beta = inv(A) Phi' inv(V + N) z

Exact models have one block and no features. Everything is computed for batches of blocks (`batch.Batch`), and the
results are added up. `Blocks` runs the batches on threads, on a device, or on the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np

from ..engines.threads import Threads
from .arrays import Array, diagonals, invert, library, swap, to_numpy
from .batch import Batch, Call, Parameters, predict_by_features
from .rows import MAX_ROWS, Pairs, Rows, batches_of, rows_of_table, take
from .terms import Term

# Values of batches are kept between the passes of an evaluation if they take less memory than this, in bytes.
KEPT_BYTES = 1 << 29
# Number of queries that a batch predicts at a time.
PIECE = 2_000
# Number of shards (lists of batches) for each thread of a cluster.
SHARDS = 4


@dataclass(frozen=True)
class Place:
    """Where batches are evaluated: on threads of this process or on a cluster, optionally with a torch device."""

    engine: Any
    device: str | None = None


# One thread of this process.
HERE = Place(Threads(1))


@dataclass(frozen=True)
class Layout:
    """Training rows in blocks."""

    tables: tuple[np.ndarray, ...]  # (b, n) row numbers of each batch of blocks, -1 for padding
    pairs: tuple[Pairs, ...]  # the rows of each batch, paired with themselves
    n_rows: int  # N
    by_features: bool  # whether common terms are represented by features
    place: Place = HERE  # where batches are evaluated

    @classmethod
    def dense(
        cls, X: np.ndarray, groups: Sequence[np.ndarray], given: Sequence[np.ndarray] = (), place: Place = HERE
    ) -> Layout:
        """Return a layout with all rows in one block; `given` are values (N, N) of the user's kernels."""
        table = np.arange(len(X))[None]
        rows = Rows(X[None], tuple(part[None] for part in groups))
        pairs = Pairs(rows, rows, 1.0, tuple(kernel[None] for kernel in given))
        # One block is not split.
        return cls((table,), (pairs,), len(X), False, Place(HERE.engine, place.device))

    @classmethod
    def blocks(
        cls, X: np.ndarray, groups: Sequence[np.ndarray], place: Place = HERE, codes: np.ndarray | None = None
    ) -> Layout:
        """Return a layout with a block for each of the `codes` (N,), by default the groups of the first grouping."""
        tables = batches_of(groups[0] if codes is None else codes, MAX_ROWS if place.device is None else 16 * MAX_ROWS)
        rows = [rows_of_table(X, groups, table) for table in tables]
        return cls(tuple(tables), tuple(Pairs(part, part, 0.0) for part in rows), len(X), True, place)

    @cached_property
    def blocks_of_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The batch (T,) of each group of the first grouping and its position (T,) there; -1 for those without rows."""
        codes = [pairs.A.groups[0][:, 0] for pairs in self.pairs]
        found = np.full((2, 1 + max(int(each.max()) for each in codes)), -1)
        for number, each in enumerate(codes):
            found[0, each], found[1, each] = number, np.arange(len(each))
        return found[0], found[1]

    def __getstate__(self) -> dict[str, Any]:
        # The cluster and the device belong to the fit and are not pickled.
        return {**vars(self), "place": HERE}


class Blocks:
    """The batches of a layout with their targets, in the place where they are evaluated."""

    def __init__(self, terms: Sequence[Term], layout: Layout, z: np.ndarray, weight: np.ndarray) -> None:
        self.terms, self.layout = tuple(terms), layout
        self.n_dense = [term.n_dense if layout.by_features else 0 for term in terms]
        self.n_sparse = [term.n_sparse if layout.by_features else 0 for term in terms]
        width = 4 * sum(self.n_dense)
        entries = sum(table.size * (table.shape[1] * (2 + len(self.terms)) + width) for table in layout.tables)
        keep = not layout.by_features or 8 * entries <= KEPT_BYTES
        batches = [
            Batch(self.terms, pairs, take(z, table), take(weight, table), layout.by_features, layout.place.device, keep)
            for table, pairs in zip(layout.tables, layout.pairs, strict=True)
        ]
        engine = layout.place.engine
        # On a cluster there are few shards, so that few matrices are transferred. Otherwise each batch is a shard, so
        # that sums do not depend on the number of threads.
        count = min(SHARDS * engine.n_workers, len(batches)) if engine.splits else len(batches)
        self.shards = [part.tolist() for part in np.array_split(np.arange(len(batches)), count)]
        self.held = engine.hold([[batches[i] for i in shard] for shard in self.shards])
        self.is_remote = engine.splits

    def each(self, method: str, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Return `batch.method(*shared, *own)` of each batch, in order."""
        return [result for shard in self._map(method, shared, own, False) for result in shard]

    def total(self, method: str, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> Any:
        """Return the sums over batches of `batch.method(*shared, *own)`, a tuple of arrays or numbers."""
        return _add_up(self._map(method, shared, own, True))

    def _map(self, method: str, shared: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None, add: bool) -> list[Any]:
        if self.is_remote:
            shared = tuple(to_numpy(each) for each in shared)
        arguments = [
            (method, shared, [() if own is None else own[i] for i in shard], add, self.is_remote)
            for shard in self.shards
        ]
        return self.held.call(_run, arguments)

    def split(self, values: Any) -> list[Any]:
        """Return the entries (b, n, ...) of values (N, ...) for each batch; numbers and None are repeated."""
        if not isinstance(values, np.ndarray):
            return [values] * len(self.layout.tables)
        return [take(values, table) for table in self.layout.tables]

    def join(self, parts: Sequence[Array]) -> np.ndarray:
        """Return values (N, ...) from their entries (b, n, ...) in each batch: the inverse of `split`."""
        parts = [to_numpy(part) for part in parts]
        found = np.zeros((self.layout.n_rows, *parts[0].shape[2:]))
        for table, part in zip(self.layout.tables, parts, strict=True):
            found[table[table >= 0]] = part[table >= 0]
        return found


def _run(shard: list[Batch], method: str, shared: Any, own: Sequence[tuple[Any, ...]], add: bool, remote: bool) -> Any:
    found = []
    for batch, given in zip(shard, own, strict=True):
        found.append(getattr(batch, method)(*shared, *given))
        if not batch.keep:
            batch.forget()
    if not add:
        return [to_numpy(each) for each in found] if remote else found
    return tuple(map(to_numpy, _add_up(found))) if remote else _add_up(found)


def _add_up(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    total = parts[0]
    for part in parts[1:]:
        total = tuple(x + y for x, y in zip(total, part, strict=True))
    return total


class Prior:
    """The terms at given parameters, on the rows of `blocks`."""

    def __init__(self, blocks: Blocks, p: Parameters) -> None:
        self.blocks, self.p, self.key = blocks, p, uuid4().hex


class Solved:
    """inv(K + diag(noise)) applied to targets z (N, r), by default those of the blocks.

    `noise` is the variance of each row (N,), or a number that is divided by the weight of each row.

    Attributes
    ----------
    beta : (f, r) posterior means of the coefficients of the features; None without features.
    log_det : log determinant of K + diag(noise).
    quadratic : z' inv(K + diag(noise)) z, summed over the columns of z.
    """

    def __init__(self, prior: Prior, noise: float | np.ndarray, z: np.ndarray | None = None) -> None:
        self.prior, self.blocks = prior, prior.blocks
        self.call = Call(prior.p, prior.key, uuid4().hex)
        self.noise, self.z = self.blocks.split(noise), self.blocks.split(z)
        self.log_det, self.quadratic, *parts = self.blocks.total("moments", self.call, own=self._own())
        self.A_inverse: Any = None
        self.beta: Any = None
        if self.blocks.layout.by_features:
            self._tie(*parts)

    def _own(self, *more: Sequence[Any]) -> list[tuple[Any, ...]]:
        return list(zip(self.noise, self.z, *more, strict=True))

    def _tie(self, A: Array, r: Array, A_sparse: Array = None, A_both: Array = None) -> None:
        """Compute the inverse of A, which links the blocks."""
        if A_sparse is not None:
            xp = library(A)
            A = xp.concatenate([xp.concatenate([A, swap(A_both)], 1), xp.concatenate([A_both, A_sparse], 1)])
        A = 0.5 * (A + swap(A))
        diagonals(A)[...] += 1.0
        inverse, log_det = invert(A[None])
        self.A_inverse = inverse[0]
        self.log_det += log_det
        self.beta = self.A_inverse @ r
        self.quadratic -= float((self.beta * r).sum())

    @cached_property
    def a(self) -> np.ndarray:
        """(N, r) inv(K + diag(noise)) z."""
        return self.blocks.join(self.blocks.each("values", self.call, self.beta, own=self._own()))

    def apply(self, z: np.ndarray) -> tuple[np.ndarray, Array]:
        """Return inv(K + diag(noise)) z (N, r) and the coefficients of the features (f, r) for targets z (N, r)."""
        own, beta = list(zip(self.noise, self.blocks.split(z), strict=True)), None
        if self.beta is not None:
            (r,) = self.blocks.total("project", self.call, own=own)
            beta = self.A_inverse @ r
        return self.blocks.join(self.blocks.each("values", self.call, beta, own=own)), beta

    @cached_property
    def inverse(self) -> np.ndarray:
        """(N, N) inv(K + diag(noise)) of an exact model."""
        return to_numpy(self.blocks.each("inverse", self.call, own=[(noise,) for noise in self.noise])[0])

    @cached_property
    def diagonal(self) -> np.ndarray:
        """(N,) the diagonal of inv(K + diag(noise))."""
        own = [(noise,) for noise in self.noise]
        return self.blocks.join(self.blocks.each("diagonal", self.call, self.A_inverse, own=own))

    def explained(self, each: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return C inv(V + N) Phi (b, m, f) and the diagonals (b, m) of C inv(V + N) C' for C (b, m, n) of batches."""
        return self.blocks.each("explained", self.call, own=list(zip(self.noise, each, strict=True)))

    def gradient(
        self, multiplicity: float, further: tuple[np.ndarray, Array] | None = None
    ) -> tuple[Parameters, float]:
        """Return the derivatives of `sum(W * K)` for the parameters, and of `sum(W * N)` for the log of the noise.

        W is multiplicity/2 inv(K + N) - aa'/2. If `further` is the result of `apply`, u (N, r) and its coefficients, W
        also has the term (ua' + au')/2.
        """
        u, beta_u = (None, None) if further is None else further
        shared = self.call, self.A_inverse, self.beta, multiplicity, beta_u
        by_blocks, slope = self.blocks.total("gradient", *shared, own=self._own(self.blocks.split(u)))
        found = unflatten(by_blocks, {term.name: self.prior.p[term.name] for term in self.blocks.terms})
        if self.beta is not None:
            of_feature = 0.5 * multiplicity * (1.0 - diagonals(self.A_inverse)) - 0.5 * (self.beta**2).sum(1)
            if beta_u is not None:
                of_feature = of_feature + (self.beta * beta_u).sum(1)
            for term, part in zip(self.blocks.terms, self.by_term(to_numpy(of_feature)), strict=True):
                for name, value in term.scale_gradient(self.prior.p[term.name], part).items() if len(part) else ():
                    found[term.name][name] = found[term.name][name] + value
        return found, float(slope)

    def by_term(self, of_feature: np.ndarray) -> list[np.ndarray]:
        """Split an array (f,) by term: dense features come first, in the order of terms, then sparse ones."""
        dense, sparse = self.blocks.n_dense, self.blocks.n_sparse
        first, last = np.cumsum([0, *dense]), sum(dense) + np.cumsum([0, *sparse])
        ends = [first if size else last for size in dense]
        return [of_feature[end[i] : end[i + 1]] for i, end in enumerate(ends)]

    def predict(
        self, X: np.ndarray, groups: Sequence[np.ndarray], used: Sequence[str], variance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return means (q, r) and variances (q,) of the sum of the terms `used` at rows, by features and blocks."""
        layout, p = self.blocks.layout, self.prior.p
        mean, spread = np.empty((len(X), self.beta.shape[1])), np.empty(len(X))
        batch_of, block_of = layout.blocks_of_groups
        known = (groups[0] >= 0) & (groups[0] < len(batch_of))
        codes = np.where(known, groups[0], 0)
        batch = np.where(known, batch_of[codes], -1)
        tables = [_tables(np.flatnonzero(batch == i), block_of[codes]) for i in range(len(layout.tables))]
        pieces = [[(blocks, rows_of_table(X, groups, table)) for blocks, table in each] for each in tables]
        shared = self.call, self.A_inverse, self.beta, used, variance
        own = list(zip(self.noise, self.blocks.split(self.a), pieces, strict=True))
        found = [part for each in self.blocks.each("predict", *shared, own=own) for part in each]
        # Rows of groups that were not in training have no block.
        others = [rows[None] for rows in _parts(np.flatnonzero(batch < 0))]
        for table in others:
            rows = rows_of_table(X, groups, table).to(layout.place.device)
            some = self.A_inverse, self.beta, 0.0 if variance else None
            found.append(predict_by_features(self.blocks.terms, p, used, rows, *some))
        for table, (m, v) in zip([table for each in tables for _, table in each] + others, found, strict=True):
            mean[table[table >= 0]] = to_numpy(m)[table >= 0]
            if variance:
                spread[table[table >= 0]] = to_numpy(v)[table >= 0]
        return mean, np.maximum(spread, 0.0) if variance else None


def _parts(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[i : i + PIECE] for i in range(0, len(rows), PIECE)]


def _tables(rows: np.ndarray, block_of: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split the queries `rows` of a batch; return the blocks (c,) of each piece and a table (c, m) of their queries."""
    found = []
    for part in _parts(rows[np.argsort(block_of[rows], kind="stable")]):
        blocks, position, counts = np.unique(block_of[part], return_inverse=True, return_counts=True)
        table = np.full((len(blocks), counts.max()), -1)
        table[position, np.arange(len(part)) - np.repeat(np.cumsum(counts) - counts, counts)] = part
        found.append((blocks, table))
    return found


def flatten(parameters: Parameters) -> np.ndarray:
    """Return all parameters in one vector."""
    return np.concatenate([np.zeros(0), *(values for part in parameters.values() for values in part.values())])


def unflatten(x: np.ndarray, like: Parameters) -> Parameters:
    """Return the inverse of `flatten`, with the names and shapes of `like`."""
    found: Parameters = {}
    begin = 0
    for name, part in like.items():
        found[name] = {}
        for key, values in part.items():
            found[name][key] = x[begin : begin + len(values)]
            begin += len(values)
    return found
