"""A fit on rows that are where an engine works: plan and run.

The functions stay there too. What comes here are sums over rows, and the kernel weights and values of each task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import RowBlocks, TaskData
from ..functions import BlockFunctions, RemoteFunctions, task_functions
from ..grams.charges import charges_of
from ..kernels import FittedKernel, ListedKernels, is_precomputed, read_kernels
from ..learners import Learner
from ..penalties import MixedNorm, Penalty, effective_rank
from ..problems import BlockDuals, MachineBlocks, RemoteMachines, TaskBlock, Units
from ..problems.task_block import BlockValues, Request
from ..solvers import Solution, solve
from .base import Fitted, RunOptions
from .blocks import Recipe, block_dimensions, block_limit, build_block, divide, gram_bytes, keeps_grams
from .outcome import collapse_warnings, convergence_warnings
from .row_facts import gather_facts, sample_rows, spread_in_tasks, units_of
from .shape import Shape, is_homogeneous, read_init, weights_problem
from .split import check_fit_splittable, check_splittable
from .targets import Classification, split_by_task, stack_intercepts

if TYPE_CHECKING:
    from .fit import Fit


@dataclass(frozen=True)
class RemotePlan:
    """A specification applied to rows that are elsewhere; the problem in units in which its numbers are of order one.

    Attributes
    ----------
    fit, rows : the specification, and the rows in blocks of tasks.
    kernels, penalty, learner, mu, start, units : as in `FitPlan`.
    recipe : how the machines of a block are made.
    classes : the classes of each task; empty for regression.
    """

    fit: Fit
    rows: RowBlocks
    penalty: Penalty | MixedNorm
    learner: Learner
    mu: float
    start: np.ndarray | None
    units: Units
    recipe: Recipe
    classes: tuple[np.ndarray, ...]

    def run(self, options: RunOptions) -> Fitted:
        """Build the blocks, solve, and leave the functions where the rows are."""
        recipe, held = self.recipe, self.rows.held
        recipe = replace(recipe, charges=self.charges(self.fit.parsimony))
        names = [kernel.name for kernel in recipe.kernels]
        blocks = MachineBlocks(held.derive(build_block, [(recipe,)] * len(held)), self.rows.positions, names)
        problem = weights_problem(blocks.grams, blocks, self.learner, self.penalty, self.mu)
        solution = solve(
            problem,
            self.fit.solver,
            start=self.start,
            tol=self.fit.tol,
            max_iter=self.fit.max_iter,
            verbose=options.verbose,
            callback=options.callback,
            units=self.units,
        )
        last = FinalMachines(blocks)
        duals = solution.evaluation.dual_variables
        evaluation = replace(problem, machines=last).evaluate(self.units.weights(solution.B), warm=duals)
        solution = replace(solution, evaluation=self.units.restore_evaluation(evaluation))
        attributes = self._attributes(solution, RemoteFunctions(last.functions, blocks.positions, len(names)))
        attributes["intercept_"] = stack_intercepts(last.intercepts)
        warnings = (
            *convergence_warnings(solution, self.fit.tol),
            *collapse_warnings(self.penalty, solution.B, len(self.rows.labels)),
        )
        return Fitted(attributes, warnings)

    def charges(self, parsimony: float) -> np.ndarray:
        """Return what each kernel's Gram matrices are divided by (K,)."""
        if not parsimony:
            return np.ones(len(self.recipe.kernels))
        found = self.rows.held.call(block_dimensions, [(self.recipe,)] * len(self.rows.held))
        return charges_of(np.concatenate(found).sum(axis=0), parsimony)

    def _attributes(self, solution: Solution, functions: RemoteFunctions) -> dict[str, Any]:
        kernels = self.recipe.kernels
        found = {
            "tasks_": self.rows.labels,
            "data_form_": "long",
            "kernels_": kernels,
            "kernel_names_": np.array([kernel.name for kernel in kernels]),
            "kernel_weights_": solution.B.T.copy(),
            "relation_": solution.relation,
            "objective_": solution.primal,
            "duality_gap_": solution.gap,
            "effective_rank_": effective_rank(solution.B),
            "history_": solution.history,
            "n_iter_": len(solution.history["iteration"]),
            "functions_": functions,
            "couplings_": (),
            "coupling_weights_": np.zeros((0, len(kernels))),
        }
        if isinstance(self.fit.targets, Classification):
            found |= {"task_classes_": list(self.classes), "classes_": np.unique(np.concatenate(self.classes))}
        return found


