"""Two-stage fits: learn kernel weights and relationship online from pairs of rows, then fit the machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ...data.forms import Form, TaskData, tiny_tasks
from ...decompositions import eigh
from ...engines.threads import Workers
from ...kernels.families import is_precomputed, source_kernels, spread_warnings
from ...kernels.grams import Scaling, mirror
from ...kernels.kernel import fitting_bytes
from ...memory import FIXED, Need, base_bytes
from ..functions import task_functions
from ..grams.build import KernelBank
from ..grams.row_kernels import BLOCK_BYTES, RowKernels
from ..grams.stack import GramStack, TaskGrams
from ..learners.machines import SVM, SVR, Learner, Machine
from ..penalties.norms import FixedWeights
from ..penalties.relation import effective_rank
from ..problems.machines import MachineList, standard_units
from ..problems.problem import Problem
from ..solvers.driver import solve
from ..solvers.online import Online, OnlineRun, PairSource, Stream, block_length
from ..uncertainty import Uncertainty
from .fit import Fit, FitPlan, Fitted, RunOptions
from .targets import Classification, Targets, task_classes

# Number of landmarks of Nystroem features, relative size of negligible eigenvalues, and iterations of linear machines.
N_LANDMARKS, _NEGLIGIBLE, _MAX_ITER = 500, 1e-12, 10_000

_SMALLER_TASKS = (
    "lower max_exact, so that large tasks use Nystroem features; or n_jobs, so that fewer tasks are fitted at a time; "
    "or pass the rows in pieces to partial_fit, which keeps `reservoir` rows of each task"
)


@dataclass(frozen=True, kw_only=True)
class TwoStageFit:
    """Specification of kernel weights learned online, and of one machine for each task at these weights.

    Parameters are those of the estimators, those of `Online`, and those of `Fit`. Tasks of more than `max_exact` rows
    use Nystroem features and one of scikit-learn's linear machines; `tol` is the relative duality gap of exact
    machines, and the tolerance of the linear ones. A stream keeps `reservoir` rows of each task. Where `weights` (T, K)
    are given, with fitted `kernels` and the `seed` of landmarks, only the machines are fitted.
    """

    targets: Targets
    kernels: Any = None
    C: float = 1.0
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
    weights: np.ndarray | None = None
    seed: int = 0

    def plan(self, data: TaskData) -> TwoStagePlan:
        """Apply to data."""
        kernels = None if is_precomputed(self.kernels) else self.kernels
        faults = tiny_tasks(data, classification=self.classification)
        if len(faults) == data.n_tasks:
            raise ValueError(next(iter(faults.values())))
        if self.weights is None:
            if self.min_rank > data.n_tasks:
                raise ValueError(f"min_rank={self.min_rank:g} is larger than the number of tasks, {data.n_tasks}")
            kernels = None if is_precomputed(self.kernels) else source_kernels(self.kernels, data)
        elif len(self.weights) != data.n_tasks:
            raise ValueError(f"there are weights for {len(self.weights)} tasks, but {data.n_tasks} tasks")
        values = RowKernels.of(data.X, kernels, self.normalize)
        if self.weights is None:
            values.check_present(np.flatnonzero(data.sample_weight > 0))
        usable = np.array([t for t in range(data.n_tasks) if t not in faults])
        machines = self.targets.machines(data.select(usable) if faults else data, self.C)
        return TwoStagePlan(self, data, values, dict(zip(usable.tolist(), machines, strict=True)), faults)

    @property
    def classification(self) -> bool:
        return isinstance(self.targets, Classification)

    @property
    def stream_fault(self) -> str:
        """The reason why `partial_fit` is not possible; empty if it is."""
        if is_precomputed(self.kernels):
            return "partial_fit does not support precomputed kernels: every new row would need values with all others"
        if self.normalize == "center":
            return "partial_fit does not support normalize='center', which needs all rows of a task at once"
        return ""

    def first_stage(self, n_kernels: int, n_tasks: int = 0, **options: Any) -> OnlineRun:
        """Return the online run of the first stage, before its first pair."""
        solver = Online(self.mu, self.update, self.shrinkage, self.min_rank, self.refresh)
        return OnlineRun(solver, n_kernels, n_tasks, center=self.center_pairs, **options)

    def draw_seed(self) -> int:
        """Draw the seed of pairs, reservoirs and landmarks."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def learned(self, labels: np.ndarray, form: Form, values: RowKernels, run: OnlineRun) -> dict[str, Any]:
        """Return the kernel weights and relationship of an online run as fitted attributes."""
        weights = run.state.weights(self.average)
        B = np.zeros((len(weights), len(labels)))
        B[:, : weights.shape[1]] = np.maximum(weights, 0.0)
        # Pairs determine only the ratios of weights. They are scaled to sum one, so that C means the same as for a
        # single kernel. A task without weights uses the average kernel.
        positive = np.where(B.any(axis=0), B, 1.0)
        return {
            "tasks_": labels,
            "data_form_": form,
            "kernels_": values.names if values.kernels is None else values.kernels,
            "kernel_names_": np.array(values.names),
            "kernel_weights_": (positive / positive.sum(axis=0)).T,
            "relation_": run.solver.relation(B),
            "effective_rank_": effective_rank(B),
            "history_": run.history,
            "n_iter_": run.state.rounds,
        }

    def continue_stream(self, stream: Stream | None, piece: TaskData, verbose: int = 0) -> Fitted:
        """Learn from the next rows, or the first ones (None); machines are fitted when needed."""
        if stream is None:
            kernels = source_kernels(self.kernels, piece)
            run = self.first_stage(len(kernels), verbose=verbose)
            stream = Stream(run, kernels, piece, self.reservoir, self.draw_seed())
        stream.learn(piece, self.normalize, classes=self.classification)
        values = RowKernels.of(stream.X, stream.kernels, self.normalize)
        learned = self.learned(np.array(stream.labels), piece.form, values, stream.run)
        return Fitted(learned | {"n_skipped_": stream.n_skipped, "stream_": stream})

    def machines_of_stream(self, stream: Stream, weights: np.ndarray) -> TwoStagePlan:
        """Plan the machines of a stream's tasks on the rows that it keeps, at kernel weights (T, K)."""
        return replace(self, kernels=stream.kernels, weights=weights, seed=stream.seed).plan(stream.data())


