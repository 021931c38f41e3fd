"""Build scaled Gram stacks from validated data and fitted kernels, and check them.

`raw_grams` evaluates the kernels once. `RawGrams.restrict` selects rows without evaluating kernels again, for
cross-validation. `scale_grams` scales raw stacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...decompositions import inverse
from ...kernels.grams import Scaling, check_gram, check_precomputed, fit_scaling, precomputed_names, project_stack
from ...kernels.kernel import FittedKernel, evaluate
from ..couplings import Coupling
from .coupled import CoupledGrams
from .lowrank import LinkKernels, low_rank_kernels
from .stack import GramStack, SharedGrams, TaskGrams, take_block

# Noise variance in the units of the average kernel, whose mean diagonal is one.
TAU = 0.1
# Maximum number of rows of a stack from which charges are computed.
MAX_ROWS = 2000


class RawGrams(NamedTuple):
    """Values of fitted or precomputed (None) kernels among training rows, not scaled yet."""

    kernels: tuple[FittedKernel, ...] | None
    names: tuple[str, ...]
    own: tuple[np.ndarray, ...]  # raw stacks (K, n, n): one for each task, or a single one over all rows of wide data
    # For coupled tasks on long data, the stack over the rows of all tasks in order, or the kernels' factors of low
    # rank; None otherwise.
    linked: np.ndarray | LinkKernels | None
    # Whether rounding left some Gram matrix indefinite, which was replaced by the nearest one that is not.
    clipped: bool
    present: np.ndarray  # (K,) whether each kernel is not zero in some stack

    def restrict(self, data: TaskData, kept: Sequence[np.ndarray]) -> RawGrams:
        """Return the kernel values among fewer rows; `kept` are positions within each task's rows in `data`."""
        if data.form == "wide":
            used = np.flatnonzero(_mark([rows[part] for rows, part in zip(data.rows, kept, strict=True)], len(data.X)))
            return self._replace(own=(take_block(self.own[0], used, used),))
        own = tuple(take_block(stack, rows, rows) for stack, rows in zip(self.own, kept, strict=True))
        linked = self.linked
        if linked is not None:
            rows = positions_in_order(data, kept)
            linked = linked.take(rows) if isinstance(linked, LinkKernels) else take_block(linked, rows, rows)
        return self._replace(own=own, linked=linked)


