"""Two-stage fits: learn kernel weights and relationship online from pairs of rows, then fit the machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ...data.forms import TaskData
from ...decompositions import eigh
from ...engines.threads import Workers
from ...kernels.families import is_precomputed, source_kernels
from ...kernels.grams import Scaling, is_psd, mirror, nearest_psd
from ...kernels.kernel import fitting_bytes, spread_warnings
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
from ..solvers.online import Online, OnlineRun, PairSource, block_length
from ..uncertainty import Uncertainty
from .fit import Fit, FitPlan, Fitted, RunOptions, add_excess
from .targets import Classification, Targets, task_classes

# Number of landmarks of Nystroem features, relative size of negligible eigenvalues, and iterations of linear machines.
N_LANDMARKS, _NEGLIGIBLE, _MAX_ITER = 500, 1e-12, 10_000

_SMALLER_TASKS = (
    "lower max_exact, so that large tasks use Nystroem features; or n_jobs, so that fewer tasks are fitted at a time"
)


@dataclass(frozen=True, kw_only=True)
class TwoStageFit:
    """Specification of kernel weights learned online, and of one machine for each task at these weights.

    Parameters are those of the estimators, those of `Online`, and those of `Fit`. Tasks of more than `max_exact` rows
    use Nystroem features and one of scikit-learn's linear machines; `tol` is the relative duality gap of exact
    machines, and the tolerance of the linear ones.
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
    max_exact: int = 2000
    normalize: str | None = "trace"
    tol: float = 1e-3
    random_state: Any = None

    def plan(self, data: TaskData) -> TwoStagePlan:
        """Apply to data."""
        if self.min_rank > data.n_tasks:
            raise ValueError(f"min_rank={self.min_rank:g} is larger than the number of tasks, {data.n_tasks}")
        kernels = None if is_precomputed(self.kernels) else source_kernels(self.kernels, data)
        values = RowKernels.of(data.X, kernels, self.normalize)
        values.check_present(np.flatnonzero(data.sample_weight > 0))
        return TwoStagePlan(self, data, values, self.targets.machines(data, self.C))