class TwoStagePlan(NamedTuple):
    """A specification applied to data.

    `values` are the kernels, to be evaluated between any rows; `machines` those of each task that can be fitted, and
    `faults` the reasons of the others.
    """

    fit: TwoStageFit
    data: TaskData
    values: RowKernels
    machines: dict[int, Machine]
    faults: dict[int, str]

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of pairs, of the rows kept for a stream, and of the machines."""
        fit, data, kernels, K, T = self.fit, self.data, self.values.kernels, self.values.n_kernels, self.data.n_tasks
        sizes, row_bytes = [len(part) for part in data.rows], 0 if kernels is None else data.X[:1].nbytes
        length = block_length(1 if kernels is None else data.X.shape[1], K)
        drawn = min(fit.n_rounds, length) * (4 * row_bytes + 8 * (5 * K + 12))
        held = 192 * sum(sizes) + 160 * K * T + 2 * row_bytes * sum(min(n, fit.reservoir) for n in sizes)
        shared = self._shared_plan(np.ones((T, K)))
        if shared is not None:
            machines = shared.memory(n_jobs)
        else:
            # The matrix of the largest task or its Nystroem features, with copies; blocks of kernel values; its rows.
            square = max(8 * n * (n if n <= fit.max_exact else min(N_LANDMARKS, fit.max_exact)) for n in sizes)
            n_rows, largest = (len(data.X),) * 2 if data.form == "wide" else (sum(sizes), max(sizes))
            work = 5 * square + min(2 * BLOCK_BYTES, 2 * K * square) + 3 * row_bytes * largest
            n_targets = sum(machine.y.size for machine in self.machines.values())
            held += 64 * K * T + row_bytes * n_rows
            machines = Need(base_bytes(T, n_targets) + min(n_jobs, T) * work, _SMALLER_TASKS)
        return Need(held + max(machines.peak, FIXED + max(drawn, fitting_bytes(kernels, data.X))), machines.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Learn the kernel weights, fit the machines, and store the state for `partial_fit`."""
        fit, data, values = self.fit, self.data, self.values
        uncertainty = {"uncertainty_": Uncertainty(fit, data, options, classification=fit.classification)}
        if fit.weights is not None:
            fitted = self.fit_machines(fit.weights, fit.seed, options)
            return fitted._replace(attributes=fitted.attributes | uncertainty)
        seed, machines = fit.draw_seed(), self.machines
        costs = [machines[t].C[:, 0] if t in machines else np.ones(len(rows)) for t, rows in enumerate(data.rows)]
        with Workers(1):
            run = fit.first_stage(values.n_kernels, data.n_tasks, n_rounds=fit.n_rounds, verbose=options.verbose)
            source = PairSource(data, values, costs, fit.normalize, classes=fit.classification)
            for rounds in source.draw(np.random.default_rng(seed), fit.n_rounds):
                run.step(rounds)
        learned = fit.learned(data.labels, data.form, values, run) | {"n_skipped_": 0, "stream_": None}
        if not fit.stream_fault and values.kernels is not None:
            run.n_rounds = None
            learned["stream_"] = stream = Stream(run, values.kernels, data, fit.reservoir, seed)
            stream.add(data)
            stream.shrink()
        fitted = self.fit_machines(learned["kernel_weights_"], seed, options)
        warnings = (*fitted.warnings, *spread_warnings(values.kernels, data))
        return Fitted(fitted.attributes | learned | uncertainty, warnings)

    def _shared_plan(self, weights: np.ndarray) -> FitPlan | None:
        """Return the plan of all machines at weights (T, K) if they share precomputed Grams; None otherwise."""
        fit, exact = self.fit, max(map(len, self.data.rows)) <= self.fit.max_exact
        if self.values.kernels is not None or self.data.form != "wide" or not exact or self.faults:
            return None
        same = {name: getattr(fit, name) for name in ("targets", "C", "normalize", "tol")}
        return Fit(penalty=lambda shape: FixedWeights(weights.T), kernels="precomputed", **same).plan(self.data)

    def fit_machines(self, weights: np.ndarray, seed: int, options: RunOptions) -> Fitted:
        """Fit the machines at kernel weights (T, K): one task at a time, unless they share precomputed Grams.

        Tasks that cannot be fitted have the function zero. The seed places the landmarks of Nystroem features.
        """
        fit, data, values, machines = self.fit, self.data, self.values, self.machines
        more = {
            "nystroem_tasks_": data.labels[[len(rows) > fit.max_exact for rows in data.rows]],
            "unfitted_tasks_": {data.labels[t].item(): fault for t, fault in self.faults.items()},
        }
        plan = self._shared_plan(weights)
        if plan is not None:
            fitted = plan.run(options._replace(verbose=0, callback=None))
            return fitted._replace(attributes=fitted.attributes | more)
        every = np.arange(len(data.X))
        shared = values.scaling(every, data.sample_weight, fit.normalize) if data.form == "wide" else None

        def one(t: int) -> tuple[Scaling, np.ndarray, np.ndarray, float, float]:
            rows = data.rows[t]
            if t not in machines:
                zero = Scaling(np.ones(values.n_kernels)) if shared is None else shared
                return zero, np.zeros((len(rows), 1)), np.zeros(1), 0.0, 0.0
            values.check(rows)
            if shared is not None:
                return shared, *self._solve(shared, every, rows, weights[t], machines[t], seed)
            scaling = values.scaling(rows, data.sample_weight[rows], fit.normalize)
            return scaling, *self._solve(scaling, rows, np.arange(len(rows)), weights[t], machines[t], seed)

        with Workers(options.n_jobs) as workers:
            solved = workers.map(one, range(data.n_tasks))
        scalings, a, intercepts, objectives, gaps = map(list, zip(*solved, strict=True))
        bank = KernelBank(values.names, values.kernels, tuple(scalings[:1] if data.form == "wide" else scalings))
        attributes = more | {
            "objective_": float(sum(objectives)),
            "duality_gap_": float(sum(gaps)),
            "dual_coef_": a,
            "intercept_": np.concatenate(intercepts) if max(map(len, intercepts)) == 1 else intercepts,
            "functions_": task_functions(data, bank, weights.T, a, intercepts),
        }
        if fit.classification:
            # Tasks without a machine get all classes.
            of_task = task_classes(data)
            classes = np.unique(np.concatenate(of_task))
            attributes["classes_"] = classes
            attributes["task_classes_"] = [classes if t in self.faults else own for t, own in enumerate(of_task)]
        return Fitted(attributes)

    def _solve(
        self, scaling: Scaling, base: np.ndarray, at: np.ndarray, b: np.ndarray, machine: Machine, seed: int
    ) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Solve one machine at kernel weights b (K,) on the rows base[at]; `scaling` was fitted on the rows `base`.

        Returns coefficients (n, m), intercepts (m,), objective and gap; the last two are NaN with Nystroem features.
        """
        fit, learner = self.fit, self.fit.targets.learner()
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
        return dual.a, dual.intercept.sum(axis=0), solution.primal, max(solution.primal - solution.bound, 0.0)


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
    (scaled,), learner, _, units = standard_units(MachineList([machine]), learner, weights=False)
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
