"""Hessians from secants: BFGS matrices in the compact form of Byrd, Nocedal and Schnabel (1994).

A few array operations apply them, whatever number of steps they remember.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..decompositions import pseudo_inverse

# Pairs of a step s and a change y of the gradient with s'y below this share of |s||y| are left out: they would make the
# matrix indefinite.
_FLAT = 1e-10


def curved_pairs(S: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps S (m, n) and changes Y (m, n) of the gradient between which the function is curved upwards."""
    sizes = np.sqrt(np.einsum("in,in->i", S, S)) * np.sqrt(np.einsum("in,in->i", Y, Y))
    kept = np.einsum("in,in->i", S, Y) > _FLAT * sizes
    return S[kept], Y[kept]


def secant_hessian(S: np.ndarray, Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """v (n,) -> H v (n,), for curved pairs S, Y (m, n), m > 0."""
    SY = S @ Y.T
    scale = float(Y[-1] @ Y[-1]) / SY[-1, -1]
    W = np.vstack([scale * S, Y])
    lower = np.tril(SY, -1)
    middle = np.block([[scale * (S @ S.T), lower], [lower.T, -np.diag(np.diag(SY))]])
    inverse = pseudo_inverse(middle)
    return lambda v: scale * v - W.T @ (inverse @ (W @ v))
