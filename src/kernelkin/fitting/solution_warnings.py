"""What a fit says where a solver has not closed the gap, or where its optimum tells nothing about the tasks."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from ..exceptions import CollapseWarning
from ..penalties import MixedNorm, Penalty, effective_rank
from ..solvers import Solution, Status

# Status after which the gap may be wider than requested.
UNFINISHED = (Status.MAX_ITER, Status.STALLED)


def convergence_warnings(solution: Solution, tol: float) -> list[tuple[str, type[Warning]]]:
    """Return a warning where a solver ended before the gap was closed."""
    if solution.status not in UNFINISHED:
        return []
    message = (
        f"{solution.status.value}. The relative duality gap reached is {solution.relative_gap:.1e}, and tol={tol:g}."
    )
    return [(message, ConvergenceWarning)]


def collapse_warnings(
    penalty: Penalty | MixedNorm, solution: Solution, n_tasks: int
) -> list[tuple[str, type[Warning]]]:
    """Warn where the paper's penalty has put all tasks on one mix of kernels, as its optimum must."""
    if isinstance(penalty, MixedNorm) or not penalty.collapses:
        return []
    rank = effective_rank(solution.B)
    if min(solution.B[:, :n_tasks].shape) == 1 or rank >= 1 + 1e-3:
        return []
    message = (
        f"the relationship has collapsed: all {n_tasks} tasks use the same mix of kernels "
        f"(effective rank {rank:.4f}), as the optimum of the paper's penalty must, and task_relationship_ says "
        "nothing about groups. Try min_rank=2 or more, or shrinkage=0.1."
    )
    return [(message, CollapseWarning)]
