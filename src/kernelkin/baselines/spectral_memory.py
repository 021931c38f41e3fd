"""How much memory MTFL and MTRL take at their peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data import TaskData
from ..grams.memory import fitting_bytes
from ..kernels import FittedKernel
from ..learners import Machine
from ..memory import Need, label_bytes, memory_limit
from .pooled import FIRST_RANK, TESTED_ROWS, Features

# Matrices of the size of a machine while it is solved: the kernel and what D makes of it; and a factor of that, or the
# part of it where dual variables are free.
_SOLVED = {"ridge": 3.0, "svm": 2.25, "svr": 2.25}
# Matrices of the size of D that a solver has: the past steps of L-BFGS, and its history.
_SOLVER = 60
_INSTEAD = (
    "use a kernel with few features (linear, or polynomial on few columns) where there are many tasks; or fewer rows; "
    "or the TwoStageMKMTRL estimators, which hold no matrix over the rows of all tasks"
)


@dataclass(frozen=True)
class SpectralPlan:
    """The sizes of a problem.

    Attributes
    ----------
    n_rows : n, rows that any task uses.
    shapes : rows and outputs of each task.
    n_kernels, row_bytes : kernels, and bytes of a row of X.
    before, labels : bytes that fitting kernels took, and that targets and machines take.
    learner : the machines' name.
    """

    n_rows: int
    shapes: tuple[tuple[int, int], ...]
    n_kernels: int
    row_bytes: int
    before: int
    labels: int
    learner: str

    @property
    def n_outputs(self) -> int:
        return sum(m for _, m in self.shapes)

    @property
    def max_rank(self) -> int:
        """Features are the smaller side up to as many as there are outputs. (What does not fit is refused later.)"""
        return min(self.n_outputs, memory_limit() // (8 * self.n_rows))

    def need(self, features: Features | None = None, stacked: bool = False) -> Need:
        """With features, or from the Gram; `stacked` where the Gram matrices of all kernels are held to make it."""
        n, K = self.n_rows, self.n_kernels
        # Kernels are tested on some rows, or all are there at once; those that are given are copied twice.
        seen = n if stacked else -(-n // (n // TESTED_ROWS + 1))
        tested = 8 * (K + 1 if self.row_bytes else 2 * K + 1) * seen**2
        held = 8 * n * n if stacked else n * self.row_bytes
        mostly, part, work = self._from_gram() if features is None else self._from_features(features.Phi.shape[1])
        peak = self.labels + max(self.before, held + max(tested, work))
        return Need(peak, mostly, part, _INSTEAD)

    def _from_gram(self) -> tuple[str, int, int]:
        """One machine of all outputs; in the end, coefficients of all of them at all rows."""
        N, outputs = sum(n * m for n, m in self.shapes), self.n_outputs
        solved = 8 * int(_SOLVED[self.learner] * N * N + 3 * N * outputs)
        return "matrices over the rows of all tasks", 8 * N * N, solved + 8 * _SOLVER * outputs**2

    def _from_features(self, rank: int) -> tuple[str, int, int]:
        """A machine for each task on features (n, r), which are kept twice."""
        n, squares = self.n_rows, [8 * n * n for n, _ in self.shapes]
        features = 2 * 8 * n * rank
        factored = 8 * n * max(min(FIRST_RANK, self.max_rank), 2 * rank)
        solved = sum(squares) + int((_SOLVED[self.learner] - 1) * max(squares)) + 8 * _SOLVER * rank**2
        stored = 8 * n * self.n_outputs
        return "the machines of all tasks", sum(squares), max(factored, features + max(solved, stored))


def plan_spectral(
    data: TaskData, kernels: Sequence[FittedKernel] | None, machines: Sequence[Machine], learner: str
) -> SpectralPlan:
    """The sizes of a problem; `kernels` None stands for precomputed Grams."""
    shapes = tuple((machine.y.shape[0], machine.y.shape[1]) for machine in machines)
    return SpectralPlan(
        n_rows=len(data.X) if data.form == "wide" else sum(n for n, _ in shapes),
        shapes=shapes,
        n_kernels=data.X.shape[2] if kernels is None else len(kernels),
        row_bytes=0 if kernels is None else 8 * data.X.shape[1],
        before=fitting_bytes(kernels, data.X),
        # Machines have targets, costs and groups, twice where they are joined, and then places in the joint one.
        labels=label_bytes(data) + 8 * sum(n * (7 * m + 1) for n, m in shapes),
        learner=learner,
    )
