"""What a Gram matrix must satisfy. Each failure is a ValueError that names the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .distances import thin

ASYMMETRY = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}
INDEFINITE = 1e-6


def check_values(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse kernel values of another shape than `shape`, and values that are not finite."""
    if values.shape != tuple(shape):
        raise ValueError(f"kernel {name!r} gave values of shape {values.shape}, expected {tuple(shape)}")
    if not np.isfinite(values).all():
        first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"kernel {name!r} has NaN or infinite values, the first at {first}; are its inputs too large or too small?"
        )


def check_gram(name: str, G: np.ndarray, known_psd: bool) -> None:
    """Refuse G (n, n) if it cannot be the Gram matrix of a kernel.

    It must be square, finite, symmetric (1e-8 of its largest entry, 1e-4 in float32), not zero and, unless
    `known_psd`, have no eigenvalue clearly below zero (1e-6 of the mean diagonal; on at most 1000 rows).
    """
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"kernel {name!r}: a Gram matrix is square, got shape {G.shape}")
    check_values(name, G, G.shape)
    largest = max(float(G.max()), -float(G.min()))
    if largest == 0:
        raise ValueError(f"kernel {name!r} is zero on all training rows")
    _check_symmetric(name, G, largest)
    if not known_psd:
        rows = thin(len(G))
        _check_psd(name, G[rows, rows])


def _check_symmetric(name: str, G: np.ndarray, largest: float, block: int = 512) -> None:
    tolerance = ASYMMETRY.get(G.dtype, 1e-8) * largest
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        worst = float(np.abs(G[rows] - G[:, rows].T).max())
        if worst > tolerance:
            raise ValueError(f"kernel {name!r} is not symmetric: k(x, z) and k(z, x) differ by {worst:.3g}")


def _check_psd(name: str, G: np.ndarray) -> None:
    mean_diagonal = float(G.diagonal().mean(dtype=np.float64))
    # The rounding of an eigenvalue is up to n eps x mean diagonal, which only float32 makes larger than 1e-6.
    relative = max(INDEFINITE, len(G) * float(np.finfo(G.dtype).eps)) if G.dtype.kind == "f" else INDEFINITE
    shift = relative * max(mean_diagonal, 0.0)
    shifted = G.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(shifted)[0]) - shift
        if smallest < -shift:
            raise ValueError(
                f"kernel {name!r} is not positive semi-definite on the training rows: smallest eigenvalue "
                f"{smallest:.3g}, mean of the diagonal {mean_diagonal:.3g}"
            ) from None


def precomputed_names(n_kernels: int) -> list[str]:
    """The names of precomputed kernels: "kernel 0", "kernel 1", ..."""
    return [f"kernel {k}" for k in range(n_kernels)]


def check_precomputed(grams: np.ndarray, normalize: str | None) -> list[str]:
    """Check a precomputed training stack (K, n, n) and how it is to be scaled; the names of its kernels."""
    if normalize == "cosine":
        raise ValueError(
            "normalize='cosine' needs k(x, x) of the rows to predict, which precomputed kernels do not hold; "
            "use 'trace' or 'center', or divide the kernels before"
        )
    names = precomputed_names(len(grams))
    for name, G in zip(names, grams, strict=True):
        check_gram(name, G, known_psd=False)
    return names


def check_precomputed_query(cross: Sequence[np.ndarray] | np.ndarray, n_train: int) -> None:
    """Check precomputed values (K, q, n_train) between rows to predict and training rows."""
    for name, values in zip(precomputed_names(len(cross)), cross, strict=True):
        check_values(name, values, (len(values), n_train))
