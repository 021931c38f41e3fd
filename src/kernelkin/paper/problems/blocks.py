"""Machines in blocks of tasks, which an engine holds.

An evaluation sends each block its columns of B and gets `lin`, `quad`, `primal`, Q and, where it is requested, the
Hessians back: a few numbers a task. Rows and Gram matrices travel once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.forms import TaskData, take_tasks
from ...engines import Dask, Each, serially
from ...exceptions import GramMemoryError
from ...kernels.kernel import FittedKernel
from ..grams.build import KernelBank, check_kernels, raw_grams, scale_grams
from ..grams.stack import TaskGrams, runs
from ..learners.machines import Learner
from .machines import MachineDuals, MachineList, SolvedMachines

# Share of the memory of all workers that Gram matrices may take; the rest is for rows and for the work itself.
GRAM_SHARE = 0.5
# Blocks of very many tasks are larger, so that a scheduler has not more of them than this in an evaluation.
MOST_BLOCKS = 2000
# Gram matrices of one task at work: its stack, its combined matrix and a factor of this, and the images of its kernels.
_WORKING_STACKS = 2


class BlockDuals:
    """Values (3, T) of solutions that blocks have, and the relative gap to which their machines were solved."""

    def __init__(self, values: np.ndarray, tol: float) -> None:
        self.values, self.tol = values, tol

    @property
    def variables(self) -> None:
        """Return None: every block starts from its own last solution."""

    def restored(self, target: int, dual: int, offsets: Sequence[np.ndarray]) -> BlockDuals:
        """The same: solutions are restored once they are gathered."""
        return self


class TaskBlock:
    """Machines of some tasks in standard units, and what their Gram matrices are made from.

    Pickles contain no Gram matrices and no solutions: a block that is moved computes its Gram matrices again and solves
    its machines from scratch.

    Parameters
    ----------
    data : the rows of these tasks alone.
    kernels, normalize, charges : as for `raw_grams` and `scale_grams`.
    machines, learner : in standard units.
    keeps_grams : whether Gram matrices stay in memory after an evaluation.
    """

    def __init__(
        self,
        data: TaskData,
        kernels: tuple[FittedKernel, ...],
        normalize: str | None,
        charges: np.ndarray,
        machines: MachineList,
        learner: Learner,
        keeps_grams: bool,
    ) -> None:
        self.data, self.kernels, self.normalize, self.charges = data, kernels, normalize, charges
        self.machines, self.learner, self.keeps_grams = machines, learner, keeps_grams
        self._built: tuple[TaskGrams, KernelBank, np.ndarray] | None = None
        self._last: tuple[np.ndarray, MachineDuals] | None = None

    def grams(self) -> tuple[TaskGrams, KernelBank, np.ndarray]:
        """Return the Gram matrices, their scaling, and which kernels are not zero; see `check_kernels`."""
        built = self._built
        if built is None:
            raw = raw_grams(self.data, self.kernels, self.normalize)
            grams, bank = scale_grams(raw, self.data, self.normalize, overwrite=True, charges=self.charges)
            left = np.any([scaling.factor > 0 for scaling in bank.scalings], axis=0)
            built = grams, bank, np.array([raw.present, left])
        if self.keeps_grams:
            self._built = built
        return built

    def found_kernels(self) -> np.ndarray:
        """Return which kernels are not zero (2, K); see `check_kernels`."""
        return self.grams()[2]

    def solve(self, B: np.ndarray, tol: float, curved: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Solve the machines at B (K, t): values (3, t), Q (K, t) and, if requested, the Hessians (t, K, K)."""
        warm = None if self._last is None else self._last[1].variables
        solved = self.machines.solve(self.grams()[0], self.learner, B, warm, tol, serially, curved)
        self._last = B, solved.duals
        return solved.duals.values, solved.Q, None if solved.curvature is None else solved.curvature()

    def solutions(self, B: np.ndarray, tol: float) -> tuple[MachineDuals, np.ndarray, KernelBank]:
        """Return the solutions at B (K, t), their Q, and how kernels are scaled.

        Machines are solved again unless B is the last B.
        """
        grams, bank, _ = self.grams()
        if self._last is None or not np.array_equal(self._last[0], B):
            self.solve(B, tol, False)
        assert self._last is not None
        duals = self._last[1]
        return duals, grams.quadratic_forms(duals.variables, range(len(duals))), bank

    def __sizeof__(self) -> int:
        """Return the size in bytes, for the scheduler and workers of Dask."""
        size = self.data.X.nbytes + sum(4 * y.nbytes + 1000 for y in self.data.y)
        if self._built is not None:
            size += sum(stack.values.nbytes for stack in self._built[0].stacks)
        return size

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_built": None, "_last": None}


class MachineBlocks:
    """The machines of all tasks in blocks; also stands for their Gram matrices, which the blocks have.

    Parameters
    ----------
    engine : Engine
    data : TaskData
        In long form.
    kernels : the K fitted kernels
    normalize, charges : as for `scale_grams`
    machines : MachineList
        One for each task, in standard units.
    learner : Learner
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
        self.machines, self.n_kernels = machines, len(kernels)
        self.n_components = self.n_machines = len(machines)
        row_counts = np.array([len(rows) for rows in data.rows], dtype=np.int64)
        sizes = len(kernels) * data.X.dtype.itemsize * row_counts**2
        keeps = keeps_grams(engine, sizes)
        limit = max(engine.block_bytes, int(sizes.sum()) // MOST_BLOCKS)
        self.positions = [np.array(run) for run in runs(sizes.tolist(), limit)]
        given = tuple(kernels), normalize, charges
        self.held = engine.hold(
            [
                TaskBlock(take_tasks(data, at), *given, MachineList(machines[t] for t in at), learner, keeps)
                for at in self.positions
            ]
        )
        found = self.held.call(TaskBlock.found_kernels, [()] * len(self.positions))
        check_kernels([kernel.name for kernel in kernels], np.any(found, axis=0))

    def __len__(self) -> int:
        return self.n_machines

    def deviation(self) -> float:
        """Half the squared deviations of the targets from their means, times their costs."""
        return self.machines.deviation()

    def solve(
        self,
        grams: Any,
        learner: Learner,
        B: np.ndarray,
        warm: Any,
        tol: float,
        each: Each = serially,
        curved: bool = False,
    ) -> SolvedMachines:
        """Solve all machines at B (K, T), where the blocks are; each block starts from its last solutions."""
        parts = self.held.call(TaskBlock.solve, [(B[:, at], tol, curved) for at in self.positions])
        values, Q, H = (list(each_part) for each_part in zip(*parts, strict=True))
        curvature = np.empty(0) if H[0] is None else np.concatenate(H)
        duals = BlockDuals(np.concatenate(values, axis=1), tol)
        return SolvedMachines(B, duals, np.concatenate(Q, axis=1), None if H[0] is None else lambda: curvature)

    def solutions(self, B: np.ndarray, tol: float) -> tuple[SolvedMachines, KernelBank]:
        """Fetch the solutions at B (K, T) and the scaling of kernels."""
        found = self.held.call(TaskBlock.solutions, [(B[:, at], tol) for at in self.positions])
        duals = MachineDuals(dual for own, _, _ in found for dual in own)
        banks = [bank for _, _, bank in found]
        scalings = tuple(scaling for bank in banks for scaling in bank.scalings)
        clipped = any(bank.clipped for bank in banks)
        bank = KernelBank(banks[0].names, banks[0].kernels, scalings, clipped=clipped)
        return SolvedMachines(B, duals, np.concatenate([Q for _, Q, _ in found], axis=1)), bank


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
