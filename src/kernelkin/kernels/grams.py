"""Gram matrices: what they must be (finite, symmetric, positive semi-definite), and how they are scaled.

Errors name the kernel. A `Scaling` is learned from the training Grams and applied unchanged to any other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg import cholesky as cholesky_factor

from ..decompositions import eigh, smallest_eigenvalue

ASYMMETRY = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}
# A Gram G = K + E of a kernel matrix K holds rounded values. Where each value took a few operations,
# |E_ij| <= m eps sqrt(K_ii K_jj) with a small m, hence |E|_2 <= |E|_F <= m eps tr(K) = m eps n (mean diagonal): no
# eigenvalue of G is below minus that. The trace is at most n times the largest eigenvalue, and so the tighter bound.
_ROUNDINGS = 10
# Kernels that subtract large numbers, as Gaussians of rows far from the origin do, lose more digits than that. So much
# of the mean diagonal is taken for rounding on any number of rows. What is accepted is clipped, so that being lenient
# here cannot make a certificate false.
_CANCELLATION = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
SCALINGS = ("trace", "cosine", "center", None)
# A value k(x, x) is negative, not rounded, below this part of the mean diagonal.
NEGATIVE = 1e-6
# A centred kernel is taken as constant, and what is left of it as rounding, when its mean diagonal is below this many
# units of rounding of the mean diagonal before.
VANISHED = 100


def mirror(G: np.ndarray, block: int = 128) -> None:
    """Copy the upper triangle of G (n, n) onto the lower one, in place, so that G is symmetric to the last bit.

    By square blocks that fit into cache, where reading across rows costs nothing: ten times faster than by whole rows.
    """
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        for left in range(0, start, block):
            columns = slice(left, left + block)
            G[rows, columns] = G[columns, rows].T
        corner = G[rows, rows]
        np.copyto(corner, corner.T, where=_below_diagonal(len(corner)))


@lru_cache(maxsize=8)
def _below_diagonal(n: int) -> np.ndarray:
    return np.tri(n, k=-1, dtype=bool)


def check_values(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse kernel values of another shape than `shape`, and values that are not finite."""
    if values.shape != tuple(shape):
        raise ValueError(f"kernel {name!r} gave values of shape {values.shape}, expected {tuple(shape)}")
    if not np.isfinite(values).all():
        first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"kernel {name!r} has NaN or infinite values, the first at {first}; are its inputs too large or too small?"
        )


def check_gram(name: str, G: np.ndarray, known_psd: bool, block: int = 512) -> np.ndarray:
    """Refuse G (n, n) if it cannot be the Gram matrix of a kernel; return it, or its nearest such matrix.

    It must be square, finite, symmetric (1e-8 of its largest entry, 1e-4 in float32), not zero and, unless
    `known_psd`, positive semi-definite up to rounding, as `project` decides.
    """
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"kernel {name!r}: a Gram matrix is square, got shape {G.shape}")
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
    """The names of precomputed kernels: "kernel 0", "kernel 1", ..."""
    return [f"kernel {k}" for k in range(n_kernels)]


def check_precomputed(grams: np.ndarray, normalize: str | None) -> list[str]:
    """Check a precomputed training stack (K, n, n) and how it is to be scaled; return the names of its kernels.

    Whether its blocks are positive semi-definite is for `project_stack` to see, on the rows that make a Gram.
    """
    if normalize == "cosine":
        raise ValueError(
            "normalize='cosine' needs k(x, x) of the rows to predict, which precomputed kernels do not hold; "
            "use 'trace' or 'center', or divide the kernels before"
        )
    names = precomputed_names(len(grams))
    for name, G in zip(names, grams, strict=True):
        check_gram(name, G, known_psd=True)
    return names


def project_stack(names: Sequence[str], grams: np.ndarray) -> bool:
    """Refuse Grams (K, n, n) that are not positive semi-definite; clip in place those that are so up to rounding.

    Returns whether any was clipped.
    """
    clipped = False
    for name, G in zip(names, grams, strict=True):
        if G.any() and (projected := project(name, G)) is not G:
            G[...], clipped = projected, True
    return clipped


def project(name: str, G: np.ndarray) -> np.ndarray:
    """Return the symmetric G (n, n) if positive semi-definite, its nearest such matrix if it is so up to rounding.

    Otherwise a ValueError that names the kernel. One Cholesky factorisation of all rows, n^3 / 3 operations and a
    float64 copy of G, decides for a matrix that is positive semi-definite to float64 rounding; eigenvalues, about
    10 n^3, are computed for others only.
    """
    if is_psd(G):
        return G
    with np.errstate(over="ignore"):
        # Values computed in float32 may have been stored as float64 since.
        single = G.dtype.itemsize <= 4 or np.array_equal(G.astype(np.float32), G)
    precision: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
    mean_diagonal = float(G.diagonal().mean(dtype=np.float64))
    relative = max(_CANCELLATION[precision], _ROUNDINGS * len(G) * float(np.finfo(precision).eps))
    tolerance = relative * max(mean_diagonal, 0.0)
    if not has_cholesky(G, tolerance):
        smallest = smallest_eigenvalue(G.astype(np.float64))
        if smallest < -tolerance:
            raise ValueError(
                f"kernel {name!r} is not positive semi-definite on the training rows: smallest eigenvalue "
                f"{smallest:.3g}, mean of the diagonal {mean_diagonal:.3g}. Use another kernel, or clip its Gram "
                "matrix with kernelkin.kernels.nearest_psd(G) and pass it with kernels='precomputed'"
            )
    return nearest_psd(G)


