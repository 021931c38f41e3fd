"""Rows that are where an engine works: each part has whole tasks. Nothing that grows with the rows is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..engines import Engine, Held
from .arrays import listing
from .forms import TaskData


@dataclass(frozen=True)
class PartFacts:
    """What is known here of the rows of a part: labels and sizes (t,) of its tasks, columns of X and their names."""

    labels: np.ndarray
    sizes: np.ndarray
    n_columns: int
    itemsize: int
    feature_names: tuple[str, ...] | None
    text_classes: bool

    @classmethod
    def of(cls, data: TaskData) -> PartFacts:
        return cls(
            labels=data.labels,
            sizes=np.array([len(rows) for rows in data.rows]),
            n_columns=data.X.shape[1],
            itemsize=data.X.dtype.itemsize,
            feature_names=data.feature_names,
            text_classes=data.y[0].dtype.kind in "US",
        )


@dataclass(frozen=True)
class RowBlocks:
    """Tasks in parts, each a `TaskData` that an engine holds.

    Attributes
    ----------
    engine : Engine
    held : the parts.
    facts : what is known of each part.
    """

    engine: Engine
    held: Held
    facts: tuple[PartFacts, ...]

    @classmethod
    def of(cls, engine: Engine, held: Held) -> RowBlocks:
        """From parts whose facts are not known yet; raises ValueError where a task is in two of them."""
        return cls(engine, held, tuple(held.call(PartFacts.of, [()] * len(held)))).checked()

    def checked(self) -> RowBlocks:
        """Refuse parts that do not belong together."""
        labels, counts = np.unique(np.concatenate([part.labels for part in self.facts]), return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"rows of one task are in several parts: {listing(labels[counts > 1])}")
        kinds = {part.text_classes for part in self.facts}
        if len(kinds) > 1:
            raise ValueError("the classes of some tasks are text, those of others numbers")
        return self

    @cached_property
    def labels(self) -> np.ndarray:
        """(T,) the tasks, sorted."""
        return np.unique(np.concatenate([part.labels for part in self.facts]))

    @property
    def positions(self) -> list[np.ndarray]:
        """The tasks of each part, by position among all."""
        return [np.searchsorted(self.labels, part.labels) for part in self.facts]

    @property
    def sizes(self) -> np.ndarray:
        """(T,) rows of each task."""
        sizes = np.empty(len(self.labels), dtype=np.int64)
        for at, part in zip(self.positions, self.facts, strict=True):
            sizes[at] = part.sizes
        return sizes

    def divided(self, divide: Callable[[np.ndarray], Sequence[np.ndarray]]) -> RowBlocks:
        """Divide parts further: `divide` takes the rows (t,) of the tasks of a part, and returns runs of them."""
        parts = [(i, run) for i, part in enumerate(self.facts) for run in divide(part.sizes)]
        held = self.held.pick([i for i, _ in parts]).derive(take_tasks, [(run,) for _, run in parts])
        facts = [
            PartFacts(part.labels[run], part.sizes[run], part.n_columns, part.itemsize, part.feature_names, False)
            for part, run in ((self.facts[i], run) for i, run in parts)
        ]
        return RowBlocks(self.engine, held, tuple(facts))


def take_tasks(data: TaskData, tasks: np.ndarray) -> TaskData:
    """Return some tasks, by position, with their rows alone."""
    rows = [data.rows[t] for t in tasks]
    every, ends = np.concatenate(rows), np.cumsum([len(part) for part in rows]).tolist()
    return TaskData(
        X=data.X[every],
        rows=tuple(np.arange(start, end) for start, end in zip([0, *ends], ends, strict=False)),
        y=tuple(data.y[t] for t in tasks),
        sample_weight=data.sample_weight[every],
        labels=data.labels[tasks],
        form=data.form,
        feature_names=data.feature_names,
        feature_origins=data.feature_origins,
        groupings=tuple(grouping._replace(codes=grouping.codes[every]) for grouping in data.groupings),
    )
