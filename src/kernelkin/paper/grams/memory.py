"""Upper bounds on the memory of fits with Gram matrices.

The bounds are simple and conservative: they count every array that grows with the data, and add a margin for the rest.
Arrays of size T x T are not counted because none is made, unless the user passes or requests one.
"""

from __future__ import annotations

from ...memory import FIXED, TASK_OBJECTS, Need
from .build import GramPlan
from .operator import LARGEST_INVERSES, PANEL_COLUMNS, column_bytes
from .stack import batch_bytes

# Number of arrays (K, J) in solvers: iterates, gradients and past steps of quasi-Newton methods.
SOLVER_ARRAYS = 80
_FEWER_GRAMS = (
    "use the TwoStageMKMTRL estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, which "
    "halves the size of Gram matrices; or, with coupled tasks, low-rank kernels (linear or polynomial on few columns, "
    "or on columns with few distinct rows), or KinRegressor or KinClassifier, which share functions on many rows"
)


def fit_need(plan: GramPlan, solved_by: str, n_jobs: int, n_folds: int = 0) -> Need:
    """Bound the memory of a fit on Gram matrices, or of a cross-validation with `n_folds` folds that share them.

    `solved_by` is the name of the learner, or "panel".
    """
    K, T = plan.n_kernels, len(plan.machines)
    stacks = K * plan.itemsize * sum(n * n for n in plan.sizes)
    if plan.dense:
        stacks += K * plan.itemsize * sum(plan.sizes) ** 2
    elif plan.low_rank is not None:
        stacks += 8 * sum(plan.machines) * plan.low_rank.rank
    working = _working_bytes(plan, solved_by, n_jobs)
    if n_folds:
        # The evaluated kernels, and for each running fold the training part, the held-out part and its machines.
        fit = stacks + max(stacks + working, min(n_jobs, n_folds) * (2 * stacks + working))
    else:
        fit = stacks + max(working, plan.row_bytes * (6 * max(plan.sizes) + sum(plan.sizes)))
    # Targets, machines, weights, Hessians and functions; rows and their distances while kernels are fitted.
    held = sum(plan.machines) * (48 + 96 * plan.outputs) + sum(plan.sizes) * plan.row_bytes
    held += 8 * (SOLVER_ARRAYS * K * T + 3 * T * K * K) + T * TASK_OBJECTS
    return Need(FIXED + held + max(fit, fitting_bytes(plan)), _FEWER_GRAMS)


def fitting_bytes(plan: GramPlan) -> int:
    """Bound the memory needed to fit kernels to rows."""
    return plan.itemsize * sum(plan.sizes) * plan.n_columns + 40 * plan.fitted_rows**2


def _working_bytes(plan: GramPlan, solved_by: str, n_jobs: int) -> int:
    """Bound the memory of combined matrices, their factors, and running machines."""
    n, K, total = plan.sizes[0], plan.n_kernels, sum(plan.machines)
    squares = [8 * rows * rows for rows in plan.machines]
    if solved_by == "panel":
        outputs = len(plan.machines) * plan.outputs
        columns = outputs if plan.couplings_width else n_jobs * PANEL_COLUMNS
        # A basis; targets, costs and dual variables of two evaluations; and work arrays per column.
        work = (48 + 4 * K) * n * n + 96 * n * outputs + columns * column_bytes(n, K)
        if plan.couplings_width:
            work += 16 * min(n * outputs**2, LARGEST_INVERSES) + 32 * n * plan.couplings_width * plan.outputs
        return work
    if plan.couplings_width:
        factor = 24 * total * plan.shared_rank + 32 * plan.shared_rank**2 if plan.factored else 0
        dense = 0 if plan.factored and solved_by == "ridge" else 32 * total**2
        return 3 * sum(squares) + 192 * total + factor + dense
    # The buffers of wide data hold whole matrices even if labels are missing.
    buffers = [8 * n * n] * len(squares) if plan.wide else squares
    images = K * plan.outputs * batch_bytes([8 * rows for rows in plan.machines])
    return 2 * batch_bytes(buffers) + 2 * n_jobs * max(squares) + 2 * images
