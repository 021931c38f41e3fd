"""What a user is told about how a fit ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...data import TaskData
from ...exceptions import ApproximationWarning, CollapseWarning
from ..functions import TaskFunctions
from ..grams import KernelBank
from ..learners import DualSolution, Learner, Machine
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


def clipping_excess(
    functions: TaskFunctions,
    data: TaskData,
    machines: Sequence[Machine],
    learner: Learner,
    duals: Sequence[DualSolution],
) -> float:
    """By how much the loss of predictions at training rows is above the one that the machines' primal values count.

    Machines on clipped Gram matrices know other values than the kernels that predictions use. `machines` are those of
    each task, in the user's units as the `duals` are.
    """
    known = sum(dual.primal - dual.quad for dual in duals)
    found = 0.0
    whole = functions.values(data.X, None) if data.form == "wide" else None
    for t, (rows, machine) in enumerate(zip(data.rows, machines, strict=True)):
        f = functions.values(data.X[rows], np.full(len(rows), t)) if whole is None else whole[rows, t]
        found += learner.loss(machine, f[:, : machine.y.shape[1]])
    return max(found - known, 0.0)


def clipping_warnings(excess: float, objective: float, tol: float) -> Warnings:
    """Warn where clipped Gram matrices and the kernels that predictions use are not the same for all purposes."""
    if excess <= tol * abs(objective):
        return []
    message = (
        f"a kernel is not positive semi-definite to rounding on the training rows, and its nearest matrix that is was "
        f"fitted: at this C the predictions of the kernel as it is have a loss of {excess:.3g} more, which is part of "
        f"objective_ and duality_gap_. Lower C, or compute the kernel in float64, or add a small multiple of the "
        "identity to its matrix"
    )
    return [(message, ApproximationWarning)]
