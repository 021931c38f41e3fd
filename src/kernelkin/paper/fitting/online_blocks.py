"""The first stage of a two-stage fit in blocks of tasks: every block plays rounds of its own tasks.

A round changes the weights of its task, and through the relationship those of all tasks by one matrix L (K, K). Blocks
play a segment of rounds each from the same weights and the same relationship; then what every block has added to L is
summed, applied to the weights of all tasks, and the relationship is found anew. So all mistakes reach all tasks, but
those of other blocks with a delay of one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...data import TaskData
from ...engines import Held
from ...kernels import FittedKernel
from ..grams import RowKernels
from ..solvers.online import Online, OnlineState, PairCenter, PairSource
from .targets import Classification, Targets

# Segments at most, and rounds of a segment at least: about as many as mistakes between two refreshes of one stream.
MOST_SEGMENTS, LEAST_ROUNDS = 50, 100
_NEVER = 1 << 62


@dataclass(frozen=True)
class Game:
    """What the rounds of all blocks have in common.

    Attributes
    ----------
    targets, C, normalize, center_pairs : as in `TwoStageFit`.
    kernels : fitted on the rows of all tasks.
    charges : (K,) what the kernels' values are divided by.
    online : the solver.
    """

    targets: Targets
    C: float
    normalize: str | None
    center_pairs: bool
    kernels: tuple[FittedKernel, ...]
    charges: np.ndarray
    online: Online


@dataclass(frozen=True)
class Segment:
    """Where a block begins: weights (t, K), the relationship as P (K, K) and rest, means of pairs; rounds; a seed."""

    held: np.ndarray
    P: np.ndarray
    rest: float
    center: tuple[np.ndarray, np.ndarray] | None
    n_rounds: int
    seed: tuple[int, ...]


@dataclass(frozen=True)
class Played:
    """What a block has learned: L (K, K), own changes (t, K), the mean of its weights (t, K), means of pairs."""

    L: np.ndarray
    own: np.ndarray
    mean: np.ndarray
    center: tuple[np.ndarray, np.ndarray] | None
    mistakes: int


def play_block(data: TaskData, game: Game, segment: Segment) -> Played:
    """Play the rounds of a segment on the rows of a block."""
    values = RowKernels.of(data.X, list(game.kernels), game.normalize)
    machines = game.targets.machines(data, game.C)
    classes = isinstance(game.targets, Classification)
    source = PairSource(data, values, machines, game.normalize, classes=classes)
    # The relationship is that of all tasks, and is refreshed between segments.
    online = replace(game.online, refresh=_NEVER)
    state = online.init(values.n_kernels, data.n_tasks)
    state.held[:], state.P[:], state.rest[0] = segment.held, segment.P, segment.rest
    center = PairCenter(values.n_kernels)
    if segment.center is not None:
        center.sums, center.counts = (part.copy() for part in segment.center)
    for rounds in source.draw(np.random.default_rng(segment.seed), segment.n_rounds):
        if game.center_pairs:
            center(rounds)
        online.step(state, rounds._replace(values=rounds.values / game.charges))
    mean = state.weights(average=True).T
    return Played(state.L, state.own, mean, (center.sums, center.counts), state.mistakes)


@dataclass(frozen=True)
class Learned:
    """Weights (K, T), averaged over rounds or the last ones, and the history of the rounds."""

    weights: np.ndarray
    history: dict[str, np.ndarray]
    n_rounds: int


def learn_in_blocks(
    held: Held, positions: Sequence[np.ndarray], game: Game, n_rounds: int, seed: int, *, average: bool
) -> Learned:
    """Learn kernel weights from `n_rounds` rounds of all blocks; `held` are their rows."""
    n_tasks, n_kernels = sum(map(len, positions)), len(game.kernels)
    n_segments = int(np.clip(n_rounds // max(LEAST_ROUNDS, n_tasks), 1, MOST_SEGMENTS))
    state = OnlineState.start(n_kernels, n_tasks)
    centers: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(positions)
    total, records = np.zeros((n_tasks, n_kernels)), []
    rounds = mistakes = 0
    for s in range(n_segments):
        counts = _share(n_rounds * (s + 1) // n_segments - rounds, [len(at) for at in positions])
        segments = [
            (game, Segment(state.held[at], state.P, float(state.rest[0]), centers[b], counts[b], (seed, s, b)))
            for b, at in enumerate(positions)
        ]
        played = held.call(play_block, segments)
        for at, part in zip(positions, played, strict=True):
            state.own[at] = part.own
            total[at] += sum(counts) * part.mean
            state.L += part.L - np.eye(n_kernels)
        centers = [part.center for part in played]
        game.online.refresh_relation(state)
        rounds, mistakes = rounds + sum(counts), mistakes + sum(part.mistakes for part in played)
        records.append((rounds, mistakes))
    weights = total.T / max(rounds, 1) if average else state.weights()
    return Learned(weights, _history(records), rounds)


def _share(n: int, sizes: Sequence[int]) -> list[int]:
    """Divide n rounds in proportion to the tasks of blocks."""
    ends = np.cumsum(sizes) * n // sum(sizes)
    return np.diff(ends, prepend=0).tolist()


def _history(records: Sequence[tuple[int, int]]) -> dict[str, np.ndarray]:
    rounds, mistakes = np.array(records, dtype=np.int64).reshape(-1, 2).T
    played = np.maximum(np.diff(rounds, prepend=0), 1)
    recent = np.diff(mistakes, prepend=0) / played
    return {"round": rounds, "mistake_rate": mistakes / np.maximum(rounds, 1), "recent_mistake_rate": recent}
