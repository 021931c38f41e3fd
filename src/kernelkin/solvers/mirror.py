"""Multiplicative (mirror) steps of weights on the simplex."""

from __future__ import annotations

import numpy as np


def mirror_step(weights: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """weights (K,) on the simplex -> weights exp(exponents), back on the simplex: a step of entropic mirror descent."""
    moved = weights * np.exp(exponents - exponents.max())
    return moved / moved.sum()


def uniform(size: int) -> np.ndarray:
    """The middle of the simplex."""
    return np.full(size, 1.0 / size)
