"""Gram matrices: what they must be (finite, symmetric, positive semi-definite), and how they are scaled.

Errors name the kernel. A `Scaling` is learned from the training Grams and applied unchanged to any other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg import cholesky as cholesky_factor

from ..decompositions import eigh, eigvalsh

ASYMMETRY = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}
# A computed Gram matrix is G = K + E with rounding errors E. If each value takes a few operations,
# |E_ij| <= m eps sqrt(K_ii K_jj) with a small m, hence |E|_2 <= |E|_F <= m eps tr(K) = m eps n (mean diagonal), and no
# eigenvalue of G is below minus that. The trace is at most n times the largest eigenvalue, so this bound is tighter.
_ROUNDINGS = 10
# Kernels that subtract large numbers, such as Gaussians of rows far from the origin, lose more digits. Negative
# eigenvalues up to this share of the mean diagonal count as rounding. Accepted matrices are clipped, so a generous
# tolerance cannot make a certificate false.
_CANCELLATION = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
SCALINGS = ("trace", "cosine", "center", None)
# Values k(x, x) below minus this share of the mean diagonal are errors, not rounding.
NEGATIVE = 1e-6
# A kernel counts as constant if centring reduces its mean diagonal to less than this many times machine epsilon,
# relative to the mean diagonal before.
VANISHED = 100


def mirror(G: np.ndarray, block: int = 128) -> None:
    """Copy the upper triangle of G (n, n) onto the lower one, in place, so that G is symmetric to the last bit.

    It works on square blocks that fit into cache, which is ten times faster than whole rows.
    """
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        for left in range(0, start, block):
            columns = slice(left, left + block)
            G[rows, columns] = G[columns, rows].T
        corner = G[rows, rows]
        np.copyto(corner, corner.T, where=np.tri(len(corner), k=-1, dtype=bool))


def check_values(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise if kernel values have the wrong shape or are not finite."""
    if values.shape != tuple(shape):
        raise ValueError(f"kernel {name!r} returned values of shape {values.shape}, expected {tuple(shape)}")
    if not np.isfinite(values).all():
        first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"kernel {name!r} has NaN or infinite values, the first at {first}; are its inputs too large or too small?"
        )


def check_gram(name: str, G: np.ndarray, known_psd: bool, block: int = 512) -> np.ndarray:
    """Return G (n, n), clipped if needed, or raise if it cannot be the Gram matrix of a kernel.

    G must be square, finite, symmetric (up to 1e-8 of its largest entry, 1e-4 in float32) and not zero. Unless
    `known_psd` is true, it must also be positive semi-definite up to rounding (see `project`).
    """
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"kernel {name!r}: a Gram matrix must be square, got shape {G.shape}")
    check_values(name, G, G.shape)
    largest = max(float(G.max()), -float(G.min()))
    if largest == 0:
        raise ValueError(f"kernel {name!r} is zero on all training rows")
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        worst = float(np.abs(G[rows] - G[:, rows].T).max())
        if worst > ASYMMETRY.get(G.dtype, 1e-8) * largest:
            raise ValueError(f"kernel {name!r} is not symmetric: k(x, z) and k(z, x) differ by {worst:.3g}")
    return G if known_psd else project(name, G)


def precomputed_names(n_kernels: int) -> list[str]:
    """Return the names of precomputed kernels: "kernel 0", "kernel 1", ..."""
    return [f"kernel {k}" for k in range(n_kernels)]


def check_precomputed(grams: np.ndarray, normalize: str | None) -> list[str]:
    """Check precomputed training Grams (K, n, n) and their scaling; return the names of the kernels.

    `project_stack` checks later that the blocks in use are positive semi-definite.
    """
    if normalize == "cosine":
        raise ValueError(
            "normalize='cosine' needs k(x, x) of the rows to predict, which precomputed kernels do not contain; "
            "use 'trace' or 'center', or normalise the kernels before passing them"
        )
    names = precomputed_names(len(grams))
    for name, G in zip(names, grams, strict=True):
        check_gram(name, G, known_psd=True)
    return names


def project_stack(names: Sequence[str], grams: np.ndarray) -> bool:
    """Raise if a Gram of (K, n, n) is not positive semi-definite up to rounding; clip rounding errors in place.

    Returns True if any Gram was clipped.
    """
    clipped = False
    for name, G in zip(names, grams, strict=True):
        if G.any() and (projected := project(name, G)) is not G:
            G[...], clipped = projected, True
    return clipped


