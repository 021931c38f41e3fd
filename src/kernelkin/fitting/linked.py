"""Tasks that share parts of their functions, in blocks of tasks: landmarks of the shared parts, and what is refused.

What tasks share is approximated by factors over landmarks, which are chosen from a sample of all rows and sent to every
block; each makes the rows of its own tasks. The certificate is that of the approximated problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..couplings import Coupling, read_couplings, width
from ..data import RowBlocks, TaskData, listing
from ..functions import Expansion, landmark_expansion
from ..grams.landmarks import LandmarkKernels, choose_landmarks, is_exact
from ..grams.nystroem import DEFAULT_RANK
from ..kernels import FittedKernel
from ..learners import Ridge
from ..problems import LinkedBlock, LinkedBlocks, LinkedDuals, Units
from .blocks import Recipe, build_block, gram_bytes

if TYPE_CHECKING:
    from .fit import Fit

# Rows of all tasks among which landmarks are chosen.
MOST_SAMPLED = 20_000
# Columns of the shared parts of all couplings: the client factorises a matrix of this size for every evaluation.
MOST_COLUMNS = 5000
_ADVICE = "use engine='threads', or leave couplings out"


@dataclass(frozen=True)
class SharedPart:
    """What a fit in blocks knows of the parts that tasks share.

    Attributes
    ----------
    shares : (T, 1 + couplings) as `part_shares_`.
    missing : (K,) the share of the trace of each kernel that its factor lacks; None where factors are exact.
    rank, n_rows : columns of the factors, and rows of all tasks.
    expansions : the functions of each coupling.
    """

    shares: np.ndarray
    missing: np.ndarray | None
    rank: int
    n_rows: int
    expansions: tuple[Expansion, ...]

    @classmethod
    def of(cls, blocks: LinkedBlocks, shares: np.ndarray, expansions: tuple[Expansion, ...]) -> SharedPart:
        missing = None if is_exact(blocks.link.kernels) else blocks.missing
        return cls(shares, missing, blocks.link.rank, blocks.n_rows, expansions)


def check_linkable(fit: Fit, kernels: Sequence[FittedKernel]) -> None:
    """Refuse by name what shared parts cannot have in blocks of tasks, with the reason."""
    learner = fit.targets.learner()
    if not isinstance(learner, Ridge):
        raise ValueError(
            "engine: couplings are eliminated from blocks of tasks by linear algebra, for the squared loss alone; "
            f"with others the rows of all tasks are one machine, solved row by row: {_ADVICE}"
        )
    if fit.normalize not in (None, "trace"):
        raise ValueError(
            f"engine: normalize={fit.normalize!r} scales what tasks share by a matrix over the rows of all of them, "
            f"which blocks of tasks do not have; use normalize='trace', or {_ADVICE}"
        )
    if fit.shared_rank is None and not is_exact(kernels):
        raise ValueError(
            "engine: shared_rank=None makes what tasks share exact, by a matrix over the rows of all of them, which "
            "blocks of tasks do not have; give a number of columns, or leave it 'auto'"
        )


def check_classes(classes: Sequence[np.ndarray], labels: np.ndarray) -> None:
    """Refuse linked tasks that do not all have the same classes; `classes` is empty for regression."""
    most = max(classes, key=len, default=np.empty(0)).tolist()
    odd = [t for t, own in enumerate(classes) if own.tolist() != most]
    if odd:
        raise ValueError(
            "engine: coupled tasks in blocks must have the same classes, as a task that lacks some has the intercept "
            f"of another, which may be in another block; those of {listing(labels[odd])} differ: {_ADVICE}"
        )


def couplings_of_labels(fit: Fit, labels: np.ndarray) -> tuple[Coupling, ...]:
    """Return the couplings that the labels of the tasks (T,) suffice for; refuse others by name."""
    if fit.task_features is not None:
        raise ValueError(
            "task_features: new tasks follow from the levels of all others, and Dask collections have these on several "
            "workers; leave it out, or fit on arrays"
        )
    given = fit.couplings.values() if isinstance(fit.couplings, Mapping) else [fit.couplings]
    for value in given:
        if isinstance(value, str) and value in ("inputs", "targets", "auto"):
            raise ValueError(
                f"couplings={value!r} are found by comparing the rows of all tasks, and Dask collections have these on "
                "several workers; pass 'common', groups or matrices, or fit on arrays"
            )
    return read_couplings(fit.couplings, _labels_alone(labels), fit.sharing)


def _labels_alone(labels: np.ndarray) -> TaskData:
    """Tasks of one row each: those couplings do not look at rows."""
    n = len(labels)
    rows = tuple(np.arange(n)[:, np.newaxis])
    return TaskData(np.zeros((n, 1)), rows, tuple(np.zeros((n, 1))), np.ones(n), labels, "long")


def link_kernels(
    fit: Fit, kernels: Sequence[FittedKernel], couplings: Sequence[Coupling], sample: np.ndarray
) -> LandmarkKernels:
    """Choose landmarks for the shared parts among the rows of a sample (n, d)."""
    rank = DEFAULT_RANK if isinstance(fit.shared_rank, str) else fit.shared_rank
    if rank is None:
        rank = len(kernels) * max(len(kernel.columns) for kernel in kernels)
    link = choose_landmarks(kernels, sample, rank)
    columns = width(couplings)
    if columns * link.rank > MOST_COLUMNS:
        raise ValueError(
            f"engine: couplings of {columns} columns and factors of {link.rank} make {columns * link.rank} columns, "
            f"and at most {MOST_COLUMNS} can be eliminated from blocks of tasks; lower shared_rank, or couple tasks in "
            "fewer groups"
        )
    return link


def sample_rows_of(data: TaskData) -> np.ndarray:
    """Return rows (n, d) that stand for all where landmarks are chosen: all of them, where these are few."""
    rows = np.concatenate(data.rows)
    return data.X[rows[:: sample_step(len(rows))]]


def sample_blocks(rows: RowBlocks) -> np.ndarray:
    """Return the same of rows that are elsewhere, task by task."""
    counts = [int(part.sizes.sum()) for part in rows.facts]
    step = sample_step(sum(counts))
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    found = rows.held.call(_every, [(-start % step, step) for start in starts])
    tasks = np.concatenate([at[codes] for at, (_, codes) in zip(rows.positions, found, strict=True)])
    return np.concatenate([X for X, _ in found])[np.argsort(tasks, kind="stable")]


def sample_step(n_rows: int) -> int:
    """Return which rows are in the sample: every step-th."""
    return -(-n_rows // MOST_SAMPLED)


def _every(data: TaskData, first: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Every step-th row of a part, task by task, from the first on, and its task."""
    rows = np.concatenate(data.rows)[first::step]
    codes = np.repeat(np.arange(data.n_tasks), [len(part) for part in data.rows])[first::step]
    return data.X[rows], codes


