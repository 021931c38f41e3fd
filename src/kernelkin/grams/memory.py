"""How much memory a fit on Gram matrices takes at its peak, known before it starts, and how much there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..data import TaskData
from ..exceptions import GramMemoryError
from ..kernels import FittedKernel
from .collections import batch_bytes
from .coupled import is_worthwhile
from .lowrank import LowRankKernels, low_rank_kernels

# The environment variable that limits the memory of a fit, in GiB.
LIMIT = "KERNELKIN_MEMORY_GIB"
# Learners that keep a factor of each machine's matrix until all machines of a batch are solved.
_KEEP_FACTORS = frozenset({"ridge"})


@dataclass(frozen=True)
class Use:
    """What Gram matrices are for: machines of a learner, by so many threads; with folds, cross-validation."""

    learner: str = "svm"
    n_jobs: int = 1
    n_folds: int = 0


@dataclass(frozen=True)
class GramPlan:
    """The Gram matrices of a problem, before any of them exists.

    Attributes
    ----------
    sizes : rows of each stack: of each task, or all rows of wide data.
    machines : rows of each task's machine.
    n_kernels, itemsize : kernels in a stack, bytes of one of its values.
    n_couplings : dimensions of the parts that tasks share; 0 where they share none.
    few : factors of low rank of the shared part, where there are exact ones.
    wide : whether all tasks have the same rows.
    """

    sizes: tuple[int, ...]
    machines: tuple[int, ...]
    n_kernels: int
    itemsize: int
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
        return stacks + (2 * 8 * sum(self.machines) * self.few.rank if self.few else 0)

    def working_bytes(self, learner: str, n_jobs: int = 1) -> int:
        """Combined matrices, their factors, and what the machines at work write."""
        keeps = learner in _KEEP_FACTORS
        squares = [8 * n * n for n in self.machines]
        if self.n_couplings:
            return self._linked_bytes(keeps, sum(squares))
        # Wide data has room for whole matrices, whatever labels are missing.
        room = [8 * self.sizes[0] ** 2] * len(squares) if self.wide else squares
        return batch_bytes(room) + keeps * batch_bytes(squares) + min(n_jobs, len(squares)) * max(squares)

    def _linked_bytes(self, keeps: bool, own: int) -> int:
        """One machine of all rows, or own blocks and a factor of what they share."""
        N = sum(self.machines)
        rank = self.few.rank if self.few else (self.sizes[0] if self.wide else N)
        if is_worthwhile(self.n_couplings * rank, N):
            return (1 + keeps) * own + 8 * (4 * N * rank + 3 * rank**2) * self.n_couplings
        return 8 * N * N * (3 if keeps else 2) + (0 if keeps else own)

    def peak_bytes(self, use: Use) -> int:
        """All of it at the moment when most is needed: arrays of the size of rows and some tens of MiB come on top."""
        stacks, fit = self.stack_bytes, self.stack_bytes + self.working_bytes(use.learner, use.n_jobs)
        if not use.n_folds:
            return fit
        # Raw stacks stay beside those of the folds at work (training rows, and what held-out rows need of them), and
        # then beside those of the last fit.
        fold = (1.0 - 1.0 / use.n_folds) * stacks + self.working_bytes(use.learner)
        return stacks + max(fit, int(min(use.n_jobs, use.n_folds) * fold))


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
        n_couplings=n_couplings,
        few=low_rank_kernels(data, kernels, normalize) if n_couplings and not wide else None,
        wide=wide,
    )


def check_memory(needed: int, stacks: int | None = None) -> None:
    """Refuse a fit that needs more memory than there is; `stacks` is what its Gram matrices alone take."""
    limit = memory_limit()
    if needed > limit:
        part = "" if stacks is None else f", {_gib(stacks)} of them for Gram matrices"
        raise GramMemoryError(
            f"this fit needs {_gib(needed)} of memory{part}, and {_gib(limit)} are {_whose()}: use the TwoStageMKMTRL "
            "estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, for Gram matrices of "
            "half the size; or, where tasks are coupled, kernels of low rank (linear or polynomial on few columns, "
            "or of few distinct rows)"
        )


def memory_limit() -> int:
    """Bytes a fit may take: `KERNELKIN_MEMORY_GIB` GiB where that is set, else what is free."""
    text = os.environ.get(LIMIT, "")
    if not text:
        return available_memory()
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit > 0:
        raise ValueError(f"the environment variable {LIMIT} must be a number of GiB above zero, got {text!r}")
    return int(min(limit * 2**30, 2.0**62))


def available_memory() -> int:
    """Bytes of memory a process may still take; where the system does not say, all that the machine has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def _whose() -> str:
    return f"allowed ({LIMIT})" if os.environ.get(LIMIT) else "free"
