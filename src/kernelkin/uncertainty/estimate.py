"""What a fitted model knows about its own errors, computed when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..data import Queries, TaskData
from ..engines import SingleThreadedBLAS
from ..paper.functions import NewTask, TaskFunctions
from .held_out import Deviations, HeldOut, HeldOutSource
from .link import TaskLink, fit_link
from .residuals import NewTaskScores, ResidualScores, fit_new_tasks, fit_residuals

# How tasks that were not in training are predicted; "" stands for tasks that were.
COMMON, FEATURES, NEAREST = "common", "features", "nearest"


@dataclass(frozen=True)
class PredictedRows:
    """Rows and their tasks.

    Attributes
    ----------
    X : (q, d) rows, or (q, n, K) precomputed Gram matrices.
    codes : (q,) as in `Queries`; None where every task predicts every row.
    is_nearest : (q,) whether the code is that of the task most like the row's, which was not in training.
    new : the tasks among the codes that were not in training, as far as the model's functions describe them.
    """

    X: np.ndarray
    codes: np.ndarray | None
    is_nearest: np.ndarray | None = None
    new: Mapping[int, NewTask] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, queries: Queries) -> PredictedRows:
        """Return the queries of a fitted model."""
        codes, functions, new = queries.codes, model.functions_, dict[int, NewTask]()
        if codes is not None and isinstance(functions, TaskFunctions):
            outside = np.unique(codes[(codes < 0) | (codes >= len(model.tasks_))]).tolist()
            new = {code: functions.new_task(code) for code in outside}
        return cls(queries.X, codes, queries.is_nearest, new)

    def kinds(self, n_tasks: int) -> np.ndarray:
        """Return how the task of each row (q,) is predicted."""
        assert self.codes is not None
        found = np.where(self.codes < 0, COMMON, np.where(self.codes >= n_tasks, FEATURES, ""))
        return found if self.is_nearest is None else np.where(self.is_nearest, NEAREST, found)


@dataclass(frozen=True)
class Intervals:
    """Deviations and intervals of a regressor.

    Attributes
    ----------
    residuals : the distribution of held-out residuals.
    variance : predictive deviations up to a factor; None where they are constant in each task.
    new_tasks : the residuals of tasks that were left out whole, by how new tasks are predicted.
    """

    residuals: ResidualScores
    variance: Deviations | None
    new_tasks: dict[str, NewTaskScores] = field(default_factory=dict)

    def deviations(self, rows: PredictedRows) -> np.ndarray:
        """Return the standard deviations of predictions (q,), or (q, T) without codes."""
        new = {name: scores.scale for name, scores in self.new_tasks.items()}
        return self._scaled(rows, self.residuals.scales, new)

    def half_widths(self, rows: PredictedRows, coverage: float) -> np.ndarray:
        """Return half the widths of intervals (q,), or (q, T) without codes."""
        new = {name: scores.quantile(coverage) for name, scores in self.new_tasks.items()}
        return self._scaled(rows, self.residuals.quantiles(coverage), new)

    def _scaled(self, rows: PredictedRows, factors: np.ndarray, new: dict[str, float]) -> np.ndarray:
        """Factors (T + 1,) of the tasks and of a typical one, and of new tasks, times the deviation of each row."""
        X, codes = rows.X, rows.codes
        if codes is None:
            by_row = np.repeat(factors[np.newaxis, :-1], len(X), axis=0)
            return by_row if self.variance is None else by_row * self.variance.deviations(X, None)
        unit = np.ones(len(X)) if self.variance is None else self.variance.deviations(X, codes, rows.new)
        kinds = rows.kinds(len(factors) - 1)
        unit[kinds == NEAREST] = 1.0
        out = factors[np.where(kinds == "", codes, -1)] * unit
        for name, factor in new.items():
            at = kinds == name
            out[at] = factor * np.sqrt(unit[at] ** 2 + self.new_tasks[name].extra)
        return out


class Uncertainty:
    """Held-out values of a fit, and the link or the intervals that follow from them.

    They are computed when they are first needed, or by `compute`. Until then, a pickle has what they are computed from;
    afterwards it has neither training targets nor Gram matrices nor held-out values.

    Parameters
    ----------
    source : what computes the held-out values
    data : training data
    classification : whether the targets are classes

    Attributes
    ----------
    source, data : the same; None once the result is there.
    """

    def __init__(self, source: HeldOutSource, data: TaskData, *, classification: bool) -> None:
        self.source: HeldOutSource | None = source
        self.data: TaskData | None = data
        self.classification = classification
        self._result: TaskLink | Intervals | None = None
        self._held: tuple[HeldOut, TaskData] | None = None

    def held_out(self) -> tuple[HeldOut, TaskData] | None:
        """Return the held-out values and the training data; None for a model from a file, which has neither."""
        self.compute()
        return self._held

    @property
    def link(self) -> TaskLink:
        """The link of a classifier."""
        found = self.compute()
        assert isinstance(found, TaskLink)
        return found

    @property
    def intervals(self) -> Intervals:
        """The intervals of a regressor."""
        found = self.compute()
        assert isinstance(found, Intervals)
        return found

    def compute(self) -> TaskLink | Intervals:
        """Return the link or the intervals; the first call computes them and gives up the training data."""
        if self._result is None:
            assert self.source is not None and self.data is not None
            with SingleThreadedBLAS():
                held = self.source.held_out()
            self._result = (_link if self.classification else _intervals)(held, self.data)
            self._held = held, self.data
            self.source = self.data = None
        return self._result

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_held": None}


def _link(held: HeldOut, data: TaskData) -> TaskLink:
    codes = [np.unique(y, return_inverse=True)[1] for y in data.y]
    weights = [data.sample_weight[rows] for rows in data.rows]
    link = fit_link(held.values, codes, weights, held.centers, held.final_centers)
    every = np.concatenate(codes), np.concatenate(weights)
    new = {
        name: fit_link([np.vstack(left.values)], *([part] for part in every)) for name, left in held.new_tasks.items()
    }
    return replace(link, new_tasks=new)


def _intervals(held: HeldOut, data: TaskData) -> Intervals:
    residuals = [y - values[:, 0] for y, values in zip(data.y, held.values, strict=True)]
    spreads = np.array([float(np.std(y)) for y in data.y])
    scores = fit_residuals(residuals, held.deviations, spreads)
    new = {}
    for name, left in held.new_tasks.items():
        without = [y - values[:, 0] for y, values in zip(data.y, left.values, strict=True)]
        found = fit_new_tasks(without, left.deviations, float(scores.scales[-1]) ** 2)
        if found is not None:
            new[name] = found
    return Intervals(scores, held.variance, new)
