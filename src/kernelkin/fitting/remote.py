"""A fit on rows that are where an engine works: plan and run.

The functions stay there too. What comes here are sums over rows, and the kernel weights and values of each task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..couplings import Coupling
from ..data import RowBlocks, TaskData
from ..functions import RemoteFunctions
from ..grams.charges import charges_of
from ..grams.landmarks import LandmarkKernels
from ..kernels import FittedKernel, ListedKernels, is_precomputed, read_kernels
from ..learners import Learner
from ..penalties import MixedNorm, Penalty, effective_rank
from ..problems import LinkedBlocks, MachineBlocks, Units
from ..solvers import Solution, solve
from .approximation import shared_warnings
from .base import Fitted, RunOptions
from .blocks import Recipe, block_dimensions, block_limit, build_block, divide, gram_bytes, keeps_grams
from .final import FinalLinked, FinalMachines
from .linked import (
    build_linked_block,
    check_classes,
    check_linkable,
    coupling_rows,
    couplings_of_labels,
    link_kernels,
    linked_bytes,
    sample_blocks,
    shared_expansions,
)
from .outcome import collapse_warnings, convergence_warnings
from .row_facts import gather_facts, sample_rows, spread_in_tasks, units_of
from .shape import Shape, is_homogeneous, read_init, weights_problem
from .split import check_fit_splittable, check_splittable
from .targets import Classification, stack_intercepts

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
    couplings : of the tasks.
    link : the kernels of the parts that tasks share; None where they share none.
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
    couplings: tuple[Coupling, ...] = ()
    link: LandmarkKernels | None = None

    def run(self, options: RunOptions) -> Fitted:
        """Build the blocks, solve, and leave the functions where the rows are."""
        blocks = self._blocks(replace(self.recipe, charges=self.charges(self.fit.parsimony)))
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
        last = self._final(blocks, solution)
        duals = solution.evaluation.dual_variables
        evaluation = replace(problem, machines=last).evaluate(self.units.weights(solution.B), warm=duals)
        solution = replace(solution, evaluation=self.units.restore_evaluation(evaluation))
        functions = RemoteFunctions(last.functions, blocks.positions, len(self.recipe.kernels), self.couplings)
        attributes = self._attributes(solution, functions)
        attributes["intercept_"] = stack_intercepts(last.intercepts)
        shared = last.shared() if isinstance(last, FinalLinked) else None
        if shared is not None:
            attributes |= {"part_shares_": shared.shares, "shared_error_": shared.missing}
        warnings = (
            *convergence_warnings(solution, self.fit.tol),
            *collapse_warnings(self.penalty, solution.B, len(self.rows.labels)),
            *shared_warnings(shared, self.recipe.names, self.fit.shared_rank),
        )
        return Fitted(attributes, warnings)

    def _blocks(self, recipe: Recipe) -> MachineBlocks | LinkedBlocks:
        """The blocks of tasks, with their Gram matrices where they keep them."""
        held, positions, engine = self.rows.held, self.rows.positions, self.rows.engine
        made = engine.share(recipe)
        if self.link is None:
            return MachineBlocks(held.derive(build_block, [(made,)] * len(held)), positions, recipe.names)
        link = engine.share(self.link)
        arguments = [(made, link, coupling_rows(self.couplings, at)) for at in positions]
        blocks = held.derive(build_linked_block, arguments)
        return LinkedBlocks(blocks, positions, self.link, self.couplings, recipe.normalize, recipe.charges)

    def _final(self, blocks: MachineBlocks | LinkedBlocks, solution: Solution) -> FinalMachines | FinalLinked:
        if isinstance(blocks, MachineBlocks):
            return FinalMachines(blocks)
        weights = solution.B[:, len(self.rows.labels) :]
        expansions = shared_expansions(blocks, solution.evaluation.duals, weights, self.units)
        return FinalLinked(blocks, expansions, self.rows.engine)

    def charges(self, parsimony: float) -> np.ndarray:
        """Return what each kernel's Gram matrices are divided by (K,)."""
        if not parsimony:
            return np.ones(len(self.recipe.kernels))
        found = self.rows.held.call(block_dimensions, [(self.recipe,)] * len(self.rows.held))
        return charges_of(np.concatenate(found).sum(axis=0), parsimony)

    def _attributes(self, solution: Solution, functions: RemoteFunctions) -> dict[str, Any]:
        kernels, n_tasks = self.recipe.kernels, len(self.rows.labels)
        found = {
            "tasks_": self.rows.labels,
            "data_form_": "long",
            "kernels_": kernels,
            "kernel_names_": np.array(self.recipe.names),
            "kernel_weights_": solution.B[:, :n_tasks].T.copy(),
            "relation_": solution.relation.block(n_tasks),
            "objective_": solution.primal,
            "duality_gap_": solution.gap,
            "effective_rank_": effective_rank(solution.B),
            "history_": solution.history,
            "n_iter_": len(solution.history["iteration"]),
            "functions_": functions,
            "couplings_": self.couplings,
            "coupling_weights_": solution.B[:, n_tasks:].T.copy(),
        }
        if isinstance(self.fit.targets, Classification):
            found |= {"task_classes_": list(self.classes), "classes_": np.unique(np.concatenate(self.classes))}
        return found


