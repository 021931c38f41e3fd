"""From validated data and fitted kernels to scaled Gram stacks, checked on the way.

`raw_grams` evaluates the kernels once; `RawGrams.restrict` gives the same for fewer rows without evaluating anything,
which is what cross-validation lives on; `scale_grams` scales a set of raw stacks by what its own rows say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...data import TaskData
from ...decompositions import inverse
from ...kernels import (
    ASYMMETRY,
    FittedKernel,
    Scaling,
    check_gram,
    check_precomputed,
    evaluate,
    fit_diagonal_scaling,
    fit_scaling,
    precomputed_names,
    project_stack,
    rounding_shift,
)
from ..couplings import Coupling, width
from .coupled import CoupledGrams, FactorStack, LinkStack, PointStack
from .lowrank import LowRankKernels, nystroem_kernels
from .operator import Arrays, SharedOperator
from .plan import GramPlan, plan_grams
from .stack import Grams, GramStack, SharedGrams, TaskGrams, take_block

# Noise variance in the units of the average kernel, whose mean diagonal is one.
TAU = 0.1
# A stack of more rows is represented by so many of them.
MAX_ROWS = 2000


def effective_dimensions(stacks: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return d (K,), summed over stacks: scaled Gram matrices (K, n, n) and weights (n,) of their rows.

    Weighting a row by 2 equals repeating it.
    """
    return np.sum([_dimensions(stack, weight) for stack, weight in stacks], axis=0)


