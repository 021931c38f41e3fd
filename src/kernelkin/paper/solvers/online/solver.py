"""The paper's Algorithm 2: kernel weights and relationship from one round after the other."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from typing import ClassVar, NamedTuple

import numpy as np

from ....decompositions import svd
from ...penalties import Relation, RelationPenalty
from ...penalties.relation import water_fill


@dataclass
class OnlineState:
    """All that an online run needs to go on, O(TK) in size. The module `loops` says what the arrays are."""

    held: np.ndarray
    own: np.ndarray
    late_own: np.ndarray
    fresh: np.ndarray
    L: np.ndarray
    late: np.ndarray
    P: np.ndarray
    rest: np.ndarray
    counts: np.ndarray
    total: np.ndarray

    @classmethod
    def start(cls, n_kernels: int, n_tasks: int = 0) -> OnlineState:
        """Return B = 0 and Omega = I/T.

        A task that joins later has the identity's row of Omega until a refresh finds its weights not zero: until then
        there is nothing to relate it to others by.
        """
        columns = np.zeros((4, n_tasks, n_kernels))
        square = np.zeros((2, n_kernels, n_kernels))
        return cls(
            held=columns[0],
            own=columns[1],
            late_own=columns[2],
            fresh=np.zeros(n_tasks, dtype=bool),
            L=np.eye(n_kernels),
            late=square[0],
            P=square[1],
            rest=np.array([1.0 / max(n_tasks, 1)]),
            counts=np.array([0, 0, 0, 0, n_tasks]),
            total=columns[3],
        )

    @property
    def rounds(self) -> int:
        """Rounds so far."""
        return int(self.counts[0])

    @property
    def mistakes(self) -> int:
        """Rounds that changed the weights."""
        return int(self.counts[1])

    @property
    def n_tasks(self) -> int:
        """Tasks so far."""
        return int(self.counts[4])

    def grow(self, n_tasks: int) -> None:
        """Make the arrays long enough for so many tasks; each joins with its first round."""
        length = len(self.fresh)
        if n_tasks > length:
            more = max(n_tasks, length + length // 2) - length
            for name in ("held", "own", "late_own", "total"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            self.fresh = np.pad(self.fresh, (0, more), constant_values=True)

    def weights(self, average: bool = False) -> np.ndarray:
        """Return B (K, T), or its average over rounds; projected only as far as the run has done so."""
        last = self.held @ self.L.T + self.own
        if average and self.rounds:
            last = self._sums() / self.rounds
        return last[: self.n_tasks].T

    def fold(self, project: bool) -> None:
        """Move all changes since the last refresh into `held`, projected on request."""
        self.total = self._sums()
        held = self.held @ self.L.T + self.own
        self.held = np.maximum(held, 0.0) if project else held
        self.L[:] = np.eye(len(self.L))
        for array in (self.own, self.late_own, self.late):
            array[:] = 0.0
        self.counts[2:4] = 0

    def _sums(self) -> np.ndarray:
        """Return the sum of every task's weights over all rounds (T, K)."""
        n = self.counts[2]
        return self.total + self.held @ (n * self.L - self.late).T + n * self.own - self.late_own


class Rounds(NamedTuple):
    """Pairs of rows, in the order in which they are learned from.

    Attributes
    ----------
    tasks : (n,) intp array
        The task of each pair.
    signs : (n,) array
        Whether the two rows belong together (above zero) or not (below); the size is the weight of the round.
    values : (n, K) array
        The kernels at each pair.
    """

    tasks: np.ndarray
    signs: np.ndarray
    values: np.ndarray

    def part(self, start: int, stop: int) -> Rounds:
        """The rounds from `start` to `stop`."""
        return Rounds(self.tasks[start:stop], self.signs[start:stop], self.values[start:stop])