class TwoStagePlan(NamedTuple):
    """A specification applied to data.

    `values` are the kernels, to be evaluated between any rows; `machines` those of the tasks.
    """

    fit: TwoStageFit
    data: TaskData
    values: RowKernels
    machines: list[Machine]

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of pairs and of the machines."""
        fit, data, kernels, K, T = self.fit, self.data, self.values.kernels, self.values.n_kernels, self.data.n_tasks
        sizes, row_bytes = [len(part) for part in data.rows], 0 if kernels is None else data.X[:1].nbytes
        length = block_length(1 if kernels is None else data.X.shape[1], K)
        drawn = min(fit.n_rounds, length) * (4 * row_bytes + 8 * (5 * K + 12))
        held = 192 * sum(sizes) + 160 * K * T
        shared = self._shared_plan(np.ones((T, K)))
        if shared is not None:
            machines = shared.memory(n_jobs)
        else:
            # The matrix of the largest task or its Nystroem features, with copies; blocks of kernel values; its rows.
            square = max(8 * n * (n if n <= fit.max_exact else min(N_LANDMARKS, fit.max_exact)) for n in sizes)
            n_rows, largest = (len(data.X),) * 2 if data.form == "wide" else (sum(sizes), max(sizes))
            work = 5 * square + min(2 * BLOCK_BYTES, 2 * K * square) + 3 * row_bytes * largest
            n_targets = sum(machine.y.size for machine in self.machines)
            held += 64 * K * T + row_bytes * n_rows
            machines = Need(base_bytes(T, n_targets) + min(n_jobs, T) * work, _SMALLER_TASKS)
        return Need(held + max(machines.peak, FIXED + max(drawn, fitting_bytes(kernels, data.X))), machines.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Learn the kernel weights, then fit the machines."""
        fit, data, values = self.fit, self.data, self.values
        seed = int(check_random_state(fit.random_state).randint(np.iinfo(np.int32).max))
        solver = Online(fit.mu, fit.update, fit.shrinkage, fit.min_rank, fit.refresh)
        settings: dict[str, Any] = {"center": fit.center_pairs, "verbose": options.verbose}
        with Workers(1):
            online = OnlineRun(solver, values.n_kernels, data.n_tasks, fit.n_rounds, **settings)
            costs = [machine.C[:, 0] for machine in self.machines]
            classes = isinstance(fit.targets, Classification)
            source = PairSource(data, values, costs, fit.normalize, classes=classes)
            for rounds in source.draw(np.random.default_rng(seed), fit.n_rounds):
                online.step(rounds)
        B = np.maximum(online.state.weights(fit.average), 0.0)
        # Pairs determine only the ratios of weights. They are scaled to sum one, so that C means the same as for a
        # single kernel. A task without weights uses the average kernel.
        positive = np.where(B.any(axis=0), B, 1.0)
        weights = (positive / positive.sum(axis=0)).T
        fitted = self.fit_machines(weights, seed, options)
        learned = {
            "tasks_": data.labels,
            "data_form_": data.form,
            "kernels_": values.names if values.kernels is None else values.kernels,
            "kernel_names_": np.array(values.names),
            "kernel_weights_": weights,
            "relation_": solver.relation(B),
            "effective_rank_": effective_rank(B),
            "history_": online.history,
            "n_iter_": online.state.rounds,
            "uncertainty_": Uncertainty(fit, data, options, classification=classes),
        }
        return Fitted(fitted.attributes | learned, (*fitted.warnings, *spread_warnings(values.kernels, data)))

    def _shared_plan(self, weights: np.ndarray) -> FitPlan | None:
        """Return the plan of all machines at weights (T, K) if they share precomputed Grams; None otherwise."""
        fit, exact = self.fit, max(map(len, self.data.rows)) <= self.fit.max_exact
        if self.values.kernels is not None or self.data.form != "wide" or not exact:
            return None
        same = {name: getattr(fit, name) for name in ("targets", "C", "normalize", "tol")}
        return Fit(penalty=lambda shape: FixedWeights(weights.T), kernels="precomputed", **same).plan(self.data)

    def fit_machines(self, weights: np.ndarray, seed: int, options: RunOptions) -> Fitted:
        """Fit the machines at kernel weights (T, K): one task at a time, unless they share precomputed Grams.

        The seed places the landmarks of Nystroem features.
        """
        fit, data, values, machines = self.fit, self.data, self.values, self.machines
        more = {"nystroem_tasks_": data.labels[[len(rows) > fit.max_exact for rows in data.rows]]}
        plan = self._shared_plan(weights)
        if plan is not None:
            fitted = plan.run(options._replace(verbose=0, callback=None))
            return fitted._replace(attributes=fitted.attributes | more)
        every = np.arange(len(data.X))
        shared = values.scaling(every, data.sample_weight, fit.normalize) if data.form == "wide" else None

        def one(t: int) -> tuple[Scaling, np.ndarray, np.ndarray, float, float, float]:
            rows = data.rows[t]
            values.check(rows)
            base, at = (rows, np.arange(len(rows))) if shared is None else (every, rows)
            scaling = shared or values.scaling(rows, data.sample_weight[rows], fit.normalize)
            return scaling, *self._solve(scaling, base, at, weights[t], machines[t], seed)

        with Workers(options.n_jobs) as workers:
            solved = workers.map(one, range(data.n_tasks))
        scalings, a, intercepts, objectives, gaps, excesses = map(list, zip(*solved, strict=True))
        bank = KernelBank(values.names, values.kernels, tuple(scalings[:1] if data.form == "wide" else scalings))
        attributes = more | {
            "objective_": float(sum(objectives)),
            "duality_gap_": float(sum(gaps)),
            "dual_coef_": a,
            "intercept_": np.concatenate(intercepts) if max(map(len, intercepts)) == 1 else intercepts,
            "functions_": task_functions(data, bank, weights.T, a, intercepts),
        }
        if isinstance(fit.targets, Classification):
            of_task = task_classes(data)
            attributes |= {"task_classes_": of_task, "classes_": np.unique(np.concatenate(of_task))}
        return Fitted(attributes, tuple(add_excess(attributes, float(sum(excesses)), fit.tol)))

    def _solve(
        self, scaling: Scaling, base: np.ndarray, at: np.ndarray, b: np.ndarray, machine: Machine, seed: int
    ) -> tuple[np.ndarray, np.ndarray, float, float, float]:
        """Solve one machine at kernel weights b (K,) on the rows base[at]; `scaling` was fitted on the rows `base`.

        Returns coefficients (n, m), intercepts (m,), objective and gap, which are NaN with Nystroem features, and by
        how much the loss of predictions exceeds that of the machine, if rounding left its Gram matrix indefinite.
        """
        fit, learner = self.fit, self.fit.targets.learner()
        if len(at) > fit.max_exact:
            rng = np.random.default_rng(seed)
            landmarks = np.sort(rng.choice(len(at), min(N_LANDMARKS, fit.max_exact), replace=False))
            cross = self.values.combined(b, scaling, base, at, at[landmarks])
            return *fit_nystroem(cross, landmarks, learner, machine, fit.tol, seed), np.nan, np.nan, 0.0
        values = self.values.combined(b, scaling, base, at, at)
        mirror(values)
        gram = values if self.values.known_psd or is_psd(values) else nearest_psd(values)
        # The combined kernel is the only kernel of a problem, which is then solved and certified like all others.
        grams = TaskGrams([GramStack(gram[np.newaxis])])
        fixed, machines = FixedWeights(np.ones((1, 1))), MachineList([machine])
        problem, units = Problem(grams, machines, learner, fixed).in_standard_units()
        solution = solve(problem, tol=fit.tol, units=units)
        dual, excess = solution.duals[0], 0.0
        c = dual.intercept.sum(axis=0)
        if gram is not values:
            excess = max(learner.loss(machine, values @ dual.a + c) - (dual.primal - dual.quad), 0.0)
        return dual.a, c, solution.primal, max(solution.primal - solution.bound, 0.0), excess


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