def project(name: str, G: np.ndarray) -> np.ndarray:
    """Return the symmetric G (n, n), or the nearest positive semi-definite matrix if G is one up to rounding.

    Raises a ValueError that names the kernel otherwise. Most matrices need only one Cholesky factorisation (n^3 / 3
    operations and a float64 copy of G). Eigenvalues (about 10 n^3 operations) are computed only if that fails.
    """
    if is_psd(G):
        return G
    with np.errstate(over="ignore"):
        # Values computed in float32 may have been converted to float64 later.
        single = G.dtype.itemsize <= 4 or np.array_equal(G.astype(np.float32), G)
    precision: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
    mean_diagonal = float(G.diagonal().mean(dtype=np.float64))
    relative = max(_CANCELLATION[precision], _ROUNDINGS * len(G) * float(np.finfo(precision).eps))
    tolerance = relative * max(mean_diagonal, 0.0)
    smallest = float(eigvalsh(G.astype(np.float64))[0])
    if smallest < -tolerance:
        raise ValueError(
            f"kernel {name!r} is not positive semi-definite on the training rows: smallest eigenvalue {smallest:.3g}, "
            f"mean of the diagonal {mean_diagonal:.3g}. Use another kernel, or clip its Gram matrix with "
            "kernelkin.kernels.nearest_psd(G) and pass it with kernels='precomputed'"
        )
    return nearest_psd(G)


def nearest_psd(G: np.ndarray) -> np.ndarray:
    """Return the positive semi-definite matrix nearest to G, in the Frobenius norm.

    Similarities that are not kernels (sigmoids, edit distances, correlations with missing values) give Gram matrices
    with negative eigenvalues, which `fit` rejects. This function sets them slightly above zero, so that the matrix is
    positive semi-definite after rounding. Only training Grams need it: values at rows to predict are used unchanged.

    Parameters
    ----------
    G : array (n, n)
        Real numbers. The symmetric part of G is projected.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.kernels import nearest_psd
    >>> nearest_psd(np.array([[1.0, 2.0], [2.0, 1.0]]))
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """
    G = np.asarray(G)
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"G must be a square matrix, not an array of shape {G.shape}")
    if G.dtype.kind not in "biuf" or not np.isfinite(G).all():
        raise ValueError("G must hold finite real numbers")
    dtype = G.dtype if G.dtype in _CANCELLATION else np.dtype(np.float64)
    symmetric = G.astype(np.float64)
    symmetric = (symmetric + symmetric.T) / 2
    values, vectors = eigh(symmetric)
    if values[0] >= 0:
        return symmetric.astype(dtype)
    # The first value is about the norm of independent rounding errors; the second is a safe upper bound.
    norm = float(np.finfo(dtype).eps) * float(np.linalg.norm(values))
    for floor in (norm / np.sqrt(len(G)), norm):
        nearest = ((vectors * np.maximum(values, floor)) @ vectors.T).astype(dtype)
        mirror(nearest)
        if is_psd(nearest):
            break
    return nearest


def is_psd(G: np.ndarray) -> bool:
    """Return True if the symmetric G (n, n) is positive semi-definite up to float64 rounding."""
    shifted = G.astype(np.float64)
    # How far below zero rounding can move the eigenvalues.
    rounding = _ROUNDINGS * len(G) * float(np.finfo(np.float64).eps) * max(float(shifted.diagonal().mean()), 0.0)
    shifted[np.diag_indices_from(shifted)] += rounding
    try:
        cholesky_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


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

    def apply_pairs(self, values: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Scale values (K, p) of pairs of training rows at positions i (p,) and j (p,)."""
        if self.inverse_root is not None:
            values = values * (self.inverse_root[:, i] * self.inverse_root[:, j]).astype(values.dtype)
        if self.row_mean is not None:
            shift = self.row_mean[:, i] + self.row_mean[:, j] - self.grand_mean[:, None]
            values = values - shift.astype(values.dtype)
        return values * self.factor.astype(values.dtype)[:, None]

    def select(self, kernels: Sequence[int] | np.ndarray, rows: np.ndarray | slice = slice(None)) -> Scaling:
        """The scaling of some of the kernels, at some of the training rows, by position; "center" needs all rows."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        picked = {name: part[kernels] for name, part in parts.items() if part is not None}
        if self.inverse_root is not None:
            picked["inverse_root"] = picked["inverse_root"][:, rows]
        return replace(self, **picked)

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
