"""The kernels over the rows of all coupled tasks, as far as the parts that they share need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload

import numpy as np

from ..decompositions import eigh
from ..engines import Each
from .lowrank import LowRankKernels
from .stack import GramStack


class LinkFactor:
    """A factor U (N, R), computed for the rows that are asked for.

    Parameters
    ----------
    parts : pairs of Phi (n, r) and S (r, R), or its diagonal (r,), of which U is Phi S side by side.
    place : (N,) the row of Phi that each row of U has; None where it is the same one.
    """

    def __init__(self, parts: Sequence[tuple[np.ndarray, np.ndarray]], place: np.ndarray | None = None) -> None:
        self.parts = [part for part in parts if part[1].shape[-1]]
        self.place = place
        self.width = sum(S.shape[-1] for _, S in self.parts)

    def rows(self, where: slice) -> np.ndarray:
        """Some of the rows, (n, R)."""
        rows = where if self.place is None else self.place[where]
        return np.hstack(
            [Phi[rows] * S if S.ndim == 1 else Phi[rows] @ S for Phi, S in self.parts] or [np.zeros((0, 0))]
        )


class LinkStack(Protocol):
    """The kernels over the rows of all tasks (N in all, task by task), as far as couplings need them."""

    rank: int

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        """V (N, r) -> (K, r): half of v' G_k v."""
        ...

    def factor(self, b: np.ndarray, each: Each) -> LinkFactor:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        ...

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        ...

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """b (K,), V (N, r) -> G(b) V (N, r)."""
        ...


class PointStack:
    """A stack over points, of which each row of each task is one: the shared rows of wide data, or all rows."""

    def __init__(self, stack: GramStack, rows: Sequence[np.ndarray]) -> None:
        self.stack = stack
        self.place = np.concatenate(rows)
        self.rank = stack.n_rows

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        return self.stack.quadratic_forms(self._at_points(V), each)

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        return (self.stack.combine(b[:, np.newaxis])[0] @ self._at_points(V))[self.place]

    def _at_points(self, V: np.ndarray) -> np.ndarray:
        """V (N, r) summed over the rows that are the same point."""
        at_points = np.zeros((self.stack.n_rows, V.shape[1]))
        np.add.at(at_points, self.place, V)
        return at_points

    def factor(self, b: np.ndarray, each: Each) -> LinkFactor:
        values, vectors = eigh(self.stack.combine(b[:, np.newaxis], each)[0])
        return LinkFactor([(vectors, np.sqrt(np.maximum(values, 0.0)))], self.place)

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        gram = self.stack.combine(b[:, np.newaxis], each)[0]
        if len(self.place) == len(gram) and np.array_equal(self.place, np.arange(len(gram))):
            return gram
        return gram[np.ix_(self.place, self.place)]


class FactorStack:
    """Kernels with factors of low rank; no matrix over all rows exists."""

    def __init__(self, kernels: LowRankKernels) -> None:
        self.kernels = kernels
        self.rank = kernels.rank

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        forms = np.empty((self.kernels.n_kernels, V.shape[1]))
        for family in self.kernels.families:
            forms[family.kernels] = family.forms(V)
        return forms

    def factor(self, b: np.ndarray, each: Each) -> LinkFactor:
        return LinkFactor([(family.factor, family.root(b)) for family in self.kernels.families])

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        U = self.factor(b, each).rows(slice(None))
        return U @ U.T

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        out = np.zeros(V.shape)
        for family in self.kernels.families:
            out += family.factor @ (family.core(b) @ (family.factor.T @ V))
        return out


class Reach(Sequence[np.ndarray]):
    """The factors (n_t, R_t) of the shared parts of each task: roots of G(b_j), weighted by the task's L_j[t].

    Parameters
    ----------
    roots : of each coupling.
    factors : L (T, r) of each coupling.
    rows : of each task.
    """

    def __init__(self, roots: Sequence[LinkFactor], factors: Sequence[np.ndarray], rows: Sequence[slice]) -> None:
        self.roots, self.factors, self.places = roots, factors, rows
        self.rank = sum(root.width * factor.shape[1] for root, factor in zip(roots, factors, strict=True))
        self.columns = None if all(factor.all() for factor in factors) else [self._columns(t) for t in range(len(rows))]

    @property
    def size(self) -> int:
        """Numbers in all of them."""
        sizes = [rows.stop - rows.start for rows in self.places]
        widths = [self.rank] * len(sizes) if self.columns is None else [len(columns) for columns in self.columns]
        return sum(n * width for n, width in zip(sizes, widths, strict=True))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, t: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, t: slice) -> list[np.ndarray]: ...
    def __getitem__(self, t: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(t, slice):
            return [self[i] for i in range(len(self))[t]]
        where = self.places[t]
        parts = [np.zeros((where.stop - where.start, 0))]
        for root, factor in zip(self.roots, self.factors, strict=True):
            weights = factor[t][factor[t] != 0]
            rows = root.rows(where) if len(weights) and root.width else parts[0]
            parts += [rows if weight == 1.0 else weight * rows for weight in weights]
        return parts[1] if len(parts) == 2 else np.hstack(parts)

    def _columns(self, t: int) -> np.ndarray:
        """The positions of a task's columns among all."""
        found, start = [np.empty(0, dtype=np.intp)], 0
        for root, factor in zip(self.roots, self.factors, strict=True):
            for weight in factor[t]:
                if weight != 0:
                    found.append(np.arange(start, start + root.width))
                start += root.width
        return np.concatenate(found)
