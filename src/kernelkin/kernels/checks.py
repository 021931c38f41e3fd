"""What a Gram matrix must satisfy. Each failure is a ValueError that names the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .definite import project

ASYMMETRY = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}


def check_values(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse kernel values of another shape than `shape`, and values that are not finite."""
    if values.shape != tuple(shape):
        raise ValueError(f"kernel {name!r} gave values of shape {values.shape}, expected {tuple(shape)}")
    if not np.isfinite(values).all():
        first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"kernel {name!r} has NaN or infinite values, the first at {first}; are its inputs too large or too small?"
        )


def check_gram(name: str, G: np.ndarray, known_psd: bool) -> np.ndarray:
    """G (n, n), refused if it cannot be the Gram matrix of a kernel.

    It must be square, finite, symmetric (1e-8 of its largest entry, 1e-4 in float32), not zero and, unless
    `known_psd`, positive semi-definite on all rows: `definite.project` says how this is decided, and gives the matrix
    that is returned in place of G where rounding left an eigenvalue below zero.
    """
    check_values_of_gram(name, G)
    return G if known_psd else project(name, G)


def check_values_of_gram(name: str, G: np.ndarray) -> None:
    """Refuse G (n, n) if it is not square, finite, symmetric and different from zero."""
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"kernel {name!r}: a Gram matrix is square, got shape {G.shape}")
    check_values(name, G, G.shape)
    largest = max(float(G.max()), -float(G.min()))
    if largest == 0:
        raise ValueError(f"kernel {name!r} is zero on all training rows")
    _check_symmetric(name, G, largest)


def _check_symmetric(name: str, G: np.ndarray, largest: float, block: int = 512) -> None:
    tolerance = ASYMMETRY.get(G.dtype, 1e-8) * largest
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        worst = float(np.abs(G[rows] - G[:, rows].T).max())
        if worst > tolerance:
            raise ValueError(f"kernel {name!r} is not symmetric: k(x, z) and k(z, x) differ by {worst:.3g}")


def precomputed_names(n_kernels: int) -> list[str]:
    """The names of precomputed kernels: "kernel 0", "kernel 1", ..."""
    return [f"kernel {k}" for k in range(n_kernels)]


def check_precomputed(grams: np.ndarray, normalize: str | None) -> list[str]:
    """Check a precomputed training stack (K, n, n) and how it is to be scaled; the names of its kernels.

    Whether its blocks are positive semi-definite is for `project_stack` to see, on the rows that make a Gram.
    """
    if normalize == "cosine":
        raise ValueError(
            "normalize='cosine' needs k(x, x) of the rows to predict, which precomputed kernels do not hold; "
            "use 'trace' or 'center', or divide the kernels before"
        )
    names = precomputed_names(len(grams))
    for name, G in zip(names, grams, strict=True):
        check_values_of_gram(name, G)
    return names


def project_stack(names: Sequence[str], grams: np.ndarray) -> bool:
    """Refuse Grams (K, n, n) that are not positive semi-definite; clip, in place, those that rounding left so.

    Returns whether any was clipped.
    """
    clipped = False
    for name, G in zip(names, grams, strict=True):
        if G.any() and (projected := project(name, G)) is not G:
            G[...], clipped = projected, True
    return clipped