def plan_remote(fit: Fit, rows: RowBlocks) -> RemotePlan:
    """Apply a specification to rows that are elsewhere; everything that can be refused is refused here."""
    check_splittable("long", precomputed=is_precomputed(fit.kernels))
    check_fit_splittable(fit)
    _check_supported(fit)
    facts = gather_facts(rows, fit.targets, fit.C)
    classes = _in_order(rows, [part.classes for part in facts])
    kernels = _fit_kernels(fit, sample_rows(rows, facts))
    couplings = () if fit.couplings is None and fit.task_features is None else couplings_of_labels(fit, rows.labels)
    link = _link(fit, rows, kernels, couplings, classes)
    shape = Shape(len(kernels), len(rows.labels), len(couplings))
    penalty = fit.penalty(shape)
    learner = fit.targets.learner()
    start = read_init(fit.init, shape)
    units = units_of(facts, learner, weights=is_homogeneous(penalty))
    mu = units.mu(spread_in_tasks(facts) if isinstance(fit.mu, str) else fit.mu)
    itemsize, engine = rows.facts[0].itemsize, rows.engine

    def bytes_of(counts: np.ndarray) -> np.ndarray:
        return gram_bytes(counts, len(kernels), itemsize) if link is None else linked_bytes(counts, itemsize, link)

    sizes = bytes_of(rows.sizes)
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
        rows=rows.divided(lambda counts: divide(bytes_of(counts), limit)),
        penalty=penalty,
        learner=units.learner(learner),
        mu=mu,
        start=None if start is None else units.weights(start),
        units=units,
        recipe=recipe,
        classes=classes,
        couplings=couplings,
        link=link,
    )


def _link(
    fit: Fit,
    rows: RowBlocks,
    kernels: Sequence[FittedKernel],
    couplings: Sequence[Coupling],
    classes: Sequence[np.ndarray],
) -> LandmarkKernels | None:
    """The kernels of the parts that tasks share, with landmarks among the rows of all tasks."""
    if not couplings:
        return None
    check_linkable(fit, kernels)
    check_classes(classes, rows.labels)
    return link_kernels(fit, kernels, couplings, sample_blocks(rows))


def _check_supported(fit: Fit) -> None:
    """Refuse by name what needs all rows in one place."""
    if fit.unknown_tasks != "error":
        raise ValueError(
            f"unknown_tasks={fit.unknown_tasks!r} is for arrays: rows of Dask collections are predicted by the worker "
            "that has the function of their task, and new tasks have none"
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