class FinalMachines(RemoteMachines):
    """The machines of blocks at the weights of one evaluation, whose functions are left where the blocks are."""

    def __init__(self, blocks: MachineBlocks) -> None:
        self._blocks, self.deviations = blocks, blocks.deviations
        self.functions: Any = None
        self.intercepts: list[np.ndarray] = []

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[BlockDuals, np.ndarray, None]:
        """Make the functions of the evaluation `warm` at B (K, T)."""
        assert isinstance(warm, BlockDuals)
        blocks = self._blocks
        arguments = [(B[:, at], blocks.request(warm)) for at in blocks.positions]
        self.functions = blocks.held.derive(fit_block, arguments)
        found = self.functions.call(block_numbers, [()] * len(self.functions))
        values: list[Any] = [None] * len(self)
        for at, (_, intercepts) in zip(blocks.positions, found, strict=True):
            for t, own in zip(at.tolist(), intercepts, strict=True):
                values[t] = own
        self.intercepts = values
        duals, Q = blocks.join([numbers for numbers, _ in found], warm)
        return duals, Q, None


@dataclass(frozen=True)
class FittedBlock(BlockFunctions):
    """The functions of a block, with the values of its machines and their intercepts."""

    numbers: BlockValues | None = None
    intercepts: tuple[np.ndarray, ...] = ()


def fit_block(block: TaskBlock, B: np.ndarray, request: Request) -> FittedBlock:
    """Return the functions of the tasks of a block at B (K, t), in the user's units."""
    duals, numbers, bank = block.solutions(B, request)
    restored, weights = block.units.restore_machines(duals, B)
    a, intercepts = split_by_task(restored, block.machines, block.data, ())
    functions = task_functions(block.data, bank, weights, a, intercepts)
    classes = () if block.data.y[0].dtype.kind == "f" else tuple(np.unique(y) for y in block.data.y)
    return FittedBlock(functions, block.data.labels, classes, numbers, tuple(intercepts))


def block_numbers(block: FittedBlock) -> tuple[BlockValues | None, tuple[np.ndarray, ...]]:
    """Return what comes back of a fitted block."""
    return block.numbers, block.intercepts


def plan_remote(fit: Fit, rows: RowBlocks) -> RemotePlan:
    """Apply a specification to rows that are elsewhere; everything that can be refused is refused here."""
    check_splittable("long", precomputed=is_precomputed(fit.kernels))
    check_fit_splittable(fit)
    _check_supported(fit)
    facts = gather_facts(rows, fit.targets, fit.C)
    classes = _in_order(rows, [part.classes for part in facts])
    kernels = _fit_kernels(fit, sample_rows(rows, facts))
    shape = Shape(len(kernels), len(rows.labels))
    penalty = fit.penalty(shape)
    learner = fit.targets.learner()
    start = read_init(fit.init, shape)
    units = units_of(facts, learner, weights=is_homogeneous(penalty))
    mu = units.mu(spread_in_tasks(facts) if isinstance(fit.mu, str) else fit.mu)
    itemsize, engine = rows.facts[0].itemsize, rows.engine
    sizes = gram_bytes(rows.sizes, len(kernels), itemsize)
    limit = block_limit(engine, sizes)
    recipe = Recipe(
        targets=fit.targets.for_classes(classes),
        C=fit.C,
        normalize=fit.normalize,
        kernels=tuple(kernels),
        units=units,
        charges=np.ones(len(kernels)),
        keeps_grams=keeps_grams(engine, sizes),
    )
    return RemotePlan(
        fit=fit,
        rows=rows.divided(lambda counts: divide(gram_bytes(counts, len(kernels), itemsize), limit)),
        penalty=penalty,
        learner=units.learner(learner),
        mu=mu,
        start=None if start is None else units.weights(start),
        units=units,
        recipe=recipe,
        classes=classes,
    )


def _check_supported(fit: Fit) -> None:
    """Refuse by name what needs all rows in one place."""
    if fit.couplings is not None or fit.task_features is not None:
        name = "couplings" if fit.couplings is not None else "task_features"
        raise ValueError(
            f"{name}: tasks that share parts of their functions are one machine over the rows of all of them, and "
            "Dask collections have these on several workers; leave it out, or fit on arrays with engine='threads'"
        )
    if fit.unknown_tasks != "error":
        raise ValueError(
            f"unknown_tasks={fit.unknown_tasks!r} needs the rows of all tasks in one place; Dask collections have them "
            "on several workers"
        )


def _fit_kernels(fit: Fit, sample: TaskData) -> list[FittedKernel]:
    if not isinstance(read_kernels(fit.kernels), ListedKernels):
        raise ValueError(
            f"kernels={fit.kernels!r} are found by looking at all rows, and Dask collections have them on several "
            "workers; pass a list of kernels, such as the `kernels_` of a fit on some of the tasks"
        )
    kernels = fit.fit_kernels(sample)
    assert kernels is not None
    return kernels


def _in_order(rows: RowBlocks, classes: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """The classes of each task, from those of the tasks of each part; empty for regression."""
    found: dict[int, np.ndarray] = {}
    for at, own in zip(rows.positions, classes, strict=True):
        found |= dict(zip(at.tolist(), own, strict=False))
    return tuple(found[t] for t in sorted(found))
