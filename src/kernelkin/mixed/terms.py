"""Terms of a mixed kernel model: levels, linear parts and smooths, common to all rows or specific to each group.

A term defines its parameters (logs of variances and length scales), the covariance of pairs of rows, and the derivative
of `sum(W * K)` with respect to each parameter. A term common to all rows is part of the covariance in exact models;
with many rows it is represented by features `Phi` with `K = Phi Phi'`. See "Mixed kernel models" in
`docs/mathematics.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from ..decompositions import cholesky, eigh
from .rows import Pairs, Rows

JITTER = 1e-6


def matern(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Matern 5/2 kernel of squared distances, and minus twice its derivative with respect to them."""
    r = np.sqrt(5.0 * D)
    e = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * e, (5.0 / 3.0) * (1.0 + r) * e


def gaussian(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gaussian kernel of squared distances, and minus twice its derivative with respect to them."""
    e = np.exp(-0.5 * D)
    return e, e


SHAPES = {"matern": matern, "gaussian": gaussian}


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the squared distances (..., n, m) between rows (..., n, d) and (..., m, d)."""
    D = A @ np.swapaxes(B, -1, -2)
    D *= -2.0
    D += (A * A).sum(-1)[..., :, None]
    D += (B * B).sum(-1)[..., None, :]
    return np.maximum(D, 0.0, out=D)


def distance_gradient(M: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the sum over pairs of M (b, n, m) times (a_c - b_c)^2 for each column c (d,)."""
    d = A.shape[-1]
    rows, columns = M.sum(-1).ravel(), M.sum(-2).ravel()
    inner = np.einsum("bnd,bnd->d", A, M @ B)
    return rows @ (A * A).reshape(-1, d) + columns @ (B * B).reshape(-1, d) - 2.0 * inner


class Term(Protocol):
    """Part of the covariance; `start` returns its initial parameters by family."""

    @property
    def name(self) -> str: ...

    def start(self) -> dict[str, np.ndarray]:
        """Return the initial log parameters; those of one family are shrunk towards their mean."""

    def block(self, p: dict[str, np.ndarray], pairs: Pairs) -> tuple[np.ndarray, Any]:
        """Return the covariance (b, n, m) of pairs of rows within blocks, and values saved for the gradient."""

    def block_gradient(
        self, p: dict[str, np.ndarray], pairs: Pairs, W: np.ndarray, saved: Any
    ) -> dict[str, np.ndarray]:
        """Return the derivatives of sum(W * K) with respect to the parameters, for symmetric W."""

    def diagonal(self, p: dict[str, np.ndarray], rows: Rows, sharing: float) -> np.ndarray:
        """Return the prior variance (b, n) of rows; with sharing = 0, without the part represented by features."""

    def features(self, p: dict[str, np.ndarray], rows: Rows) -> tuple[np.ndarray, Any]:
        """Return features (b, n, f) of the part left out of blocks, and values saved for the gradient."""

    def features_gradient(
        self, p: dict[str, np.ndarray], rows: Rows, G: np.ndarray, Phi: np.ndarray, saved: Any
    ) -> dict[str, np.ndarray]:
        """Return derivatives from the derivative G (b, n, f) of the objective with respect to the features."""


def _none(pairs: Pairs) -> np.ndarray:
    return np.zeros((*pairs.A.X.shape[:2], pairs.B.X.shape[1]))


def _where(term: Linear | Additive, pairs: Pairs) -> Any:
    """Return 1 for pairs of rows that a term links, as (b, n, m) or as one number for all."""
    return pairs.sharing if term.grouping is None else pairs.same[term.grouping]


@dataclass(frozen=True)
class Constant:
    """The mean of all rows, with a very wide prior."""

    variance: float = 100.0
    name: str = "mean"

    def start(self):
        return {}

    def block(self, p, pairs):
        return _none(pairs) + self.variance * pairs.sharing, None

    def block_gradient(self, p, pairs, W, saved):
        return {}

    def diagonal(self, p, rows, sharing):
        return np.full(rows.X.shape[:2], self.variance * sharing)

    def features(self, p, rows):
        return np.full((*rows.X.shape[:2], 1), np.sqrt(self.variance)), None

    def features_gradient(self, p, rows, G, Phi, saved):
        return {}


@dataclass(frozen=True)
class Level:
    """A level for each group of a grouping: a random intercept.

    `n_groups` is the number of groups if the grouping is not that of the blocks; its levels are then features.
    """

    grouping: int = 0
    n_groups: int = 0
    name: str = "level"

    def start(self):
        return {"variance": np.array([-1.0])}

    @property
    def _by_features(self) -> bool:
        return self.n_groups > 0

    def block(self, p, pairs):
        if self._by_features and pairs.sharing == 0:
            return _none(pairs), None
        return np.exp(p["variance"]) * pairs.same[self.grouping], None

    def block_gradient(self, p, pairs, W, saved):
        if self._by_features and pairs.sharing == 0:
            return {}
        return {"variance": np.exp(p["variance"]) * np.vdot(W, pairs.same[self.grouping])}

    def diagonal(self, p, rows, sharing):
        # The features of an unknown group are zero.
        known = rows.groups[self.grouping] >= 0
        return np.exp(p["variance"][0]) * np.where(known & self._by_features & (sharing == 0), 0.0, 1.0)

    def features(self, p, rows):
        codes = rows.groups[self.grouping]
        if not self._by_features:
            return np.zeros((*codes.shape, 0)), None
        Phi = np.exp(0.5 * p["variance"]) * (codes[..., None] == np.arange(self.n_groups))
        return Phi, None

    def features_gradient(self, p, rows, G, Phi, saved):
        return {"variance": np.array([0.5 * np.vdot(G, Phi)])} if self._by_features else {}


@dataclass(frozen=True)
class Linear:
    """A linear function of the columns, common or for each group (slopes), with a variance for each column family.

    `of_column` (d,) is the family of each column; columns of the same origin share a variance.
    """

    of_column: np.ndarray
    grouping: int | None = None
    name: str = "linear"

    def start(self):
        d = len(self.of_column)
        scale = 0.3 if self.grouping is None else 0.1
        return {"variances": np.full(int(self.of_column.max()) + 1, np.log(scale / d))}

    def block(self, p, pairs):
        if self.grouping is None and pairs.sharing == 0:
            return _none(pairs), None
        v = np.exp(p["variances"])[self.of_column]
        K = (pairs.A.X * v) @ np.swapaxes(pairs.B.X, -1, -2)
        K *= _where(self, pairs)
        return K, None

    def block_gradient(self, p, pairs, W, saved):
        if self.grouping is None and pairs.sharing == 0:
            return {}
        found = np.einsum("bnd,bnd->d", pairs.A.X, (W * _where(self, pairs)) @ pairs.B.X)
        return {"variances": np.exp(p["variances"]) * self._by_family(found)}

    def _by_family(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.of_column, values)

    def diagonal(self, p, rows, sharing):
        factor = sharing if self.grouping is None else 1.0
        return factor * ((rows.X * rows.X) @ np.exp(p["variances"])[self.of_column])

    def features(self, p, rows):
        if self.grouping is not None:
            return np.zeros((*rows.X.shape[:2], 0)), None
        return rows.X * np.exp(0.5 * p["variances"])[self.of_column], None

    def features_gradient(self, p, rows, G, Phi, saved):
        if self.grouping is not None:
            return {}
        return {"variances": self._by_family(0.5 * np.einsum("bnd,bnd->d", G, Phi))}


@dataclass(frozen=True)
class Smooth:
    """A smooth function of all columns, with a common part and a part for each group.

    Both parts have the same length scales, one for each column family. `landmarks` (m, d) are the rows used for the
    features of the common part.
    """

    of_column: np.ndarray
    grouping: int = 0
    common: bool = True
    own: bool = True
    landmarks: np.ndarray | None = None
    shape: str = "matern"
    name: str = "smooth"

    def start(self):
        found = {"lengths": np.full(int(self.of_column.max()) + 1, 0.5 * np.log(len(self.of_column)))}
        if self.common:
            found["common"] = np.array([-1.0])
        if self.own:
            found["own"] = np.array([-2.0])
        return found

    def _lengths(self, p):
        return np.exp(p["lengths"])[self.of_column]

    def _factor(self, p, pairs):
        """Return the variance, (b, n, m) or a number, that multiplies the kernel of each pair."""
        common = np.exp(p["common"][0]) * pairs.sharing if self.common else 0.0
        return common + np.exp(p["own"][0]) * pairs.same[self.grouping] if self.own else common

    def _is_empty(self, pairs):
        return not self.own and (not self.common or pairs.sharing == 0)

    def block(self, p, pairs):
        if self._is_empty(pairs):
            return _none(pairs), None
        lengths = self._lengths(p)
        kernel, slope = SHAPES[self.shape](squared_distances(pairs.A.X / lengths, pairs.B.X / lengths))
        factor = self._factor(p, pairs)
        return kernel * factor, (kernel, slope, factor)

    def block_gradient(self, p, pairs, W, saved):
        if self._is_empty(pairs):
            return {}
        kernel, slope, factor = saved
        kernel = W * kernel
        found = {"lengths": self._length_gradient(p, W * (slope * factor), pairs.A.X, pairs.B.X)}
        if self.common:
            found["common"] = np.exp(p["common"]) * pairs.sharing * kernel.sum()
        if self.own:
            found["own"] = np.exp(p["own"]) * np.vdot(kernel, pairs.same[self.grouping])
        return found

    def _length_gradient(self, p, M, A, B):
        return np.bincount(self.of_column, distance_gradient(M, A, B) / self._lengths(p) ** 2)

    def diagonal(self, p, rows, sharing):
        common = sharing * np.exp(p["common"][0]) if self.common else 0.0
        return np.full(rows.X.shape[:2], common + (np.exp(p["own"][0]) if self.own else 0.0))

    def _landmark_factor(self, p):
        assert self.landmarks is not None
        Z = self.landmarks / self._lengths(p)
        kernel, slope = SHAPES[self.shape](squared_distances(Z, Z))
        return cholesky(kernel + JITTER * np.eye(len(Z))), slope

    def features(self, p, rows):
        if not self.common or self.landmarks is None:
            return np.zeros((*rows.X.shape[:2], 0)), None
        lengths = self._lengths(p)
        L, slope_at_landmarks = self._landmark_factor(p)
        kernel, slope = SHAPES[self.shape](squared_distances(rows.X / lengths, self.landmarks / lengths))
        b, n, m = kernel.shape
        Phi = solve_triangular(L, kernel.reshape(-1, m).T, lower=True, check_finite=False).T.reshape(b, n, m)
        Phi *= np.exp(0.5 * p["common"])
        return Phi, (L, slope, slope_at_landmarks)

    def features_gradient(self, p, rows, G, Phi, saved):
        if not self.common or self.landmarks is None:
            return {}
        L, slope, slope_at_landmarks = saved
        b, n, m = G.shape
        # K = s C inv(M) C', where C is the kernel between rows and landmarks, and M = L L' that between landmarks.
        at_rows = solve_triangular(L, G.reshape(-1, m).T, lower=True, trans="T", check_finite=False).T
        at_rows = np.exp(0.5 * p["common"]) * at_rows.reshape(b, n, m) * slope
        inner = solve_triangular(L, Phi.reshape(-1, m).T @ G.reshape(-1, m), lower=True, trans="T", check_finite=False)
        inner = -0.5 * solve_triangular(L, inner.T, lower=True, trans="T", check_finite=False)
        inner = 0.5 * (inner + inner.T) * slope_at_landmarks
        Z = self.landmarks
        lengths = self._length_gradient(p, at_rows, rows.X, np.broadcast_to(Z, (b, *Z.shape)))
        lengths += self._length_gradient(p, inner[None], Z[None], Z[None])
        return {"lengths": lengths, "common": np.array([0.5 * np.vdot(G, Phi)])}


@dataclass(frozen=True)
class Additive:
    """One smooth for each column, with its own variance and length scale, common or for each group.

    `landmarks` are the values (m,) of each column used for the features of the common part.
    """

    of_column: np.ndarray
    landmarks: tuple[np.ndarray, ...] = ()
    grouping: int | None = None
    name: str = "additive"

    def start(self):
        d, C = len(self.of_column), int(self.of_column.max()) + 1
        scale = 0.3 if self.grouping is None else 0.1
        return {"variances": np.full(C, np.log(scale / d)), "lengths": np.zeros(C)}

    def block(self, p, pairs):
        K = _none(pairs)
        if self.grouping is None and pairs.sharing == 0:
            return K, None
        v, lengths, saved = np.exp(p["variances"]), np.exp(p["lengths"]), []
        for gap, family in zip(pairs.gaps, self.of_column.tolist(), strict=True):
            r = gap / lengths[family]
            e = np.exp(-r)
            third = r * r / 3.0
            kernel = (1.0 + r + third) * e
            r += 1.0
            # The derivative with respect to the log of the length scale.
            slope = np.multiply(r, third, out=r)
            slope *= e
            K += v[family] * kernel
            saved.append((kernel, slope))
        K *= _where(self, pairs)
        return K, saved

    def block_gradient(self, p, pairs, W, saved):
        if self.grouping is None and pairs.sharing == 0:
            return {}
        v, W = np.exp(p["variances"])[self.of_column], W * _where(self, pairs)
        found = np.array([(np.vdot(W, kernel), np.vdot(W, slope)) for kernel, slope in saved])
        return {
            "variances": np.bincount(self.of_column, v * found[:, 0]),
            "lengths": np.bincount(self.of_column, v * found[:, 1]),
        }

    def diagonal(self, p, rows, sharing):
        factor = sharing if self.grouping is None else 1.0
        return np.full(rows.X.shape[:2], factor * np.exp(p["variances"])[self.of_column].sum())

    def _columns(self, p, rows):
        """Yield a smooth of each single column, with its parameters and rows."""
        zero = np.zeros(1, dtype=np.intp)
        for j, family in enumerate(self.of_column.tolist()):
            part = Smooth(zero, own=False, landmarks=self.landmarks[j][:, None])
            own = {"common": p["variances"][[family]], "lengths": p["lengths"][[family]]}
            yield family, part, own, Rows(rows.X[:, :, [j]], rows.groups, rows.mask)

    def features(self, p, rows):
        if not self.landmarks:
            return np.zeros((*rows.X.shape[:2], 0)), None
        parts = [part.features(own, alone) for _, part, own, alone in self._columns(p, rows)]
        return np.concatenate([Phi for Phi, _ in parts], axis=2), [saved for _, saved in parts]

    def features_gradient(self, p, rows, G, Phi, saved):
        if not self.landmarks:
            return {}
        found = {name: np.zeros_like(p[name]) for name in ("variances", "lengths")}
        begin = 0
        for (family, part, own, alone), kept in zip(self._columns(p, rows), saved, strict=True):
            at = slice(begin, begin := begin + len(part.landmarks))
            each = part.features_gradient(own, alone, G[:, :, at], Phi[:, :, at], kept)
            found["variances"][family] += each["common"][0]
            found["lengths"][family] += each["lengths"][0]
        return found


@dataclass(frozen=True)
class Given:
    """A user-supplied kernel, given by its values at pairs of rows, with a common part and a part for each group."""

    number: int
    grouping: int = 0
    common: bool = True
    own: bool = True
    share: float = 1.0
    name: str = "kernel"

    def start(self):
        found = {}
        if self.common:
            found["common"] = np.array([-1.0 + np.log(self.share)])
        if self.own:
            found["own"] = np.array([-2.0 + np.log(self.share)])
        return found

    _factor: ClassVar[Any] = Smooth._factor

    def block(self, p, pairs):
        return pairs.given[self.number] * self._factor(p, pairs), None

    def block_gradient(self, p, pairs, W, saved):
        kernel, found = W * pairs.given[self.number], {}
        if self.common:
            found["common"] = np.exp(p["common"]) * pairs.sharing * kernel.sum()
        if self.own:
            found["own"] = np.exp(p["own"]) * np.vdot(kernel, pairs.same[self.grouping])
        return found

    diagonal = Smooth.diagonal

    def features(self, p, rows):
        return np.zeros((*rows.X.shape[:2], 0)), None

    def features_gradient(self, p, rows, G, Phi, saved):
        return {}


@dataclass(frozen=True)
class TaskKernel:
    """Levels and, with `smooth`, functions of the columns that are correlated between groups with similar features.

    `values` (G, T) is the kernel between all groups (those without rows last) and the T training groups.
    """

    values: np.ndarray
    of_column: np.ndarray
    smooth: bool = True
    grouping: int = 0
    name: str = "task features"
    _basis: list[np.ndarray] = field(default_factory=list, compare=False)

    def start(self):
        found = {"level": np.array([-1.0])}
        if self.smooth:
            found["smooth"] = np.array([-1.0])
            found["lengths"] = np.full(int(self.of_column.max()) + 1, 0.5 * np.log(len(self.of_column)))
        return found

    def _between(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the kernel (b, n, m) between groups with codes (b, n) and (b, m); 0 for unknown groups."""
        known = (a >= 0)[:, :, None] & (b >= 0)[:, None, :]
        return np.where(known, self.values[a[:, :, None], b[:, None, :]], 0.0)

    def block(self, p, pairs):
        if pairs.sharing == 0:
            return _none(pairs), None
        M = self._between(pairs.A.groups[self.grouping], pairs.B.groups[self.grouping])
        if not self.smooth:
            return np.exp(p["level"]) * M, (M, None, None)
        lengths = np.exp(p["lengths"])[self.of_column]
        kernel, slope = matern(squared_distances(pairs.A.X / lengths, pairs.B.X / lengths))
        return M * (np.exp(p["level"]) + np.exp(p["smooth"]) * kernel), (M, kernel, slope)

    def block_gradient(self, p, pairs, W, saved):
        if pairs.sharing == 0:
            return {}
        M, kernel, slope = saved
        W = W * M
        found = {"level": np.exp(p["level"]) * W.sum()}
        if self.smooth:
            found["smooth"] = np.exp(p["smooth"]) * np.vdot(W, kernel)
            each = distance_gradient(W * slope, pairs.A.X, pairs.B.X) / np.exp(2 * p["lengths"])[self.of_column]
            found["lengths"] = np.exp(p["smooth"]) * np.bincount(self.of_column, each)
        return found

    def diagonal(self, p, rows, sharing):
        codes = rows.groups[self.grouping]
        of_group = np.diag(self.values)
        trained = (codes >= 0) & (codes < len(of_group))
        own = np.where(trained, of_group[np.where(trained, codes, 0)] * sharing, of_group.mean())
        return own * (np.exp(p["level"][0]) + (np.exp(p["smooth"][0]) if self.smooth and sharing else 0.0))

    def features(self, p, rows):
        """Return features of the levels only; functions of the columns would need too many features."""
        if not self._basis:
            values, vectors = eigh(self.values[: self.values.shape[1]])
            used = values > 1e-8 * values[-1]
            self._basis.append(vectors[:, used] / np.sqrt(values[used]))
        codes = rows.groups[self.grouping]
        return np.exp(0.5 * p["level"]) * (self.values @ self._basis[0])[codes] * (codes >= 0)[..., None], None

    def features_gradient(self, p, rows, G, Phi, saved):
        return {"level": np.array([0.5 * np.vdot(G, Phi)])}
