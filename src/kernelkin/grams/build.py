"""From validated data and fitted kernels to scaled Gram stacks, checked on the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..exceptions import GramMemoryError
from ..kernels import FittedKernel, Scaling, check_gram, check_precomputed, evaluate, fit_scaling
from .collections import Grams, SharedGrams, TaskGrams
from .stack import GramStack


@dataclass(frozen=True)
class KernelBank:
    """The fitted kernels of a problem and how each stack of Grams was scaled.

    Attributes
    ----------
    names : the K kernels' names.
    kernels : the fitted kernels, or None where Grams are precomputed.
    scalings : one for each stack: one in all for wide data, one for each task for long data.
    """

    names: tuple[str, ...]
    kernels: tuple[FittedKernel, ...] | None
    scalings: tuple[Scaling, ...]


def build_grams(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None
) -> tuple[Grams, KernelBank]:
    """Compute, check and scale the Gram matrices of every task; `kernels` None stands for precomputed ones."""
    shared = data.form == "wide"
    row_sets = [np.arange(len(data.X))] if shared else list(data.rows)
    n_kernels = data.X.shape[2] if kernels is None else len(kernels)
    check_memory(gram_bytes([len(rows) for rows in row_sets], n_kernels, data.X.dtype.itemsize))
    names = tuple(check_precomputed(np.moveaxis(data.X, 2, 0), normalize)) if kernels is None else None
    names = tuple(kernel.name for kernel in kernels or ()) if names is None else names
    stacks, scalings, present = [], [], np.zeros(n_kernels, dtype=bool)
    for rows in row_sets:
        raw = _raw_stack(data, kernels, rows)
        present |= raw.any(axis=(1, 2))
        if kernels is not None:
            _check_stack(kernels, raw)
        scaling, scaled = fit_scaling(normalize, raw, data.sample_weight[rows], names, overwrite=True)
        stacks.append(GramStack(scaled))
        scalings.append(scaling)
    if not present.all():
        raise ValueError(f"kernel {names[int(np.argmin(present))]!r} is zero on all training rows")
    grams = SharedGrams(stacks[0], data.rows) if shared else TaskGrams(stacks)
    return grams, KernelBank(names, None if kernels is None else tuple(kernels), tuple(scalings))


def _raw_stack(data: TaskData, kernels: Sequence[FittedKernel] | None, rows: np.ndarray) -> np.ndarray:
    """(K, n, n) kernel values among these rows, in memory of our own."""
    if kernels is None:
        return np.ascontiguousarray(np.moveaxis(data.X[np.ix_(rows, rows)], 2, 0))
    return evaluate(kernels, data.X[rows])


def _check_stack(kernels: Sequence[FittedKernel], raw: np.ndarray) -> None:
    for kernel, gram in zip(kernels, raw, strict=True):
        # A kernel may be zero on the rows of one task; that it is not zero on all is checked at the end.
        if gram.any():
            check_gram(kernel.name, gram, kernel.known_psd)


def gram_bytes(sizes: Sequence[int], n_kernels: int, itemsize: int) -> int:
    """Bytes of the Gram stacks of sets of rows of these sizes."""
    return sum(n_kernels * n * n * itemsize for n in sizes)


def check_memory(needed: int) -> None:
    """Refuse Gram matrices larger than the memory that is free."""
    free = available_memory()
    if needed > free:
        raise GramMemoryError(
            f"the Gram matrices need {needed / 2**30:.3g} GiB and {free / 2**30:.3g} GiB of memory are free: use fewer "
            "kernels or rows, or float32 X for half the size"
        )


def available_memory() -> int:
    """Bytes of memory a process may still take; where the system does not say, all that the machine has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
