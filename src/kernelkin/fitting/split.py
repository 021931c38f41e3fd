"""A fit on arrays in blocks of tasks: rows are sent to where the blocks are, and the solutions come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import take_tasks
from ..engines import Engine, Held
from ..grams import KernelBank
from ..grams.charges import charges_of
from ..grams.landmarks import LandmarkKernels
from ..kernels import FittedKernel, Scaling
from ..problems import GatheredLinked, GatheredMachines, LinkedBlocks, MachineBlocks
from ..solvers import Solution
from .base import RunOptions
from .blocks import Recipe, block_dimensions, block_limit, build_block, divide, gram_bytes, keeps_grams
from .linked import (
    SharedPart,
    build_linked_block,
    check_classes,
    check_linkable,
    coupling_rows,
    link_kernels,
    linked_bytes,
    sample_rows_of,
    shared_expansions,
)
from .shape import weights_problem
from .targets import Classification

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


def solve_in_blocks(plan: FitPlan, options: RunOptions) -> tuple[KernelBank, Solution, SharedPart | None]:
    """Solve the problem of a plan where the engine is, and bring the solutions of all tasks back."""
    data, engine = plan.data, options.engine
    check_splittable(data.form, precomputed=plan.kernels is None)
    check_fit_splittable(plan.fit)
    assert plan.kernels is not None
    link = _link(plan, plan.kernels)
    counts, itemsize = [len(rows) for rows in data.rows], data.X.dtype.itemsize
    sizes = gram_bytes(counts, len(plan.kernels), itemsize) if link is None else linked_bytes(counts, itemsize, link)
    positions = divide(sizes, block_limit(engine, sizes))
    rows = engine.hold([take_tasks(data, tasks) for tasks in positions])
    recipe = _charged(plan_recipe(plan, engine, sizes), rows, plan.fit.parsimony)
    if link is not None:
        return _solve_linked(plan, options, rows, positions, recipe, link)
    blocks = MachineBlocks(rows.derive(build_block, [(engine.share(recipe),)] * len(rows)), positions, recipe.names)
    gathered = GatheredMachines(blocks)
    solution = _solve(plan, options, blocks, gathered)[0]
    return KernelBank(recipe.names, recipe.kernels, _scalings(gathered.banks)), solution, None


def _solve_linked(
    plan: FitPlan,
    options: RunOptions,
    rows: Held,
    positions: Sequence[np.ndarray],
    recipe: Recipe,
    link: LandmarkKernels,
) -> tuple[KernelBank, Solution, SharedPart]:
    """The same for tasks that share parts of their functions."""
    made, sent = options.engine.share(recipe), options.engine.share(link)
    arguments = [(made, sent, coupling_rows(plan.couplings, at)) for at in positions]
    held = rows.derive(build_linked_block, arguments)
    blocks = LinkedBlocks(held, positions, link, plan.couplings, recipe.normalize, recipe.charges)
    gathered = GatheredLinked(blocks)
    solution, duals = _solve(plan, options, blocks, gathered)
    expansions = shared_expansions(blocks, duals, solution.B[:, plan.data.n_tasks :], plan.units)
    bank = KernelBank(recipe.names, recipe.kernels, _scalings(gathered.banks), blocks.scaling)
    return bank, solution, SharedPart.of(blocks, gathered.shares, expansions)


def _link(plan: FitPlan, kernels: Sequence[FittedKernel]) -> LandmarkKernels | None:
    """The kernels of the parts that tasks share, with landmarks among the rows of all tasks."""
    if not plan.couplings:
        return None
    check_linkable(plan.fit, kernels)
    if isinstance(plan.fit.targets, Classification):
        check_classes([np.unique(y) for y in plan.data.y], plan.data.labels)
    return link_kernels(plan.fit, kernels, plan.couplings, sample_rows_of(plan.data))


def _charged(recipe: Recipe, rows: Held, parsimony: float) -> Recipe:
    """The recipe with what kernels are charged."""
    if not parsimony:
        return recipe
    found = np.concatenate(rows.call(block_dimensions, [(recipe,)] * len(rows)))
    return replace(recipe, charges=charges_of(found.sum(axis=0), parsimony))


def _solve(
    plan: FitPlan,
    options: RunOptions,
    blocks: MachineBlocks | LinkedBlocks,
    gathered: GatheredMachines | GatheredLinked,
) -> tuple[Solution, Sequence[Any]]:
    """The solution, whose dual variables are brought here, and what is known of them without that."""
    problem = weights_problem(blocks.grams, blocks, plan.learner, plan.penalty, plan.mu)
    solution = plan.solve(problem, verbose=options.verbose, callback=options.callback)
    duals = solution.evaluation.dual_variables
    last = replace(problem, machines=gathered).evaluate(plan.units.weights(solution.B), warm=duals)
    return replace(solution, evaluation=plan.units.restore_evaluation(last)), duals


def _scalings(banks: Sequence[KernelBank]) -> tuple[Scaling, ...]:
    return tuple(scaling for bank in banks for scaling in bank.scalings)


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
