"""A fit in blocks of tasks, which an engine holds: on arrays, whose rows are sent there, or on rows that are there.

What comes here are sums over rows, and the kernel weights and values of each task. Functions of rows that are elsewhere
stay there too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data import RowBlocks, TaskData, take_tasks
from ...engines import Engine, Held
from ...exceptions import GramMemoryError
from ...kernels import FittedKernel, is_precomputed, read_kernels, thin
from ..functions import BlockFunctions, RemoteFunctions, task_functions
from ..grams import KernelBank, task_dimensions
from ..grams.build import charges_of
from ..learners import Learner
from ..penalties import MixedNorm, Penalty, effective_rank
from ..problems import BlockDuals, BlockValues, MachineBlocks, Request, TaskBlock, Units, in_order
from ..solvers import Solution, solve
from .base import Fitted, RunOptions
from .outcome import collapse_warnings, convergence_warnings
from .shape import Shape, is_homogeneous, read_init, weights_problem
from .targets import Classification, Targets, split_by_task, spread_of, stack_intercepts

if TYPE_CHECKING:
    from .fit import Fit, FitPlan

# Share of the memory of all workers that Gram matrices may take; the rest is for rows and for the work itself.
GRAM_SHARE = 0.5
# Blocks of very many tasks are larger, so that a scheduler has not more of them than this in an evaluation.
MOST_BLOCKS = 2000
# Gram matrices of one task at work: its stack, its combined matrix and a factor of this, and the images of its kernels.
_WORKING_STACKS = 2
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


@dataclass(frozen=True)
class Recipe:
    """How a `TaskBlock` is made from the rows of its tasks.

    Attributes
    ----------
    targets, C, normalize : as in `Fit`.
    kernels : fitted on the rows of all tasks.
    units : those of the problem of all tasks.
    keeps_grams : whether Gram matrices stay in memory.
    charges : (K,) what each kernel's Gram matrices are divided by.
    """

    targets: Targets
    C: float
    normalize: str | None
    kernels: tuple[FittedKernel, ...]
    units: Units
    keeps_grams: bool
    charges: np.ndarray

    @classmethod
    def of(
        cls,
        fit: Fit,
        targets: Targets,
        kernels: Sequence[FittedKernel],
        units: Units,
        engine: Engine,
        sizes: np.ndarray,
    ) -> Recipe:
        """Before kernels are charged; `sizes` (T,) are the bytes of the Gram matrices of tasks."""
        keeps, even = keeps_grams(engine, sizes), np.ones(len(kernels))
        return cls(targets, fit.C, fit.normalize, tuple(kernels), replace(units, offsets=()), keeps, even)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(kernel.name for kernel in self.kernels)

    def charged(self, rows: Held, parsimony: float) -> Recipe:
        """With what kernels are charged, by the rows of all blocks."""
        if not parsimony:
            return self
        found = np.concatenate(rows.call(block_dimensions, [(self,)] * len(rows)))
        return replace(self, charges=charges_of(found.sum(axis=0), parsimony))

    def blocks(self, rows: Held, positions: Sequence[np.ndarray], engine: Engine) -> MachineBlocks:
        """Make the blocks of tasks where their rows are, with their Gram matrices where they keep them."""
        held = rows.derive(build_block, [(engine.share(self),)] * len(rows))
        return MachineBlocks(held, positions, self.names)


def build_block(data: TaskData, recipe: Recipe) -> TaskBlock:
    """Return the block of tasks with these rows, with its Gram matrices where it keeps them."""
    learner = recipe.targets.learner()
    machines = recipe.targets.machines(data, recipe.C)
    units = recipe.units.of_machines(machines, learner)
    block = TaskBlock(
        data=data,
        kernels=recipe.kernels,
        normalize=recipe.normalize,
        charges=recipe.charges,
        machines=units.machines(machines),
        learner=units.learner(learner),
        units=units,
        keeps_grams=recipe.keeps_grams,
    )
    if recipe.keeps_grams:
        block.grams()
    return block


def block_dimensions(data: TaskData, recipe: Recipe) -> np.ndarray:
    """Return the effective dimensions (t, K) of the kernels on the rows of each task of a block."""
    return task_dimensions(data, recipe.kernels, recipe.normalize)


def gram_bytes(sizes: Sequence[int] | np.ndarray, n_kernels: int, itemsize: int) -> np.ndarray:
    """Return the bytes (T,) of the Gram matrices of tasks of so many rows."""
    return n_kernels * itemsize * np.square(np.asarray(sizes, dtype=np.int64))


def divide(sizes: np.ndarray, block_bytes: int) -> list[np.ndarray]:
    """Divide tasks whose Gram matrices have these sizes (T,) in bytes into runs; a larger task is a run of its own."""
    runs, start, total = [], 0, 0
    for t, size in enumerate(sizes.tolist()):
        if t > start and total + size > block_bytes:
            runs.append(np.arange(start, t))
            start, total = t, 0
        total += size
    return [*runs, np.arange(start, len(sizes))]


def block_limit(engine: Engine, sizes: np.ndarray) -> int:
    """Return the bytes of Gram matrices that a block may have, for tasks of these sizes (T,) in bytes."""
    return max(engine.block_bytes, int(sizes.sum()) // MOST_BLOCKS)


def keeps_grams(engine: Engine, sizes: np.ndarray) -> bool:
    """Return whether Gram matrices of these sizes (T,) in bytes stay in the memory of workers.

    Raises GramMemoryError where a worker has not enough for the largest task.
    """
    limits = engine.worker_memory()
    if limits and _WORKING_STACKS * int(sizes.max()) > min(limits):
        raise GramMemoryError(
            f"the Gram matrices of the largest task take {sizes.max() / 2**30:.3g} GiB, and a worker has "
            f"{min(limits) / 2**30:.3g} GiB for them and the work on them: use workers with more memory, or fewer "
            "kernels or rows; or float32 X, for Gram matrices of half the size"
        )
    if engine.keep_grams is not None:
        return engine.keep_grams
    return not limits or int(sizes.sum()) <= GRAM_SHARE * sum(limits)


def solve_in_blocks(plan: FitPlan, options: RunOptions) -> tuple[KernelBank, Solution]:
    """Solve the problem of a plan where the engine is, and bring the solutions of all tasks back."""
    data, engine = plan.data, options.engine
    check_splittable(data.form, precomputed=plan.kernels is None)
    check_fit_splittable(plan.fit)
    assert plan.kernels is not None
    sizes = gram_bytes([len(rows) for rows in data.rows], len(plan.kernels), data.X.dtype.itemsize)
    positions = divide(sizes, block_limit(engine, sizes))
    rows = engine.hold([take_tasks(data, tasks) for tasks in positions])
    recipe = Recipe.of(plan.fit, plan.fit.targets, plan.kernels, plan.units, engine, sizes)
    recipe = recipe.charged(rows, plan.fit.parsimony)
    blocks = recipe.blocks(rows, positions, engine)
    problem = weights_problem(blocks, blocks, plan.learner, plan.penalty, plan.mu)
    solution = plan.solve(problem, verbose=options.verbose, callback=options.callback)
    assert isinstance(solution.duals, BlockDuals)
    B = plan.units.weights(solution.B)
    solved, banks = blocks.solutions(B, solution.duals)
    scalings = tuple(scaling for bank in banks for scaling in bank.scalings)
    evaluation = plan.units.restore_evaluation(problem.judge(B, solved))
    clipped = any(bank.clipped for bank in banks)
    bank = KernelBank(recipe.names, recipe.kernels, scalings, clipped=clipped)
    return bank, replace(solution, evaluation=evaluation)


# ---------------------------------------------------------------------------------------------------------------------
# Rows that are elsewhere.


@dataclass(frozen=True)
class RowFacts:
    """Sums over the rows of a part.

    Attributes
    ----------
    n_rows : rows of positive weight.
    variation : as `Targets.variation` returns it.
    squares : number and mean of the squared targets, each less its task's mean, of rows with a cost.
    costs : how many costs are nearest to each power of two, by its exponent.
    classes : the classes of each task; empty for regression.
    """

    n_rows: int
    variation: tuple[float, float]
    squares: tuple[int, float]
    costs: Counter[int]
    classes: tuple[np.ndarray, ...]


def row_facts(data: TaskData, targets: Targets, C: float) -> RowFacts:
    """Return the facts of the rows of a part."""
    machines = targets.machines(data, C)
    units = Units(0, 0, 0, ()).of_machines(machines, targets.learner())
    values = np.concatenate([m.y[m.C > 0] for m in units.machines(machines)])
    exponents = np.rint(np.log2(np.concatenate([m.C[m.C > 0] for m in machines]))).astype(int)
    return RowFacts(
        n_rows=int(np.count_nonzero(data.sample_weight > 0)),
        variation=targets.variation(data),
        squares=(len(values), float(np.mean(np.square(values))) if len(values) else 0.0),
        costs=Counter(exponents.tolist()),
        classes=tuple(targets.attributes(data).get("task_classes_", ())),
    )


def units_of(facts: Sequence[RowFacts], learner: Learner, *, weights: bool) -> Units:
    """Return the units in which targets and costs of all parts have size one."""
    count = sum(part.squares[0] for part in facts)
    mean = sum(part.squares[0] * part.squares[1] for part in facts) / max(count, 1)
    costs = sum((part.costs for part in facts), Counter[int]())
    middle = np.cumsum([costs[e] for e in sorted(costs)]) * 2 >= sum(costs.values())
    exponent = sorted(costs)[int(np.argmax(middle))] if costs else 0
    # Any power of two that is near enough will do: factors of two lead to the same solution.
    spread = math.sqrt(mean) if mean > 0 else 1.0
    return Units.of_sizes(spread, math.ldexp(1.0, exponent), learner, weights=weights)


def sample_rows(rows: RowBlocks, facts: Sequence[RowFacts]) -> TaskData:
    """Return the rows that stand for all where kernels are fitted: those that they would look at among all rows."""
    counts = [part.n_rows for part in facts]
    step = thin(sum(counts)).step
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    found = rows.held.call(_every, [(-start % step, step) for start in starts])
    X, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return TaskData(
        X=X,
        rows=(np.arange(len(X)),),
        y=(np.zeros(len(X)),),
        sample_weight=weight,
        labels=np.zeros(1, dtype=np.intp),
        form="single",
        feature_names=rows.facts[0].feature_names,
    )


def _every(data: TaskData, first: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Every step-th row of positive weight from the first on, and its weight."""
    kept = np.flatnonzero(data.sample_weight > 0)[first::step]
    return data.X[kept], data.sample_weight[kept]


