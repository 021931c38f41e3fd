"""Terms of a mixed kernel model: levels, linear parts and smooths, common to all rows or specific to each group.

A term defines its parameters (logs of variances and length scales), the covariance of pairs of rows, and the derivative
of `sum(W * K)` with respect to each parameter. A term common to all rows is part of the covariance in exact models;
with many rows it is represented by features `Phi` with `K = Phi Phi'`. See "Mixed kernel models" in
`docs/mathematics.md`. Arrays are NumPy arrays or torch tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..decompositions import eigh
from .arrays import Array, cholesky, diagonals, library, like, solve_lower, swap, to_float, to_numpy, zeros
from .rows import Pairs, Rows

JITTER = 1e-6
# Sines of each column in a sum that represents a smooth function.
SINES = 6


def matern(D: Array) -> tuple[Array, Array]:
    """Return the Matern 5/2 kernel of squared distances, and minus twice its derivative with respect to them."""
    xp = library(D)
    r = xp.sqrt(5.0 * D)
    e = xp.exp(-r)
    slope = (5.0 / 3.0) * (1.0 + r) * e
    # 1 + r + r^2/3, in place.
    r += r * r / 3.0
    r += 1.0
    r *= e
    return r, slope


def squared_distances(A: Array, B: Array) -> Array:
    """Return the squared distances (..., n, m) between rows (..., n, d) and (..., m, d)."""
    D = A @ swap(B)
    D *= -2.0
    D += (A * A).sum(-1)[..., :, None]
    D += (B * B).sum(-1)[..., None, :]
    return library(D).clip(D, 0.0, None, out=D)


def distance_gradient(M: Array, A: Array, B: Array) -> np.ndarray:
    """Return the sum over pairs of M (b, n, m) times (a_c - b_c)^2 for each column c (d,)."""
    d = A.shape[-1]
    inner = (A * (M @ B)).sum((0, 1))
    rows, columns = M.sum(-1).reshape(-1), M.sum(-2)
    if B.ndim == 2:
        columns, B = columns.sum(0), B[None]
    squares = rows @ (A * A).reshape(-1, d) + columns.reshape(-1) @ (B * B).reshape(-1, d)
    return to_numpy(squares - 2.0 * inner)


def vdot(A: Array, B: Array) -> float:
    """Return the sum of the products of all entries."""
    return float(library(A).vdot(A.reshape(-1), B.reshape(-1)))


def variance(log: np.ndarray) -> float:
    """Return the variance from the log of a single parameter."""
    return float(np.exp(log[0]))


def by_family(of_column: np.ndarray, values: Array) -> np.ndarray:
    """Return the sums (C,) of values (d,) over the columns of each family."""
    return np.bincount(of_column, to_numpy(values))


class Term:
    """Part of the covariance. Parameters `p` are logs by family, as NumPy arrays.

    The defaults of this class are those of a term without parameters and features.
    """

    name: str
    of_column: np.ndarray
    grouping: int | None = None  # the grouping whose groups have their own values or functions
    n_groups: int = 0  # the number of groups if they are represented by features

    def is_empty(self, sharing: float) -> bool:
        """Return whether the term is zero within blocks, because features represent it (sharing = 0)."""
        own = getattr(self, "own", self.grouping is not None and self.n_groups == 0)
        return sharing == 0 and not own

    def used(self, X: Array) -> Array:
        """Return the columns (b, n, d) that the term depends on: the first ones, as many as have a family."""
        return X[..., : len(self.of_column)]

    @property
    def n_dense(self) -> int:
        """Number of features that represent the part common to all rows; exact models do not use them."""
        return 0

    @property
    def n_sparse(self) -> int:
        """Number of features that are zero for most rows: one for each group of a further grouping."""
        return 0

    def each_family(self, value: float) -> np.ndarray:
        """Return a parameter (C,) for each family of columns."""
        return np.full(int(self.of_column.max()) + 1, value)

    def start(self) -> dict[str, np.ndarray]:
        """Return the initial log parameters by family; parameters of a family are shrunk towards their mean."""
        return {}

    def block(self, p: dict[str, np.ndarray], pairs: Pairs) -> tuple[Array, Any]:
        """Return the covariance (b, n, m) of pairs of rows within blocks, and values for the gradient."""
        raise NotImplementedError

    def block_gradient(self, p: dict[str, np.ndarray], pairs: Pairs, W: Array, saved: Any) -> dict[str, Any]:
        """Return the derivatives of sum(W * K) with respect to the parameters, for symmetric W."""
        return {}

    def diagonal(self, p: dict[str, np.ndarray], rows: Rows, sharing: float) -> Array:
        """Return the prior variance (b, n) of rows; with sharing = 0, without the part of dense features."""
        raise NotImplementedError

    def kernel(self, p: dict[str, np.ndarray], A: Array, B: Array) -> tuple[Array, Array]:
        """Return the kernel between rows, and minus twice its derivative with respect to squared distances."""
        lengths = like(np.exp(p["lengths"])[self.of_column], A)
        return matern(squared_distances(A / lengths, B / lengths))

    def length_gradient(self, p: dict[str, np.ndarray], M: Array, A: Array, B: Array, factor: float = 1.0) -> Any:
        """Return the derivatives for log length scales (C,), times a factor, from products M of W and the slope."""
        return factor * by_family(self.of_column, distance_gradient(M, A, B)) / np.exp(2.0 * p["lengths"])

    def features(self, p: dict[str, np.ndarray], rows: Rows) -> tuple[Array, Any]:
        """Return the dense features (b, n, f) and values saved for the gradient."""
        raise NotImplementedError

    def sparse(self, p: dict[str, np.ndarray], rows: Rows) -> tuple[Array, Array]:
        """Return the indices (b, n, k) of the sparse features of each row that are not zero, and their values."""
        raise NotImplementedError

    def features_gradient(
        self, p: dict[str, np.ndarray], rows: Rows, G: Array, Phi: Array, saved: Any
    ) -> dict[str, np.ndarray]:
        """Return the derivatives for length scales, from the derivatives G (b, n, f) for the features."""
        return {}

    def scale_gradient(self, p: dict[str, np.ndarray], of_feature: np.ndarray) -> dict[str, np.ndarray]:
        """Return the derivatives for log variances, from those for the log variance of each feature (f,)."""
        return {}


@dataclass(frozen=True)
class Constant(Term):
    """A constant for all rows, with a very wide prior."""

    variance: float = 100.0
    name: str = "mean"
    n_dense = 1

    def block(self, p, pairs):
        return zeros((*pairs.A.X.shape[:2], pairs.B.X.shape[1]), pairs.A.X) + self.variance * pairs.sharing, None

    def diagonal(self, p, rows, sharing):
        return zeros(rows.X.shape[:2], rows.X) + self.variance * sharing

    def features(self, p, rows):
        return zeros((*rows.X.shape[:2], 1), rows.X) + self.variance**0.5, None


@dataclass(frozen=True)
class Level(Term):
    """A level for each group of a grouping: a random intercept.

    If blocks are groups of another grouping, `n_groups` is the number of groups, and levels are features.
    """

    grouping: int = 0
    n_groups: int = 0
    name: str = "level"

    def start(self):
        return {"variance": np.array([-1.0])}

    @property
    def n_sparse(self) -> int:
        return self.n_groups

    def block(self, p, pairs):
        return variance(p["variance"]) * pairs.same[self.grouping], None

    def block_gradient(self, p, pairs, W, saved):
        return {"variance": np.exp(p["variance"]) * vdot(W, pairs.same[self.grouping])}

    def diagonal(self, p, rows, sharing):
        return zeros(rows.X.shape[:2], rows.X) + variance(p["variance"])

    def sparse(self, p, rows):
        codes = rows.groups[self.grouping][..., None]
        known = codes >= 0
        return codes * known, variance(p["variance"]) ** 0.5 * to_float(known)

    def scale_gradient(self, p, of_feature):
        return {"variance": of_feature.sum(keepdims=True)}


@dataclass(frozen=True)
class Linear(Term):
    """A linear function of the columns, common or for each group (slopes), with a variance for each column family.

    `of_column` (d,) is the family of each column; columns of the same origin share a variance. If blocks are groups of
    another grouping, `n_groups` is the number of groups, and slopes are features.
    """

    of_column: np.ndarray
    grouping: int | None = None
    n_groups: int = 0
    name: str = "linear"

    def start(self):
        scale = 0.3 if self.grouping is None else 0.1
        return {"variances": self.each_family(np.log(scale / len(self.of_column)))}

    @property
    def n_inputs(self) -> int:
        return len(self.of_column)

    def inputs(self, X: Array) -> Array:
        """Return the functions (..., e) of columns (..., d) whose weighted sum this term is: here, the columns."""
        return self.used(X)

    def log_variances(self, p: dict[str, np.ndarray]) -> np.ndarray:
        """Return the log variances (e,) of the weights of the inputs."""
        return p["variances"][self.of_column]

    def by_parameter(self, p: dict[str, np.ndarray], of_input: np.ndarray) -> dict[str, np.ndarray]:
        """Return derivatives for the parameters from those for the log variances of the inputs (e,)."""
        return {"variances": by_family(self.of_column, of_input)}

    def block(self, p, pairs):
        A = self.inputs(pairs.A.X)
        B = A if pairs.B is pairs.A else self.inputs(pairs.B.X)
        K = (A * like(np.exp(self.log_variances(p)), A)) @ swap(B)
        # (b, n, m) for a term of groups, one number for a common term.
        factor = pairs.sharing if self.grouping is None else pairs.same[self.grouping]
        K *= factor
        return K, (A, B, factor)

    def block_gradient(self, p, pairs, W, saved):
        A, B, factor = saved
        found = to_numpy((A * ((W * factor) @ B)).sum((0, 1)))
        return self.by_parameter(p, np.exp(self.log_variances(p)) * found)

    @property
    def n_dense(self) -> int:
        return self.n_inputs if self.grouping is None else 0

    @property
    def n_sparse(self) -> int:
        return self.n_groups * self.n_inputs

    def diagonal(self, p, rows, sharing):
        factor, inputs = sharing if self.grouping is None else 1.0, self.inputs(rows.X)
        return factor * ((inputs * inputs) @ like(np.exp(self.log_variances(p)), inputs))

    def features(self, p, rows):
        inputs = self.inputs(rows.X)
        return inputs * like(np.exp(self.log_variances(p)), inputs) ** 0.5, None

    def sparse(self, p, rows):
        codes, e = rows.groups[self.grouping][..., None], self.n_inputs
        known = codes >= 0
        return codes * known * e + like(np.arange(e), codes), self.features(p, rows)[0] * to_float(known)

    def scale_gradient(self, p, of_feature):
        return self.by_parameter(p, of_feature.reshape(-1, self.n_inputs).sum(0))


@dataclass(frozen=True, kw_only=True)
class Curves(Linear):
    """A smooth function of each column for each group, as a sum of sines whose variances fall with their frequency.

    The variances are the spectral density of the Matern 5/2 kernel, so the sum has about its covariance. Sines do not
    depend on the length scale, so its derivative is that of the variances. They span the range `low` to `high` (c,) of
    `columns` (c,) and half of it on both sides; beyond the range, functions are constant. Other columns have no curves.
    """

    columns: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def start(self):
        return super().start() | {"lengths": self.each_family(0.0)}

    @property
    def n_inputs(self) -> int:
        return SINES * len(self.columns)

    def inputs(self, X):
        low, high = like(self.low, X), like(self.high, X)
        place = 0.25 + 0.5 * (library(X).clip(X[..., like(self.columns, X)], low, high) - low) / (high - low)
        waves = library(X).sin(np.pi * place[..., None] * like(np.arange(1.0, SINES + 1), X))
        return (waves / (high - low)[:, None] ** 0.5).reshape(*X.shape[:-1], self.n_inputs)

    def _squares(self, p):
        """Return the squared products (c, SINES) of frequencies and length scales."""
        frequencies = 0.5 * np.pi * np.arange(1, SINES + 1) / (self.high - self.low)[:, None]
        return (frequencies * np.exp(p["lengths"])[self.of_column[self.columns], None]) ** 2

    def log_variances(self, p):
        level = (p["variances"] + p["lengths"])[self.of_column[self.columns], None] + np.log(16.0 / 3.0 * 5.0**2.5)
        return (level - 3.0 * np.log(5.0 + self._squares(p))).ravel()

    def by_parameter(self, p, of_input):
        of, each, squares = self.of_column[self.columns], of_input.reshape(-1, SINES), self._squares(p)
        of_lengths = each * (1.0 - 6.0 * squares / (5.0 + squares))
        return {key: np.bincount(of, part.sum(1), len(p[key])) for key, part in zip(p, (each, of_lengths), strict=True)}


@dataclass(frozen=True)
class Smooth(Term):
    """A smooth function of all columns, with a common part and a part for each group.

    Both parts have the same length scales, one for each column family. `landmarks` (m, d) are the rows used for the
    features of the common part.
    """

    of_column: np.ndarray
    grouping: int = 0
    common: bool = True
    own: bool = True
    landmarks: np.ndarray | None = None
    name: str = "smooth"

    def start(self):
        found = {"lengths": self.each_family(0.5 * np.log(len(self.of_column)))}
        if self.common:
            found["common"] = np.array([-1.0])
        if self.own:
            found["own"] = np.array([-2.0])
        return found

    def block(self, p, pairs):
        kernel, slope = self.kernel(p, self.used(pairs.A.X), self.used(pairs.B.X))
        factor = common_and_own(self, p, pairs)
        return kernel * factor, (kernel, slope, factor)

    def block_gradient(self, p, pairs, W, saved):
        kernel, slope, factor = saved
        lengths = self.length_gradient(p, W * (slope * factor), self.used(pairs.A.X), self.used(pairs.B.X))
        return {"lengths": lengths, **common_and_own_gradient(self, p, pairs, W * kernel)}

    def diagonal(self, p, rows, sharing):
        common = sharing * variance(p["common"]) if self.common else 0.0
        return zeros(rows.X.shape[:2], rows.X) + (common + (variance(p["own"]) if self.own else 0.0))

    @property
    def n_dense(self) -> int:
        return len(self.landmarks) if self.common and self.landmarks is not None else 0

    def features(self, p, rows):
        Z = like(self.landmarks, rows.X)
        K, slope_at_landmarks = self.kernel(p, Z, Z)
        diagonals(K)[...] += JITTER
        L = cholesky(K)
        kernel, slope = self.kernel(p, self.used(rows.X), Z)
        b, n, m = kernel.shape
        Phi = solve_lower(L, kernel.reshape(-1, m).T).T.reshape(b, n, m)
        Phi *= variance(p["common"]) ** 0.5
        return Phi, (L, slope, slope_at_landmarks)

    def features_gradient(self, p, rows, G, Phi, saved):
        L, slope, slope_at_landmarks = saved
        b, n, m = G.shape
        Z, G = like(self.landmarks, rows.X), G.reshape(-1, m)
        # K = s C inv(M) C', where C is the kernel between rows and landmarks, and M = L L' that between landmarks.
        at_rows = solve_lower(L, G.T, transposed=True).T.reshape(b, n, m) * slope
        at_rows *= variance(p["common"]) ** 0.5
        inner = solve_lower(L, Phi.reshape(-1, m).T @ G, transposed=True)
        inner = -0.5 * solve_lower(L, inner.T, transposed=True)
        inner = 0.5 * (inner + inner.T) * slope_at_landmarks
        lengths = self.length_gradient(p, at_rows, self.used(rows.X), Z)
        return {"lengths": lengths + self.length_gradient(p, inner[None], Z[None], Z)}

    def scale_gradient(self, p, of_feature):
        return {"common": of_feature.sum(keepdims=True)}


def common_and_own(term: Smooth | Given, p: dict[str, np.ndarray], pairs: Pairs) -> Any:
    """Return the variance that multiplies the kernel of each pair, as (b, n, m) or as a number."""
    common = variance(p["common"]) * pairs.sharing if term.common else 0.0
    return common + variance(p["own"]) * pairs.same[term.grouping] if term.own else common


def common_and_own_gradient(term: Smooth | Given, p: dict[str, np.ndarray], pairs: Pairs, M: Array) -> dict[str, Any]:
    """Return derivatives for both variances from the products M (b, n, m) of W and the kernel."""
    found = {}
    if term.common:
        found["common"] = np.exp(p["common"]) * pairs.sharing * float(M.sum())
    if term.own:
        found["own"] = np.exp(p["own"]) * vdot(M, pairs.same[term.grouping])
    return found


@dataclass(frozen=True)
class Additive(Term):
    """One smooth for each column, with its own variance and length scale, common or for each group.

    `landmarks` are the values (m,) of each column used for the features of the common part.
    """

    of_column: np.ndarray
    landmarks: tuple[np.ndarray, ...] = ()
    grouping: int | None = None
    name: str = "additive"

    def start(self):
        scale = 0.3 if self.grouping is None else 0.1
        return {"variances": self.each_family(np.log(scale / len(self.of_column))), "lengths": self.each_family(0.0)}

    def block(self, p, pairs):
        xp, v, lengths = library(pairs.A.X), np.exp(p["variances"]).tolist(), np.exp(p["lengths"]).tolist()
        used, gaps = pairs.all_gaps if self.grouping is None else pairs.own_gaps
        saved, total = [], 0.0
        for gap, family in zip(gaps, self.of_column.tolist(), strict=True):
            # As in `matern`, but with the derivative with respect to the log of the length scale; faster in place.
            r = gap / lengths[family]
            e = xp.exp(-r)
            third = r * r / 3.0
            kernel = (1.0 + r + third) * e
            r += 1.0
            r *= third
            r *= e
            total += v[family] * kernel
            saved.append((kernel, r))
        K = zeros((*pairs.A.X.shape[:2], pairs.B.X.shape[1]), pairs.A.X)
        K.reshape(-1)[used] = total
        if pairs.A is pairs.B:
            K = K + swap(K)
            diagonals(K)[...] = sum(v[family] for family in self.of_column.tolist())
        return (K * pairs.sharing if self.grouping is None else K), (used, saved)

    def block_gradient(self, p, pairs, W, saved):
        v, (used, saved) = np.exp(p["variances"])[self.of_column], saved
        W = W * pairs.sharing if self.grouping is None else W
        here, is_square = W.reshape(-1)[used], pairs.A is pairs.B
        found = (1.0 + is_square) * np.array([(vdot(here, kernel), vdot(here, slope)) for kernel, slope in saved])
        if is_square:
            # Kernels are 1 on the diagonal.
            found[:, 0] += float(diagonals(W).sum())
        names = ("variances", "lengths")
        return {name: by_family(self.of_column, v * part) for name, part in zip(names, found.T, strict=True)}

    def diagonal(self, p, rows, sharing):
        factor = sharing if self.grouping is None else 1.0
        return zeros(rows.X.shape[:2], rows.X) + factor * float(np.exp(p["variances"])[self.of_column].sum())

    @cached_property
    def _sets(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Columns with the same number of landmarks, whose features are computed together: positions, values (c, m)."""
        counts = np.array(list(map(len, self.landmarks)))
        found = [np.flatnonzero(counts == count) for count in np.unique(counts)]
        return [(at, np.array([self.landmarks[j] for j in at.tolist()])) for at in found]

    @property
    def n_dense(self) -> int:
        return sum(map(len, self.landmarks))

    def features(self, p, rows):
        found, saved, xp = [], [], library(rows.X)
        for at, landmarks in self._sets:
            Z = like(landmarks, rows.X)[:, None, :]
            x = rows.X[:, :, like(at, rows.X)].reshape(-1, len(at)).T[:, :, None]
            logs = (p[name][self.of_column[at], None, None] for name in ("lengths", "variances"))
            lengths, scales = (like(np.exp(part), Z) for part in logs)
            D, D_landmarks = ((x - Z) / lengths) ** 2, ((swap(Z) - Z) / lengths) ** 2
            (kernel, slope), (K, slope_at_landmarks) = matern(D), matern(D_landmarks)
            diagonals(K)[...] += JITTER
            root = scales**0.5 * swap(xp.linalg.inv(xp.linalg.cholesky(K)))
            found.append((kernel @ root).swapaxes(0, 1).reshape(*rows.X.shape[:2], -1))
            # The derivatives of both kernels with respect to the logs of length scales.
            saved.append((root, slope * D, slope_at_landmarks * D_landmarks / scales))
        return xp.concatenate(found, axis=2), saved

    def features_gradient(self, p, rows, G, Phi, saved):
        found, begin = np.zeros_like(p["lengths"]), 0
        for (at, landmarks), (root, by_rows, by_landmarks) in zip(self._sets, saved, strict=True):
            part = slice(begin, begin := begin + landmarks.size)
            G_set, Phi_set = (M[:, :, part].reshape(-1, *landmarks.shape).swapaxes(0, 1) for M in (G, Phi))
            # As for `Smooth`: Phi = C root, where C is the kernel between rows and landmarks.
            inner = root @ (swap(Phi_set) @ G_set) @ swap(root)
            of_column = ((G_set @ swap(root)) * by_rows).sum((1, 2)) - 0.5 * (inner * by_landmarks).sum((1, 2))
            found += np.bincount(self.of_column[at], to_numpy(of_column), len(found))
        return {"lengths": found}

    def scale_gradient(self, p, of_feature):
        families = [np.repeat(self.of_column[at], landmarks.shape[1]) for at, landmarks in self._sets]
        return {"variances": by_family(np.concatenate(families), of_feature)}


