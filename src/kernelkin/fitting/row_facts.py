"""What a fit needs to know of all rows, summed over parts of them that are elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data import RowBlocks, TaskData
from ..kernels.distances import thin
from ..learners import Learner
from ..problems import Units
from .targets import Targets, spread_of


@dataclass(frozen=True)
class RowFacts:
    """Sums over the rows of a part.

    Attributes
    ----------
    n_rows : rows of positive weight.
    variation : as `Targets.variation` returns it.
    squares : number and mean of the squared targets, each less its task's mean, of rows with a cost.
    costs : how many costs are nearest to each power of two, by its exponent.
    classes : the classes of each task; empty for regression.
    """

    n_rows: int
    variation: tuple[float, float]
    squares: tuple[int, float]
    costs: Counter[int]
    classes: tuple[np.ndarray, ...]


def row_facts(data: TaskData, targets: Targets, C: float) -> RowFacts:
    """Return the facts of the rows of a part."""
    machines = targets.machines(data, C)
    learner = targets.learner()
    units = Units(0, 0, 0, ()).of_machines(machines, learner)
    centred = [m.y[m.C > 0] for m in units.machines(machines)]
    values = np.concatenate(centred)
    exponents = np.rint(np.log2(np.concatenate([m.C[m.C > 0] for m in machines]))).astype(int)
    return RowFacts(
        n_rows=int(np.count_nonzero(data.sample_weight > 0)),
        variation=targets.variation(data),
        squares=(len(values), float(np.mean(np.square(values))) if len(values) else 0.0),
        costs=Counter(exponents.tolist()),
        classes=tuple(targets.attributes(data).get("task_classes_", ())),
    )


def gather_facts(rows: RowBlocks, targets: Targets, C: float) -> list[RowFacts]:
    """Return the facts of all parts."""
    return rows.held.call(row_facts, [(targets, C)] * len(rows.held))


def units_of(facts: Sequence[RowFacts], learner: Learner, *, weights: bool) -> Units:
    """Return the units in which targets and costs of all parts have size one."""
    count = sum(part.squares[0] for part in facts)
    mean = sum(part.squares[0] * part.squares[1] for part in facts) / max(count, 1)
    costs = sum((part.costs for part in facts), Counter[int]())
    middle = np.cumsum([costs[e] for e in sorted(costs)]) * 2 >= sum(costs.values())
    exponent = sorted(costs)[int(np.argmax(middle))] if costs else 0
    # Any power of two that is near enough will do: factors of two lead to the same solution.
    spread = math.sqrt(mean) if mean > 0 else 1.0
    return Units.of_sizes(spread, math.ldexp(1.0, exponent), learner, weights=weights)


def spread_in_tasks(facts: Sequence[RowFacts]) -> float:
    """Return the variance of the coded targets within tasks."""
    return spread_of([part.variation for part in facts])


def sample_rows(rows: RowBlocks, facts: Sequence[RowFacts]) -> TaskData:
    """Return the rows that stand for all where kernels are fitted: those that they would look at among all rows."""
    counts = [part.n_rows for part in facts]
    step = thin(sum(counts)).step
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    found = rows.held.call(_every, [(-start % step, step) for start in starts])
    X, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return TaskData(
        X=X,
        rows=(np.arange(len(X)),),
        y=(np.zeros(len(X)),),
        sample_weight=weight,
        labels=np.zeros(1, dtype=np.intp),
        form="single",
        feature_names=rows.facts[0].feature_names,
    )


def _every(data: TaskData, first: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Every step-th row of positive weight from the first on, and its weight."""
    kept = np.flatnonzero(data.sample_weight > 0)[first::step]
    return data.X[kept], data.sample_weight[kept]
