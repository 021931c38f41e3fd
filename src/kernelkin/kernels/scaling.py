"""Scaling of kernels: fitted on the training Grams, applied unchanged to other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .checks import mirror, precomputed_names

SCALINGS = ("trace", "cosine", "center", None)
# Values k(x, x) below minus this share of the mean diagonal are errors, not rounding.
NEGATIVE = 1e-6
# A kernel counts as constant if centring reduces its mean diagonal to less than this many times machine epsilon,
# relative to the mean diagonal before.
VANISHED = 100


@dataclass(frozen=True, eq=False)
class Scaling:
    """Fitted scaling: cosine normalisation or centring, if any, then a factor for each kernel.

    Parameters
    ----------
    factor : array (K,)
        Multiplies all values of a kernel, last. Zero for a kernel that is zero on the training rows.
    inverse_root : array (K, n), default None
        For "cosine": 1 / sqrt(k(x, x)) of the training rows, or zero if k(x, x) is zero.
    row_mean, grand_mean, weight : arrays (K, n), (K,) and (K, n), default None
        For "center": the weighted mean of k(x_i, .) over the training rows, the overall mean, and weights of sum one.
    """

    factor: np.ndarray
    inverse_root: np.ndarray | None = None
    # Either all three are set or none.
    row_mean: Any = None
    grand_mean: Any = None
    weight: Any = None

    @property
    def needs_all_rows(self) -> bool:
        """Whether `apply` needs values at all training rows, not only at those with a coefficient."""
        return self.row_mean is not None

    @property
    def factor_only(self) -> bool:
        """Whether the scaling is a factor per kernel only."""
        return self.row_mean is None and self.inverse_root is None

    def apply(self, cross: np.ndarray, query_diagonal: np.ndarray | None = None, overwrite: bool = False) -> np.ndarray:
        """Scale raw values (K, q, n) between q rows and the training rows, in place if `overwrite`.

        `query_diagonal` (K, q) is k(x, x) of the q rows; only "cosine" needs it.
        """
        out = cross if overwrite else cross.copy()
        if self.inverse_root is not None:
            if query_diagonal is None:
                raise ValueError("normalize='cosine' needs k(x, x) of the rows it is applied to")
            out *= np.sqrt(_inverse(query_diagonal)).astype(out.dtype)[:, :, None]
            out *= self.inverse_root.astype(out.dtype)[:, None, :]
        if self.row_mean is not None:
            means = zip(out, self.row_mean, self.grand_mean, self.weight, strict=True)
            for values, row_mean, grand_mean, weight in means:
                query_mean = values @ weight.astype(values.dtype)
                values -= (query_mean - grand_mean).astype(values.dtype)[:, None]
                values -= row_mean.astype(values.dtype)
        out *= self.factor.astype(out.dtype)[:, None, None]
        return out

    def apply_diagonal(self, diagonal: np.ndarray, cross: np.ndarray) -> np.ndarray:
        """Scale k(x, x) (K, q) of new rows; cross (K, q, n) are their raw values with the training rows."""
        if self.inverse_root is not None:
            diagonal = (diagonal > np.finfo(float).tiny).astype(np.float64)
        if self.row_mean is not None:
            diagonal = diagonal - 2.0 * np.einsum("kqn,kn->kq", cross, self.weight) + self.grand_mean[:, None]
        return diagonal * self.factor[:, None]

    def apply_pairs(self, values: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Scale values (K, p) of pairs of training rows at positions i (p,) and j (p,)."""
        if self.inverse_root is not None:
            values = values * (self.inverse_root[:, i] * self.inverse_root[:, j]).astype(values.dtype)
        if self.row_mean is not None:
            shift = self.row_mean[:, i] + self.row_mean[:, j] - self.grand_mean[:, None]
            values = values - shift.astype(values.dtype)
        return values * self.factor.astype(values.dtype)[:, None]

    def select(self, kernels: Sequence[int] | np.ndarray) -> Scaling:
        """Return the scaling of the kernels at these positions."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[kernels] for name, part in parts.items() if part is not None})

    def take(self, rows: np.ndarray) -> Scaling:
        """Return the scaling for values at these training rows; not for scalings with `needs_all_rows`."""
        return self if self.inverse_root is None else replace(self, inverse_root=self.inverse_root[:, rows])

    def charged(self, charges: np.ndarray) -> Scaling:
        """Return a scaling that also divides every kernel by its charge (K,)."""
        return replace(self, factor=self.factor / charges)


def fit_scaling(
    normalize: str | None,
    gram: np.ndarray,
    sample_weight: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> tuple[Scaling, np.ndarray]:
    """Fit the scaling on raw training Grams (K, n, n); return it with the scaled, exactly symmetric Grams.

    `gram` is changed only with `overwrite`. Weighting a row by 2 equals repeating it. `names` (K,) are for error
    messages. A kernel that is zero (for "center": constant) on these rows becomes zero everywhere.
    """
    diagonal = np.diagonal(gram, axis1=1, axis2=2).copy()
    row_mean = None
    if normalize == "center":
        weight = np.ones(len(gram[0])) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        # `fit_diagonal_scaling` raises if all weights are zero.
        row_mean = np.stack([G @ (weight / max(weight.sum(), 1e-300)).astype(G.dtype) for G in gram])
    scaling = fit_diagonal_scaling(normalize, diagonal, sample_weight, names, row_mean)
    scaled = scaling.apply(gram, diagonal, overwrite)
    for G in scaled:
        mirror(G)
    return scaling, scaled


def fit_diagonal_scaling(
    normalize: str | None,
    diagonal: np.ndarray,
    sample_weight: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    row_mean: np.ndarray | None = None,
) -> Scaling:
    """Fit the scaling on the diagonals (K, n) of the training Grams.

    "center" also needs `row_mean` (K, n), the weighted means of the rows of the Grams, in the precision of the Grams.
    """
    if normalize not in SCALINGS:
        raise ValueError(f"normalize must be one of {list(SCALINGS)}, got {normalize!r}")
    # Values slightly below zero are rounding and count as zero.
    negative = np.flatnonzero(diagonal.min(axis=1) < -NEGATIVE * diagonal.mean(axis=1))
    if len(negative):
        name = (precomputed_names(len(diagonal)) if names is None else names)[negative[0]]
        raise ValueError(f"kernel {name!r} has negative values k(x, x), down to {diagonal[negative[0]].min():.3g}")
    weight = np.ones(diagonal.shape[1]) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not weight.sum() > 0:
        raise ValueError("the sample weights of the training rows are all zero")
    weight, diagonal = weight / weight.sum(), diagonal.astype(np.float64)
    if normalize == "trace":
        return Scaling(_inverse(diagonal @ weight))
    if normalize == "cosine":
        return Scaling(np.ones(len(diagonal)), inverse_root=np.sqrt(_inverse(diagonal)))
    if normalize is None:
        return Scaling(np.ones(len(diagonal)))
    if row_mean is None:
        raise ValueError("normalize='center' needs the whole training Gram, not its diagonal alone")
    eps = np.finfo(row_mean.dtype).eps
    row_mean = row_mean.astype(np.float64)
    grand_mean, mean_diagonal = row_mean @ weight, diagonal @ weight
    spread = mean_diagonal - grand_mean
    spread[spread <= VANISHED * eps * mean_diagonal] = 0.0
    weights = np.broadcast_to(weight, row_mean.shape)
    return Scaling(_inverse(spread), row_mean=row_mean, grand_mean=grand_mean, weight=weights)


def _inverse(values: np.ndarray) -> np.ndarray:
    """Return 1 / values, or 0 for values that are 0 up to underflow."""
    return np.divide(1.0, values, out=np.zeros(values.shape), where=values > np.finfo(float).tiny)
