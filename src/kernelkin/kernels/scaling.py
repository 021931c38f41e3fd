"""Scaling of kernels: learned from the training Grams, applied unchanged to any other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from .checks import precomputed_names
from .distances import mirror

# A value k(x, x) is negative, not rounded, below this part of the mean diagonal.
NEGATIVE = 1e-6
# A centred kernel is taken as constant, and what is left of it as rounding, when its mean diagonal is below this many
# units of rounding of the mean diagonal before.
VANISHED = 100


@dataclass(frozen=True, eq=False)
class Scaling:
    """No scaling; the base of those that scale. Arrays have the kernels on their first axis.

    Parameters
    ----------
    factor : array (K,)
        Every value of a kernel is multiplied by it, last. Zero for a kernel that is zero on the training rows.
    """

    factor: np.ndarray
    name: ClassVar[str | None] = None
    # Whether `apply` needs the values at every training row, or can do with those that carry a coefficient.
    needs_all_rows: ClassVar[bool] = False
    # Whether it is `factor` and nothing that depends on the rows.
    factor_only: ClassVar[bool] = True

    @classmethod
    def fit(cls, diagonal: np.ndarray, gram: np.ndarray | None, weight: np.ndarray) -> Scaling:
        """diagonal (K, n), gram (K, n, n) or None where the diagonal suffices, weight (n,) of sum one."""
        return cls(np.ones(len(diagonal)))

    def apply(self, cross: np.ndarray, query_diagonal: np.ndarray | None = None, overwrite: bool = False) -> np.ndarray:
        """Scale values between other rows and the training rows.

        Parameters
        ----------
        cross : array (K, q, n)
            Raw kernel values; left alone unless `overwrite`, which works in them and returns them.
        query_diagonal : array (K, q), default None
            k(x, x) of the q rows; only "cosine" needs it.
        """
        out = cross if overwrite else cross.copy()
        self._shift(out, query_diagonal)
        out *= self.factor.astype(out.dtype)[:, None, None]
        return out

    def apply_diagonal(self, diagonal: np.ndarray, cross: np.ndarray) -> np.ndarray:
        """Scale k(x, x) (K, q) of other rows; cross (K, q, n) are their raw values at the training rows."""
        return diagonal * self.factor[:, None]

    def apply_pairs(self, values: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Scale values (K, p) of pairs of training rows at positions i (p,) and j (p,)."""
        return values * self.factor.astype(values.dtype)[:, None]

    def select(self, kernels: Sequence[int] | np.ndarray) -> Scaling:
        """The scaling of some of the kernels, by position."""
        return type(self)(**{f.name: getattr(self, f.name)[kernels] for f in fields(self)})

    def take(self, rows: np.ndarray) -> Scaling:
        """The scaling for values at some of the training rows, by position; all of them if `needs_all_rows`."""
        return self

    def charged(self, charges: np.ndarray) -> Scaling:
        """The scaling that also divides every kernel by its charge (K,)."""
        return replace(self, factor=self.factor / charges)

    def _shift(self, out: np.ndarray, query_diagonal: np.ndarray | None) -> None:
        """What depends on the row or the column of a value, in place."""


class TraceScaling(Scaling):
    """Divide by the weighted mean of the training diagonal."""

    name = "trace"

    @classmethod
    def fit(cls, diagonal: np.ndarray, gram: np.ndarray | None, weight: np.ndarray) -> TraceScaling:
        return cls(_inverse(diagonal @ weight))


