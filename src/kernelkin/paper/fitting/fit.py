"""Kernel machines of many tasks whose kernel weights are learned: specification, plan and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import TaskData
from ...engines import Each, Workers, serially
from ...kernels import FittedKernel, is_precomputed, read_kernels, spread_warnings
from ...memory import Need, fit_need
from ...uncertainty import Uncertainty
from ..couplings import Coupling, connected_tasks, read_couplings, width
from ..functions import task_functions
from ..grams import (
    CoupledGrams,
    GramPlan,
    Grams,
    KernelBank,
    RawGrams,
    SharedGrams,
    arrays_on,
    device_grams,
    on_device,
    plan_grams,
    raw_grams,
    scale_grams,
    scales_on_device,
)
from ..learners import SVM, Learner, Machine, Ridge
from ..penalties import MixedNorm, Penalty, effective_rank
from ..problems import (
    AnyProblem,
    MachinePanel,
    PanelDuals,
    Units,
    WorstTaskProblem,
    panel_pays,
)
from ..solvers import Solution, Solver, solve
from .base import Fitted, RunOptions
from .blocks import solve_in_blocks
from .outcome import (
    approximation_warnings,
    clipping_excess,
    clipping_warnings,
    collapse_warnings,
    convergence_warnings,
)
from .shape import Shape, is_homogeneous, read_init, weights_problem
from .targets import Classification, Targets, link_machines, split_by_task, stack_intercepts


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Specification of kernel machines with weights on several kernels.

    Parameters
    ----------
    targets : Classification or Regression
        How targets are coded, and the loss.
    penalty : callable
        From a `Shape` to the penalty on the kernel weights, or to the norm of the functions that takes its place.
    kernels : None, "precomputed", or what `resolve_kernels` reads
    C : float
        Cost of errors on training rows.
    mu : float or "scale"
        Strength of the penalty; "scale": the variance of the targets within tasks.
    parsimony : float in [0, 1]
        How much kernels are charged for their effective dimension.
    couplings : what `read_couplings` reads
    sharing : float in [0, 1]
        How cheap a shared part is: 1 charges it as one task, 0 as all tasks that share it.
    task_features : what `read_task_features` reads
        Features of tasks, or kernels between tasks: each makes couplings.
    shared_rank : int, "auto" or None
        Columns of the factors that approximate shared parts of tasks with their own rows, for the squared loss; "auto":
        where rows are many; None: shared parts are exact.
    unknown_tasks : {"error", "common"}
        "common" needs a coupling of all tasks.
    normalize : {"trace", "cosine", "center"} or None
    choose_kernel : callable, optional
        From the names of the fitted kernels to the position of the only one to use.
    worst_task : bool
        Minimise the value of the worst task's machine in place of the sum over tasks.
    has_path : bool
        Whether the penalty is known to be homogeneous of degree two, so that C and mu are one parameter and problems
        that differ in these alone can be solved along a path.
    solver : str, solver or None
    init : array (J, K), optional
        Kernel weights to start from.
    tol, max_iter : float and int
        The relative duality gap to reach, and how many evaluations a solver may take.
    device : str, optional
        A device of torch, on which machines are solved; for the squared loss on wide data.
    """

    targets: Targets
    penalty: Callable[[Shape], Penalty | MixedNorm]
    kernels: Any = None
    C: float = 1.0
    mu: float | str = "scale"
    parsimony: float = 0.0
    couplings: Any = None
    sharing: float = 1.0
    task_features: Any = None
    shared_rank: int | str | None = "auto"
    unknown_tasks: str = "error"
    normalize: str | None = "trace"
    choose_kernel: Callable[[list[str]], int] | None = None
    worst_task: bool = False
    has_path: bool = False
    solver: str | Solver | None = None
    init: Any = None
    tol: float = 1e-3
    max_iter: int = 100
    device: str | None = None

    def plan(self, data: TaskData, kernels: Sequence[FittedKernel] | None = None) -> FitPlan:
        """Apply to data: everything that can be refused is refused here, before a Gram matrix exists.

        `kernels` are fitted already where Gram matrices are reused.
        """
        couplings = self.fit_couplings(data)
        check_unknown_tasks(self.unknown_tasks, couplings, data)
        if kernels is None:
            kernels = self.fit_kernels(data)
        n_kernels = data.X.shape[2] if kernels is None else len(kernels)
        shape = Shape(n_kernels, data.n_tasks, len(couplings))
        penalty = self.penalty(shape)
        start = read_init(self.init, shape)
        learner, machines = self.targets.learner(), self._machines(data, couplings, n_kernels)
        units = Units.of(machines, learner, weights=is_homogeneous(penalty))
        mu = units.mu(self.targets.spread(data) if isinstance(self.mu, str) else self.mu)
        return FitPlan(
            fit=self,
            data=data,
            kernels=kernels,
            couplings=couplings,
            penalty=penalty,
            machines=units.machines(machines),
            learner=units.learner(learner),
            mu=mu,
            start=None if start is None else units.weights(start),
            units=units,
        )

    def _machines(self, data: TaskData, couplings: Sequence[Coupling], n_kernels: int) -> Sequence[Machine]:
        """One for each task, or for each set of coupled tasks; as columns of one panel where that is faster."""
        learner, wide = self.targets.learner(), data.form == "wide"
        together = isinstance(learner, Ridge) and wide
        if self.device is not None and not (together or (isinstance(learner, SVM) and wide and not couplings)):
            raise ValueError(
                f"device={self.device!r} is for wide data (y with a column for each task) with the squared loss, or "
                "the hinge loss without couplings; leave it out, or pass arrays of NumPy, for others"
            )
        faster = panel_pays(len(data.X), data.n_tasks, n_kernels, coupled=bool(couplings))
        if together and (faster or self.device is not None):
            panel = self.targets.panel(data, self.C)
            if not couplings:
                return panel
            # A task of one class has no intercept of its own, and a panel one for each task.
            one_class = isinstance(self.targets, Classification) and any((y == y[0]).all() for y in data.y)
            if len(panel.component) == data.n_tasks and not one_class:
                return panel
        linked = connected_tasks(couplings, data.n_tasks) if couplings else ()
        machines = self.targets.machines(data, self.C, linked)
        classes = isinstance(self.targets, Classification)
        return link_machines(machines, couplings, data.labels, classes) if couplings else machines

    def fit_kernels(self, data: TaskData) -> list[FittedKernel] | None:
        """Fit the kernels on the training rows; None where Gram matrices are precomputed."""
        if is_precomputed(self.kernels):
            return None
        kernels = read_kernels(self.kernels).fit(data)
        if self.choose_kernel is None:
            return kernels
        return [kernels[self.choose_kernel([kernel.name for kernel in kernels])]]

    def fit_couplings(self, data: TaskData) -> tuple[Coupling, ...]:
        """Return the couplings of the tasks of these data."""
        return read_couplings(self.couplings, data, self.sharing, self.task_features)

    @property
    def path_position(self) -> float:
        """log(mu / C^3), the one parameter that C and mu make; see `model_selection.grid`."""
        return float(np.log(1.0 if isinstance(self.mu, str) else self.mu) - 3.0 * np.log(self.C))


