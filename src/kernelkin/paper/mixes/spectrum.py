"""The eigendecomposition of one mix of kernels on shared rows, and what follows from it for all tasks at once.

With G the mix (centred where there is an intercept), c the strength and `V = c G + I`, a ridge machine of cost 1 has
the dual variables `a = R y`, R the inverse of V without the direction of the intercept, and the leave-one-out residuals
`a_i / R_ii`, for every task and every strength from one decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grams.operator import Arrays, SharedOperator


@dataclass(frozen=True)
class MixSpectrum:
    """A mix of kernels, decomposed.

    Attributes
    ----------
    arrays : where the arrays are.
    mix : (K,) weights of the kernels, of sum one.
    values, vectors : (n,) and (n, n) eigenvalues and eigenvectors, in columns.
    has_intercept : whether the mean of the targets is free.
    """

    arrays: Arrays
    mix: np.ndarray
    values: Any
    vectors: Any
    has_intercept: bool

    @classmethod
    def of(cls, operator: SharedOperator, mix: np.ndarray, has_intercept: bool) -> MixSpectrum:
        """Decompose the mix (K,) of an operator's kernels."""
        gram = sum(float(mix[k]) * operator.matrix(k) for k in np.flatnonzero(mix).tolist())
        if has_intercept:
            gram = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
        values, vectors = operator.arrays.eigh(gram)
        values = operator.arrays.xp.where(values > 0, values, 0.0 * values)
        return cls(operator.arrays, mix, values, vectors, has_intercept)

    @property
    def n_rows(self) -> int:
        return int(self.vectors.shape[0])

    @property
    def _free(self) -> float:
        """What the direction of the intercept takes from each entry of the inverse."""
        return 1.0 / self.n_rows if self.has_intercept else 0.0

    def turn(self, Y: Any) -> Any:
        """Y (n, o), centred where there is an intercept, in the basis of the eigenvectors."""
        return self.vectors.T @ Y

    def duals(self, turned: Any, strength: float) -> Any:
        """R Y (n, o), from turned targets (n, o)."""
        return self.vectors @ (turned / (strength * self.values + 1.0)[:, None])

    def left_out(self, turned: Any, strength: float) -> Any:
        """Leave-one-out residuals (n, o), from turned targets (n, o)."""
        diagonal = (self.vectors * self.vectors) @ (1.0 / (strength * self.values + 1.0)) - self._free
        return self.duals(turned, strength) / diagonal[:, None]

    def inverse(self, strength: float) -> Any:
        """R (n, n)."""
        return (self.vectors / (strength * self.values + 1.0)) @ self.vectors.T - self._free
