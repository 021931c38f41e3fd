"""Blocks of tasks: how tasks are divided, and how the machines of a block are made from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..engines import Engine
from ..exceptions import GramMemoryError
from ..grams import task_dimensions
from ..kernels import FittedKernel
from ..problems import TaskBlock, Units
from .targets import Targets

# Share of the memory of all workers that Gram matrices may take; the rest is for rows and for the work itself.
GRAM_SHARE = 0.5
# Blocks of very many tasks are larger, so that a scheduler has not more of them than this in an evaluation.
MOST_BLOCKS = 2000
# Gram matrices of one task at work: its stack, its combined matrix and a factor of this, and the images of its kernels.
_WORKING_STACKS = 2


@dataclass(frozen=True)
class Recipe:
    """How a `TaskBlock` is made from the rows of its tasks.

    Attributes
    ----------
    targets, C, normalize : as in `Fit`.
    kernels : fitted on the rows of all tasks.
    units : those of the problem of all tasks.
    charges : (K,) what each kernel's Gram matrices are divided by.
    keeps_grams : whether Gram matrices stay in memory.
    """

    targets: Targets
    C: float
    normalize: str | None
    kernels: tuple[FittedKernel, ...]
    units: Units
    charges: np.ndarray
    keeps_grams: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(kernel.name for kernel in self.kernels)


def build_block(data: TaskData, recipe: Recipe) -> TaskBlock:
    """Return the block of tasks with these rows, with its Gram matrices where it keeps them."""
    learner = recipe.targets.learner()
    machines = recipe.targets.machines(data, recipe.C)
    units = recipe.units.of_machines(machines, learner)
    block = TaskBlock(
        data=data,
        kernels=recipe.kernels,
        normalize=recipe.normalize,
        charges=recipe.charges,
        machines=units.machines(machines),
        learner=units.learner(learner),
        units=units,
        keeps_grams=recipe.keeps_grams,
    )
    if recipe.keeps_grams:
        block.grams()
    return block


def block_dimensions(data: TaskData, recipe: Recipe) -> np.ndarray:
    """Return the effective dimensions (t, K) of the kernels on the rows of each task of a block."""
    return task_dimensions(data, recipe.kernels, recipe.normalize)


def gram_bytes(sizes: Sequence[int] | np.ndarray, n_kernels: int, itemsize: int) -> np.ndarray:
    """Return the bytes (T,) of the Gram matrices of tasks of so many rows."""
    return n_kernels * itemsize * np.square(np.asarray(sizes, dtype=np.int64))


def block_limit(engine: Engine, sizes: np.ndarray) -> int:
    """Return the bytes of Gram matrices that a block may have, for tasks of these sizes (T,) in bytes."""
    return max(engine.block_bytes, int(sizes.sum()) // MOST_BLOCKS)


def divide(sizes: np.ndarray, block_bytes: int) -> list[np.ndarray]:
    """Divide tasks whose Gram matrices have these sizes (T,) in bytes into runs; a larger task is a run of its own."""
    runs, start, total = [], 0, 0
    for t, size in enumerate(sizes.tolist()):
        if t > start and total + size > block_bytes:
            runs.append(np.arange(start, t))
            start, total = t, 0
        total += size
    return [*runs, np.arange(start, len(sizes))]


def keeps_grams(engine: Engine, sizes: np.ndarray) -> bool:
    """Return whether Gram matrices of these sizes (T,) in bytes stay in the memory of workers.

    Raises GramMemoryError where a worker has not enough for the largest task.
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
