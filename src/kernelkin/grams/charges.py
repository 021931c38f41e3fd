"""What a kernel costs: its effective dimension, so that kernels that can fit anything do not take too much weight.

The evidence of a Gaussian process has the term 1/2 log det(G(b) + I/C), which the objective of the machines lacks. It
is concave in b, so its tangent is an upper bound, linear in b, and its slope for kernel k is the effective dimension

    d_k = tr( inv(Gm + tau I) G_k )

of the kernel at the average kernel Gm. Charging kernel k by z_k = (d_k / mean d)^parsimony means dividing its Gram
matrices by z_k: the problem stays convex, and its certificate stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..decompositions import inverse

# Noise variance in the units of the average kernel, whose mean diagonal is one.
TAU = 0.1
# A stack of more rows is represented by so many of them.
MAX_ROWS = 2000


def effective_dimensions(stacks: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return d (K,), summed over stacks: scaled Gram matrices (K, n, n) and weights (n,) of their rows.

    Weighting a row by 2 equals repeating it.
    """
    return np.sum([_dimensions(stack, weight) for stack, weight in stacks], axis=0)


def _dimensions(stack: np.ndarray, weight: np.ndarray) -> np.ndarray:
    step = -(-len(weight) // MAX_ROWS)
    rows = slice(None, None, step)
    root = np.sqrt(weight[rows])
    some = stack[:, rows, rows]
    mean = some.mean(axis=0, dtype=np.float64) * root * root[:, np.newaxis]
    resolvent = inverse(mean + TAU * np.eye(len(mean))) * root * root[:, np.newaxis]
    return step * np.array([np.vdot(resolvent, gram) for gram in some])


def kernel_charges(stacks: Iterable[tuple[np.ndarray, np.ndarray]], parsimony: float) -> np.ndarray:
    """Return z (K,): 1 for all kernels with ``parsimony=0``; 1 for kernels that are zero on all rows."""
    return charges_of(effective_dimensions(stacks), parsimony)


def charges_of(d: np.ndarray, parsimony: float) -> np.ndarray:
    """Return the same from the effective dimensions d (K,)."""
    used = d > 0
    relative = np.where(used, d, 1.0) / (d[used].mean() if used.any() else 1.0)
    return np.where(used, relative**parsimony, 1.0)
