"""Machines in blocks of tasks on the workers of an engine.

An evaluation sends each block its columns of B and receives `lin`, `quad`, `primal`, Q and, if requested, the Hessians:
a few numbers per task. Rows are sent once, and Gram matrices are computed by the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...data.forms import TaskData, take_tasks
from ...engines import Dask, Each, serially
from ...exceptions import GramMemoryError
from ...kernels.kernel import FittedKernel
from ..grams.build import KernelBank, check_kernels, raw_grams, scale_grams
from ..grams.stack import TaskGrams, runs
from ..learners.machines import Learner
from .machines import MachineDuals, MachineList, Offsets, SolvedMachines

# Share of the memory of all workers that Gram matrices may take; the rest is for rows and for the work itself.
GRAM_SHARE = 0.5
# Maximum number of blocks: with very many tasks, blocks are larger, to keep the load of the scheduler small.
MOST_BLOCKS = 2000
# Memory for one task as a multiple of its stack: the stack, its combined matrix and a factor of this, and images.
_WORKING_STACKS = 2


class BlockDuals(NamedTuple):
    """Placeholder for solutions that stay in the blocks; machines were solved to the relative gap `tol`."""

    tol: float

    def restored(self, target: int, dual: int, offsets: Offsets) -> BlockDuals:
        """Return self: solutions are restored when they are fetched."""
        return self


class TaskBlock:
    """Machines of some tasks in standard units, and what their Gram matrices are made from.

    Pickles contain no Gram matrices and no solutions: a block that is moved computes its Gram matrices again and solves
    its machines from scratch. `data` are the rows of these tasks alone; `scaling` has normalize and the charges of
    kernels; `keeps_grams` says whether Gram matrices stay in memory after an evaluation.
    """

    def __init__(
        self,
        data: TaskData,
        kernels: tuple[FittedKernel, ...],
        scaling: tuple[str | None, np.ndarray],
        machines: MachineList,
        learner: Learner,
        keeps_grams: bool,
    ) -> None:
        self.data, self.kernels, self.scaling = data, kernels, scaling
        self.machines, self.learner, self.keeps_grams = machines, learner, keeps_grams
        self._built: tuple[TaskGrams, KernelBank, np.ndarray] | None = None
        self._last: tuple[np.ndarray, SolvedMachines] | None = None

    def grams(self) -> tuple[TaskGrams, KernelBank, np.ndarray]:
        """Return the Gram matrices, their scaling, and which kernels are not zero (2, K); see `check_kernels`."""
        built, (normalize, charges) = self._built, self.scaling
        if built is None:
            raw = raw_grams(self.data, self.kernels, normalize)
            grams, bank = scale_grams(raw, self.data, normalize, overwrite=True, charges=charges)
            left = np.any([scaling.factor > 0 for scaling in bank.scalings], axis=0)
            built = grams, bank, np.array([raw.present, left])
        if self.keeps_grams:
            self._built = built
        return built

    def found_kernels(self) -> np.ndarray:
        return self.grams()[2]

    def solve(self, B: np.ndarray, tol: float, curved: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Solve the machines at B (K, t): values (3, t), Q (K, t) and, if requested, the Hessians (t, K, K)."""
        warm = None if self._last is None else self._last[1].duals
        solved = self.machines.solve(self.grams()[0], self.learner, B, warm, tol, serially, curved)
        H = None if solved.curvature is None else solved.curvature()
        solved.curvature = None  # it would keep Gram matrices in memory
        self._last = B, solved
        return solved.values, solved.Q, H

    def solutions(self, B: np.ndarray, tol: float) -> tuple[MachineDuals, np.ndarray, np.ndarray, KernelBank]:
        """Return the solutions at B (K, t), solved again unless B is the last point, and the scaling of kernels."""
        if self._last is None or not np.array_equal(self._last[0], B):
            self.solve(B, tol, False)
        assert self._last is not None
        solved = self._last[1]
        return solved.duals, solved.values, solved.Q, self.grams()[1]

    def __sizeof__(self) -> int:
        """Return the size in bytes, for the scheduler and workers of Dask."""
        size = self.data.X.nbytes + sum(4 * y.nbytes + 1000 for y in self.data.y)
        return size + (0 if self._built is None else sum(stack.values.nbytes for stack in self._built[0].stacks))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_built": None, "_last": None}


