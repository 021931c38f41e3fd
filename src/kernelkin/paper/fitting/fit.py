"""Kernel machines of many tasks with learned kernel weights: specification, plan and run.

The method `plan` of a specification (`Fit`, or that of another model) validates the data. The method `run` of the plan
builds the Gram matrices, solves the problem, and returns the fitted attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...data.forms import TaskData
from ...engines.threads import Workers
from ...estimators import Fitted, RunOptions
from ...exceptions import ApproximationWarning, CollapseWarning
from ...kernels.families import is_precomputed, source_kernels
from ...kernels.kernel import FittedKernel, fitting_bytes, spread_warnings
from ...memory import SOLVER_ARRAYS, Need, base_bytes
from ..couplings import Coupling, connected_tasks, read_couplings
from ..functions import TaskFunctions, task_functions
from ..grams.build import KernelBank, RawGrams, raw_grams, scale_grams
from ..grams.coupled import CoupledGrams, Grams, is_worthwhile, on_device
from ..grams.lowrank import low_rank_kernels
from ..grams.operator import LARGEST_INVERSES, PANEL_COLUMNS, column_bytes
from ..grams.stack import BATCH_BYTES
from ..learners.machines import SVM, DualSolution, Learner, Ridge
from ..penalties.norms import MixedNorm
from ..penalties.relation import Penalty, effective_rank
from ..problems.machines import MachineList, Units, standard_units
from ..problems.panel import MachinePanel, PanelDuals, panel_pays
from ..problems.problem import AnyProblem, MixedNormProblem, Problem, WorstTaskProblem
from ..solvers.driver import UNFINISHED, Solution, Solver, solve
from ..uncertainty import Uncertainty
from .targets import Classification, Targets, link_machines, split_by_task, task_classes

Warnings = list[tuple[str, type[Warning]]]

_FEWER_GRAMS = (
    "use the TwoStageMKMTRL estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, which "
    "halves the size of Gram matrices; or, with coupled tasks, low-rank kernels (linear or polynomial on few columns, "
    "or on columns with few distinct rows), or KinRegressor or KinClassifier, which share functions on many rows"
)


class Shape(NamedTuple):
    """The number of kernels, the task labels and the number of couplings of a problem."""

    n_kernels: int
    tasks: Sequence[Any]
    n_couplings: int = 0

    @property
    def n_components(self) -> int:
        """The number J of columns of the kernel weights B (K, J): one per task, then one per coupling."""
        return len(self.tasks) + self.n_couplings


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Specification of kernel machines with weights on several kernels.

    Parameters
    ----------
    targets : how targets are coded, and the loss
    penalty : penalty on the kernel weights, norm of the functions instead, or callable
        A callable takes a `Shape` and returns one of these.
    mu : float or "scale"
        Strength of the penalty; "scale": the variance of the targets within tasks.
    choose_kernel : callable, optional
        Takes the names of the fitted kernels and returns the position of the only kernel to use.
    worst_task : bool
        Minimise the value of the worst task's machine instead of the sum over tasks.
    has_path : bool
        Whether the penalty is homogeneous of degree two, so that C and mu are one parameter and problems that differ
        only in these can be solved with warm starts.
    init : array (J, K), optional
        Kernel weights to start from.
    kernels, C, parsimony, couplings and all others : as in the estimators, whose documentation has them
    """

    targets: Targets
    penalty: Penalty | MixedNorm | Callable[[Shape], Penalty | MixedNorm]
    kernels: Any = None
    C: float = 1.0
    mu: float | str = "scale"
    parsimony: float = 0.0
    couplings: Any = None
    sharing: float = 1.0
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
        """Validate data and parameters, before any Gram matrix is computed, and return the plan.

        Fitted `kernels` are passed if Gram matrices are reused.
        """
        couplings = () if self.couplings is None else read_couplings(self.couplings, data, self.sharing)
        if self.unknown_tasks == "common" and not any(coupling.is_common for coupling in couplings):
            raise ValueError("unknown_tasks='common' needs a part that all tasks share: set couplings='common'")
        if kernels is None and not is_precomputed(self.kernels):
            kernels = source_kernels(self.kernels, data)
            if self.choose_kernel is not None:
                kernels = [kernels[self.choose_kernel([kernel.name for kernel in kernels])]]
        shape = Shape(data.X.shape[2] if kernels is None else len(kernels), data.labels.tolist(), len(couplings))
        penalty = self.penalty(shape) if callable(self.penalty) else self.penalty
        learner = self.targets.learner()
        machines: Any = self._machines(data, couplings, learner, shape.n_kernels)
        if not isinstance(self.mu, str):
            mu = self.mu
        else:
            mu = 1.0 if isinstance(self.targets, Classification) else self.targets.spread(data)
        # If R(sB) = s^2 R(B), C and mu are one parameter and can be rescaled together.
        homogeneous = not isinstance(penalty, MixedNorm) and not penalty.is_indicator
        machines, learner, mu, units = standard_units(machines, learner, mu, weights=homogeneous)
        start = None if self.init is None else units.weights(read_init(self.init, shape))
        return FitPlan(self, data, kernels, couplings, penalty, machines, learner, mu, start, units)

    def _machines(
        self, data: TaskData, couplings: Sequence[Coupling], learner: Learner, n_kernels: int
    ) -> MachineList | MachinePanel:
        """Return one machine per task, or per set of coupled tasks; as columns of one panel if that is faster."""
        wide, classes = data.form == "wide", isinstance(self.targets, Classification)
        together = isinstance(learner, Ridge) and wide
        if self.device is not None and not (together or (isinstance(learner, SVM) and wide and not couplings)):
            raise ValueError(
                f"device={self.device!r} is only for wide data (y with a column for each task) with the squared loss, "
                "or the hinge loss without couplings; otherwise leave it out and pass NumPy arrays"
            )
        sizes = len(data.X), data.n_tasks, n_kernels
        if together and (self.device is not None or panel_pays(*sizes, coupled=bool(couplings))):
            panel = self.targets.panel(data, self.C)
            # Coupled tasks with a single class have no intercept of their own, which a panel does not support.
            one_class = classes and any((y == y[0]).all() for y in data.y)
            if not couplings or (len(panel.component) == data.n_tasks and not one_class):
                return panel
        if not couplings:
            return MachineList(self.targets.machines(data, self.C))
        machines = self.targets.machines(data, self.C, connected_tasks(couplings, data.n_tasks))
        return MachineList(link_machines(machines, couplings, data.labels, classes))

    @property
    def path_position(self) -> float:
        """log(mu / C^3), the only combination of C and mu that matters; see `model_selection.grid`."""
        return float(np.log(1.0 if isinstance(self.mu, str) else self.mu) - 3.0 * np.log(self.C))


