"""Two-stage fits: learn kernel weights and relationship online from pairs of rows, then fit the machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ...data.forms import Form, TaskData, tiny_tasks
from ...decompositions import eigh
from ...engines.threads import Workers
from ...kernels.families import is_precomputed, resolve_kernels, source_kernels, spread_warnings
from ...kernels.grams import Scaling, mirror
from ...kernels.kernel import FittedKernel
from ...memory import FIXED, TASK_OBJECTS, Need
from ..couplings import Coupling, read_couplings, width
from ..functions import task_functions
from ..grams.build import KernelBank, charges_of, effective_dimensions, fit_need, plan_grams
from ..grams.row_kernels import BLOCK_BYTES, RowKernels
from ..grams.stack import GramStack, TaskGrams
from ..learners.machines import SVM, SVR, Learner, Machine
from ..penalties.norms import FixedWeights
from ..penalties.relation import effective_rank
from ..problems.machines import MachineList, Units
from ..problems.problem import Problem
from ..solvers.driver import solve
from ..solvers.online import Online, OnlineRun, PairSource, Stream, block_length
from ..uncertainty import Uncertainty
from .fit import Fit, Fitted, RunOptions, check_common_part
from .targets import Classification, Targets, task_classes

# Maximum number of rows per task, and of tasks, from which the charges of kernels are computed.
MAX_CHARGED_ROWS, MAX_CHARGED_TASKS = 300, 40
# Number of landmarks of Nystroem features, relative size of negligible eigenvalues, and iterations of linear machines.
N_LANDMARKS, _NEGLIGIBLE, _MAX_ITER = 500, 1e-12, 10_000

_SMALLER_TASKS = (
    "lower max_exact, so that large tasks use Nystroem features; or n_jobs, so that fewer tasks are fitted at a time; "
    "or pass the rows in pieces to partial_fit, which keeps `reservoir` rows of each task"
)


@dataclass(frozen=True, kw_only=True)
class TwoStageFit:
    """Specification of kernel weights learned online, and of one machine for each task at these weights.

    Parameters are those of the estimators, those of `Online`, and those of `Fit`. The first stage does not depend on
    the couplings; with `parsimony` it sees charged kernels, and its weights are those of the kernels as they are. Tasks
    of more than `max_exact` rows use Nystroem features and one of scikit-learn's linear machines; `tol` is the relative
    duality gap of exact machines, and the tolerance of the linear ones. A stream keeps `reservoir` rows of each task.
    """

    targets: Targets
    kernels: Any = None
    C: float = 1.0
    couplings: Any = None
    unknown_tasks: str = "error"
    parsimony: float = 0.0
    mu: float = 1.0
    shrinkage: float = 0.1
    min_rank: float = 1.0
    n_rounds: int = 100_000
    update: str = "hinge"
    refresh: int | None = None
    average: bool = True
    center_pairs: bool = True
    reservoir: int = 500
    max_exact: int = 2000
    normalize: str | None = "trace"
    tol: float = 1e-3
    random_state: Any = None

    def plan(self, data: TaskData) -> TwoStagePlan:
        """Apply to data."""
        if self.min_rank > data.n_tasks:
            raise ValueError(f"min_rank={self.min_rank:g} is larger than the number of tasks, {data.n_tasks}")
        if self.unknown_tasks == "common":
            check_common_part(read_couplings(self.couplings, data))
        machines = self.targets.machines(data, self.C)
        kernels = None if is_precomputed(self.kernels) else source_kernels(self.kernels, data)
        values = RowKernels.of(data.X, kernels, self.normalize)
        values.check_present(np.flatnonzero(data.sample_weight > 0))
        return TwoStagePlan(self, data, values, machines)

    @property
    def online(self) -> Online:
        """The solver of the first stage."""
        return Online(self.mu, self.update, self.shrinkage, self.min_rank, self.refresh)

    @property
    def stream_fault(self) -> str:
        """The reason why `partial_fit` is not possible; empty if it is."""
        if is_precomputed(self.kernels):
            return "partial_fit does not support precomputed kernels: every new row would need values with all others"
        if self.normalize == "center":
            return "partial_fit does not support normalize='center', which needs all rows of a task at once"
        if self.parsimony:
            return "partial_fit does not support parsimony, which needs Gram matrices before the first pair"
        return ""

    def stream(self, seed: int, verbose: int = 0) -> Stream:
        """Return an empty stream."""
        classes = isinstance(self.targets, Classification)
        storage = {"normalize": self.normalize, "capacity": self.reservoir, "classes": classes}
        run = {"center": self.center_pairs, "verbose": verbose}
        return Stream(resolve_kernels(self.kernels), self.online, run=run, storage=storage, seed=seed)

    def seed(self) -> int:
        """Draw the seed of pairs, reservoirs and landmarks."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def learned(
        self, labels: np.ndarray, form: Form, values: RowKernels, run: OnlineRun, charges: np.ndarray | float = 1.0
    ) -> dict[str, Any]:
        """Return the kernel weights and relationship of an online run, with charges (K,), as fitted attributes."""
        weights = run.state.weights(self.average)
        B = np.zeros((len(weights), len(labels)))
        B[:, : weights.shape[1]] = np.maximum(weights, 0.0)
        charged = (B.T / charges).T
        # Pairs determine only the ratios of weights. They are scaled to sum one, so that C means the same as for a
        # single kernel. A task without weights uses the average kernel.
        charged = np.where(charged.any(axis=0), charged, 1.0)
        return {
            "tasks_": labels,
            "data_form_": form,
            "kernels_": values.names if values.kernels is None else values.kernels,
            "kernel_names_": np.array(values.names),
            "kernel_weights_": (charged / charged.sum(axis=0)).T,
            "relation_": self.online.relation(B),
            "effective_rank_": effective_rank(B),
            "history_": run.history,
            "n_iter_": run.state.rounds,
        }

    def of_stream(self, stream: Stream, form: Form) -> Fitted:
        """Return the fitted attributes of a stream, without machines, which are fitted when needed."""
        begun = stream.begun()
        reservoirs, run = begun.reservoirs, begun.run
        assert reservoirs is not None and reservoirs.X is not None and run is not None
        values = RowKernels.of(reservoirs.X, list(reservoirs.kernels), self.normalize)
        attributes = self.learned(begun.tasks.labels, form, values, run)
        attributes |= {"n_skipped_": reservoirs.n_skipped, "stream_": stream}
        if begun.classes is not None:
            attributes["classes_"] = np.sort(begun.classes.labels)
        return Fitted(attributes)

    def machines_of_stream(self, stream: Stream, weights: np.ndarray) -> SecondStage:
        """Plan the machines of a stream's tasks on the rows in the reservoirs, at kernel weights (T, K)."""
        begun = stream.begun()
        assert begun.reservoirs is not None
        return SecondStage(self, begun.reservoirs.kernels, weights, stream.seed).plan(begun.data())


