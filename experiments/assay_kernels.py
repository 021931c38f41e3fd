"""Kernels between molecules: Tanimoto kernels of fingerprints, their squares, and Gaussians on descriptors.

Gram matrices are computed for numbers of molecules, in single precision, and added up to one matrix with given weights.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from .assay_data import AssayData, load

# Widths of the Gaussians, as multiples of the median squared distance.
WIDTHS = (1.0, 0.25)


def kernel_names(name: str) -> list[str]:
    """Tanimoto and squared Tanimoto kernels of each fingerprint, then Gaussians."""
    powers = [f"{each}{power}" for each in load(name).packed for power in ("", "^2")]
    return [*powers, *(f"descriptors {width:g}" for width in WIDTHS)]


class MoleculeKernels:
    """All kernels of a data set, those on descriptors fitted to training molecules.

    Parameters
    ----------
    name : the data set.
    rows : (n,) the numbers of the training molecules.
    """

    def __init__(self, name: str, rows: np.ndarray) -> None:
        self.data: AssayData = load(name)
        self.names, self.rows = kernel_names(name), rows
        self._scores = normal_scores(self.data.descriptors, rows)
        some = rows[:: max(1, len(rows) // 1000)]
        self._median = float(np.median(squared_distances(self._scores[some], self._scores[some])))

    def mix(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The sum (p, q) of all kernels between molecules, with these weights (K,)."""
        out = np.zeros((len(left), len(right)), dtype=np.float32)
        for values, part in zip(self._each(left, right), np.split(weights, len(weights) // 2), strict=True):
            out += np.float32(part[0]) * values[0] + np.float32(part[1]) * values[1]
        return out

    def stack(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(p, q, K): every kernel by itself."""
        return np.stack([values for pair in self._each(left, right) for values in pair], axis=2)

    def _each(self, left: np.ndarray, right: np.ndarray) -> Any:
        """Pairs of kernels that share their computation."""
        for packed in self.data.packed.values():
            values = tanimoto(packed[left], packed[right])
            yield values, values * values
        squares = squared_distances(self._scores[left], self._scores[right])
        yield tuple(np.exp(squares / np.float32(-width * self._median)) for width in WIDTHS)


def normal_scores(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Columns of a table as normal quantiles of their ranks among some rows; constant columns are left out.

    A missing value is the median of its column.
    """
    known = table[rows]
    middle = np.nanmedian(np.where(np.isfinite(known), known, np.nan), axis=0)
    filled = np.where(np.isfinite(table), table, np.nan_to_num(middle))
    ordered = np.sort(filled[rows], axis=0)
    varied = np.flatnonzero(ordered[0] < ordered[-1])
    out = np.empty((len(table), len(varied)), dtype=np.float32)
    for j, column in enumerate(varied):
        below = np.searchsorted(ordered[:, column], filled[:, column], "left")
        upto = np.searchsorted(ordered[:, column], filled[:, column], "right")
        out[:, j] = ndtri((0.5 * (below + upto) + 0.5) / (len(rows) + 1))
    return out


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A (p, d), B (q, d) -> (p, q)."""
    products = A @ B.T
    squares = (A * A).sum(axis=1)[:, np.newaxis] + (B * B).sum(axis=1)
    return np.asarray(np.maximum(squares - 2 * products, 0))


def tanimoto(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Packed bits (p, bytes) and (q, bytes) -> their Tanimoto similarities (p, q), in single precision."""
    out = np.empty((len(left), len(right)), dtype=np.float32)
    _compiled()(_words(left), _words(right), out)
    return out


def _words(packed: np.ndarray) -> np.ndarray:
    """Bytes (n, b) as words of 64 bits (n, ceil(b / 8))."""
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


@cache
def _compiled() -> Any:
    from numba import njit

    @njit(inline="always")
    def count(x):
        """Bits that are set."""
        x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)

    @njit
    def fill(left, right, out):
        for i in range(left.shape[0]):
            for j in range(right.shape[0]):
                both = np.uint64(0)
                either = np.uint64(0)
                for w in range(left.shape[1]):
                    both += count(left[i, w] & right[j, w])
                    either += count(left[i, w] | right[j, w])
                out[i, j] = np.float32(both) / np.float32(either) if either > 0 else np.float32(1)

    return fill
