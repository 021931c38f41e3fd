"""A batch of blocks of similar size: everything that is computed block by block.

Batches are stored where they are evaluated: in this process, on a device, or on a worker of a cluster. Every call
passes the parameters. A batch only caches results, so if its worker dies, it can be sent again and computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, SparseRows, diagonals, invert, library, like, on_device, swap, to_float, zeros
from .rows import Pairs, Rows
from .terms import JITTER, Term

Parameters = dict[str, dict[str, np.ndarray]]


class Call(NamedTuple):
    """The parameters of a call; `prior` and `solved` are the keys under which a batch caches its results."""

    p: Parameters
    prior: str
    solved: str


class Features(NamedTuple):
    """The features of rows: dense features, and sparse features that are zero for most rows."""

    dense: Array  # (b, n, f)
    sparse: SparseRows | None
    saved: list[Any]  # values for the gradient of each term

    def times(self, beta: Array) -> Array:
        """Return Phi beta (b, n, r) for coefficients (f + s, r)."""
        f = self.dense.shape[2]
        found = self.dense @ beta[:f]
        return found if self.sparse is None else found + self.sparse.times(beta[f:])

    def sums(self, values: Array) -> Array:
        """Return Phi' values (f + s, r) for values (b, n, r)."""
        r = values.shape[2]
        found = swap(self.dense.reshape(-1, self.dense.shape[2])) @ values.reshape(-1, r)
        return found if self.sparse is None else library(found).concatenate([found, self.sparse.sums(values)])

    def weighted_sums(self, W: Array) -> Array:
        """Return W Phi (b, m, f + s) for weights W (b, m, n) of the rows of each block."""
        found = W @ self.dense
        return found if self.sparse is None else library(W).concatenate([found, self.sparse.weighted_sums(W)], 2)

    def full(self) -> Array:
        """Return all features (b, n, f + s)."""
        xp = library(self.dense)
        return self.dense if self.sparse is None else xp.concatenate([self.dense, self.sparse.full()], 2)


def features(terms: Sequence[Term], p: Parameters, rows: Rows, used: Sequence[str] | None = None) -> Features:
    """Return the features of all terms at rows; those of terms whose names are not in `used` are zero."""
    dense, index, value, saved, begin = [zeros((*rows.X.shape[:2], 0), rows.X)], [], [], [], 0
    for term in terms:
        factor, kept = 1.0 if used is None or term.name in used else 0.0, None
        if term.n_dense:
            Phi, kept = term.features(p[term.name], rows)
            dense.append(Phi * factor if factor != 1.0 else Phi)
        elif term.n_sparse:
            codes, values = term.sparse(p[term.name], rows)
            index.append(codes + begin)
            value.append(values * factor)
            begin += term.n_sparse
        saved.append(kept)
    xp = library(rows.X)
    mask = None if rows.mask is None else rows.mask[:, :, None]
    Phi = xp.concatenate(dense, axis=2)
    if mask is not None:
        Phi *= mask
    if not index:
        return Features(Phi, None, saved)
    values = xp.concatenate(value, axis=2)
    values = values if mask is None else values * mask
    return Features(Phi, SparseRows(xp.concatenate(index, axis=2), values, begin), saved)


def covariance(terms: Sequence[Term], p: Parameters, pairs: Pairs, saved: list[Any] | None = None) -> Array:
    """Return the sum (b, n, m) of the terms at pairs of rows; append values for their gradients to `saved`."""
    found = zeros((*pairs.A.X.shape[:2], pairs.B.X.shape[1]), pairs.A.X)
    for term in terms:
        kept = None
        if not term.is_empty(pairs.sharing):
            K, kept = term.block(p[term.name], pairs)
            found += K
        if saved is not None:
            saved.append(kept)
    if pairs.both is not None:
        found *= pairs.both
    return found