@dataclass(frozen=True)
class Given(Term):
    """A user-supplied kernel, given by its values at pairs of rows, with a common part and a part for each group."""

    number: int
    own: bool = True
    share: float = 1.0
    name: str = "kernel"
    grouping, common = 0, True

    def start(self):
        both = {"common": np.array([-1.0 + np.log(self.share)]), "own": np.array([-2.0 + np.log(self.share)])}
        return both if self.own else {"common": both["common"]}

    def block(self, p, pairs):
        return pairs.given[self.number] * common_and_own(self, p, pairs), None

    def block_gradient(self, p, pairs, W, saved):
        return common_and_own_gradient(self, p, pairs, W * pairs.given[self.number])

    diagonal = Smooth.diagonal


@dataclass(frozen=True)
class TaskKernel(Term):
    """Levels and, with `smooth`, functions of the columns that are correlated between groups with similar features.

    `values` (G, T) is the kernel between all groups (those without rows last) and the T training groups. With features,
    only levels are represented.
    """

    values: np.ndarray
    of_column: np.ndarray
    smooth: bool = True
    grouping: int = 0
    name: str = "task features"

    def start(self):
        found = {"level": np.array([-1.0])}
        if self.smooth:
            found["smooth"] = np.array([-1.0])
            found["lengths"] = self.each_family(0.5 * np.log(len(self.of_column)))
        return found

    def is_empty(self, sharing):
        return sharing == 0

    def block(self, p, pairs):
        a, b = pairs.A.groups[self.grouping][:, :, None], pairs.B.groups[self.grouping][:, None, :]
        # The kernel (b, n, m) between the groups of rows; 0 for unknown groups.
        M = like(self.values, a)[a, b] * ((a >= 0) & (b >= 0))
        if not self.smooth:
            return variance(p["level"]) * M, (M, None, None)
        kernel, slope = self.kernel(p, self.used(pairs.A.X), self.used(pairs.B.X))
        return M * (variance(p["level"]) + variance(p["smooth"]) * kernel), (M, kernel, slope)

    def block_gradient(self, p, pairs, W, saved):
        M, kernel, slope = saved
        W = W * M
        found = {"level": np.exp(p["level"]) * float(W.sum())}
        if self.smooth:
            found["smooth"] = np.exp(p["smooth"]) * vdot(W, kernel)
            A, B = self.used(pairs.A.X), self.used(pairs.B.X)
            found["lengths"] = self.length_gradient(p, W * slope, A, B, variance(p["smooth"]))
        return found

    def diagonal(self, p, rows, sharing):
        codes = rows.groups[self.grouping]
        of_group = np.diag(self.values)
        trained = (codes >= 0) & (codes < len(of_group))
        mean = float(of_group.mean())
        own = like(of_group, codes)[codes * trained] * sharing * trained + mean * to_float(~trained)
        return own * (variance(p["level"]) + (variance(p["smooth"]) if self.smooth and sharing else 0.0))

    @cached_property
    def basis(self) -> np.ndarray:
        """The square root (T, f) of the inverse of the kernel between training groups."""
        values, vectors = eigh(self.values[: self.values.shape[1]])
        used = values > 1e-8 * values[-1]
        return vectors[:, used] / np.sqrt(values[used])

    @property
    def n_dense(self) -> int:
        return self.basis.shape[1]

    def features(self, p, rows):
        """Return features of the levels only; functions of the columns would need too many features."""
        codes = rows.groups[self.grouping]
        found = like(self.values @ self.basis, codes)[codes] * (codes >= 0)[..., None]
        return variance(p["level"]) ** 0.5 * found, None

    def scale_gradient(self, p, of_feature):
        return {"level": of_feature.sum(keepdims=True)}