@dataclass(frozen=True)
class Online:
    """The paper's Algorithm 2.

    As printed (``refresh=1, shrinkage=0, project=False``) it only ever learns about the task of the first mistake:
    Omega is then zero for all others, and so are their updates. Fewer refreshes or some shrinkage avoid that.

    Parameters
    ----------
    mu : float
        What steps are divided by.
    update : {"perceptron", "hinge"}
        "perceptron" learns from wrong signs, "hinge" also from right ones with b'z below one.
    shrinkage, min_rank : float
        The limits of Omega, as in `RelationPenalty`.
    refresh : int, optional
        Mistakes between refreshes of Omega; None: as many as there are tasks, and at least 100.
    project : bool
        Whether weights are kept from being negative; Algorithm 2 as printed does not.
    """

    name: ClassVar[str] = "online"
    mu: float = 1.0
    update: str = "perceptron"
    shrinkage: float = 0.1
    min_rank: float = 1.0
    refresh: int | None = None
    project: bool = True

    def init(self, n_kernels: int, n_tasks: int = 0) -> OnlineState:
        """Return the state before the first round: B = 0 and Omega = I/T."""
        return OnlineState.start(n_kernels, n_tasks)

    def step(self, state: OnlineState, rounds: Rounds) -> None:
        """Learn from rounds, in order."""
        from .loops import run_rounds

        settings = (1.0 / self.mu, float(self.update == "hinge"), self.project, self.refresh or 0)
        state.grow(int(rounds.tasks.max(initial=-1)) + 1)
        done = 0
        while True:
            arrays = [getattr(state, field.name) for field in fields(state)[:-1]]
            done = run_rounds(*rounds, done, *settings, *arrays)
            if done == len(rounds.tasks):
                return
            self.refresh_relation(state)

    def refresh_relation(self, state: OnlineState) -> None:
        """Set Omega to the minimiser at the current weights."""
        state.fold(self.project)
        state.P[:], state.rest[0] = self._factors(state.held[: state.n_tasks].T)
        state.fresh &= ~state.held.any(axis=1)

    def relation(self, B: np.ndarray) -> Relation:
        """Return Omega at weights B (K, T): what the relationship penalty has there."""
        n_tasks = B.shape[1]
        # In a stream, tasks may still be fewer than min_rank.
        return RelationPenalty(n_tasks, None, self.shrinkage, min(self.min_rank, n_tasks)).relation(B)

    def _factors(self, B: np.ndarray) -> tuple[np.ndarray, float]:
        """Return P (K, K) and rest with ``Omega = rest I + B'PB`` for B (K, T)."""
        n_tasks = B.shape[1]
        # Of the transpose, which is tall; and of B itself, since BB' would lose the small singular values.
        _, s, Ut = svd(B.T)
        s = s[s > max(B.shape) * np.finfo(float).eps * s[0]]
        tau, rest = water_fill(s / s[:1], n_tasks, self.shrinkage, max(n_tasks / self.min_rank, 1.0))
        U = Ut[: len(s)].T
        return (U * ((tau - rest) / (n_tasks * s * s))) @ U.T, rest / n_tasks


@dataclass
class OnlineRun:
    """A solver and its state, with a history and a progress bar.

    Parameters
    ----------
    solver : Online
    state : OnlineState
    n_rounds : int, optional
        How many rounds there will be; None for a stream. A record is made every hundredth of them, or every 1000.
    verbose : int
        Whether to show a progress bar.
    records : list of (rounds, mistakes)
    """

    solver: Online
    state: OnlineState
    n_rounds: int | None = None
    verbose: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)

    def step(self, rounds: Rounds) -> None:
        """Learn from rounds, in order."""
        every = 1000 if self.n_rounds is None else max(1, self.n_rounds // 100)
        start = 0
        while start < len(rounds.tasks):
            stop = start + every - self.state.rounds % every
            self.solver.step(self.state, rounds.part(start, stop))
            start = stop
            if self.state.rounds % every == 0:
                self.records.append((self.state.rounds, self.state.mistakes))
                if self.verbose:
                    self._show()

    @property
    def history(self) -> dict[str, np.ndarray]:
        """At each record the round, the share of mistakes in all up to it, and in those since the last record."""
        now = (self.state.rounds, self.state.mistakes)
        records = self.records if now[0] == 0 or now in self.records[-1:] else [*self.records, now]
        rounds, mistakes = np.array(records, dtype=np.int64).reshape(-1, 2).T
        recent = np.diff(mistakes, prepend=0) / np.diff(rounds, prepend=0)
        return {"round": rounds, "mistake_rate": mistakes / rounds, "recent_mistake_rate": recent}

    def _show(self) -> None:
        rounds, rate = self.state.rounds, self.state.mistakes / self.state.rounds
        if self.n_rounds is None:
            bar, end = f"{rounds:,} rounds", "\r"
        else:
            filled = round(30 * rounds / self.n_rounds)
            bar = f"|{'#' * filled:<30}| {rounds:,}/{self.n_rounds:,} rounds"
            end = "\n" if rounds == self.n_rounds else "\r"
        print(f"[kernelkin] {bar}  mistakes {rate:6.2%}", end=end, file=sys.stderr, flush=True)