@dataclass(frozen=True)
class FitPlan:
    """A specification applied to data; the problem in units in which its numbers are of order one.

    Attributes
    ----------
    fit, data : the specification and the data.
    kernels : fitted kernels; None where Gram matrices are precomputed.
    couplings, penalty, machines, learner, mu : the parts of the problem, in the units of the problem.
    start : (K, J) kernel weights to start from, in these units.
    units : from these units to the user's.
    """

    fit: Fit
    data: TaskData
    kernels: Sequence[FittedKernel] | None
    couplings: tuple[Coupling, ...]
    penalty: Penalty | MixedNorm
    machines: Sequence[Machine]
    learner: Learner
    mu: float
    start: np.ndarray | None
    units: Units

    def gram_plan(self, couplings_width: int | None = None) -> GramPlan:
        """Return the sizes of the Gram matrices. The width of couplings may be that of other candidates too."""
        wide = width(self.couplings) if couplings_width is None else couplings_width
        # Machines with other losses need the entries of matrices.
        rank = self.fit.shared_rank if isinstance(self.learner, Ridge) else None
        return plan_grams(self.data, self.kernels, self.fit.normalize, wide, rank)

    def memory(self, n_jobs: int = 1) -> Need:
        return fit_need(self.gram_plan(), self.solved_by, n_jobs)

    @property
    def solved_by(self) -> str:
        """How machines are solved: the name of the learner, or "panel"."""
        return "panel" if isinstance(self.machines, MachinePanel) else self.learner.name

    def raw_grams(self, plan: GramPlan | None = None) -> RawGrams:
        """Evaluate the kernels."""
        return raw_grams(self.data, self.kernels, self.fit.normalize, self.gram_plan() if plan is None else plan)

    def scale(self, raw: RawGrams, overwrite: bool = False) -> tuple[Grams, KernelBank]:
        """Scale evaluated kernels by the rows of this plan."""
        return scale_grams(raw, self.data, self.fit.normalize, self.couplings, overwrite, self.fit.parsimony)

    def grams(self) -> tuple[Grams, KernelBank]:
        """Evaluate and scale the kernels; precomputed ones on the device where there is one, if they fit there."""
        device, normalize = self.fit.device, self.fit.normalize
        bare = self.kernels is None and not self.couplings and not self.fit.parsimony
        if device is not None and isinstance(self.learner, Ridge) and bare and scales_on_device(self.data, normalize):
            arrays = arrays_on(device)
            try:
                return device_grams(self.data, normalize, arrays)
            except arrays.out_of_memory:
                arrays.release()
        return self.scale(self.raw_grams(), overwrite=True)

    def problem(self, grams: Grams) -> AnyProblem:
        """Put the parts together."""
        if isinstance(grams, SharedGrams) and not isinstance(self.learner, Ridge):
            grams.compute_on_demand()  # in main memory: a device takes as long
        elif self.fit.device is not None:
            grams = on_device(grams, self.fit.device)
        if self.fit.worst_task:
            return WorstTaskProblem(grams, self.machines, self.learner)
        return weights_problem(grams, self.machines, self.learner, self.penalty, self.mu)

    def solve(
        self, problem: AnyProblem, each: Each = serially, verbose: int = 0, callback: Callable | None = None
    ) -> Solution:
        """Return the solution in the user's units."""
        return solve(
            problem,
            self.fit.solver,
            start=self.start,
            tol=self.fit.tol,
            max_iter=self.fit.max_iter,
            each=each,
            verbose=verbose,
            callback=callback,
            units=self.units,
        )

    def run(self, options: RunOptions, raw: RawGrams | None = None) -> Fitted:
        """Build the Gram matrices (or scale those that are there), solve, and keep the functions."""
        if options.engine.splits and raw is None:
            return self._fitted(None, *solve_in_blocks(self, options), options)
        return self.run_scaled(*(self.grams() if raw is None else self.scale(raw)), options)

    def run_scaled(self, grams: Grams, bank: KernelBank, options: RunOptions) -> Fitted:
        """Solve on scaled Gram matrices, and keep the functions."""
        problem = self.problem(grams)
        with Workers(options.n_jobs) as workers:
            solution = self.solve(problem, workers.map, options.verbose, options.callback)
        return self._fitted(grams, bank, solution, options)

    def _fitted(self, grams: Grams | None, bank: KernelBank, solution: Solution, options: RunOptions) -> Fitted:
        attributes, excess = self._attributes(bank, solution), 0.0
        classification = isinstance(self.fit.targets, Classification)
        attributes["uncertainty_"] = Uncertainty(self.fit, self.data, options, classification=classification)
        if bank.clipped:
            targets, linked = self.fit.targets, connected_tasks(self.couplings, self.data.n_tasks)
            machines = targets.machines(self.data, self.fit.C, linked if self.couplings else ())
            functions, learner = attributes["functions_"], targets.learner()
            excess = clipping_excess(functions, self.data, machines, learner, solution.duals)
            attributes["objective_"] += excess
            attributes["duality_gap_"] += excess
        if isinstance(grams, CoupledGrams):
            attributes["part_shares_"] = self._part_shares(grams, solution)
            attributes["shared_error_"] = None if bank.link_factors is None else bank.link_factors.missing()
        warnings = (
            *convergence_warnings(solution, self.fit.tol),
            *collapse_warnings(self.penalty, solution.B, self.data.n_tasks),
            *approximation_warnings(bank, self.fit.shared_rank),
            *clipping_warnings(excess, attributes["objective_"], self.fit.tol),
            *spread_warnings(self.kernels, self.data),
        )
        return Fitted(attributes, warnings)

    def _part_shares(self, grams: CoupledGrams, solution: Solution) -> np.ndarray:
        return solution.duals.part_shares(grams, solution.B)

    def _attributes(self, bank: KernelBank, solution: Solution) -> dict[str, Any]:
        data, n_tasks = self.data, self.data.n_tasks
        a, intercepts = split_by_task(solution.duals, self.machines, data, self.couplings)
        spread = solution.duals.a if isinstance(solution.duals, PanelDuals) else None
        attributes: dict[str, Any] = {
            "tasks_": data.labels,
            "data_form_": data.form,
            "kernels_": bank.names if bank.kernels is None else bank.kernels,
            "kernel_names_": np.array(bank.names),
            "kernel_weights_": solution.B[:, :n_tasks].T.copy(),
            "relation_": solution.relation.block(n_tasks),
            "objective_": solution.primal,
            "duality_gap_": solution.gap,
            "effective_rank_": effective_rank(solution.B),
            "history_": solution.history,
            "n_iter_": len(solution.history["iteration"]),
            "dual_coef_": a,
            "intercept_": stack_intercepts(intercepts),
            "functions_": task_functions(data, bank, solution.B, a, intercepts, self.couplings, spread),
            "couplings_": self.couplings,
            "coupling_weights_": solution.B[:, n_tasks:].T.copy(),
        }
        linked = connected_tasks(self.couplings, n_tasks) if self.couplings else ()
        return attributes | self.fit.targets.attributes(data, linked)


def check_unknown_tasks(unknown_tasks: str, couplings: Sequence[Coupling], data: TaskData) -> None:
    """Raise if unknown tasks are to be predicted by a common part and the model has none."""
    if unknown_tasks == "common" and not any(coupling.is_common for coupling in couplings):
        raise ValueError("unknown_tasks='common' predicts by what all tasks have in common: set couplings='common'")
