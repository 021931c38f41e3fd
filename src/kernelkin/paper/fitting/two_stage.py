"""Two stages: kernel weights and relationship online from pairs of rows, then the machines of all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ...data import Form, TaskData
from ...engines import Workers
from ...kernels import is_precomputed, read_kernels, resolve_kernels, spread_warnings
from ...memory import Need, two_stage_need
from ..grams import BLOCK_BYTES, RowKernels, plan_grams
from ..grams.build import kernel_charges
from ..learners import Machine
from ..penalties import FixedWeights, effective_rank
from ..solvers.online import Online, OnlineRun, PairCenter, PairSource, Stream, StreamSettings, block_length
from .base import Fitted, RunOptions
from .fit import check_unknown_tasks
from .second_stage import SecondStage
from .shape import Shape
from .targets import Classification, Targets

# Rows of a task, and tasks, whose Gram matrices say what kernels cost.
MAX_CHARGED_ROWS, MAX_CHARGED_TASKS = 300, 40


@dataclass(frozen=True, kw_only=True)
class TwoStageFit:
    """Specification of kernel weights learned online, and of one machine for each task at these weights.

    Parameters
    ----------
    targets, kernels, C, couplings, task_features, unknown_tasks, normalize : as in `Fit`
        The first stage does not depend on the couplings.
    parsimony : as in `Fit`
        The first stage sees charged kernels; its weights are those of the kernels as they are.
    mu, shrinkage, min_rank, update, refresh : as in `Online`
    n_rounds : int
        Pairs of rows that are drawn from the data.
    average : bool
        Whether the kernel weights are the average over rounds, or the last ones.
    center_pairs : bool
        Whether the mean of a task's pairs is subtracted from their kernel values.
    reservoir : int
        Rows of each task that are kept for a stream.
    max_exact, tol : as in `SecondStage`
    random_state : int, RandomState or None
    """

    targets: Targets
    kernels: Any = None
    C: float = 1.0
    couplings: Any = None
    task_features: Any = None
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
            raise ValueError(f"min_rank={self.min_rank:g} is above the number of tasks, which is {data.n_tasks}")
        check_unknown_tasks(self.unknown_tasks, self.second_stage.fit_couplings(data), data)
        machines = self.targets.machines(data, self.C)
        kernels = None
        if not is_precomputed(self.kernels):
            kernels = read_kernels(self.kernels).fit(data)
        values = RowKernels.of(data.X, kernels, self.normalize)
        values.check_present(np.flatnonzero(data.sample_weight > 0))
        return TwoStagePlan(self, data, values, machines)

    @property
    def online(self) -> Online:
        """The solver of the first stage."""
        return Online(self.mu, self.update, self.shrinkage, self.min_rank, self.refresh)

    @property
    def second_stage(self) -> SecondStage:
        """The specification of the second stage."""
        return SecondStage(
            targets=self.targets,
            C=self.C,
            couplings=self.couplings,
            task_features=self.task_features,
            unknown_tasks=self.unknown_tasks,
            normalize=self.normalize,
            max_exact=self.max_exact,
            tol=self.tol,
        )

    @property
    def allows_stream(self) -> bool:
        """Whether rows can be learned from as they come."""
        return not is_precomputed(self.kernels) and self.normalize != "center" and not self.parsimony

    def stream_settings(self, verbose: int) -> StreamSettings:
        """Return how the rows of a stream are learned from."""
        return StreamSettings(
            kernels=resolve_kernels(self.kernels),
            solver=self.online,
            normalize=self.normalize,
            capacity=self.reservoir,
            center=self.center_pairs,
            classes=isinstance(self.targets, Classification),
            verbose=verbose,
        )

    def seed(self) -> int:
        """Draw the seed of pairs, reservoirs and landmarks."""
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def learned(
        self, labels: np.ndarray, form: Form, values: RowKernels, run: OnlineRun, charges: np.ndarray | float = 1.0
    ) -> dict[str, Any]:
        """Return what an online run has learned about kernels, charged by z (K,), and tasks, as fitted attributes."""
        B = np.zeros((values.n_kernels, len(labels)))
        weights = run.state.weights(self.average)
        B[:, : weights.shape[1]] = np.maximum(weights, 0.0)
        return {
            "tasks_": labels,
            "data_form_": form,
            "kernels_": values.names if values.kernels is None else values.kernels,
            "kernel_names_": np.array(values.names),
            "kernel_weights_": _unit_sums((B.T / charges).T).T,
            "relation_": self.online.relation(B),
            "effective_rank_": effective_rank(B),
            "history_": run.history,
            "n_iter_": run.state.rounds,
        }


@dataclass(frozen=True)
class TwoStagePlan:
    """A specification applied to data.

    Attributes
    ----------
    fit, data : the specification and the data.
    values : the fitted kernels on the rows of the data.
    machines : coded targets and costs of each task.
    """

    fit: TwoStageFit
    data: TaskData
    values: RowKernels
    machines: Sequence[Machine]

    def memory(self, n_jobs: int = 1) -> Need:
        fit, data = self.fit, self.data
        plan = plan_grams(data, self.values.kernels, fit.normalize)
        length = block_length(data.X.shape[1] if self.values.kernels is not None else 1, plan.n_kernels)
        return two_stage_need(
            plan,
            fit.second_stage.memory(data, self.values, n_jobs),
            pairs=min(fit.n_rounds, length),
            rows=min(sum(plan.machines), length),
            reservoir=fit.reservoir if fit.allows_stream else 0,
        )

    def run(self, options: RunOptions) -> Fitted:
        """Learn the kernel weights, fit the machines, and keep what a stream goes on from."""
        fit, data = self.fit, self.data
        seed = fit.seed()
        rng = np.random.default_rng(seed)
        if options.engine.splits:
            raise ValueError(
                "engine: the first stage of this model takes one pair of rows after the other; use engine='threads'"
            )
        with Workers(1):
            charges = self._charges()
            run, center = self._learn(rng, charges, options.verbose)
        attributes = fit.learned(data.labels, data.form, self.values, run, charges) | {"n_skipped_": 0, "stream_": None}
        machines = fit.second_stage.run(data, self.values, attributes["kernel_weights_"], seed, options)
        if fit.allows_stream and self.values.kernels is not None:
            settings = fit.stream_settings(options.verbose)
            attributes["stream_"] = Stream.after(settings, rng, data, self.values.kernels, run, center, seed=seed)
        warnings = (*machines.warnings, *spread_warnings(self.values.kernels, self.data))
        return Fitted(attributes | machines.attributes, warnings)

    def _charges(self) -> np.ndarray:
        """Return what kernels cost, z (K,), by some rows of some tasks."""
        fit, data = self.fit, self.data
        if not fit.parsimony:
            return np.ones(self.values.n_kernels)
        n_tasks = 1 if data.form == "wide" else min(data.n_tasks, MAX_CHARGED_TASKS)
        tasks = np.linspace(0, data.n_tasks - 1, n_tasks).astype(int)
        return kernel_charges((self._scaled(data.rows[t]) for t in tasks), fit.parsimony)

    def _scaled(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return scaled Gram matrices (K, n, n) of some of these rows, which fit into a block, and their weights."""
        most = min(MAX_CHARGED_ROWS, int(np.sqrt(BLOCK_BYTES / (8 * self.values.n_kernels))))
        rows = rows[:: -(-len(rows) // max(most, 1))]
        weight, every = self.data.sample_weight[rows], np.arange(self.values.n_kernels)
        scaling = self.values.scaling(rows, weight, self.fit.normalize)
        return scaling.apply(self.values.cross(rows, rows, every), self.values.diagonals(rows), overwrite=True), weight

    def _learn(self, rng: np.random.Generator, charges: np.ndarray, verbose: int) -> tuple[OnlineRun, PairCenter]:
        fit, data, n_kernels = self.fit, self.data, self.values.n_kernels
        classes = isinstance(fit.targets, Classification)
        source = PairSource(data, self.values, self.machines, fit.normalize, classes=classes)
        run = OnlineRun(fit.online, fit.online.init(n_kernels, data.n_tasks), fit.n_rounds, verbose)
        center = PairCenter(n_kernels)
        for rounds in source.draw(rng, fit.n_rounds):
            if fit.center_pairs:
                center(rounds)
            run.step(rounds._replace(values=rounds.values / charges) if fit.parsimony else rounds)
        return run, center


def start_stream(fit: TwoStageFit, verbose: int = 0) -> Stream:
    """Return a stream that has seen no rows yet."""
    seed = fit.seed()
    return Stream(fit.stream_settings(verbose), np.random.default_rng(seed), seed=seed)


def check_stream(fit: TwoStageFit) -> None:
    """Refuse what a stream cannot have."""
    if is_precomputed(fit.kernels):
        raise ValueError("a stream has no precomputed kernels: every new row would need its values at all others")
    if fit.normalize == "center":
        raise ValueError("normalize='center' needs all rows of a task at once; a stream cannot give them")
    if fit.parsimony:
        raise ValueError("parsimony charges kernels by their Gram matrices, before any pair; a stream cannot give them")


def stream_fitted(fit: TwoStageFit, stream: Stream, form: Form) -> Fitted:
    """Return what a stream has learned so far, without machines: these are fitted when they are needed."""
    begun = stream.begun()
    reservoirs, run = begun.state()
    values = RowKernels.of(reservoirs.X, list(reservoirs.kernels), fit.normalize)
    attributes = fit.learned(begun.tasks.labels, form, values, run)
    attributes |= {"n_skipped_": reservoirs.n_skipped, "stream_": stream}
    if begun.classes is not None:
        attributes["classes_"] = np.sort(begun.classes.labels)
    return Fitted(attributes)


@dataclass(frozen=True)
class StreamMachinesPlan:
    """The machines of a stream's tasks, on the rows in their reservoirs, at kernel weights (T, K)."""

    fit: TwoStageFit
    stream: Stream
    weights: np.ndarray

    def memory(self, n_jobs: int = 1) -> Need:
        data, values = self._rows()
        return self.fit.second_stage.memory(data, values, n_jobs)

    def run(self, options: RunOptions) -> Fitted:
        """Fit the machines; all classes are known from the stream, of which the reservoirs are a sample."""
        data, values = self._rows()
        fitted = self.fit.second_stage.run(data, values, self.weights, self.stream.seed, options)
        attributes = {name: value for name, value in fitted.attributes.items() if name != "classes_"}
        return Fitted(attributes, fitted.warnings)

    def _rows(self) -> tuple[TaskData, RowKernels]:
        begun = self.stream.begun()
        data = begun.data()
        return data, RowKernels.of(data.X, list(begun.state()[0].kernels), self.fit.normalize)


def even_weights(shape: Shape) -> FixedWeights:
    """Return the same weight for all kernels and tasks."""
    return FixedWeights(np.ones((shape.n_kernels, shape.n_components)))


def _unit_sums(B: np.ndarray) -> np.ndarray:
    """Return B (K, T) with columns of sum one.

    Signs determine a direction and no length: every task's combined Gram is given a mean diagonal of one, as every
    kernel has, and C means what it means for one kernel. A task that has learned nothing averages the kernels.
    """
    B = np.where(B.any(axis=0), B, 1.0)
    return B / B.sum(axis=0)