def _dimensions(stack: np.ndarray, weight: np.ndarray) -> np.ndarray:
    step = -(-len(weight) // MAX_ROWS)
    rows = slice(None, None, step)
    root = np.sqrt(weight[rows])
    some = stack[:, rows, rows]
    mean = some.mean(axis=0, dtype=np.float64) * root * root[:, np.newaxis]
    resolvent = inverse(mean + TAU * np.eye(len(mean))) * root * root[:, np.newaxis]
    return step * np.array([np.vdot(resolvent, gram) for gram in some])


def kernel_charges(stacks: Iterable[tuple[np.ndarray, np.ndarray]], parsimony: float) -> np.ndarray:
    """Return z (K,): 1 for all kernels with ``parsimony=0``; 1 for kernels that are zero on all rows."""
    return charges_of(effective_dimensions(stacks), parsimony)


def charges_of(d: np.ndarray, parsimony: float) -> np.ndarray:
    """Return the same from the effective dimensions d (K,)."""
    used = d > 0
    relative = np.where(used, d, 1.0) / (d[used].mean() if used.any() else 1.0)
    return np.where(used, relative**parsimony, 1.0)


@dataclass(frozen=True)
class RawGrams:
    """Kernel values among training rows, not scaled yet.

    Attributes
    ----------
    kernels : the fitted kernels, or None where Grams are precomputed.
    names : the K kernels' names.
    own : raw stacks (K, n, n): one for each task, or a single one over all rows of wide data.
    linked : for coupled tasks on long data, the stack over the rows of all tasks in order, or the kernels' factors of
        low rank; None otherwise.
    clipped : whether rounding left some Gram matrix indefinite, which was replaced by the nearest one that is not.
    """

    kernels: tuple[FittedKernel, ...] | None
    names: tuple[str, ...]
    own: tuple[np.ndarray, ...]
    linked: np.ndarray | LowRankKernels | None = None
    clipped: bool = False

    def restrict(self, data: TaskData, kept: Sequence[np.ndarray]) -> RawGrams:
        """The same for fewer rows: `kept` are the positions within each task's rows in `data`."""
        if data.form == "wide":
            used = np.flatnonzero(_mark([rows[part] for rows, part in zip(data.rows, kept, strict=True)], len(data.X)))
            return replace(self, own=(take_block(self.own[0], used, used),))
        own = tuple(take_block(stack, rows, rows) for stack, rows in zip(self.own, kept, strict=True))
        return replace(self, own=own, linked=_restrict_linked(self.linked, data, kept))


@dataclass(frozen=True)
class KernelBank:
    """The fitted kernels of a problem and how each stack of Grams was scaled.

    Attributes
    ----------
    names : the K kernels' names.
    kernels : the fitted kernels, or None where Grams are precomputed.
    scalings : one for each stack: one in all for wide data, one for each task for long data.
    link_scaling : that of the part that coupled tasks share.
    link_factors : approximate factors, not scaled, that stand for the kernels of that part; None where it is exact.
    clipped : whether fitted Gram matrices differ from what the kernels say, as in `RawGrams`.
    """

    names: tuple[str, ...]
    kernels: tuple[FittedKernel, ...] | None
    scalings: tuple[Scaling, ...]
    link_scaling: Scaling | None = None
    link_factors: LowRankKernels | None = None
    clipped: bool = False


def build_grams(
    data: TaskData,
    kernels: Sequence[FittedKernel] | None,
    normalize: str | None,
    couplings: Sequence[Coupling] = (),
    plan: GramPlan | None = None,
) -> tuple[Grams, KernelBank]:
    """Compute, check and scale the Gram matrices of every task; `kernels` None stands for precomputed ones."""
    plan = plan_grams(data, kernels, normalize, width(couplings)) if plan is None else plan
    raw = raw_grams(data, kernels, normalize, plan)
    return scale_grams(raw, data, normalize, couplings, overwrite=True)


def raw_grams(
    data: TaskData,
    kernels: Sequence[FittedKernel] | None,
    normalize: str | None,
    plan: GramPlan,
) -> RawGrams:
    """Evaluate and check the kernels among the rows of each task, and of all tasks where these are linked.

    `plan` is that of `plan_grams` for the same arguments.
    """
    if kernels is None:
        names = check_precomputed(np.moveaxis(data.X, 2, 0), normalize)
    else:
        names = [kernel.name for kernel in kernels]
    own, clipped = _own_stacks(data, kernels)
    present = np.any([_largest(stack) > 0 for stack in own], axis=0)
    if not present.all():
        raise ValueError(f"kernel {names[int(np.argmin(present))]!r} is zero on all training rows")
    linked: np.ndarray | LowRankKernels | None = plan.low_rank
    if plan.dense:
        linked, also = _raw_stack(data, kernels, np.concatenate(data.rows))
        clipped = clipped or also
    elif plan.approximate_rank and kernels is not None:
        linked = nystroem_kernels(data, kernels, plan.approximate_rank)
    return RawGrams(None if kernels is None else tuple(kernels), tuple(names), own, linked, clipped)


def _own_stacks(data: TaskData, kernels: Sequence[FittedKernel] | None) -> tuple[tuple[np.ndarray, ...], bool]:
    """The kernels among the rows of each task, or all rows of wide data; and whether any was clipped."""
    row_sets = [np.arange(len(data.X))] if data.form == "wide" else list(data.rows)
    stacks, clipped = zip(*(_raw_stack(data, kernels, rows) for rows in row_sets), strict=True)
    return stacks, any(clipped)


def scale_grams(
    raw: RawGrams,
    data: TaskData,
    normalize: str | None,
    couplings: Sequence[Coupling] = (),
    overwrite: bool = False,
    parsimony: float = 0.0,
) -> tuple[Grams, KernelBank]:
    """Scale raw stacks by the rows of `data`, in place with `overwrite`, and charge kernels as `parsimony` says."""
    weights = stack_weights(data)
    scalings, stacks = _scale_own(raw, weights, normalize, overwrite)
    charges = kernel_charges(zip(stacks, weights, strict=True), parsimony) if parsimony else np.ones(len(raw.names))
    if parsimony:
        scalings = _charge(scalings, stacks, charges)
    bank = KernelBank(raw.names, raw.kernels, tuple(scalings), clipped=raw.clipped)
    if data.form == "wide":
        grams: Grams = SharedGrams(GramStack(stacks[0]), data.rows)
        link: LinkStack = PointStack(GramStack(stacks[0]), data.rows)
        bank = replace(bank, link_scaling=scalings[0] if couplings else None)
    else:
        grams = TaskGrams([GramStack(scaled) for scaled in stacks])
        if couplings:
            link, link_scaling = _scale_linked(raw, data, normalize, overwrite, charges)
            bank = replace(bank, link_scaling=link_scaling)
            if isinstance(raw.linked, LowRankKernels) and not raw.linked.is_exact:
                bank = replace(bank, link_factors=raw.linked)
    check_scaled(bank)
    if couplings:
        grams = CoupledGrams(grams, link, couplings, [len(rows) for rows in data.rows])
    return grams, bank


def task_block_grams(
    data: TaskData, kernels: Sequence[FittedKernel], normalize: str | None, charges: np.ndarray
) -> tuple[TaskGrams, KernelBank, np.ndarray]:
    """Return the Gram matrices of some of the tasks of a problem, divided by the kernels' charges (K,).

    What can be said of all tasks alone is not checked here. The third result is for that: (2, K), whether each kernel
    is not zero in some of these tasks, and whether scaling leaves something of it; see `check_kernels`.
    """
    own, clipped = _own_stacks(data, kernels)
    raw = RawGrams(tuple(kernels), tuple(kernel.name for kernel in kernels), own, clipped=clipped)
    present = np.any([_largest(stack) > 0 for stack in raw.own], axis=0)
    scalings, stacks = _scale_own(raw, stack_weights(data), normalize, overwrite=True)
    scalings = _charge(scalings, stacks, charges) if (charges != 1.0).any() else scalings
    left = np.any([scaling.factor > 0 for scaling in scalings], axis=0)
    bank = KernelBank(raw.names, raw.kernels, tuple(scalings), clipped=clipped)
    return TaskGrams([GramStack(scaled) for scaled in stacks]), bank, np.array([present, left])


def task_dimensions(kernels: tuple[Sequence[FittedKernel], str | None], data: TaskData) -> np.ndarray:
    """Return the effective dimensions (t, K) of kernels, given with `normalize`, on the rows of each task."""
    grams = task_block_grams(data, *kernels, np.ones(len(kernels[0])))[0]
    pairs = zip(grams.stacks, stack_weights(data), strict=True)
    return np.array([effective_dimensions([(stack.values, weight)]) for stack, weight in pairs])


def check_kernels(names: Sequence[str], found: np.ndarray) -> None:
    """Refuse kernels that are zero, or that scaling leaves nothing of, in all tasks; `found` (2, K), of all blocks."""
    if not found[0].all():
        raise ValueError(f"kernel {names[int(np.argmin(found[0]))]!r} is zero on all training rows")
    _check_left(names, found[1])


def _scale_own(
    raw: RawGrams, weights: Sequence[np.ndarray], normalize: str | None, overwrite: bool
) -> tuple[list[Scaling], list[np.ndarray]]:
    """The scaling of each stack, and the scaled stacks."""
    pairs = zip(raw.own, weights, strict=True)
    scaled = [fit_scaling(normalize, stack, weight, raw.names, overwrite) for stack, weight in pairs]
    return [scaling for scaling, _ in scaled], [stack for _, stack in scaled]


def _charge(scalings: Sequence[Scaling], stacks: Sequence[np.ndarray], charges: np.ndarray) -> list[Scaling]:
    """Divide stacks by the kernels' charges (K,), in place; the scalings that do the same."""
    for scaled in stacks:
        scaled /= charges.astype(scaled.dtype)[:, np.newaxis, np.newaxis]
    return [scaling.charged(charges) for scaling in scalings]


def stack_weights(data: TaskData) -> list[np.ndarray]:
    """Return the weights of the rows of each stack; on wide data rows that no task uses have none."""
    if data.form != "wide":
        return [data.sample_weight[rows] for rows in data.rows]
    return [np.where(_mark(data.rows, len(data.X)), data.sample_weight, 0.0)]


def _mark(rows: Sequence[np.ndarray], n_rows: int) -> np.ndarray:
    """(n_rows,) whether any of the sets of rows has this one; no more than once for sets that are one object."""
    used = np.zeros(n_rows, dtype=bool)
    for part in {id(part): part for part in rows}.values():
        used[part] = True
    return used


def check_scaled(bank: KernelBank) -> None:
    """Refuse a kernel that scaling leaves nothing of, in any task."""
    _check_left(bank.names, np.any([scaling.factor > 0 for scaling in bank.scalings], axis=0))


def _check_left(names: Sequence[str], left: np.ndarray) -> None:
    if not left.all():
        name = names[int(np.argmin(left))]
        raise ValueError(f"kernel {name!r} is constant on the training rows of every task: centred, it is zero")


def _scale_linked(
    raw: RawGrams, data: TaskData, normalize: str | None, overwrite: bool, charges: np.ndarray
) -> tuple[LinkStack, Scaling]:
    """The part that coupled tasks share, over the rows of all tasks in order."""
    weight = data.sample_weight[np.concatenate(data.rows)]
    sizes = [len(rows) for rows in data.rows]
    if isinstance(raw.linked, LowRankKernels):
        scaling, kernels = raw.linked.scaled(normalize, weight, charges)
        return FactorStack(kernels), scaling
    assert raw.linked is not None
    scaling, scaled = fit_scaling(normalize, raw.linked, weight, raw.names, overwrite)
    if (charges != 1.0).any():
        scaling = scaling.charged(charges)
        scaled /= charges.astype(scaled.dtype)[:, np.newaxis, np.newaxis]
    ends = np.cumsum(sizes)
    rows = [np.arange(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return PointStack(GramStack(scaled), rows), scaling


def _restrict_linked(
    linked: np.ndarray | LowRankKernels | None, data: TaskData, kept: Sequence[np.ndarray]
) -> np.ndarray | LowRankKernels | None:
    if linked is None:
        return None
    starts = np.cumsum([0, *(len(rows) for rows in data.rows[:-1])])
    rows = np.concatenate([start + part for start, part in zip(starts, kept, strict=True)])
    if isinstance(linked, LowRankKernels):
        return linked.take(rows)
    return take_block(linked, rows, rows)


def _raw_stack(data: TaskData, kernels: Sequence[FittedKernel] | None, rows: np.ndarray) -> tuple[np.ndarray, bool]:
    """(K, n, n) kernel values among these rows, checked, in memory of our own; and whether any was clipped."""
    if kernels is None:
        # All rows are not copied twice: the matrices may take most of the memory that there is.
        whole = len(rows) == len(data.X) and bool((rows == np.arange(len(rows))).all())
        values = data.X if whole else data.X[np.ix_(rows, rows)]
        stack = np.array(np.moveaxis(values, 2, 0), order="C")
        return stack, project_stack(precomputed_names(len(stack)), stack)
    raw, clipped = evaluate(kernels, data.X[rows]), False
    for kernel, gram, largest in zip(kernels, raw, _largest(raw), strict=True):
        # A kernel may be zero on the rows of one task; that it is not zero on all is checked at the end. What is a
        # kernel by construction can only fail by overflow.
        if largest != 0 and not (kernel.known_psd and np.isfinite(largest)):
            checked = check_gram(kernel.name, gram, kernel.known_psd)
            if checked is not gram:
                gram[...], clipped = checked, True
    return raw, clipped


def _largest(stack: np.ndarray) -> np.ndarray:
    """(K,) the largest size of an entry of each Gram; NaN where there is one."""
    flat = stack.reshape(len(stack), -1)
    return np.maximum(flat.max(axis=1), -flat.min(axis=1))


def scales_on_device(data: TaskData, normalize: str | None) -> bool:
    """Whether `device_grams` is for these precomputed data: a factor is all of their scaling."""
    return data.form == "wide" and normalize in (None, "trace")


def device_grams(data: TaskData, normalize: str | None, arrays: Arrays) -> tuple[SharedGrams, KernelBank]:
    """Check and scale the precomputed Gram matrices data.X (n, n, K) of wide data where `arrays` are."""
    values = arrays.array(np.moveaxis(data.X, 2, 0))
    names = precomputed_names(len(values))
    values = list(values)
    checked = [_checked(name, G, arrays) for name, G in zip(names, values, strict=True)]
    diagonal = np.stack([arrays.numpy(G.diagonal()) for G in checked])
    scaling = fit_diagonal_scaling(normalize, diagonal, stack_weights(data)[0], names)
    clipped = any(one is not other for one, other in zip(checked, values, strict=True))
    bank = KernelBank(tuple(names), None, (scaling,), clipped=clipped)
    check_scaled(bank)
    # The mean of both halves: exactly symmetric, whatever the values are.
    halves = (0.5 * scaling.factor).tolist()
    operator = SharedOperator(arrays, arrays.xp.stack([f * (G + G.T) for f, G in zip(halves, checked, strict=True)]))
    return SharedGrams(operator, data.rows), bank


def _checked(name: str, G: Any, arrays: Arrays) -> Any:
    """G (n, n), refused or clipped by `check_gram` unless it is plainly the Gram matrix of a kernel."""
    dtype = np.dtype(np.float32 if arrays.is_single(G) else np.float64)
    largest = float(abs(G).max())
    if 0 < largest < np.inf and float(abs(G - G.T).max()) <= ASYMMETRY[dtype] * largest:
        shift = rounding_shift(len(G), float(arrays.numpy(G.diagonal()).mean()))
        if arrays.is_definite(G, shift):
            return G
    return arrays.array(check_gram(name, arrays.numpy(G).astype(dtype), known_psd=False))
