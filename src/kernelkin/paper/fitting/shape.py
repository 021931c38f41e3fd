"""The sizes of a problem and its parts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..learners import Learner, Machine
from ..penalties import MixedNorm, Penalty
from ..problems import MixedNormProblem, Problem


@dataclass(frozen=True)
class Shape:
    """The numbers of kernels, tasks and couplings of a problem."""

    n_kernels: int
    n_tasks: int
    n_couplings: int = 0

    @property
    def n_components(self) -> int:
        """The number J of columns of the kernel weights B (K, J): a column a task, then a column a coupling."""
        return self.n_tasks + self.n_couplings


def read_init(init: Any, shape: Shape) -> np.ndarray | None:
    """Return kernel weights (K, J) from the `init` (J, K) of a user."""
    if init is None:
        return None
    weights = np.asarray(init)
    expected = (shape.n_components, shape.n_kernels)
    if weights.shape != expected:
        raise ValueError(f"init must be kernel weights of shape {expected}, got {weights.shape}")
    if weights.dtype.kind not in "fiu" or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise ValueError("init must be kernel weights that are finite, not negative, and not all zero")
    return weights.T.astype(np.float64)


def is_homogeneous(penalty: Penalty | MixedNorm) -> bool:
    """Whether R(sB) = s^2 R(B): costs and strength are then one parameter and can be rescaled together."""
    return not isinstance(penalty, MixedNorm) and not penalty.is_indicator


def weights_problem(
    grams: Any, machines: Sequence[Machine], learner: Learner, penalty: Penalty | MixedNorm, mu: float
) -> Problem | MixedNormProblem:
    """Return the problem of the kernel weights of these machines; `grams` are `Grams`, or blocks that hold theirs."""
    if isinstance(penalty, MixedNorm):
        return MixedNormProblem(grams, machines, learner, penalty)
    return Problem(grams, machines, learner, penalty, mu)
