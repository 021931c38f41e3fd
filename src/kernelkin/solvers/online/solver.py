"""The online solver: kernel weights from pairs of rows, one mistake at a time; no Gram and no T x T matrix.

A round has one task t, the kernels' values z (K,) at a pair of its rows, and a label l: whether the two belong
together. On a mistake of the sign of b_t'z

    B += (l/mu) z Omega_t'        and, after some mistakes,        Omega = argmin tr(B inv(Omega) B')

Omega has the right singular vectors of B, and its eigenvalues come from the penalty's water-filling, so that ``Omega =
rest I + B'PB`` for a K x K matrix P and the B of the last refresh, called `held`. Between two refreshes the update is
a sum of ``(l/mu) z (P held_t)'``, one K x K matrix for all tasks, times `held`, and of changes of single columns:

    b_t = L held_t + own_t,     on a mistake     L += (l/mu) z (P held_t)',     own_t += (l/mu) rest z

A round costs O(K^2) whatever T is. A refresh costs O(K^2 T), and with one for every T mistakes that is O(K^2) for
each. (L could also be multiplied up with the current b_t in place of held_t. Then Omega grows as the square of B
between refreshes, and B without bound; here Omega stays exactly what it was at the refresh.)

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

from ...decompositions import svd
from ...penalties import Relation, RelationPenalty
from ...penalties.water_filling import water_fill
from .base import Rounds
from .state import OnlineState


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
