"""How much memory a fit on Gram matrices takes at its peak, known before any of them exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..kernels import FittedKernel
from ..kernels.distances import thin
from ..kernels.functions import Gaussian
from ..memory import Need, label_bytes
from .collections import batch_bytes
from .coupled import is_worthwhile
from .lowrank import LowRankKernels, low_rank_kernels

# Copies of a task's rows while kernels are evaluated: the rows, both sides centred, and one side scaled.
_COPIES = 4
# The part of a support vector machine's matrix where dual variables are free, which is copied: about this share.
_FREE = 0.25
_INSTEAD = (
    "use the TwoStageMKMTRL estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, for Gram "
    "matrices of half the size; or, where tasks are coupled, kernels of low rank (linear or polynomial on few columns, "
    "or of few distinct rows)"
)


@dataclass(frozen=True)
class Use:
    """What Gram matrices are for.

    Attributes
    ----------
    learner : the machines' name.
    n_jobs : threads over machines; with folds, over folds.
    curved : whether the curvature of all machines of a batch is asked for at once.
    n_folds : folds of cross-validation; 0 for one fit.
    """

    learner: str = "svm"
    n_jobs: int = 1
    curved: bool = False
    n_folds: int = 0

    @property
    def factorises(self) -> bool:
        """Whether a machine writes a matrix of its own size."""
        return self.learner == "ridge"


@dataclass(frozen=True)
class GramPlan:
    """The Gram matrices of a problem, before any of them exists.

    Attributes
    ----------
    sizes : rows of each stack: of each task, or all rows of wide data.
    machines : rows of each task's machine.
    n_kernels, itemsize : kernels in a stack, bytes of one of its values.
    row_bytes : bytes of a row of X; 0 where Gram matrices are given.
    before : bytes that were taken while kernels were fitted.
    labels : bytes of targets and machines.
    n_couplings : dimensions of the parts that tasks share; 0 where they share none.
    few : factors of low rank of the shared part, where there are exact ones.
    wide : whether all tasks have the same rows.
    """

    sizes: tuple[int, ...]
    machines: tuple[int, ...]
    n_kernels: int
    itemsize: int
    row_bytes: int = 0
    before: int = 0
    labels: int = 0
    n_couplings: int = 0
    few: LowRankKernels | None = None
    wide: bool = False

    @property
    def dense(self) -> bool:
        """Whether a stack over the rows of all tasks is needed."""
        return self.n_couplings > 0 and not self.wide and self.few is None

    @property
    def stack_bytes(self) -> int:
        """The Gram stacks."""
        stacks = self.n_kernels * self.itemsize * sum(n * n for n in self.sizes)
        if self.dense:
            return stacks + self.n_kernels * self.itemsize * sum(self.sizes) ** 2
        return stacks + (8 * sum(self.machines) * self.few.rank if self.few else 0)

    def working_bytes(self, use: Use, n_jobs: int) -> int:
        """Combined matrices, their factors, and what the machines at work write."""
        squares = [8 * n * n for n in self.machines]
        if self.n_couplings:
            return self._linked_bytes(use.factorises, squares)
        # Wide data has room for whole matrices, whatever labels are missing.
        room = [8 * self.sizes[0] ** 2] * len(squares) if self.wide else squares
        kept = batch_bytes(squares) if use.factorises and use.curved else 0
        written = 1.0 if use.factorises or use.curved else _FREE
        return batch_bytes(room) + kept + int(written * min(n_jobs, len(squares)) * max(squares))

    def _linked_bytes(self, factorises: bool, squares: Sequence[int]) -> int:
        """One machine of all rows, or own blocks and a factor of what they share, which support vectors write out."""
        N, own = sum(self.machines), sum(squares)
        rank = self.few.rank if self.few else (self.sizes[0] if self.wide else N)
        reach = N * self.n_couplings * rank
        if not is_worthwhile(self.n_couplings * rank, N):
            return 8 * N * N * (3 if factorises else 2) + (0 if factorises else own)
        if not factorises:
            return own + 8 * (reach + N * N + max(reach, int(_FREE * N * N)))
        intercepts = 6 * 8 * N * len(squares)
        return 2 * own + 2 * max(squares) + 8 * (3 * reach + 3 * self.n_couplings * rank**2) + intercepts

    def need(self, use: Use) -> Need:
        """At the moment when most is needed."""
        stacks = self.stack_bytes
        rows = self.row_bytes * max(_COPIES * max(self.sizes), sum(self.sizes))
        fit = stacks + max(self.working_bytes(use, use.n_jobs), rows)
        if use.n_folds:
            # Raw stacks stay beside those of the folds at work (training rows, and what held-out rows need of them),
            # and then beside those of the last fit.
            share = 1.0 - 1.0 / use.n_folds
            fold = share * stacks + share**2 * self.working_bytes(use, 1)
            fit = stacks + max(fit, int(min(use.n_jobs, use.n_folds) * fold))
        return Need(self.labels + max(self.before, fit), "Gram matrices", stacks, _INSTEAD)


def plan_grams(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None, n_couplings: int = 0
) -> GramPlan:
    """What `raw_grams` of the same arguments will build; `kernels` None stands for precomputed Grams."""
    wide = data.form == "wide"
    machines = tuple(len(rows) for rows in data.rows)
    return GramPlan(
        sizes=(len(data.X),) if wide else machines,
        machines=machines,
        n_kernels=data.X.shape[2] if kernels is None else len(kernels),
        itemsize=data.X.dtype.itemsize,
        row_bytes=0 if kernels is None else data.X[:1].nbytes,
        before=fitting_bytes(kernels, data.X),
        labels=label_bytes(data) + machine_bytes(data),
        n_couplings=n_couplings,
        few=low_rank_kernels(data, kernels, normalize) if n_couplings and not wide else None,
        wide=wide,
    )


def machine_bytes(data: TaskData) -> int:
    """Coded targets, costs and groups of the machines, where each has one output."""
    return 24 * sum(len(rows) for rows in data.rows)


def fitting_bytes(kernels: Sequence[FittedKernel] | None, X: np.ndarray) -> int:
    """Fitting these kernels on X (n, d): copies of their columns, and of distances for a median."""
    if kernels is None:
        return 0
    seen = len(X[thin(len(X))])
    # The distances of all pairs, and as many arrays of that size as their weighted median takes.
    median = 9 * 4 * seen**2 if any(isinstance(kernel.function, Gaussian) for kernel in kernels) else 0
    return X.dtype.itemsize * len(X) * sum(map(len, {kernel.columns for kernel in kernels})) + median
