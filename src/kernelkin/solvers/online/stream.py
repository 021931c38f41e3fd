"""A stream of pieces of multi-task data, learned from by the online solver in the order of its rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...data import TaskData
from ...kernels import FittedKernel, Kernel, fit_kernels
from .pairs import PairCenter
from .reservoirs import Reservoirs
from .solver import Online, OnlineRun

# Rows that a stream collects before it fits the kernels on them, whatever the pieces are that they come in.
START_ROWS = 1000


class Codes:
    """Labels as numbers, in the order in which they are first seen."""

    def __init__(self, labels: Sequence[Any] = ()) -> None:
        self.index = {label: code for code, label in enumerate(labels)}

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        """labels (n,) -> codes (n,); new labels get the next numbers."""
        values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        for value in values[np.argsort(first)].tolist():
            self.index.setdefault(value, len(self.index))
        return np.array([self.index[value] for value in values.tolist()], dtype=np.intp)[inverse]

    @property
    def labels(self) -> np.ndarray:
        """The labels in the order of their codes."""
        return np.array(list(self.index))


@dataclass(frozen=True)
class StreamSettings:
    """How a stream is learned from.

    Attributes
    ----------
    kernels : the kernels, to be fitted on the first rows of the stream.
    solver : the online solver.
    normalize : how kernels are scaled.
    capacity : rows of each task that its reservoir keeps.
    center : whether the values of pairs are centred.
    classes : whether targets are classes.
    verbose : whether progress is shown.
    """

    kernels: Sequence[Kernel]
    solver: Online
    normalize: str | None
    capacity: int
    center: bool
    classes: bool
    verbose: int = 0


class Stream:
    """Learns from the rows of a stream as they come; the pieces they come in do not matter.

    Parameters
    ----------
    settings : StreamSettings
    rng : numpy.random.Generator
        Of the draws.
    seed : int
        Of all else that is random about a fit on these rows.
    """

    def __init__(self, settings: StreamSettings, rng: np.random.Generator, *, seed: int = 0) -> None:
        self.settings, self.rng, self.seed = settings, rng, seed
        self.tasks = Codes()
        self.classes = Codes() if settings.classes else None
        self.waiting: list[TaskData] = []
        self.reservoirs: Reservoirs | None = None
        self.run: OnlineRun | None = None
        self.center: PairCenter | None = None

    @classmethod
    def after(
        cls,
        settings: StreamSettings,
        rng: np.random.Generator,
        data: TaskData,
        kernels: tuple[FittedKernel, ...],
        run: OnlineRun,
        center: PairCenter,
        *,
        seed: int = 0,
    ) -> Stream:
        """Return the stream that goes on where a run on `data` has ended, with rows of it in the reservoirs."""
        stream = cls(settings, rng, seed=seed)
        stream.tasks = Codes(data.labels.tolist())
        stream._open(kernels, replace(run, n_rounds=None), center)
        reservoirs = stream._opened()[0]
        reservoirs.add(data.X, *stream._rows(data))
        reservoirs.compact()
        return stream

    def feed(self, piece: TaskData) -> None:
        """Learn from the rows of a piece, or keep them until there are enough to fit the kernels on."""
        if self.reservoirs is not None:
            self._learn(piece)
            return
        self.waiting.append(piece)
        if sum(len(part.X) for part in self.waiting) >= START_ROWS:
            self._begin()

    def begun(self) -> Stream:
        """Return this stream, or while it waits for rows a copy that has begun with those it has."""
        if self.reservoirs is not None:
            return self
        early = copy.deepcopy(self)
        early._begin()
        return early

    def state(self) -> tuple[Reservoirs, OnlineRun]:
        """Return the reservoirs and the run of a stream that has begun."""
        reservoirs, run, _ = self._opened()
        return reservoirs, run

    def data(self) -> TaskData:
        """Return the rows in the reservoirs of a stream that has begun."""
        classes = None if self.classes is None else self.classes.labels
        return self._opened()[0].data(self.tasks.labels, classes)

    def _begin(self) -> None:
        X = np.concatenate([piece.X for piece in self.waiting])[:START_ROWS]
        kernels = tuple(fit_kernels(self.settings.kernels, X, self.waiting[0].feature_names))
        solver = self.settings.solver
        run = OnlineRun(solver, solver.init(len(kernels)), verbose=self.settings.verbose)
        self._open(kernels, run, PairCenter(len(kernels)))
        for piece in self.waiting:
            self._learn(piece)
        self.waiting = []

    def _open(self, kernels: tuple[FittedKernel, ...], run: OnlineRun, center: PairCenter) -> None:
        settings = self.settings
        self.reservoirs = Reservoirs(kernels, settings.normalize, settings.capacity, self.rng, classes=settings.classes)
        self.run, self.center = run, center

    def _opened(self) -> tuple[Reservoirs, OnlineRun, PairCenter]:
        if self.reservoirs is None or self.run is None or self.center is None:
            raise ValueError("this stream has not begun: its kernels are not fitted yet")
        return self.reservoirs, self.run, self.center

    def _learn(self, piece: TaskData) -> None:
        reservoirs, run, center = self._opened()
        for rounds in reservoirs.rounds(piece.X, *self._rows(piece)):
            if self.settings.center:
                center(rounds)
            run.step(rounds)

    def _rows(self, piece: TaskData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of X, their tasks and targets as they came: by row, and on wide data by task within it."""
        rows = np.concatenate(piece.rows)
        order = np.argsort(rows, kind="stable")
        own = np.repeat(np.arange(piece.n_tasks), [len(part) for part in piece.rows])[order]
        y = np.concatenate(piece.y)[order]
        targets = y if self.classes is None else self.classes(y)
        return rows[order], self.tasks(piece.labels[own]), targets.astype(np.float64)