def positions_in_order(data: TaskData, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Convert positions within the rows of each task to positions among the rows of all tasks."""
    starts = np.cumsum([0, *(len(rows) for rows in data.rows[:-1])])
    return np.concatenate([start + part for start, part in zip(starts, parts, strict=True)])


@dataclass(frozen=True)
class KernelBank:
    """The fitted or precomputed (None) kernels of a problem, and how each stack of Grams was scaled.

    Each stack has a scaling, and the part that coupled tasks share has `link_scaling`. `clipped` is as in `RawGrams`.
    """

    names: tuple[str, ...]
    kernels: tuple[FittedKernel, ...] | None
    scalings: tuple[Scaling, ...]
    link_scaling: Scaling | None = None
    clipped: bool = False


def raw_grams(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None, coupled: bool = False
) -> RawGrams:
    """Evaluate and check the kernels among the rows of each task, and of all tasks if these are coupled."""
    if kernels is None:
        names = tuple(check_precomputed(np.moveaxis(data.X, 2, 0), normalize))
    else:
        names, kernels = tuple(kernel.name for kernel in kernels), tuple(kernels)
    row_sets = [np.arange(len(data.X))] if data.form == "wide" else data.rows
    stacks, flags, present = zip(*(_raw_stack(data, kernels, rows) for rows in row_sets), strict=True)
    clipped = any(flags)
    linked: Any = None
    if coupled and data.form != "wide":
        linked = low_rank_kernels(data, kernels, normalize)
        if linked is None:
            linked, also, _ = _raw_stack(data, kernels, np.concatenate(data.rows))
            clipped = clipped or also
    return RawGrams(kernels, names, stacks, linked, clipped, np.any(present, axis=0))


def _raw_stack(
    data: TaskData, kernels: Sequence[FittedKernel] | None, rows: np.ndarray
) -> tuple[np.ndarray, bool, np.ndarray]:
    """Return checked kernel values (K, n, n) among rows, whether any was clipped, and which are not zero (K,)."""
    if kernels is None:
        # Avoid a second copy of all rows: the matrices may need most of the memory.
        whole = len(rows) == len(data.X) and bool((rows == np.arange(len(rows))).all())
        values = data.X if whole else data.X[np.ix_(rows, rows)]
        stack = np.array(np.moveaxis(values, 2, 0), order="C")
        clipped = project_stack(precomputed_names(len(stack)), stack)
    else:
        stack, clipped = evaluate(kernels, data.X[rows]), False
    flat = stack.reshape(len(stack), -1)
    largest = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    for kernel, gram, size in zip(kernels or (), stack, largest, strict=False):
        # A kernel may be zero for one task; `scale_grams` checks that it is not zero for all. A kernel that is
        # positive semi-definite by theory can only fail by overflow.
        if size != 0 and not (kernel.function.known_psd and np.isfinite(size)):
            checked = check_gram(kernel.name, gram, kernel.function.known_psd)
            if checked is not gram:
                gram[...], clipped = checked, True
    return stack, clipped, largest > 0


def scale_grams(
    raw: RawGrams,
    data: TaskData,
    normalize: str | None,
    couplings: Sequence[Coupling] = (),
    overwrite: bool = False,
    parsimony: float = 0.0,
) -> tuple[Any, KernelBank]:
    """Scale raw stacks on the rows of `data`, in place with `overwrite`, and charge kernels by `parsimony`.

    Raises ValueError if a kernel is zero, before or after scaling, in all tasks.
    """
    weights = [data.sample_weight] if data.form == "wide" else [data.sample_weight[rows] for rows in data.rows]
    scalings, stacks = [], []
    for stack, weight in zip(raw.own, weights, strict=True):
        scaling, scaled = fit_scaling(normalize, stack, weight, raw.names, overwrite)
        scalings.append(scaling)
        stacks.append(scaled)
    charges = np.ones(len(raw.names))
    if parsimony:
        charges = charges_of(effective_dimensions(zip(stacks, weights, strict=True)), parsimony)
    if (charges != 1.0).any():
        scalings = [_charge(scaling, stack, charges) for scaling, stack in zip(scalings, stacks, strict=True)]
    left = np.any([scaling.factor > 0 for scaling in scalings], axis=0)
    constant = "constant on the training rows of every task, so it is zero after centring"
    for found, fault in ((raw.present, "zero on all training rows"), (left, constant)):
        if not found.all():
            raise ValueError(f"kernel {raw.names[int(np.argmin(found))]!r} is {fault}")
    bank = KernelBank(raw.names, raw.kernels, tuple(scalings), clipped=raw.clipped)
    if data.form == "wide":
        shared = GramStack(stacks[0])
        grams: Any = SharedGrams(shared, data.rows)
        link: Any = LinkKernels.at_points(shared, np.concatenate(data.rows))
        link_scaling = scalings[0]
    else:
        grams = TaskGrams([GramStack(scaled) for scaled in stacks])
        if couplings:
            link, link_scaling = _scale_linked(raw, data, normalize, overwrite, charges)
    if not couplings:
        return grams, bank
    coupled = CoupledGrams(grams, link, couplings, [len(rows) for rows in data.rows])
    return coupled, replace(bank, link_scaling=link_scaling)


def _charge(scaling: Scaling, stack: np.ndarray, charges: np.ndarray) -> Scaling:
    """Divide a stack by the charges (K,) of kernels, in place; return the scaling that includes the charges."""
    stack /= charges.astype(stack.dtype)[:, np.newaxis, np.newaxis]
    return scaling.charged(charges)


def _scale_linked(
    raw: RawGrams, data: TaskData, normalize: str | None, overwrite: bool, charges: np.ndarray
) -> tuple[Any, Scaling]:
    """Return the scaled kernels over the rows of all tasks, for the shared parts, and their scaling."""
    weight = data.sample_weight[np.concatenate(data.rows)]
    if isinstance(raw.linked, LinkKernels):
        scaling, kernels = raw.linked.scaled(normalize, weight, charges)
        return kernels, scaling
    assert raw.linked is not None
    scaling, scaled = fit_scaling(normalize, raw.linked, weight, raw.names, overwrite)
    if (charges != 1.0).any():
        scaling = _charge(scaling, scaled, charges)
    return LinkKernels.at_points(GramStack(scaled), np.arange(len(weight))), scaling


def _mark(rows: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """Return a mask (n_rows,) of the rows that are in any of the sets."""
    used = np.zeros(n_rows, dtype=bool)
    for part in {id(part): part for part in rows}.values():
        used[part] = True
    return used


def effective_dimensions(stacks: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the effective dimensions (K,) of kernels, summed over stacks (K, n, n) with row weights (n,).

    Weighting a row by 2 equals repeating it.
    """
    found = []
    for stack, weight in stacks:
        step = -(-len(weight) // MAX_ROWS)
        rows = slice(None, None, step)
        root, some = np.sqrt(weight[rows]), stack[:, rows, rows]
        mean = some.mean(axis=0, dtype=np.float64) * root * root[:, np.newaxis]
        resolvent = inverse(mean + TAU * np.eye(len(mean))) * root * root[:, np.newaxis]
        found.append(step * np.array([np.vdot(resolvent, gram) for gram in some]))
    return np.sum(found, axis=0)


def charges_of(d: np.ndarray, parsimony: float) -> np.ndarray:
    """Return the charges (K,) of kernels from their effective dimensions d (K,); 1 for kernels that are zero."""
    used = d > 0
    relative = np.where(used, d, 1.0) / (d[used].mean() if used.any() else 1.0)
    return np.where(used, relative**parsimony, 1.0)
