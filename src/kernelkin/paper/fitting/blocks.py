"""A fit in blocks of tasks, which an engine holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...data import take_tasks
from ..grams import KernelBank, task_dimensions
from ..grams.build import charges_of
from ..problems import MachineBlocks
from ..solvers import Solution
from .base import RunOptions
from .shape import weights_problem

if TYPE_CHECKING:
    from .fit import Fit, FitPlan

_ADVICE = "use engine='threads'"


def check_splittable(form: str, *, precomputed: bool) -> None:
    """Refuse data that cannot be divided into blocks of tasks, with the reason."""
    if precomputed:
        raise ValueError(f"engine: Gram matrices that are precomputed would have to travel with every block; {_ADVICE}")
    if form == "wide":
        raise ValueError(
            "engine: tasks that are columns of y share their rows and one Gram matrix, which every block would need; "
            f"{_ADVICE}, or give the rows of each task as rows of their own (tasks=)"
        )


def check_fit_splittable(fit: Fit) -> None:
    """Refuse by name what cannot be fitted in blocks of tasks, with the reason."""
    if fit.worst_task:
        raise ValueError(f"engine: this model solves one task at a time, each after the last one; {_ADVICE}")
    if fit.device is not None:
        raise ValueError("engine: blocks of tasks are solved by the processors of the workers; leave device out")
    if fit.couplings is not None or fit.task_features is not None:
        raise ValueError(
            f"engine: tasks that share parts of their functions are one machine, which has no blocks of tasks; "
            f"{_ADVICE}, or leave couplings and task_features out"
        )


def solve_in_blocks(plan: FitPlan, options: RunOptions) -> tuple[KernelBank, Solution]:
    """Solve the problem of a plan where the engine is, and bring the solutions of all tasks back."""
    data, engine, fit = plan.data, options.engine, plan.fit
    check_splittable(data.form, precomputed=plan.kernels is None)
    check_fit_splittable(fit)
    assert plan.kernels is not None
    charges = np.ones(len(plan.kernels))
    if fit.parsimony:
        parts = np.array_split(np.arange(data.n_tasks), min(data.n_tasks, 4 * engine.n_workers))
        found = engine.map(task_dimensions, [take_tasks(data, at) for at in parts], (plan.kernels, fit.normalize))
        charges = charges_of(np.concatenate(found).sum(axis=0), fit.parsimony)
    blocks = MachineBlocks(engine, data, plan.kernels, fit.normalize, charges, plan.machines, plan.learner)
    problem = weights_problem(blocks, blocks, plan.learner, plan.penalty, plan.mu)
    solution = plan.solve(problem, verbose=options.verbose, callback=options.callback)
    B = plan.units.weights(solution.B)
    solved, bank = blocks.solutions(B, solution.duals.tol)
    evaluation = plan.units.restore_evaluation(problem.judge(B, solved))
    return bank, replace(solution, evaluation=evaluation)