class MachineBlocks:
    """The machines of all tasks of long data in blocks. A problem also uses it in place of Gram matrices.

    `kernels` are fitted, `machines` one for each task in standard units; `normalize` and `charges` as for
    `scale_grams`.
    """

    def __init__(
        self,
        engine: Dask,
        data: TaskData,
        kernels: Sequence[FittedKernel],
        normalize: str | None,
        charges: np.ndarray,
        machines: MachineList,
        learner: Learner,
    ) -> None:
        self.deviation, self.n_kernels = machines.deviation, len(kernels)
        self.n_components = self.n_machines = len(machines)
        row_counts = np.array([len(rows) for rows in data.rows], dtype=np.int64)
        sizes = len(kernels) * data.X.dtype.itemsize * row_counts**2
        keeps, limit = keeps_grams(engine, sizes), max(engine.block_bytes, int(sizes.sum()) // MOST_BLOCKS)
        self.positions = [np.array(run) for run in runs(sizes.tolist(), limit)]
        given = tuple(kernels), (normalize, charges)
        blocks = [
            TaskBlock(take_tasks(data, at), *given, MachineList(machines[t] for t in at), learner, keeps)
            for at in self.positions
        ]
        self.held = engine.hold(blocks)
        found = self.held.call(TaskBlock.found_kernels, [()] * len(blocks))
        check_kernels([kernel.name for kernel in kernels], np.any(found, axis=0))

    def solve(
        self, grams: Any, learner: Learner, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve all machines at B (K, T), where the blocks are; each block starts from its last solutions."""
        parts = self.held.call(TaskBlock.solve, [(B[:, at], tol, curved) for at in self.positions])
        values, Q, H = (list(each_part) for each_part in zip(*parts, strict=True))
        curvature = None if H[0] is None else partial(np.concatenate, H)
        joined = np.concatenate(values, axis=1), np.concatenate(Q, axis=1)
        return SolvedMachines(B, BlockDuals(tol), *joined, curvature)

    def solutions(self, B: np.ndarray, tol: float) -> tuple[SolvedMachines, KernelBank]:
        """Fetch the solutions at B (K, T) and the scaling of kernels."""
        found = self.held.call(TaskBlock.solutions, [(B[:, at], tol) for at in self.positions])
        duals, values, Q, banks = zip(*found, strict=True)
        scalings = tuple(scaling for bank in banks for scaling in bank.scalings)
        bank = replace(banks[0], scalings=scalings, clipped=any(bank.clipped for bank in banks))
        joined = np.concatenate(values, axis=1), np.concatenate(Q, axis=1)
        return SolvedMachines(B, MachineDuals(dual for own in duals for dual in own), *joined), bank


def keeps_grams(engine: Dask, sizes: np.ndarray) -> bool:
    """Return whether Gram matrices of these sizes (T,) in bytes stay in the memory of workers.

    Raises GramMemoryError if a worker has too little memory for the largest task.
    """
    limits = engine.worker_memory()
    if limits and _WORKING_STACKS * int(sizes.max()) > min(limits):
        raise GramMemoryError(
            f"the Gram matrices of the largest task take {sizes.max() / 2**30:.3g} GiB, and a worker has "
            f"{min(limits) / 2**30:.3g} GiB for them and the work on them: use workers with more memory, or fewer "
            "kernels or rows; or float32 X, for Gram matrices of half the size"
        )
    if engine.keep_grams is not None:
        return engine.keep_grams
    return not limits or int(sizes.sum()) <= GRAM_SHARE * sum(limits)
