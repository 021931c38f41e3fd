"""A fit on arrays in blocks of tasks: rows are sent to where the blocks are, and the solutions come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..data import take_tasks
from ..engines import Engine
from ..grams import KernelBank
from ..grams.charges import charges_of
from ..problems import GatheredMachines, MachineBlocks
from ..solvers import Solution
from .base import RunOptions
from .blocks import Recipe, block_dimensions, block_limit, build_block, divide, gram_bytes, keeps_grams
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


def check_fit_splittable(fit: Fit, n_couplings: int = 0) -> None:
    """Refuse by name what cannot be fitted in blocks of tasks, with the reason."""
    if n_couplings:
        raise ValueError(
            "engine: couplings and task_features make one machine of all tasks that share a part, which blocks of "
            f"tasks cannot solve apart from each other; {_ADVICE}, or leave them out"
        )
    if fit.worst_task:
        raise ValueError(f"engine: this model solves one task at a time, each after the last one; {_ADVICE}")
    if fit.device is not None:
        raise ValueError("engine: blocks of tasks are solved by the processors of the workers; leave device out")


def solve_in_blocks(plan: FitPlan, options: RunOptions) -> tuple[KernelBank, Solution]:
    """Solve the problem of a plan where the engine is, and bring the solutions of all tasks back."""
    fit, data, engine = plan.fit, plan.data, options.engine
    check_splittable(data.form, precomputed=plan.kernels is None)
    check_fit_splittable(fit, len(plan.couplings))
    assert plan.kernels is not None
    names = tuple(kernel.name for kernel in plan.kernels)
    sizes = gram_bytes([len(rows) for rows in data.rows], len(names), data.X.dtype.itemsize)
    positions = divide(sizes, block_limit(engine, sizes))
    recipe = plan_recipe(plan, engine, sizes)
    rows = engine.hold([take_tasks(data, tasks) for tasks in positions])
    every = [(recipe,)] * len(rows)
    if fit.parsimony:
        found = np.concatenate(rows.call(block_dimensions, every))
        recipe = replace(recipe, charges=charges_of(found.sum(axis=0), fit.parsimony))
        every = [(recipe,)] * len(rows)
    blocks = MachineBlocks(rows.derive(build_block, every), positions, names)
    problem = weights_problem(blocks.grams, blocks, plan.learner, plan.penalty, plan.mu)
    solution = plan.solve(problem, verbose=options.verbose, callback=options.callback)
    gathered = GatheredMachines(blocks)
    duals = solution.evaluation.dual_variables
    last = replace(problem, machines=gathered).evaluate(plan.units.weights(solution.B), warm=duals)
    scalings = tuple(scaling for bank in gathered.banks for scaling in bank.scalings)
    bank = KernelBank(names, tuple(plan.kernels), scalings)
    return bank, replace(solution, evaluation=plan.units.restore_evaluation(last))


def plan_recipe(plan: FitPlan, engine: Engine, sizes: np.ndarray) -> Recipe:
    """Return how blocks are made, before kernels are charged; `sizes` (T,) are the bytes of their Gram matrices."""
    assert plan.kernels is not None
    return Recipe(
        targets=plan.fit.targets,
        C=plan.fit.C,
        normalize=plan.fit.normalize,
        kernels=tuple(plan.kernels),
        units=replace(plan.units, offsets=()),
        charges=np.ones(len(plan.kernels)),
        keeps_grams=keeps_grams(engine, sizes),
    )