@dataclass(frozen=True, eq=False)
class CosineScaling(Scaling):
    """k(x, z) / sqrt(k(x, x) k(z, z)), zero where one of them is zero; inverse_root (K, n) of the training rows."""

    inverse_root: np.ndarray
    name = "cosine"
    factor_only = False

    @classmethod
    def fit(cls, diagonal: np.ndarray, gram: np.ndarray | None, weight: np.ndarray) -> CosineScaling:
        return cls(np.ones(len(diagonal)), np.sqrt(_inverse(diagonal)))

    def take(self, rows: np.ndarray) -> CosineScaling:
        return CosineScaling(self.factor, self.inverse_root[:, rows])

    def _shift(self, out: np.ndarray, query_diagonal: np.ndarray | None) -> None:
        if query_diagonal is None:
            raise ValueError("normalize='cosine' needs k(x, x) of the rows it is applied to")
        out *= np.sqrt(_inverse(query_diagonal)).astype(out.dtype)[:, :, None]
        out *= self.inverse_root.astype(out.dtype)[:, None, :]

    def apply_diagonal(self, diagonal: np.ndarray, cross: np.ndarray) -> np.ndarray:
        return super().apply_diagonal((diagonal > np.finfo(float).tiny).astype(np.float64), cross)

    def apply_pairs(self, values: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        cosines = values * (self.inverse_root[:, i] * self.inverse_root[:, j]).astype(values.dtype)
        return super().apply_pairs(cosines, i, j)


@dataclass(frozen=True, eq=False)
class CenterScaling(Scaling):
    """Centre in feature space on the weighted mean of the training rows, then divide by the mean diagonal.

    row_mean (K, n) is the mean of k(x_i, .), grand_mean (K,) the mean of all, weight (K, n) sums to one.
    """

    row_mean: np.ndarray
    grand_mean: np.ndarray
    weight: np.ndarray
    name = "center"
    needs_all_rows = True
    factor_only = False

    @classmethod
    def fit(cls, diagonal: np.ndarray, gram: np.ndarray | None, weight: np.ndarray) -> CenterScaling:
        if gram is None:
            raise ValueError("normalize='center' needs the whole training Gram, not its diagonal alone")
        row_mean = np.stack([G @ weight.astype(G.dtype) for G in gram])
        return cls.from_means(diagonal, row_mean, weight)

    @classmethod
    def from_means(cls, diagonal: np.ndarray, row_mean: np.ndarray, weight: np.ndarray) -> CenterScaling:
        """The same from the weighted means (K, n) of the rows of the Gram, in its precision."""
        eps = np.finfo(row_mean.dtype).eps
        row_mean = row_mean.astype(np.float64)
        grand_mean = row_mean @ weight
        spread = diagonal @ weight - grand_mean
        spread[spread <= VANISHED * eps * (diagonal @ weight)] = 0.0
        return cls(_inverse(spread), row_mean, grand_mean, np.broadcast_to(weight, row_mean.shape))

    def _shift(self, out: np.ndarray, query_diagonal: np.ndarray | None) -> None:
        for values, row_mean, grand_mean, weight in zip(out, self.row_mean, self.grand_mean, self.weight, strict=True):
            query_mean = values @ weight.astype(values.dtype)
            values -= (query_mean - grand_mean).astype(values.dtype)[:, None]
            values -= row_mean.astype(values.dtype)

    def apply_diagonal(self, diagonal: np.ndarray, cross: np.ndarray) -> np.ndarray:
        shift = 2.0 * np.einsum("kqn,kn->kq", cross, self.weight) - self.grand_mean[:, None]
        return super().apply_diagonal(diagonal - shift, cross)

    def apply_pairs(self, values: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        shift = self.row_mean[:, i] + self.row_mean[:, j] - self.grand_mean[:, None]
        return super().apply_pairs(values - shift.astype(values.dtype), i, j)


SCALINGS: dict[str | None, type[Scaling]] = {
    cls.name: cls for cls in (TraceScaling, CosineScaling, CenterScaling, Scaling)
}


def fit_scaling(
    normalize: str | None,
    gram: np.ndarray,
    sample_weight: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> tuple[Scaling, np.ndarray]:
    """Learn the scaling of the kernels from their training Grams, and scale these.

    Parameters
    ----------
    normalize : {"trace", "cosine", "center", None}
    gram : array (K, n, n)
        Raw and symmetric; left alone unless `overwrite`, which scales in place and returns it.
    sample_weight : array (n,), default None
        Repeating a row equals weighting it.
    names : sequence of K str, default None
        For errors.

    Returns
    -------
    scaling : Scaling
        `apply` on the same Grams gives the scaled ones. A kernel that is zero (for "center": constant) on these
        rows becomes zero, there and on other rows.
    scaled : array (K, n, n)
        Exactly symmetric.
    """
    diagonal = np.diagonal(gram, axis1=1, axis2=2).copy()
    scaling = _fit(normalize, diagonal, gram, sample_weight, names)
    scaled = scaling.apply(gram, diagonal, overwrite)
    for G in scaled:
        mirror(G)
    return scaling, scaled


def fit_diagonal_scaling(
    normalize: str | None,
    diagonal: np.ndarray,
    sample_weight: np.ndarray | None = None,
    names: Sequence[str] | None = None,
) -> Scaling:
    """The scaling that `fit_scaling` finds, from the diagonals (K, n) alone; not for "center"."""
    return _fit(normalize, diagonal, None, sample_weight, names)


def _fit(
    normalize: str | None,
    diagonal: np.ndarray,
    gram: np.ndarray | None,
    sample_weight: np.ndarray | None,
    names: Sequence[str] | None,
) -> Scaling:
    if normalize not in SCALINGS:
        raise ValueError(f"normalize must be one of {list(SCALINGS)}, got {normalize!r}")
    # Rounding may leave a zero on the diagonal a little below zero; it is then taken as zero.
    negative = np.flatnonzero(diagonal.min(axis=1) < -NEGATIVE * diagonal.mean(axis=1))
    if len(negative):
        name = (precomputed_names(len(diagonal)) if names is None else names)[negative[0]]
        raise ValueError(f"kernel {name!r} has negative values k(x, x), down to {diagonal[negative[0]].min():.3g}")
    weight = np.ones(diagonal.shape[1]) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not weight.sum() > 0:
        raise ValueError("the sample weights of the training rows are all zero")
    return SCALINGS[normalize].fit(diagonal.astype(np.float64), gram, weight / weight.sum())


def _inverse(values: np.ndarray) -> np.ndarray:
    """1 / values, and 0 where they are 0 but for underflow."""
    return np.divide(1.0, values, out=np.zeros(values.shape), where=values > np.finfo(float).tiny)
