"""A fitted function as a sum over support rows: all that prediction needs, without a training Gram."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...kernels import FittedKernel, Scaling, diagonals, evaluate
from ..grams.operator import Arrays, in_blocks

# Kernel values held at one time while predicting, in bytes: they stay in cache from their evaluation to the product.
_BLOCK_BYTES = 1 << 22
# Coefficients of all kernels held at one time, in bytes.
_COEFFICIENT_BYTES = 1 << 26
# Rows that a device predicts at one time.
_DEVICE_ROWS = 4096


@dataclass(frozen=True)
class Bundle:
    """Kernels with the support rows they are evaluated at, and the coefficients there.

    Attributes
    ----------
    kernels : the A kernels; None where Grams are precomputed.
    active : (A,) their positions among all K kernels.
    scaling : theirs.
    support : (s,) the training rows with a coefficient that is not zero.
    rows : (s, d) those rows of X; None where Grams are precomputed.
    a : (s, O) coefficients.
    """

    kernels: tuple[FittedKernel, ...] | None
    active: np.ndarray
    scaling: Scaling
    support: np.ndarray
    rows: np.ndarray | None
    a: np.ndarray

    def products(self, X: np.ndarray, b: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Blocks of queries and of outputs, and what each kernel adds there (A, q, o) at weights b (K, O)."""
        weights = self._scaled(b)
        row_bytes = 8 * len(self.active) * len(self.support)
        # The coefficients are made anew for every block of queries, so that a block has as many queries as outputs.
        width = max(1, _COEFFICIENT_BYTES // row_bytes)
        size = max(1, _BLOCK_BYTES // row_bytes, min(width, b.shape[1]))
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            cross = np.ascontiguousarray(self._cross(X[part]))
            for first in range(0, b.shape[1], width):
                outputs = slice(first, first + width)
                with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                    added = cross @ (self.a[:, outputs] * weights[:, np.newaxis, outputs])
                finite = np.isfinite(added).all(axis=(1, 2))
                if not finite.all():
                    name = self._name(int(np.argmin(finite)))
                    raise ValueError(f"kernel {name!r} overflows at rows to predict: are they too large?")
                yield part, outputs, added

    def total(self, X: np.ndarray, b: np.ndarray, arrays: Arrays) -> np.ndarray:
        """X (q, d), weights b (K, O) -> (q, O): the sum of what kernels add, computed where `arrays` are."""
        cross, weights = arrays.array(self._cross(X)), self._scaled(b)

        def some(outputs: slice) -> np.ndarray:
            a, w, total = arrays.array(self.a[:, outputs]), arrays.array(weights[:, outputs]), 0.0
            for values, weight in zip(cross, w, strict=True):
                total = total + arrays.cast(values, single=False) @ (a * weight)
            return arrays.numpy(total)

        parts = in_blocks(arrays, b.shape[1], arrays.columns(len(self.support) + len(X), len(self.active)), some)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _scaled(self, b: np.ndarray) -> np.ndarray:
        """(A, O) the weights of its kernels, with the factor where that is all of the scaling."""
        weights = b[self.active]
        return weights * self.scaling.factor[:, np.newaxis] if self.scaling.factor_only else weights

    def _name(self, i: int) -> str:
        """What an error calls the i-th of the kernels."""
        return f"kernel {self.active[i]}" if self.kernels is None else self.kernels[i].name

    def _cross(self, X: np.ndarray) -> np.ndarray:
        """Kernel values (A, q, s), scaled but for a factor where that is all of the scaling."""
        if self.kernels is None:
            every = len(self.support) == X.shape[1] and bool((self.support == np.arange(X.shape[1])).all())
            if every and len(self.active) == X.shape[2]:
                cross = np.moveaxis(X, 2, 0)
            else:
                cross = np.stack([X[:, :, k].take(self.support, axis=1) for k in self.active])
            return cross if self.scaling.factor_only else self.scaling.apply(cross)
        cross = evaluate(self.kernels, X, self.rows)
        return cross if self.scaling.factor_only else self.scaling.apply(cross, diagonals(self.kernels, X), True)


@dataclass(frozen=True)
class Expansion:
    """f_o(x) = sum_k b_ko sum_i a_io k_k(x, x_i) + c_o, for O outputs over one set of support rows.

    Attributes
    ----------
    bundles : the kernels with a weight above zero for some output; others are never evaluated.
    b : (K, O) kernel weights.
    intercept : (O,)
    """

    bundles: tuple[Bundle, ...]
    b: np.ndarray
    intercept: np.ndarray

    def values(self, X: np.ndarray, arrays: Arrays | None = None) -> np.ndarray:
        """X (q, d), or precomputed (q, n_train, K) -> (q, O); products are made where `arrays` are."""
        out = np.repeat(self.intercept[np.newaxis], len(X), axis=0)
        if arrays is not None and not arrays.in_main_memory:
            for bundle in self.bundles:
                for start in range(0, len(X), _DEVICE_ROWS):
                    out[start : start + _DEVICE_ROWS] += bundle.total(X[start : start + _DEVICE_ROWS], self.b, arrays)
            if np.isfinite(out).all():
                return out
            # What overflows is named below.
            out = np.repeat(self.intercept[np.newaxis], len(X), axis=0)
        for bundle in self.bundles:
            for part, outputs, added in bundle.products(X, self.b):
                out[part, outputs] += added.sum(axis=0)
        return out

    def parts(self, X: np.ndarray) -> np.ndarray:
        """X (q, d) -> (q, K, O): what each kernel adds; with the intercept they sum to `values`."""
        out = np.zeros((len(X), *self.b.shape))
        for bundle in self.bundles:
            for part, outputs, added in bundle.products(X, self.b):
                out[part, bundle.active, outputs] = np.moveaxis(added, 0, 1)
        return out


def make_expansion(
    X: np.ndarray,
    rows: np.ndarray,
    kernels: tuple[FittedKernel, ...] | None,
    scaling: Scaling,
    a: np.ndarray,
    b: np.ndarray,
    intercept: np.ndarray,
) -> Expansion:
    """Keep what counts of a (n, O) over the training rows X[rows], and of the kernel weights b (K, O)."""
    support = np.arange(len(rows)) if scaling.needs_all_rows else np.flatnonzero(a.any(axis=1))
    active = np.flatnonzero(b.any(axis=1))
    if not len(support) or not len(active):
        return Expansion((), b, intercept)
    whole = Bundle(
        kernels=None if kernels is None else tuple(kernels[k] for k in active),
        active=active,
        scaling=scaling.select(active).take(support),
        support=rows[support],
        rows=None if kernels is None else X[rows[support]],
        a=a if len(support) == len(a) else a[support],
    )
    return Expansion(tuple(_condense(whole)), b, intercept)


def _condense(bundle: Bundle) -> Iterator[Bundle]:
    """Kernels on columns in which support rows repeat get their distinct rows only, coefficients added up."""
    if bundle.kernels is None or bundle.rows is None or not bundle.scaling.factor_only:
        yield bundle
        return
    by_columns: dict[tuple[int, ...], list[int]] = {}
    for position, kernel in enumerate(bundle.kernels):
        by_columns.setdefault(kernel.columns, []).append(position)
    left: list[int] = []
    few = len(bundle.rows) // 2
    distinct = _distinct(bundle.rows)
    for columns, positions in by_columns.items():
        # Rows repeat no more often than the values of any one column.
        if distinct[list(columns)].max() > few:
            left += positions
            continue
        _, first, place = np.unique(bundle.rows[:, columns], axis=0, return_index=True, return_inverse=True)
        if len(first) > few:
            left += positions
            continue
        a = np.zeros((len(first), bundle.a.shape[1]))
        np.add.at(a, place.ravel(), bundle.a)
        yield _pick(bundle, positions, bundle.support[first], bundle.rows[first], a)
    if left:
        yield _pick(bundle, sorted(left), bundle.support, bundle.rows, bundle.a)


def _distinct(rows: np.ndarray) -> np.ndarray:
    """rows (s, d) -> how many distinct values each column has, (d,)."""
    ordered = np.sort(rows, axis=0)
    return 1 + np.count_nonzero(ordered[1:] != ordered[:-1], axis=0)


def _pick(bundle: Bundle, positions: list[int], support: np.ndarray, rows: np.ndarray, a: np.ndarray) -> Bundle:
    assert bundle.kernels is not None
    kernels = tuple(bundle.kernels[p] for p in positions)
    return Bundle(kernels, bundle.active[positions], bundle.scaling.select(positions), support, rows, a)
