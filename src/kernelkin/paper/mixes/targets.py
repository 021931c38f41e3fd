"""What the search needs to know of targets, whether labels are missing or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..grams.operator import Arrays, SharedOperator


@dataclass(frozen=True)
class Errors:
    """The held-out errors of all tasks at one mix.

    Attributes
    ----------
    loss : (c, T) mean squares at each strength.
    gain, error : (c, T) by how much the loss is below that of the reference, and the standard error of that.
    """

    loss: np.ndarray
    gain: np.ndarray
    error: np.ndarray


class TaskTargets(Protocol):
    """The targets of all tasks on shared rows, and the strengths to try.

    Attributes
    ----------
    operator : the kernels.
    Y : (n, T), centred where there is an intercept, zero where there is no label.
    mask : (n, T) one where there is a label, else zero; None where there are all.
    n_labels : of all tasks, or of each (T,).
    variance : (T,) mean squares of the targets.
    has_intercept : whether there is an intercept.
    strengths : (c,).
    """

    @property
    def operator(self) -> SharedOperator: ...
    @property
    def arrays(self) -> Arrays: ...
    @property
    def Y(self) -> np.ndarray: ...
    @property
    def mask(self) -> np.ndarray | None: ...
    @property
    def n_labels(self) -> Any: ...
    @property
    def variance(self) -> np.ndarray: ...
    @property
    def has_intercept(self) -> bool: ...
    @property
    def strengths(self) -> np.ndarray: ...

    def take(self, rows: np.ndarray) -> tuple[TaskTargets, np.ndarray]:
        """The targets at some rows, and the means (T,) that were taken off."""
        ...

    def decompose(self, mix: np.ndarray) -> Any:
        """A mix (K,) of the kernels, of sum one, as the methods below take it."""
        ...

    def losses(self, mix: Any) -> np.ndarray:
        """(c, T) mean squares of the held-out errors."""
        ...

    def reference(self, mix: Any, strength: float) -> Any:
        """A mix and strength for others to be compared with."""
        ...

    def errors(self, mix: Any, reference: Any) -> Errors:
        """The errors at a mix, beside those of the reference."""
        ...

    def own_weights(self, mix: Any, strength: float, members: np.ndarray) -> np.ndarray:
        """(K, members) kernel weights of some tasks, by a step from a mix and strength."""
        ...


def best_strength(targets: TaskTargets, loss: np.ndarray, members: np.ndarray) -> float:
    """The strength that is best for some tasks together, by the losses (c, T) of all."""
    return float(targets.strengths[(loss[:, members] / targets.variance[members]).mean(axis=1).argmin()])