class TwoStagePlan(NamedTuple):
    """A specification applied to data; `values` are the kernels, to be evaluated between any rows."""

    fit: TwoStageFit
    data: TaskData
    values: RowKernels
    machines: Sequence[Machine]

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of pairs, of the rows kept for a stream, and of the second stage."""
        fit, data = self.fit, self.data
        plan = plan_grams(data, self.values.kernels, fit.normalize)
        K, T, rows = plan.n_kernels, len(plan.machines), sum(plan.machines)
        length = block_length(data.X.shape[1] if self.values.kernels is not None else 1, K)
        drawn = min(fit.n_rounds, length) * (4 * plan.row_bytes + 8 * (5 * K + 12))
        held = 64 * rows + 160 * K * T
        if not fit.stream_fault:
            kept, read = sum(min(n, fit.reservoir) for n in plan.machines), min(rows, length)
            held += 8 * T * min(max(plan.machines), fit.reservoir) + kept * (32 + 2 * plan.row_bytes)
            held += read * (3 * plan.row_bytes + 8 * (4 * K + 12))
        machines = SecondStage(fit, self.values.kernels).plan(data).memory(n_jobs)
        return Need(held + max(machines.peak, FIXED + max(drawn, plan.fitting_bytes)), machines.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Learn the kernel weights, fit the machines, and store the state for `partial_fit`."""
        fit, data, values = self.fit, self.data, self.values
        if options.engine.splits:
            raise ValueError(
                "engine: the first stage of this model processes pairs of rows in sequence; use engine='threads'"
            )
        seed, classification = fit.seed(), isinstance(fit.targets, Classification)
        rng = np.random.default_rng(seed)
        how: dict[str, Any] = {"n_rounds": fit.n_rounds, "center": fit.center_pairs, "verbose": options.verbose}
        with Workers(1):
            charges, run = self._charges(), OnlineRun(fit.online, values.n_kernels, data.n_tasks, **how)
            source = PairSource(data, values, self.machines, fit.normalize, classes=classification)
            for rounds in source.draw(rng, fit.n_rounds):
                run.step(rounds._replace(values=rounds.values / charges) if fit.parsimony else rounds)
        learned = fit.learned(data.labels, data.form, values, run, charges) | {"n_skipped_": 0, "stream_": None}
        machines = SecondStage(fit, values.kernels, learned["kernel_weights_"], seed).plan(data).run(options)
        if not fit.stream_fault and values.kernels is not None:
            learned["stream_"] = fit.stream(seed, options.verbose).after(run, data, values.kernels, rng)
        learned["uncertainty_"] = Uncertainty(fit, data, options, classification=classification)
        warnings = (*machines.warnings, *spread_warnings(values.kernels, data))
        return Fitted(machines.attributes | learned, warnings)

    def _charges(self) -> np.ndarray:
        """Return the charges (K,) of kernels, from a sample of rows and tasks."""
        fit, data, values = self.fit, self.data, self.values
        if not fit.parsimony:
            return np.ones(values.n_kernels)
        n_tasks = 1 if data.form == "wide" else min(data.n_tasks, MAX_CHARGED_TASKS)
        most = max(min(MAX_CHARGED_ROWS, int(np.sqrt(BLOCK_BYTES / (8 * values.n_kernels)))), 1)

        def scaled(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = rows[:: -(-len(rows) // most)]
            weight = data.sample_weight[rows]
            grams = values.cross(rows, rows, np.arange(values.n_kernels))
            scaling = values.scaling(rows, weight, fit.normalize)
            return scaling.apply(grams, values.diagonals(rows), overwrite=True), weight

        tasks = np.linspace(0, data.n_tasks - 1, n_tasks).astype(int)
        return charges_of(effective_dimensions(scaled(data.rows[t]) for t in tasks), fit.parsimony)


class SecondStage(NamedTuple):
    """One kernel machine for each task at kernel weights (T, K); None where only memory is asked for.

    Coupled tasks, and tasks that share precomputed Grams, are fitted together by a `Fit` with `FixedWeights`. The
    kernel weights of a coupling are the mean of those of its tasks, and it is as strong as the own parts; together they
    have a mean diagonal of one. The seed places the landmarks of Nystroem features. `data` and `values`, the kernels
    between their rows, are those of a plan.
    """

    fit: TwoStageFit
    kernels: Sequence[FittedKernel] | None
    weights: Any = None
    seed: int = 0
    data: Any = None
    values: Any = None

    @property
    def unknown_tasks(self) -> str:
        return self.fit.unknown_tasks

    def plan(self, data: TaskData) -> SecondStage:
        """Apply to data."""
        if self.weights is not None and len(self.weights) != data.n_tasks:
            raise ValueError(f"there are weights for {len(self.weights)} tasks, but {data.n_tasks} tasks")
        kernels = None if self.kernels is None else list(self.kernels)
        return self._replace(data=data, values=RowKernels.of(data.X, kernels, self.fit.normalize))

    def memory(self, n_jobs: int = 1) -> Need:
        fit, data, values = self.fit, self.data, self.values
        linked = width(read_couplings(fit.couplings, data))
        plan = plan_grams(data, values.kernels, fit.normalize, linked)
        if linked or self._shares_grams:
            return fit_need(plan, fit.targets.learner().name, n_jobs)
        each = []
        for n in plan.machines:
            # Its matrix or Nystroem features with copies, or with blocks of kernel values; and its rows.
            square = 8 * n * (n if n <= fit.max_exact else min(N_LANDMARKS, fit.max_exact))
            work = max(5 * square, 2 * square + min(2 * BLOCK_BYTES, 2 * plan.n_kernels * square))
            each.append(work + 3 * plan.row_bytes * (plan.sizes[0] if plan.wide else n))
        held = sum(plan.machines) * (48 + 96 * plan.outputs) + len(plan.machines) * (TASK_OBJECTS + 64 * plan.n_kernels)
        held += plan.row_bytes * (plan.sizes[0] if plan.wide else sum(plan.machines))
        return Need(FIXED + held + sum(sorted(each, reverse=True)[:n_jobs]), _SMALLER_TASKS)

    def run(self, options: RunOptions) -> Fitted:
        """Fit the machines."""
        fit, data = self.fit, self.data
        classification = isinstance(fit.targets, Classification)
        faults = tiny_tasks(data, classification=classification)
        couplings = read_couplings(fit.couplings, data)
        if couplings or (self._shares_grams and not faults):
            fitted = self._run_together(couplings, options)
        elif len(faults) == data.n_tasks:
            raise ValueError(next(iter(faults.values())))
        else:
            fitted = self._run_each(faults, options)
        fitted.attributes["uncertainty_"] = Uncertainty(
            self._replace(data=None, values=None), data, options, classification=classification
        )
        return fitted

    @property
    def _shares_grams(self) -> bool:
        """Whether all tasks share one set of precomputed Grams."""
        exact = max(map(len, self.data.rows)) <= self.fit.max_exact
        return self.values.kernels is None and self.data.form == "wide" and exact

    def _run_together(self, couplings: Sequence[Coupling], options: RunOptions) -> Fitted:
        fit = self.fit
        B, kernels = mean_weights(self.weights, couplings), "precomputed" if self.values.kernels is None else None
        names = ("targets", "C", "couplings", "unknown_tasks", "normalize", "tol")
        same = {name: getattr(fit, name) for name in names}
        exact = Fit(penalty=lambda shape: FixedWeights(B), kernels=kernels, **same)
        fitted = exact.plan(self.data, self.values.kernels).run(options._replace(verbose=0, callback=None))
        more = {"nystroem_tasks_": self.data.labels[:0], "unfitted_tasks_": {}}
        return Fitted(fitted.attributes | more, fitted.warnings)

    def _run_each(self, faults: dict[int, str], options: RunOptions) -> Fitted:
        """Fit one task at a time; tasks that cannot be fitted have the function zero."""
        fit, data, values, weights = self.fit, self.data, self.values, self.weights
        usable = np.array([t for t in range(data.n_tasks) if t not in faults])
        machines = dict(zip(usable.tolist(), fit.targets.machines(data.select(usable), fit.C), strict=True))
        every = np.arange(len(data.X))
        shared = values.scaling(every, data.sample_weight, fit.normalize) if data.form == "wide" else None

        def one(t: int) -> tuple[Scaling, np.ndarray, np.ndarray, float, float]:
            rows = data.rows[t]
            if t not in machines:
                zero = Scaling(np.ones(values.n_kernels)) if shared is None else shared
                return zero, np.zeros((len(rows), 1)), np.zeros(1), 0.0, 0.0
            values.check(rows)
            if shared is not None:
                return shared, *self._solve(shared, every, rows, weights[t], machines[t])
            scaling = values.scaling(rows, data.sample_weight[rows], fit.normalize)
            return scaling, *self._solve(scaling, rows, np.arange(len(rows)), weights[t], machines[t])

        with Workers(options.n_jobs) as workers:
            solved = workers.map(one, range(data.n_tasks))
        scalings, a, intercepts, objectives, gaps = map(list, zip(*solved, strict=True))
        bank = KernelBank(values.names, values.kernels, tuple(scalings[:1] if data.form == "wide" else scalings))
        attributes = {
            "objective_": float(sum(objectives)),
            "duality_gap_": float(sum(gaps)),
            "dual_coef_": a,
            "intercept_": np.concatenate(intercepts) if max(map(len, intercepts)) == 1 else intercepts,
            "functions_": task_functions(data, bank, weights.T, a, intercepts),
            "couplings_": (),
            "coupling_weights_": np.zeros((0, values.n_kernels)),
            "nystroem_tasks_": data.labels[[len(rows) > fit.max_exact for rows in data.rows]],
            "unfitted_tasks_": {data.labels[t].item(): fault for t, fault in faults.items()},
        }
        if isinstance(fit.targets, Classification):
            # Tasks without a machine get all classes.
            of_task = task_classes(data)
            classes = np.unique(np.concatenate(of_task))
            attributes["classes_"] = classes
            attributes["task_classes_"] = [classes if t in faults else own for t, own in enumerate(of_task)]
        return Fitted(attributes)

    def _solve(
        self, scaling: Scaling, base: np.ndarray, at: np.ndarray, b: np.ndarray, machine: Machine
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Solve one machine at kernel weights b (K,) on the rows base[at]; `scaling` was fitted on the rows `base`.

        Returns coefficients (n, m), intercepts (m,), objective and gap; the last two are NaN with Nystroem features.
        """
        fit, seed, learner = self.fit, self.seed, self.fit.targets.learner()
        if len(at) > fit.max_exact:
            rng = np.random.default_rng(seed)
            landmarks = np.sort(rng.choice(len(at), min(N_LANDMARKS, fit.max_exact), replace=False))
            cross = self.values.combined(b, scaling, base, at, at[landmarks])
            return *fit_nystroem(cross, landmarks, learner, machine, fit.tol, seed), np.nan, np.nan
        gram = self.values.combined(b, scaling, base, at, at)
        mirror(gram)
        # The combined kernel is the only kernel of a problem, which is then solved and certified like all others.
        grams = TaskGrams([GramStack(gram[np.newaxis])])
        fixed, machines = FixedWeights(np.ones((1, 1))), MachineList([machine])
        problem, units = Problem(grams, machines, learner, fixed).in_standard_units()
        solution = solve(problem, tol=fit.tol, units=units)
        dual = solution.duals[0]
        return dual.a, dual.intercept.sum(axis=0), solution.primal, solution.gap


def mean_weights(weights: np.ndarray, couplings: Sequence[Coupling]) -> np.ndarray:
    """Return the weights (K, J) of tasks and couplings, from those (T, K) of the tasks."""
    own = weights.T
    touched = [np.square(coupling.factor).sum(axis=1) for coupling in couplings]
    shared = [own @ weight / weight.sum() for weight in touched]
    return np.column_stack([own, *shared]) / (1 + len(couplings))


def fit_nystroem(
    cross: np.ndarray, landmarks: np.ndarray, learner: Learner, machine: Machine, tol: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit scikit-learn's linear machines on Nystroem features, from the kernel (n, m) between rows and landmarks.

    Returns coefficients (n, outputs), which are zero but for the landmarks (m,), and intercepts (outputs,).
    """
    # Imported here: few fits need these, and they take long to import.
    from sklearn.linear_model import Ridge
    from sklearn.svm import LinearSVC, LinearSVR

    own = cross[landmarks]
    eigenvalues, vectors = eigh((own + own.T) / 2)
    kept = eigenvalues > _NEGLIGIBLE * max(eigenvalues[-1], np.finfo(float).tiny)
    to_features = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    features = cross @ to_features
    # Targets are centred and scaled, because linear support vector machines also penalise the intercept.
    units = Units.of(MachineList([machine]), learner, weights=False)
    (scaled,), learner, _ = units.rescale(MachineList([machine]), learner)
    options = {"tol": tol, "max_iter": _MAX_ITER, "random_state": seed, "fit_intercept": bool(machine.n_groups)}
    if isinstance(learner, SVM):
        linear = LinearSVC(loss="hinge", **options)
    elif isinstance(learner, SVR):
        linear = LinearSVR(epsilon=learner.epsilon, **options)
    else:
        linear = Ridge(alpha=1.0, fit_intercept=bool(machine.n_groups))
    coefficients, intercepts = [], []
    for y, C in zip(scaled.y.T, scaled.C.T, strict=True):
        model = linear.fit(features, y, sample_weight=C)
        coefficients.append(np.ravel(model.coef_))
        intercepts.append(float(np.ravel(model.intercept_)[0]))
    a = np.zeros(machine.y.shape)
    a[landmarks] = np.ldexp(to_features @ np.column_stack(coefficients), units.dual)
    return a, np.ldexp(intercepts, units.target) + units.offsets[0].sum(axis=0)