@dataclass(frozen=True)
class RemotePlan:
    """A specification applied to rows that are elsewhere; the problem in units in which its numbers are of order one.

    Attributes
    ----------
    fit, rows : the specification, and the rows in blocks of tasks.
    penalty, learner, mu, start, units : as in `FitPlan`.
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
        rows, fit = self.rows, self.fit
        recipe = self.recipe.charged(rows.held, fit.parsimony)
        blocks = recipe.blocks(rows.held, rows.positions, rows.engine)
        problem = weights_problem(blocks, blocks, self.learner, self.penalty, self.mu)
        solution = solve(
            problem,
            fit.solver,
            start=self.start,
            tol=fit.tol,
            max_iter=fit.max_iter,
            verbose=options.verbose,
            callback=options.callback,
            units=self.units,
        )
        assert isinstance(solution.duals, BlockDuals)
        B = self.units.weights(solution.B)
        functions = blocks.held.derive(fit_block, blocks.requests(B, solution.duals))
        found = functions.call(block_result, [()] * len(functions))
        evaluation = problem.judge(B, blocks.join(B, [values for values, _ in found], solution.duals))
        solution = replace(solution, evaluation=self.units.restore_evaluation(evaluation))
        attributes = self._attributes(solution, RemoteFunctions(functions, blocks.positions, len(recipe.kernels)))
        intercepts = in_order([own for _, own in found], blocks.positions)
        warnings = (
            *convergence_warnings(solution, fit.tol),
            *collapse_warnings(self.penalty, solution.B, len(rows.labels)),
        )
        return Fitted(attributes | {"intercept_": stack_intercepts(intercepts)}, warnings)

    def _attributes(self, solution: Solution, functions: RemoteFunctions) -> dict[str, Any]:
        found = {
            "tasks_": self.rows.labels,
            "data_form_": "long",
            "kernels_": self.recipe.kernels,
            "kernel_names_": np.array(self.recipe.names),
            "kernel_weights_": solution.B.T.copy(),
            "relation_": solution.relation,
            "objective_": solution.primal,
            "duality_gap_": solution.gap,
            "effective_rank_": effective_rank(solution.B),
            "history_": solution.history,
            "n_iter_": len(solution.history["iteration"]),
            "functions_": functions,
            "couplings_": (),
            "coupling_weights_": np.zeros((0, len(self.recipe.kernels))),
        }
        if isinstance(self.fit.targets, Classification):
            found |= {"task_classes_": list(self.classes), "classes_": np.unique(np.concatenate(self.classes))}
        return found


def plan_remote(fit: Fit, rows: RowBlocks) -> RemotePlan:
    """Apply a specification to rows that are elsewhere; everything that can be refused is refused here."""
    check_splittable("long", precomputed=is_precomputed(fit.kernels))
    check_fit_splittable(fit)
    if fit.unknown_tasks != "error":
        raise ValueError(
            f"unknown_tasks={fit.unknown_tasks!r} is for arrays: rows of Dask collections are predicted by the worker "
            "that has the function of their task, and new tasks have none"
        )
    if not read_kernels(fit.kernels).is_listed:
        raise ValueError(
            f"kernels={fit.kernels!r} are found by looking at all rows, and Dask collections have them on several "
            "workers; pass a list of kernels, such as the `kernels_` of a fit on some of the tasks"
        )
    facts = rows.held.call(row_facts, [(fit.targets, fit.C)] * len(rows.held))
    classes = tuple(in_order([part.classes for part in facts], rows.positions))
    kernels = fit.fit_kernels(sample_rows(rows, facts))
    assert kernels is not None
    shape = Shape(len(kernels), len(rows.labels))
    penalty, learner, start = fit.penalty(shape), fit.targets.learner(), read_init(fit.init, shape)
    units = units_of(facts, learner, weights=is_homogeneous(penalty))
    mu = units.mu(spread_of([part.variation for part in facts]) if isinstance(fit.mu, str) else fit.mu)
    K, itemsize, engine = len(kernels), rows.facts[0].itemsize, rows.engine
    sizes = gram_bytes(rows.sizes, K, itemsize)
    limit = block_limit(engine, sizes)
    return RemotePlan(
        fit=fit,
        rows=rows.divided(lambda counts: divide(gram_bytes(counts, K, itemsize), limit)),
        penalty=penalty,
        learner=units.learner(learner),
        mu=mu,
        start=None if start is None else units.weights(start),
        units=units,
        recipe=Recipe.of(fit, fit.targets.for_classes(classes), kernels, units, engine, sizes),
        classes=classes,
    )


@dataclass(frozen=True)
class FittedBlock(BlockFunctions):
    """The functions of a block, with what comes back of it: values of its machines, and intercepts of each task."""

    result: tuple[BlockValues, list[np.ndarray]] | None = None


def fit_block(block: TaskBlock, B: np.ndarray, request: Request) -> FittedBlock:
    """Return the functions of the tasks of a block at B (K, t), in the user's units."""
    duals, numbers, bank = block.solutions(B, request)
    restored, weights = block.units.restore_machines(duals, B)
    data = block.data
    a, intercepts = split_by_task(restored, block.machines, data, ())
    functions = task_functions(data, bank, weights, a, intercepts)
    classes = () if data.y[0].dtype.kind == "f" else tuple(np.unique(y) for y in data.y)
    return FittedBlock(functions, data.labels, classes, (numbers, intercepts))


def block_result(block: FittedBlock) -> tuple[BlockValues, list[np.ndarray]]:
    """Return what comes back of a fitted block."""
    assert block.result is not None
    return block.result
