"""A stream of pieces of multi-task data, played by the online solver in the order of its rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data import TaskData
from ...kernels import FittedKernel, Kernel, fit_kernels
from ...solvers.online import Online, OnlineRun, OnlineState
from .pairs import PairCenter
from .reservoir import Reservoirs

# Rows that a stream collects before it fits the kernels on them, whatever the pieces are that they come in.
START_ROWS = 1000


class Codes:
    """Labels as numbers, in the order in which they are first seen."""

    def __init__(self, labels: Sequence[Any] = ()) -> None:
        self.index = {label: code for code, label in enumerate(labels)}

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        values, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        for value in values[np.argsort(first)].tolist():
            self.index.setdefault(value, len(self.index))
        return np.array([self.index[value] for value in values.tolist()], dtype=np.intp)[inverse]

    @property
    def labels(self) -> np.ndarray:
        return np.array(list(self.index))


class Stream:
    """Plays the rows of a stream as they come; the pieces they come in do not matter.

    Parameters
    ----------
    kernels : the kernels, fitted on the first rows of the stream.
    solver : the online solver.
    normalize, capacity : of the reservoirs.
    rng : of the draws.
    center : whether the values of pairs are centred.
    classification : whether targets are classes.
    verbose : whether progress is shown.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        solver: Online,
        normalize: str | None,
        capacity: int,
        rng: np.random.Generator,
        *,
        center: bool,
        classification: bool,
        verbose: int,
    ) -> None:
        self.kernels, self.solver, self.normalize, self.capacity, self.rng = kernels, solver, normalize, capacity, rng
        self.center, self.verbose = center, verbose
        self.tasks = Codes()
        self.classes = Codes() if classification else None
        self.waiting: list[TaskData] = []
        self.reservoirs: Reservoirs | None = None

    def feed(self, piece: TaskData) -> None:
        """Play the rows of a piece, or keep them until there are enough to fit the kernels on."""
        if self.reservoirs is None:
            self.waiting.append(piece)
            if sum(len(part.X) for part in self.waiting) >= START_ROWS:
                self._begin()
        else:
            self._take(piece, play=True)

    def follow(self, data: TaskData, kernels: tuple[FittedKernel, ...], run: OnlineRun, mean: PairCenter) -> None:
        """Begin where a fit on `data` has ended: with its run, and its rows in the reservoirs."""
        for label in data.labels.tolist():
            self.tasks.index[label] = len(self.tasks.index)
        self._open(kernels, run, mean)
        self._take(data, play=False)
        assert self.reservoirs is not None
        self.reservoirs.n_skipped = 0

    def settled(self) -> Stream:
        """This stream, or while it waits for rows a copy that has begun with those it has."""
        if self.reservoirs is not None:
            return self
        early = copy.deepcopy(self)
        early._begin()
        return early

    def _begin(self) -> None:
        X = np.concatenate([piece.X for piece in self.waiting])[:START_ROWS]
        kernels = tuple(fit_kernels(self.kernels, X, self.waiting[0].feature_names))
        run = OnlineRun(self.solver, OnlineState.start(len(kernels)), verbose=self.verbose)
        self._open(kernels, run, PairCenter(len(kernels)))
        for piece in self.waiting:
            self._take(piece, play=True)
        self.waiting = []

    def _open(self, kernels: tuple[FittedKernel, ...], run: OnlineRun, mean: PairCenter) -> None:
        classes = self.classes is not None
        self.reservoirs = Reservoirs(kernels, self.normalize, self.capacity, self.rng, classes=classes)
        self.run, self.mean = run, mean

    def _take(self, piece: TaskData, play: bool) -> None:
        assert self.reservoirs is not None
        rows = np.concatenate(piece.rows)
        # As they came: row by row, and on wide data task by task within a row.
        order = np.argsort(rows, kind="stable")
        own = np.repeat(np.arange(piece.n_tasks), [len(mine) for mine in piece.rows])[order]
        codes = self.tasks(piece.labels[own])
        y = np.concatenate(piece.y)[order]
        targets = y if self.classes is None else self.classes(y)
        for tasks, signs, z in self.reservoirs.rounds(piece.X, rows[order], codes, targets.astype(np.float64)):
            if play:
                if self.center:
                    self.mean(tasks, z)
                self.run.play(tasks, signs, z)
