"""The online solver: kernel weights from pairs of rows, one mistake at a time; no Gram and no T x T matrix.

A round sees one task t, the kernels' values z (K,) at a pair of its rows, and a label l: whether the two belong
together. On a mistake of the sign of b_t'z

    B += (l/mu) z Omega_t'        and, after some mistakes,        Omega = argmin tr(B inv(Omega) B')

Omega has the right singular vectors of B, and its eigenvalues come from the penalty's water-filling, so that ``Omega =
rest I + B'PB`` for a K x K matrix P and the B of the last refresh, called `held`. Between two refreshes the update is
a sum of ``(l/mu) z (P held_t)'``, one K x K matrix for all tasks, times `held`, and of moves of single columns:

    b_t = L held_t + own_t,     on a mistake     L += (l/mu) z (P held_t)',     own_t += (l/mu) rest z

A round costs O(K^2) whatever T is. A refresh costs O(K^2 T), and with one for every T mistakes that is O(K^2) for
each. (L could also be multiplied up with the current b_t in place of held_t. Then Omega grows as the square of B
between refreshes, and B without bound; here Omega is exactly held.)

The average of B over rounds is kept in the same way, from the sums of L and own_t over rounds. A change d that comes
after n rounds is in n of them less than all: subtracting n d once, and adding (rounds) x (last value) when the average
is read, is exact and needs no time stamps.

Weights are not negative: a task's column is projected when the task is drawn, all of them when Omega is refreshed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np

from ..penalties.relation import water_fill


def relation_factors(B: np.ndarray, shrinkage: float, min_rank: float) -> tuple[np.ndarray, np.ndarray, float]:
    """The minimising Omega (T, T) of tr(B inv(Omega) B') for B (K, T), as ``rest I + B'U diag(d) U'B``.

    Returns U (K, r), d (r,) >= 0 and rest. Omega is I/T for B = 0.
    """
    n_tasks = B.shape[1]
    # Of the transpose, which is tall; and of B itself, since BB' would lose the small singular values.
    _, s, Ut = np.linalg.svd(B.T, full_matrices=False)
    s = s[s > max(B.shape) * np.finfo(float).eps * s[0]]
    tau, rest = water_fill(s / s[:1], n_tasks, shrinkage, max(n_tasks / min_rank, 1.0))
    return Ut[: len(s)].T, (tau - rest) / (n_tasks * s * s), rest / n_tasks


@dataclass(frozen=True)
class Relationship:
    """Omega (T, T) as ``rest I + F'F``, F (r, T)."""

    F: np.ndarray
    rest: float

    @classmethod
    def of(cls, B: np.ndarray, shrinkage: float, min_rank: float) -> Relationship:
        """The relationship that kernel weights B (K, T) imply."""
        U, d, rest = relation_factors(B, shrinkage, min_rank)
        return cls(np.sqrt(d)[:, np.newaxis] * (U.T @ B), rest)

    def row(self, t: int) -> np.ndarray:
        row = self.F.T @ self.F[:, t]
        row[t] += self.rest
        return row

    def diagonal(self) -> np.ndarray:
        return self.rest + np.einsum("rt,rt->t", self.F, self.F)

    def dense(self) -> np.ndarray:
        Omega = self.F.T @ self.F
        Omega[np.diag_indices_from(Omega)] += self.rest
        return Omega


@dataclass
class OnlineState:
    """Where an online run stands: all it needs to go on, O(TK) in size. `online_loop` says what the arrays are."""

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
        """B = 0 and Omega = I/T.

        A task that joins later has the identity's row of Omega until a refresh finds its weights not zero: until then
        there is nothing to know its relatives by.
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
        return int(self.counts[0])

    @property
    def mistakes(self) -> int:
        return int(self.counts[1])

    @property
    def n_tasks(self) -> int:
        return int(self.counts[4])

    def make_room(self, n_tasks: int) -> None:
        """Room for this many tasks; each joins when it first plays."""
        held = len(self.fresh)
        if n_tasks > held:
            more = max(n_tasks, held + held // 2) - held
            for name in ("held", "own", "late_own", "total"):
                setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
            self.fresh = np.pad(self.fresh, (0, more), constant_values=True)

    def weights(self, average: bool = False) -> np.ndarray:
        """B (K, T), or its average over rounds; projected only as far as the run has done so."""
        last = self.held @ self.L.T + self.own
        if average and self.rounds:
            last = self._sums() / self.rounds
        return last[: self.n_tasks].T

    def fold(self, project: bool) -> None:
        """Hold the weights as they are now, all of them projected if asked for."""
        self.total = self._sums()
        held = self.held @ self.L.T + self.own
        self.held = np.maximum(held, 0.0) if project else held
        self.L[:] = np.eye(len(self.L))
        for array in (self.own, self.late_own, self.late):
            array[:] = 0.0
        self.counts[2:4] = 0

    def _sums(self) -> np.ndarray:
        """The sum of every task's weights over all rounds (T, K)."""
        n = self.counts[2]
        return self.total + self.held @ (n * self.L - self.late).T + n * self.own - self.late_own


@dataclass(frozen=True)
class Online:
    """The paper's Algorithm 2.

    As printed (``refresh=1, shrinkage=0, project=False``) it stays with the task of the first mistake: Omega is then
    zero for all others, and with it all that they could learn. Fewer refreshes or some shrinkage let them in.

    Parameters
    ----------
    mu : what steps are divided by.
    update : "perceptron" learns from wrong signs, "hinge" also from right ones with b'z below one.
    shrinkage, min_rank : the limits of Omega, as in `RelationPenalty`.
    refresh : mistakes between refreshes of Omega; None: as many as there are tasks, and at least 100.
    project : whether weights are kept from being negative; Algorithm 2 as printed does not.
    """

    name: ClassVar[str] = "online"
    mu: float = 1.0
    update: str = "perceptron"
    shrinkage: float = 0.1
    min_rank: float = 1.0
    refresh: int | None = None
    project: bool = True

    def play(self, state: OnlineState, tasks: np.ndarray, signs: np.ndarray, z: np.ndarray) -> None:
        """Play rounds in order: tasks (n,) intp, signs (n,) of size the weight of a round, z (n, K)."""
        from .online_loop import run_rounds

        settings = (1.0 / self.mu, float(self.update == "hinge"), self.project, self.refresh or 0)
        state.make_room(int(tasks.max(initial=-1)) + 1)
        at = 0
        while True:
            arrays = [getattr(state, field.name) for field in fields(state)[:-1]]
            at = run_rounds(tasks, signs, z, at, *settings, *arrays)
            if at == len(tasks):
                return
            self._refresh(state)

    def _refresh(self, state: OnlineState) -> None:
        state.fold(self.project)
        U, d, state.rest[0] = relation_factors(state.held[: state.n_tasks].T, self.shrinkage, self.min_rank)
        state.P[:] = (U * d) @ U.T
        state.fresh &= ~state.held.any(axis=1)


@dataclass
class OnlineRun:
    """An online run that is watched: it keeps a history, and shows its progress on request.

    `n_rounds` is how many there will be, None for a stream. A record is made every hundredth of them, or every 1000.
    """

    solver: Online
    state: OnlineState
    n_rounds: int | None = None
    verbose: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)

    def play(self, tasks: np.ndarray, signs: np.ndarray, z: np.ndarray) -> None:
        """As `Online.play`."""
        every = 1000 if self.n_rounds is None else max(1, self.n_rounds // 100)
        start = 0
        while start < len(tasks):
            part = slice(start, start + every - self.state.rounds % every)
            self.solver.play(self.state, tasks[part], signs[part], z[part])
            start = part.stop
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
            bar, end = f"|{'#' * filled:<30}| {rounds:,}/{self.n_rounds:,} rounds", "\r"
            end = "\n" if rounds == self.n_rounds else end
        print(f"[kernelkin] {bar}  mistakes {rate:6.2%}", end=end, file=sys.stderr, flush=True)