class Batch:
    """Blocks of similar size with their rows, targets z (b, n, r) and weights (b, n), padded to one size.

    Methods take the noise, as (b, n) or as a number that is divided by the weights, and targets; if these are None, the
    targets of the batch are used. If `keep` is False, values are kept only until the end of a call.
    """

    def __init__(
        self,
        terms: tuple[Term, ...],
        pairs: Pairs,
        z: np.ndarray,
        weight: np.ndarray,
        by_features: bool,
        device: str | None = None,
        keep: bool = True,
    ) -> None:
        self.terms, self.by_features, self.device, self.keep = terms, by_features, device, keep
        self._host = pairs, z, weight
        self._there: Any = None
        self.forget()

    @property
    def _arrays(self) -> tuple[Pairs, Array, Array]:
        """Rows, targets and weights, on the device."""
        if self.device is None:
            return self._host
        if self._there is None:
            pairs, z, weight = self._host
            self._there = pairs.to(self.device), on_device(z, self.device), on_device(weight, self.device)
        return self._there

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_there": None, "_evaluated": ("", None), "_factored": ("", None)}

    def forget(self) -> None:
        """Clear the cache."""
        self._evaluated: tuple[str, Any] = "", None
        self._factored: tuple[str, Any] = "", None

    def _prior(self, call: Call) -> tuple[Array, list[Any], Any]:
        """Return V (b, n, n) without noise, values saved for gradients, and the `Features`; None in exact models."""
        if self._evaluated[0] == call.prior:
            return self._evaluated[1]
        pairs, saved = self._arrays[0], list[Any]()
        V = covariance(self.terms, call.p, pairs, saved)
        found = V, saved, features(self.terms, call.p, pairs.A) if self.by_features else None
        self._evaluated = call.prior, found
        return found

    def _factor(self, call: Call, noise: Any) -> tuple[Array, float, Array | None]:
        """Return the inverses (b, n, n) of V + N, the sum of their log determinants, and inv(V + N) times features."""
        if self._factored[0] == call.solved:
            return self._factored[1]
        V, _, Phi = self._prior(call)
        mask = self._arrays[0].A.mask
        V = V.copy() if isinstance(V, np.ndarray) else V.clone()
        noise = self._noise(noise) + JITTER
        diagonals(V)[...] += noise if mask is None else noise * mask + ~mask
        inverse, log_det = invert(V)
        found = inverse, log_det, None if Phi is None else inverse @ Phi.dense
        self._factored = call.solved, found
        return found

    def _noise(self, noise: Any) -> Array:
        _, _, weight = self._arrays
        if isinstance(noise, float):
            # Padding has no weight, and no noise here.
            there = to_float(weight > 0)
            return noise * there / (weight + (1.0 - there))
        return like(noise, weight)

    def _targets(self, z: np.ndarray | None) -> Array:
        return self._arrays[1] if z is None else like(z, self._arrays[1])

    def moments(self, call: Call, noise: Any, z: Any) -> tuple[Any, ...]:
        """Return sums over the blocks; V includes the noise here.

        These are log det V and z' inv(V) z and, with features, the dense part of Phi' inv(V) Phi, Phi' inv(V) z, and
        the sparse and mixed parts of Phi' inv(V) Phi if there are sparse features.
        """
        inverse, log_det, white = self._factor(call, noise)
        z = self._targets(z)
        Vz = inverse @ z
        first = log_det, float((z * Vz).sum())
        if white is None:
            return first
        Phi = self._prior(call)[2]
        f = white.shape[2]
        A = swap(Phi.dense.reshape(-1, f)) @ white.reshape(-1, f)
        if Phi.sparse is None:
            return (*first, A, Phi.sums(Vz))
        return (*first, A, Phi.sums(Vz), Phi.sparse.sums_between(inverse), Phi.sparse.sums(white))

    def project(self, call: Call, noise: Any, z: Any) -> tuple[Array]:
        """Return Phi' inv(V + N) z (f, r)."""
        return (self._prior(call)[2].sums(self._factor(call, noise)[0] @ self._targets(z)),)

    def values(self, call: Call, beta: Any, noise: Any, z: Any) -> Array:
        """Return inv(K + N) z (b, n, r), from the coefficients beta (f, r) of the features."""
        z = self._targets(z)
        rest = z if beta is None else z - self._prior(call)[2].times(like(beta, z))
        return self._factor(call, noise)[0] @ rest

    def _whole(self, call: Call, A_inverse: Any, noise: Any) -> tuple[Array, Array | None]:
        """Return the blocks (b, n, n) of inv(K + N), and the dense columns (b, n, f) of inv(V + N) Phi inv(A)."""
        inverse, _, white = self._factor(call, noise)
        if white is None:
            return inverse, None
        Phi, f = self._prior(call)[2], white.shape[2]
        A_inverse = like(A_inverse, inverse)
        # One product of all rows: NumPy multiplies the blocks one by one.
        U = (Phi.dense.reshape(-1, f) @ A_inverse[:f, :f]).reshape(Phi.dense.shape)
        if Phi.sparse is None:
            tied = inverse @ U
            return inverse - tied @ swap(white), tied
        E = Phi.sparse.times(A_inverse[f:, :f])
        U += E
        M = U @ swap(Phi.dense) + Phi.dense @ swap(E) + Phi.sparse.between(A_inverse[f:, f:])
        return inverse - inverse @ M @ inverse, inverse @ U

    def inverse(self, call: Call, noise: Any) -> Array:
        """Return inv(V + N) (n, n) of the only block."""
        return self._factor(call, noise)[0][0]

    def diagonal(self, call: Call, A_inverse: Any, noise: Any) -> Array:
        """Return the diagonal (b, n) of inv(K + N)."""
        return diagonals(self._whole(call, A_inverse, noise)[0])

    def gradient(
        self, call: Call, A_inverse: Any, beta: Any, m: float, beta_u: Any, noise: Any, z: Any, u: Any
    ) -> tuple[np.ndarray, float]:
        """Return the result of `Solved.gradient` without the variances of features; parameters are one vector."""
        pairs = self._arrays[0]
        a = self.values(call, beta, noise, z)
        W, G = self._whole(call, A_inverse, noise)
        slope = 0.5 * float((self._noise(noise) * (m * diagonals(W) - (a * a).sum(2))).sum())
        W = (0.5 * m) * W - 0.5 * (a @ swap(a))
        f = 0 if G is None else G.shape[2]
        if G is not None:
            beta = like(beta, a)
            G = m * G - a @ swap(beta[:f])
        if u is not None:
            u = like(u, a)
            product = 0.5 * (u @ swap(a))
            W += product + swap(product)
            if G is not None:
                G += u @ swap(beta[:f]) + a @ swap(like(beta_u, a)[:f])
        if pairs.both is not None:
            W *= pairs.both
        return self._by_parameter(call, W, G), slope

    def _by_parameter(self, call: Call, W: Array, G: Array | None) -> np.ndarray:
        """Return the derivatives for the parameters, from those W for V and G for the dense features."""
        pairs, (_, saved, Phi), begin, found = self._arrays[0], self._prior(call), 0, []
        for i, term in enumerate(self.terms):
            p = call.p[term.name]
            parts = [] if term.is_empty(pairs.sharing) else [term.block_gradient(p, pairs, W, saved[i])]
            if G is not None and term.n_dense:
                at = slice(begin, begin := begin + term.n_dense)
                if Phi.saved[i] is not None:
                    part = G[:, :, at], Phi.dense[:, :, at], Phi.saved[i]
                    parts.append(term.features_gradient(p, pairs.A, *part))
            found += [sum((part[k] for part in parts if k in part), np.zeros(len(v))) for k, v in p.items()]
        return np.concatenate([np.zeros(0), *found])

    def predict(
        self,
        call: Call,
        A_inverse: Any,
        beta: Any,
        used: Sequence[str],
        variance: bool,
        noise: Any,
        a: np.ndarray,
        pieces: Sequence[tuple[np.ndarray, Rows]],
    ) -> list[tuple[Array, Array | None]]:
        """Return means (c, m, r) and variances (c, m) for each piece: blocks (c,) and their rows (c, m, d)."""
        if not pieces:
            return []
        pairs, found = self._arrays[0], []
        a, A_inverse, beta = (like(each, pairs.A.X) for each in (a, A_inverse, beta))
        terms = [term for term in self.terms if term.name in used]
        for blocks, rows in pieces:
            blocks, rows = like(blocks, pairs.A.X), rows.to(self.device)
            C = covariance(terms, call.p, Pairs(rows, pairs.A.take(blocks), 0.0))
            linked, explained = self.explained(call, noise, C, blocks) if variance else (None, 0.0)
            mean, spread = predict_by_features(self.terms, call.p, used, rows, A_inverse, beta, linked)
            found.append((mean + C @ a[blocks], spread - explained if variance else None))
        return found

    def explained(self, call: Call, noise: Any, C: Array, blocks: Any = slice(None)) -> tuple[Array, Array]:
        """Return C inv(V + N) Phi (c, m, f) and the diagonals (c, m) of C inv(V + N) C', for C (c, m, n) of blocks."""
        inverse, Phi = self._factor(call, noise)[0][blocks], self._prior(call)[2]
        C = like(C, inverse)
        own = C @ inverse
        sparse = Phi.sparse
        if sparse is not None:
            sparse = SparseRows(sparse.index[blocks], sparse.value[blocks], sparse.size)
        return Features(Phi.dense[blocks], sparse, []).weighted_sums(own), (own * C).sum(2)


def predict_by_features(
    terms: Sequence[Term],
    p: Parameters,
    used: Sequence[str],
    rows: Rows,
    A_inverse: Array,
    beta: Array,
    explained: Any = None,
) -> tuple[Array, Any]:
    """Return means (b, n, r) and variances (b, n) at rows, from the features and the prior of all other parts.

    `explained` (b, n, f) is the part of the features that the block of a row explains, 0 for rows without a block, and
    None if variances are not needed.
    """
    Phi = features(terms, p, rows, used)
    mean = Phi.times(beta)
    if explained is None:
        return mean, None
    full = Phi.full()
    # Use the full prior variance: far from the landmarks, the features do not cover it.
    spread = sum(term.diagonal(p[term.name], rows, 1.0) for term in terms if term.name in used) - (full * full).sum(2)
    full = full - explained
    return mean, spread + ((full @ A_inverse) * full).sum(2)
