"""What a user is told about how a fit ended."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..exceptions import ApproximationWarning, CollapseWarning
from ..grams import KernelBank
from ..penalties import MixedNorm, Penalty, effective_rank
from ..solvers import UNFINISHED, Solution

Warnings = list[tuple[str, type[Warning]]]


def convergence_warnings(solution: Solution, tol: float) -> Warnings:
    """Return a warning where a solver ended before the gap was closed."""
    if solution.status not in UNFINISHED:
        return []
    message = (
        f"{solution.status.value}. The relative duality gap reached is {solution.relative_gap:.1e}, and tol={tol:g}."
    )
    return [(message, ConvergenceWarning)]


def collapse_warnings(penalty: Penalty | MixedNorm, B: np.ndarray, n_tasks: int) -> Warnings:
    """Warn where the paper's penalty has put all tasks on one mix of kernels, as its optimum must; B (K, J)."""
    if isinstance(penalty, MixedNorm) or not penalty.collapses:
        return []
    rank = effective_rank(B)
    if min(B[:, :n_tasks].shape) == 1 or rank >= 1 + 1e-3:
        return []
    message = (
        f"the relationship has collapsed: all {n_tasks} tasks use the same mix of kernels "
        f"(effective rank {rank:.4f}), as the optimum of the paper's penalty must, and task_relationship_ says "
        "nothing about groups. Try min_rank=2 or more, or shrinkage=0.1."
    )
    return [(message, CollapseWarning)]


def approximation_warnings(bank: KernelBank, shared_rank: int | str | None) -> Warnings:
    """Warn where the part that coupled tasks share is approximate and nobody asked for that."""
    factors = bank.link_factors
    if factors is None or shared_rank != "auto":
        return []
    missing, n_rows = factors.missing(), factors.n_rows
    worst = int(missing.argmax())
    message = (
        f"the part that tasks share is approximated by factors of {factors.rank} columns for {n_rows} rows, which lack "
        f"up to {missing[worst]:.2g} of a kernel's trace ({bank.names[worst]}; shared_error_ has all): a higher "
        f"shared_rank is more exact, shared_rank=None is exact and takes {n_rows} x {n_rows} matrices"
    )
    return [(message, ApproximationWarning)]