def nearest_psd(G: np.ndarray) -> np.ndarray:
    """Return the positive semi-definite matrix nearest to G, in the Frobenius norm.

    Similarities that are not a kernel (a sigmoid, edit distances, a correlation with missing values) make a Gram
    matrix with negative eigenvalues, which no fit accepts. This sets them to zero. Only training Grams need it:
    values between rows to predict and training rows are used as they are.

    Parameters
    ----------
    G : array (n, n)
        Real numbers; its symmetric part is projected.

    Returns
    -------
    nearest : array (n, n)
        Symmetric, of the type of G (float64 if that is not a float). Eigenvalues that would be zero are as far above
        zero as rounding to this type can move them, so that the stored matrix is positive semi-definite.

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
    # Rounding errors of n^2 entries that are independent have about this norm; twice the bound |E|_F is always enough.
    norm = float(np.finfo(dtype).eps) * float(np.linalg.norm(values))
    for floor in (norm / np.sqrt(len(G)), norm):
        nearest = ((vectors * np.maximum(values, floor)) @ vectors.T).astype(dtype)
        mirror(nearest)
        if is_psd(nearest):
            break
    return nearest


def is_psd(G: np.ndarray) -> bool:
    """Whether the symmetric G (n, n) has no negative eigenvalue but for the rounding of float64."""
    return has_cholesky(G, rounding_shift(len(G), float(G.diagonal().mean(dtype=np.float64))))


def rounding_shift(n_rows: int, mean_diagonal: float) -> float:
    """How far below zero the eigenvalues of a Gram matrix may be from the rounding of float64."""
    return _ROUNDINGS * n_rows * float(np.finfo(np.float64).eps) * max(mean_diagonal, 0.0)


def has_cholesky(G: np.ndarray, shift: float) -> bool:
    """Whether G + shift I, of the symmetric G (n, n), is positive definite, in float64."""
    shifted = G.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        cholesky_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Scaling:
    """A factor for each kernel, after cosines or centring if there are any. Kernels are on the first axis of arrays.

    Parameters
    ----------
    factor : array (K,)
        Every value of a kernel is multiplied by it, last. Zero for a kernel that is zero on the training rows.
    inverse_root : array (K, n), default None
        Of "cosine": 1 / sqrt(k(x, x)) of the training rows, zero where k(x, x) is.
    row_mean, grand_mean, weight : arrays (K, n), (K,) and (K, n), default None
        Of "center": the weighted mean of k(x_i, .) over the training rows, the mean of all, and weights of sum one.
    """

    factor: np.ndarray
    inverse_root: np.ndarray | None = None
    # All three, or none.
    row_mean: Any = None
    grand_mean: Any = None
    weight: Any = None

    @property
    def factor_only(self) -> bool:
        """Whether it is `factor` and nothing that depends on the rows."""
        return self.row_mean is None and self.inverse_root is None

    def apply(self, cross: np.ndarray, query_diagonal: np.ndarray | None = None, overwrite: bool = False) -> np.ndarray:
        """Scale raw values (K, q, n) between other rows and the training rows, in place if `overwrite`.

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
        """Scale k(x, x) (K, q) of other rows; cross (K, q, n) are their raw values at the training rows."""
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

    def select(self, kernels: Sequence[int] | np.ndarray, rows: np.ndarray | slice = slice(None)) -> Scaling:
        """The scaling of some of the kernels, at some of the training rows, by position; "center" needs all rows."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        picked = {name: part[kernels] for name, part in parts.items() if part is not None}
        if self.inverse_root is not None:
            picked["inverse_root"] = picked["inverse_root"][:, rows]
        return replace(self, **picked)

    def charged(self, charges: np.ndarray) -> Scaling:
        """The scaling that also divides every kernel by its charge (K,)."""
        return replace(self, factor=self.factor / charges)


def fit_scaling(
    normalize: str | None,
    gram: np.ndarray,
    sample_weight: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> tuple[Scaling, np.ndarray]:
    """Learn the scaling of kernels from their raw training Grams (K, n, n), and scale these -> exactly symmetric.

    `gram` is left alone unless `overwrite`. Repeating a row equals weighting it. `names` (K,) are for errors. A kernel
    that is zero (for "center": constant) on these rows becomes zero, there and on other rows.
    """
    diagonal = np.diagonal(gram, axis1=1, axis2=2).copy()
    row_mean = None
    if normalize == "center":
        weight = np.ones(len(gram[0])) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        # Weights that are all zero are refused below.
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
    """Learn the scaling from the diagonals (K, n) of the training Grams.

    "center" also needs `row_mean` (K, n), the weighted means of the rows of the Grams, in their precision.
    """
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
    """1 / values, and 0 where they are 0 but for underflow."""
    return np.divide(1.0, values, out=np.zeros(values.shape), where=values > np.finfo(float).tiny)