def linked_bytes(sizes: Sequence[int] | np.ndarray, itemsize: int, link: LandmarkKernels) -> np.ndarray:
    """Return the bytes (T,) of the Gram matrices and the rows of factors of tasks of so many rows."""
    return gram_bytes(sizes, len(link.kernels), itemsize) + itemsize * link.rank * np.asarray(sizes, dtype=np.int64)


def build_linked_block(
    data: TaskData, recipe: Recipe, link: LandmarkKernels, couplings: tuple[np.ndarray, ...]
) -> LinkedBlock:
    """Return the block of tasks with these rows, with its matrices where it keeps them."""
    block = LinkedBlock(build_block(data, recipe), link, couplings)
    if recipe.keeps_grams:
        block.factors()
    return block


def coupling_rows(couplings: Sequence[Coupling], tasks: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the rows of some tasks in the factor of each coupling."""
    return tuple(coupling.factor[tasks] for coupling in couplings)


def shared_expansions(blocks: LinkedBlocks, duals: Any, weights: np.ndarray, units: Units) -> tuple[Expansion, ...]:
    """Return the functions of each coupling, in the user's units, where weights (K, couplings) are."""
    assert isinstance(duals, LinkedDuals)
    pairs = zip(duals.projections, weights.T, strict=True)
    return tuple(landmark_expansion(blocks.link, blocks.scaling, np.ldexp(P, units.dual), b) for P, b in pairs)


def of_tasks(couplings: Sequence[Coupling], rows: Sequence[np.ndarray]) -> tuple[Coupling, ...]:
    """Return couplings of some tasks, which have these rows of their factors."""
    pairs = zip(couplings, rows, strict=True)
    return tuple(replace(coupling, factor=factor, kernel=None) for coupling, factor in pairs)