class FitPlan(NamedTuple):
    """A specification applied to data; the problem is in `units` in which its numbers are of order one.

    `kernels` are fitted, and None where Gram matrices are precomputed; `start` (K, J) are weights to start from.
    """

    fit: Fit
    data: TaskData
    kernels: Sequence[FittedKernel] | None
    couplings: tuple[Coupling, ...]
    penalty: Penalty | MixedNorm
    machines: MachineList | MachinePanel
    learner: Learner
    mu: float
    start: np.ndarray | None
    units: Units

    def memory(self, n_jobs: int = 1, n_fits: int = 0) -> Need:
        """Bound the memory of a fit, or of a search that fits `n_fits` folds at a time on shared Gram matrices.

        It counts the Gram matrices and the arrays of each solution, generously.
        """
        data, machines, X = self.data, self.machines, self.data.X
        wide, T, K = data.form == "wide", data.n_tasks, X.shape[2] if self.kernels is None else len(self.kernels)
        sizes, N = np.array([len(X)] if wide else list(map(len, data.rows))), sum(map(len, data.rows))
        stacks, width = K * X.dtype.itemsize * int((sizes**2).sum()), sum(c.factor.shape[1] for c in self.couplings)
        fits, threads = max(n_fits, 1), -(-n_jobs // max(n_fits, 1))
        if isinstance(machines, MachinePanel):
            # A basis; targets, costs and dual variables of two evaluations; and work arrays per column.
            (n, columns), n_targets = machines.y.shape, machines.y.size
            work = (48 + 4 * K) * n * n + 128 * n_targets
            work += (columns if width else threads * PANEL_COLUMNS) * column_bytes(n, K)
            work += 16 * min(columns * n_targets, LARGEST_INVERSES) if width else 0
            # Folds may have too few rows for a panel.
            work += 2 * min(8 * T * n * n, BATCH_BYTES) + 32 * n * n if n_fits else 0
        else:
            # The combined matrices of a batch of machines; those that are being solved; images of dual variables.
            squares = [8 * max(len(machine.y), len(X) * wide) ** 2 for machine in machines]
            n_targets = sum(machine.y.size for machine in machines)
            work = 2 * min(sum(squares), BATCH_BYTES) + 2 * (1 + min(threads, len(squares))) * max(squares)
            work += 16 * K * n_targets
        if width and isinstance(machines, MachineList):
            # The kernels between the rows of all tasks, or their factors of low rank.
            link = None if wide else low_rank_kernels(data, self.kernels, self.fit.normalize)
            rank = link.rank if link else len(X) if wide else N
            stacks += 0 if wide else N * (8 * rank if link else K * X.dtype.itemsize * N)
            if isinstance(self.learner, Ridge) and is_worthwhile(width * rank, N):
                work = 24 * sum(len(rows) ** 2 for rows in data.rows) + 36 * N * width * rank
        # Weights, Hessians, and steps of the solver.
        work += 8 * T * K * (SOLVER_ARRAYS + 3 * K)
        row_bytes = 0 if self.kernels is None else X[:1].nbytes
        copies = row_bytes * int(6 * sizes.max() + (2 + n_fits) * sizes.sum())
        used = max((1 + n_fits) * stacks + fits * work, fitting_bytes(self.kernels, X))
        return Need(base_bytes(T, n_targets) + copies + used, _FEWER_GRAMS)

    def run(
        self, options: RunOptions, raw: RawGrams | None = None, scaled: tuple[Grams, KernelBank] | None = None
    ) -> Fitted:
        """Build the Gram matrices, or use the given ones, solve, and return the fitted attributes."""
        fit = self.fit
        grams, bank = self.grams(raw) if scaled is None else scaled
        limits: dict[str, Any] = {"start": self.start, "tol": fit.tol, "max_iter": fit.max_iter, "units": self.units}
        shown: dict[str, Any] = {"verbose": options.verbose, "callback": options.callback}
        with Workers(options.n_jobs) as workers:
            solution = solve(self.problem(grams), fit.solver, each=workers.map, **limits, **shown)
        return self._fitted(grams, bank, solution, options)

    def grams(self, raw: RawGrams | None = None, overwrite: bool = False) -> tuple[Grams, KernelBank]:
        """Evaluate the kernels, unless a search has done so, and scale them on the rows of this plan."""
        if raw is None:
            raw, overwrite = raw_grams(self.data, self.kernels, self.fit.normalize, bool(self.couplings)), True
        return scale_grams(raw, self.data, self.fit.normalize, self.couplings, overwrite, self.fit.parsimony)

    def problem(self, grams: Any) -> AnyProblem:
        """Return the problem on scaled Gram matrices."""
        if self.fit.device is not None and isinstance(self.learner, Ridge):
            grams = on_device(grams, self.fit.device)
        given = grams, self.machines, self.learner
        if self.fit.worst_task:
            return WorstTaskProblem(*given)
        if isinstance(self.penalty, MixedNorm):
            return MixedNormProblem(*given, self.penalty)
        return Problem(*given, self.penalty, self.mu)

    def _fitted(self, grams: Any, bank: Any, solution: Solution, options: RunOptions) -> Fitted:
        """Return the fitted attributes of a solution, with warnings."""
        fit, data, T, B = self.fit, self.data, self.data.n_tasks, solution.B
        linked = connected_tasks(self.couplings, T) if self.couplings else ()
        duals: Any = solution.duals
        relation = self.penalty.relation(B)
        a, intercepts = split_by_task(duals, self.machines, data, self.couplings)
        spread = duals.a if isinstance(duals, PanelDuals) else None
        attributes, warnings = solution_attributes(fit, data, bank, solution, options, a, intercepts, linked)
        attributes |= {
            "kernel_weights_": B[:, :T].T.copy(),
            "relation_": relation.block(T) if self.couplings else relation,
            "effective_rank_": effective_rank(B),
            "functions_": task_functions(data, bank, B, a, intercepts, self.couplings, spread),
            "couplings_": self.couplings,
            "coupling_weights_": B[:, T:].T.copy(),
        }
        if bank.clipped:
            warnings += count_clipping(attributes, fit, data, duals, linked)
        if isinstance(grams, CoupledGrams):
            attributes["part_shares_"] = duals.part_shares(grams, B)
        if not isinstance(self.penalty, MixedNorm) and self.penalty.collapses:
            warnings += collapse_warnings(B, T)
        return Fitted(attributes, (*warnings, *spread_warnings(self.kernels, data)))


def solution_attributes(
    fit: Any,
    data: TaskData,
    bank: KernelBank,
    solution: Solution,
    options: RunOptions,
    a: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    linked: Sequence[np.ndarray] = (),
) -> tuple[dict[str, Any], Warnings]:
    """Return the fitted attributes that all kernel models share, and a warning if the solver ended early."""
    classification = isinstance(fit.targets, Classification)
    attributes = {
        "tasks_": data.labels,
        "data_form_": data.form,
        "kernels_": bank.names if bank.kernels is None else bank.kernels,
        "kernel_names_": np.array(bank.names),
        "dual_coef_": a,
        "intercept_": np.concatenate(intercepts) if max(map(len, intercepts)) == 1 else list(intercepts),
        "objective_": solution.primal,
        "duality_gap_": max(solution.primal - solution.bound, 0.0),
        "history_": solution.history,
        "n_iter_": len(solution.history["iteration"]),
        "uncertainty_": Uncertainty(fit, data, options, classification=classification),
    }
    if classification:
        found = task_classes(data, linked)
        attributes |= {"task_classes_": found, "classes_": np.unique(np.concatenate(found))}
    if solution.status not in UNFINISHED:
        return attributes, []
    reached = f"The relative duality gap is {solution.relative_gap:.1e}, but tol={fit.tol:g}."
    return attributes, [(f"{solution.status.value}. {reached}", ConvergenceWarning)]


def read_init(init: Any, shape: Shape) -> np.ndarray:
    """Validate `init` (J, K) and return it as kernel weights (K, J)."""
    weights = np.asarray(init)
    expected = (shape.n_components, shape.n_kernels)
    if weights.shape != expected:
        raise ValueError(f"init must be kernel weights of shape {expected}, got {weights.shape}")
    if weights.dtype.kind not in "fiu" or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise ValueError("init must be kernel weights that are finite, non-negative and not all zero")
    return weights.T.astype(np.float64)


def collapse_warnings(B: np.ndarray, n_tasks: int) -> Warnings:
    """Return a warning if all tasks have the same kernel weights up to scale; B (K, J)."""
    rank = effective_rank(B)
    if min(B[:, :n_tasks].shape) == 1 or rank >= 1 + 1e-3:
        return []
    message = (
        f"the relationship has collapsed: all {n_tasks} tasks use the same mix of kernels "
        f"(effective rank {rank:.4f}). The optimum of the paper's penalty always has this property, so "
        "task_relationship_ does not show groups of tasks. Try min_rank=2 or more, or shrinkage=0.1."
    )
    return [(message, CollapseWarning)]


def count_clipping(
    attributes: dict[str, Any], fit: Any, data: TaskData, duals: Sequence[DualSolution], linked: Sequence[Any] = ()
) -> Warnings:
    """Add to objective and gap what the loss of predictions at training rows is above that of the machines.

    Machines on clipped Gram matrices know other values than the kernels that predictions use.
    """
    machines, learner = fit.targets.machines(data, fit.C, linked), fit.targets.learner()
    functions: TaskFunctions = attributes["functions_"]
    excess = -sum(dual.primal - dual.quad for dual in duals)
    whole = functions.values(data.X, None) if data.form == "wide" else None
    for t, (rows, machine) in enumerate(zip(data.rows, machines, strict=True)):
        f = functions.values(data.X[rows], np.full(len(rows), t)) if whole is None else whole[rows, t]
        excess += learner.loss(machine, f[:, : machine.y.shape[1]])
    return add_excess(attributes, max(excess, 0.0), fit.tol)


def add_excess(attributes: dict[str, Any], excess: float, tol: float) -> Warnings:
    """Add the loss that clipping hides to objective and gap; return a warning if its share is above `tol`."""
    attributes["objective_"] += excess
    attributes["duality_gap_"] += excess
    if not excess > tol * abs(attributes["objective_"]):
        return []
    message = (
        f"a kernel is not exactly positive semi-definite on the training rows, so the nearest positive semi-definite "
        f"matrix was fitted. This increases the loss of predictions by {excess:.3g}, which is included in objective_ "
        f"and duality_gap_. Lower C, or compute the kernel in float64, or add a small multiple of the identity to its "
        "matrix"
    )
    return [(message, ApproximationWarning)]
