"""The sizes of the Gram matrices of a problem, known before any of them exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...data import TaskData
from ...kernels import FittedKernel, Gaussian, thin
from .coupled import is_worthwhile
from .lowrank import DEFAULT_RANK, LowRankKernels, has_factors, low_rank_kernels

# With more rows of all coupled tasks, the part that they share is approximated unless the user says otherwise.
MOST_EXACT_ROWS = 5000
# Exact factors with at most so many columns are used where approximate ones might be.
LARGEST_EXACT = 2000


@dataclass(frozen=True)
class GramPlan:
    """What `raw_grams` will build.

    Attributes
    ----------
    sizes : rows of each stack: of each task, or all rows of wide data.
    machines : rows of each task.
    outputs : the largest number of outputs of a task's machine.
    n_kernels, itemsize : kernels in a stack, bytes of one of its values.
    row_bytes : bytes of a row of X; 0 where Gram matrices are given.
    fitted_rows : rows whose distances were computed at once while kernels were fitted; 0 where none were.
    n_columns : number of columns that kernels copy, summed over kernels with columns of their own.
    couplings_width : columns of the couplings' factors; 0 where tasks share no parts.
    low_rank : exact factors of the shared part, where there are small ones.
    approximate_rank : columns of approximate factors of the shared part; 0 where it is exact.
    wide : whether all tasks have the same rows.
    """

    sizes: tuple[int, ...]
    machines: tuple[int, ...]
    outputs: int
    n_kernels: int
    itemsize: int
    row_bytes: int = 0
    fitted_rows: int = 0
    n_columns: int = 0
    couplings_width: int = 0
    low_rank: LowRankKernels | None = None
    approximate_rank: int = 0
    wide: bool = False

    @property
    def n_tasks(self) -> int:
        return len(self.machines)

    @property
    def dense(self) -> bool:
        """Whether a stack over the rows of all tasks is needed."""
        factors = self.low_rank is not None or self.approximate_rank > 0
        return self.couplings_width > 0 and not self.wide and not factors

    @property
    def link_rank(self) -> int:
        """Columns of the factors of all kernels over the rows of all tasks; 0 where there are none."""
        return self.low_rank.rank if self.low_rank else self.approximate_rank

    @property
    def shared_rank(self) -> int:
        """Columns of a factor of the part that coupled tasks share."""
        points = self.sizes[0] if self.wide else sum(self.machines)
        return self.couplings_width * (self.link_rank or points)

    @property
    def factored(self) -> bool:
        """Whether the shared part is handed to the machines as a factor of low rank."""
        return is_worthwhile(self.shared_rank, sum(self.machines))

    @property
    def stack_bytes(self) -> int:
        """Bytes of the Gram stacks."""
        stacks = self.n_kernels * self.itemsize * sum(n * n for n in self.sizes)
        if self.dense:
            return stacks + self.n_kernels * self.itemsize * sum(self.sizes) ** 2
        return stacks + (self.itemsize if self.approximate_rank else 8) * sum(self.machines) * self.link_rank


def plan_grams(
    data: TaskData,
    kernels: Sequence[FittedKernel] | None,
    normalize: str | None,
    couplings_width: int = 0,
    shared_rank: int | str | None = None,
) -> GramPlan:
    """Return what `raw_grams` of the same arguments will build; `kernels` None stands for precomputed Grams.

    `shared_rank` is how many columns approximate factors of the part that coupled tasks share have; "auto": some where
    rows are many; None: that part is exact.
    """
    wide = data.form == "wide"
    machines = tuple(len(rows) for rows in data.rows)
    linked = couplings_width > 0 and not wide
    rank = approximate_rank(sum(machines), shared_rank) if linked and has_factors(kernels, normalize) else 0
    most = max(rank, LARGEST_EXACT) if rank else None
    low_rank = low_rank_kernels(data, kernels, normalize, most) if linked else None
    relative = kernels is not None and any(isinstance(kernel.function, Gaussian) for kernel in kernels)
    return GramPlan(
        sizes=(len(data.X),) if wide else machines,
        machines=machines,
        outputs=max(_n_outputs(y) for y in data.y),
        n_kernels=data.X.shape[2] if kernels is None else len(kernels),
        itemsize=data.X.dtype.itemsize,
        row_bytes=0 if kernels is None else data.X[:1].nbytes,
        fitted_rows=len(data.X[thin(len(data.X))]) if relative else 0,
        n_columns=0 if kernels is None else sum(map(len, {kernel.columns for kernel in kernels})),
        couplings_width=couplings_width,
        low_rank=low_rank,
        approximate_rank=0 if low_rank else rank,
        wide=wide,
    )


def approximate_rank(n_rows: int, shared_rank: int | str | None) -> int:
    """Return how many columns approximate factors over so many rows have; 0 where they are not used."""
    if shared_rank is None or (isinstance(shared_rank, str) and n_rows <= MOST_EXACT_ROWS):
        return 0
    return DEFAULT_RANK if isinstance(shared_rank, str) else int(shared_rank)


def _n_outputs(y) -> int:
    """Return how many outputs a machine has: one, or one for each of more than two classes."""
    if y.dtype.kind == "f":
        return 1
    classes = len(set(y.tolist()))
    return classes if classes > 2 else 1
