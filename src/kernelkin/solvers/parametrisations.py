"""The variables in which the joint solver makes its steps."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..decompositions import svd
from ..penalties import Penalty


class Parametrisation(Protocol):
    """Variables x (n,) >= 0 of kernel weights.

    Attributes
    ----------
    penalty : the penalty of these weights; it may be smoother than the problem's.
    start : the variables of the weights that it was made at.
    """

    penalty: Penalty
    start: np.ndarray

    def weights(self, x: np.ndarray) -> np.ndarray:
        """B (K, J) of x."""
        ...

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Gradient in x of a gradient G (K, J) in B."""
        ...


class FreeVariables(Parametrisation):
    """The free variables of a penalty."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        self.shape = penalty.free(B).shape
        self.start = penalty.free(B).ravel()

    def weights(self, x: np.ndarray) -> np.ndarray:
        return self.penalty.expand(x.reshape(self.shape))

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return self.penalty.pull(G).ravel()


class RankOne(Parametrisation):
    """B = u v': where the optimum has rank one, the penalty is smooth along such B, and only along them."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        U, s, Vt = svd(B)
        # Of a matrix without negative entries they have none either, but for their sign.
        self.start = np.sqrt(s[0]) * np.abs(np.concatenate([U[:, 0], Vt[0]]))
        self.n_kernels = len(B)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.outer(x[: self.n_kernels], x[self.n_kernels :])

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.concatenate([G @ x[self.n_kernels :], x[: self.n_kernels] @ G])
