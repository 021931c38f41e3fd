"""Functions that are linear in the columns of X."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinearFunctions:
    """f_t(x) = coef_t'x + intercept_t, with coef (T, d) and intercept (T,)."""

    coef: np.ndarray
    intercept: np.ndarray

    def rows(self) -> None:
        """None: no training row is kept."""

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, 1); without codes, every task on every row -> (q, T, 1)."""
        if codes is None:
            return (X @ self.coef.T + self.intercept)[..., np.newaxis]
        return (np.einsum("ij,ij->i", X, self.coef[codes]) + self.intercept[codes])[:, np.newaxis]
