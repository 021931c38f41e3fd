"""Values of a model at its own training rows, as they are without these rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..data import Fold, TaskData, make_folds
from ..paper.functions import NewTask

# Folds where leaving out single rows has no closed form, and their seed: the same fit has the same probabilities.
N_FOLDS, SEED = 5, 0
# With fewer rows a task than this, residuals of models of four fifths of them are clearly too large: targets have more
# folds then. (Epsilon-insensitive loss on SARCOS with 50 rows: coverage 0.925 with 5 folds, 0.915 with 10, wanted 0.9.)
FEW_ROWS, MORE_FOLDS = 60, 10


class Deviations(Protocol):
    """What a model knows about how uncertain its predictions are, up to a factor."""

    def deviations(
        self, X: np.ndarray, codes: np.ndarray | None, new: Mapping[int, NewTask] | None = None
    ) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q,); without codes, every task on every row -> (q, T).

        `new` has the tasks that were not in training, by their codes.
        """
        ...


@dataclass(frozen=True)
class LeftOutTasks:
    """Values of tasks that were left out whole, as a new task is predicted.

    Attributes
    ----------
    values : for each task (n_t, m).
    deviations : for each task (n_t,), the predictive deviation of each row, up to a factor.
    """

    values: Sequence[np.ndarray]
    deviations: Sequence[np.ndarray]


@dataclass(frozen=True)
class HeldOut:
    """Held-out values.

    Attributes
    ----------
    values : for each task (n_t, m_t); NaN for rows that were not left out.
    deviations : for each task (n_t,), the predictive deviation of each row without it, up to a factor.
    variance : the same for other rows; None where it is constant.
    centers : for each task (n_t, m_t), the mean value, over the task's training rows, of the function that each value
        is of; None where it is not known.
    final_centers : for each task (m_t,), that of the function that all rows have taught.
    new_tasks : the same of tasks that were left out whole, by how they are predicted: "common", "features", "nearest".
    """

    values: Sequence[np.ndarray]
    deviations: Sequence[np.ndarray]
    variance: Deviations | None = None
    centers: Sequence[np.ndarray] | None = None
    final_centers: Sequence[np.ndarray] | None = None
    new_tasks: Mapping[str, LeftOutTasks] = field(default_factory=dict)

    @classmethod
    def constant(cls, values: Sequence[np.ndarray]) -> HeldOut:
        """Return values of a model whose deviations do not depend on the row."""
        return cls(values, [np.ones(len(part)) for part in values])


class HeldOutSource(Protocol):
    """A fit that can say what it predicts for its training rows without them."""

    def held_out(self) -> HeldOut:
        """Compute the values."""
        ...


def calibration_folds(data: TaskData, *, classification: bool) -> list[Fold]:
    """Return folds inside every task, always the same ones."""
    few = not classification and sum(map(len, data.rows)) < FEW_ROWS * data.n_tasks
    return make_folds(data, MORE_FOLDS if few else N_FOLDS, classification=classification, random_state=SEED)


def gather_folds(data: TaskData, folds: Sequence[Fold], outputs: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Values (q_t, m_t) of each fold and task -> (n_t, m_t) of each task; NaN for rows that no fold holds out."""
    values = [np.full((len(y), part.shape[1]), np.nan) for y, part in zip(data.y, outputs[0], strict=True)]
    for fold, parts in zip(folds, outputs, strict=True):
        for whole, held, part in zip(values, fold.held, parts, strict=True):
            whole[held] = part
    return values
