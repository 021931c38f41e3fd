"""The shell of the two-stage estimators: weights from pairs of rows, by draws or by a stream; then the machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..couplings import Coupling, connected_tasks
from ..data import Form, Queries, TaskData, encode_tasks, listing, read_piece, task_fault
from ..grams import CoupledGrams, KernelBank, build_grams, task_functions
from ..grams.rows import RowKernels
from ..kernels import Scaling, resolve_kernels
from ..objective import solve_batch
from ..parallel import Workers
from ..penalties import effective_rank
from ..solvers.online import Online, OnlineRun, OnlineState, Relationship
from .coupled import CoupledEstimator
from .pairs import PairCenter, PairSource
from .second_stage import SecondStage
from .stream import Stream
from .targets import link_machines, stack_intercepts, tasks_of_machines

# Above this many tasks a T x T matrix is refused: 20,000 tasks are 3.2 GB.
DENSE_TASKS = 20_000


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStageEstimator(CoupledEstimator):
    """What the two two-stage estimators share."""

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
    random_state: Any = None
    verbose: int = 0

    _online_constraints: ClassVar[dict[str, Any]] = {
        **CoupledEstimator._coupled_constraints,
        "mu": [Interval(Real, 0, None, closed="neither")],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "min_rank": [Interval(Real, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "update": [StrOptions({"perceptron", "hinge"})],
        "refresh": [Interval(Integral, 1, None, closed="left"), None],
        "average": ["boolean"],
        "center_pairs": ["boolean"],
        "reservoir": [Interval(Integral, 2, None, closed="left")],
        "max_exact": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> TwoStageEstimator:
        """Learn kernel weights and task relationship from `n_rounds` pairs of rows, then the machines.

        Parameters
        ----------
        X : array or DataFrame (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array (n,), or (n, T) with NaN for missing labels
            Targets. With two dimensions every column is a task on the same rows.
        tasks : array (n,), optional
            The task of each row; any labels. Not needed with `task_column`, with wide y, or for one task.
        sample_weight : array (n,), optional
            Weights of rows: how often they are drawn, and what they cost their machine.

        Raises
        ------
        ValueError, TypeError
            As for `MKMTRLClassifier.fit`.
        """
        data = self._read(X, y, tasks, sample_weight)
        if self.min_rank > data.n_tasks:
            raise ValueError(f"min_rank={self.min_rank:g} is above the number of tasks, which is {data.n_tasks}")
        self._couplings(data)  # one that cannot be is refused before the first stage, not after it
        machines = self._machines(data)
        values = RowKernels.of(data.X, self._fit_kernels(data), self.normalize)
        values.check_present(np.flatnonzero(data.sample_weight > 0))
        rng = self._start()
        source = PairSource(data, values, machines, self.normalize, classes=is_classifier(self))
        run = OnlineRun(self._online(), OnlineState.start(values.n_kernels, data.n_tasks), self.n_rounds, self.verbose)
        mean = PairCenter(values.n_kernels)
        with Workers(1):
            for drawn, signs, z in source.draw(rng, self.n_rounds):
                if self.center_pairs:
                    mean(drawn, z)
                run.play(drawn, signs, z)
        # What a stream goes on from.
        self._fitted: Any = (data, run, mean, rng)
        self._stream: Any = None
        self._store_weights(data.labels, data.form, values, run)
        self.n_skipped_ = 0
        self._store_machines(data, values)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, tasks: Any = None, classes: Any = None) -> TwoStageEstimator:
        """Go on with the next rows of a stream; the machines are fitted when they are first needed.

        Every row plays one round, with a partner drawn from the rows of its task in a reservoir of `reservoir` rows,
        which are also the rows that its machine is fitted on. The first row of a task has no partner: it is skipped,
        and counted in `n_skipped_`. The kernels are fitted on the first 1000 rows of the stream, or by `fit` before. A
        stream leads to the same state in one piece or in many.

        A task that was not seen before joins with weights of zero and the identity's row of the relationship, until it
        has learned something from rows of its own to know its relatives by.

        Parameters
        ----------
        X, y, tasks
            As for `fit`; `y` of the same form in every call.
        classes : array, optional
            All classes there will be; a classifier then refuses others.
        """
        if self._precomputed:
            raise ValueError("a stream has no precomputed kernels: every new row would need its values at all others")
        if self.normalize == "center":
            raise ValueError("normalize='center' needs all rows of a task at once; a stream cannot give them")
        first = not hasattr(self, "data_form_")
        piece = read_piece(self, X, y, tasks, classification=is_classifier(self), first=first)
        if not first and piece.form != self.data_form_:
            raise ValueError(f"this model has seen {self.data_form_} data, and these are {piece.form}")
        if classes is not None and is_classifier(self):
            _check_classes(np.concatenate(piece.y), classes)
        if first or self._stream is None:
            self._stream = self._open_stream(first)
        with Workers(1):
            self._stream.feed(piece)
        self._store_stream(piece.form)
        return self

    def relationship_row(self, task: Any) -> np.ndarray:
        """The row of the task relationship (T,) that belongs to a task."""
        check_is_fitted(self)
        return self.relationship_.row(self._code(task))

    def related_tasks(self, task: Any, n: int = 5) -> list[tuple[Any, float]]:
        """The n tasks most strongly related to a task, with their correlations, strongest first."""
        t = self._code(task)
        diagonal = np.maximum(self.relationship_.diagonal(), np.finfo(float).tiny)
        correlation = self.relationship_row(task) / np.sqrt(diagonal * diagonal[t])
        order = np.argsort(-correlation, kind="stable")
        return [(self.tasks_[s].item(), float(correlation[s])) for s in order[order != t][:n]]

    @property
    def task_relationship_(self) -> np.ndarray:
        """Omega (T, T), made when it is asked for."""
        self._check_dense()
        return self.relationship_.dense()

    @property
    def task_correlation_(self) -> np.ndarray:
        """Omega (T, T) scaled to unit diagonal, made when it is asked for."""
        Omega = self.task_relationship_
        root = np.sqrt(np.maximum(np.diag(Omega), np.finfo(float).tiny))
        return Omega / np.outer(root, root)

    def _check_dense(self) -> None:
        if not hasattr(self, "relationship_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        n = len(self.tasks_)
        if n > DENSE_TASKS:
            raise ValueError(
                f"the relationship of {n} tasks is a {n} x {n} matrix of {8e-9 * n * n:.3g} GB: ask for "
                "relationship_row(task) or related_tasks(task)"
            )

    def _code(self, task: Any) -> int:
        return int(encode_tasks(np.array([task]), self.tasks_)[0])

    def _start(self) -> np.random.Generator:
        """The generator of all draws; its seed also places the landmarks."""
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return np.random.default_rng(self._seed)

    def _online(self) -> Online:
        return Online(self.mu, self.update, self.shrinkage, self.min_rank, self.refresh)

    def _open_stream(self, first: bool) -> Stream:
        rng = self._start() if first else self._fitted[-1]
        stream = Stream(
            resolve_kernels(self.kernels),
            self._online(),
            self.normalize,
            self.reservoir,
            rng,
            center=self.center_pairs,
            classification=is_classifier(self),
            verbose=self.verbose,
        )
        if not first:
            data, run, mean, _ = self._fitted
            kernels: Any = self.kernels_
            stream.follow(data, kernels, replace(run, solver=self._online(), n_rounds=None), mean)
            self._fitted = None
        return stream

    def _store_stream(self, form: Form) -> None:
        """What the stream says of kernels and tasks so far; the machines it had no longer hold."""
        stream = self._stream.settled()
        reservoirs = stream.reservoirs
        self._settled = stream
        values = RowKernels.of(reservoirs.X, list(reservoirs.kernels), self.normalize)
        self._store_weights(stream.tasks.labels, form, values, stream.run)
        self.n_skipped_ = reservoirs.n_skipped
        if stream.classes is not None:
            self.classes_ = np.sort(stream.classes.labels)
        for name in (
            "functions_",
            "dual_coef_",
            "intercept_",
            "objective_",
            "duality_gap_",
            "task_classes_",
            "nystroem_tasks_",
        ):
            self.__dict__.pop(name, None)

    def _store_weights(self, labels: np.ndarray, form: Form, values: RowKernels, run: OnlineRun) -> None:
        self.tasks_ = labels
        self.data_form_ = form
        self.kernels_ = values.names if values.kernels is None else values.kernels
        self.kernel_names_ = np.array(values.names)
        weights = run.state.weights(self.average)
        B = np.zeros((len(weights), len(labels)))
        B[:, : weights.shape[1]] = np.maximum(weights, 0.0)
        self.relationship_ = Relationship.of(B, self.shrinkage, self.min_rank)
        self.effective_rank_ = effective_rank(B)
        # Signs tell a direction and no length: every task's combined Gram is given a mean diagonal of one, as every
        # kernel has, and C means what it means for one kernel. A task that has learned nothing averages the kernels.
        B[:, ~B.any(axis=0)] = 1.0
        self.kernel_weights_ = (B / B.sum(axis=0)).T
        self.history_ = run.history
        self.n_iter_ = run.state.rounds

    def _store_machines(self, data: TaskData, values: RowKernels) -> None:
        """Fit the machines, one task at a time; tasks that are not fit for one are noted, refused when asked for."""
        faults = [self._fault(label, y) for label, y in zip(data.labels.tolist(), data.y, strict=True)]
        sound = [t for t, fault in enumerate(faults) if fault is None]
        if not sound:
            raise ValueError(faults[0])
        couplings = self._couplings(data)
        self._faults = {t: fault for t, fault in enumerate(faults) if fault is not None}
        if couplings:
            self._store_coupled_machines(data, values, couplings)
            return
        self._store_couplings((), np.zeros((values.n_kernels, 0)))
        machines = dict(zip(sound, self._machines(data.select(np.array(sound))), strict=True))
        stage = SecondStage(self._learner(), self.max_exact, self.tol, self._seed)
        every = np.arange(len(data.X))
        shared = values.scaling(every, data.sample_weight, self.normalize) if data.form == "wide" else None

        def one(t: int) -> tuple[Scaling, np.ndarray, np.ndarray, float, float]:
            rows = data.rows[t]
            if faults[t] is not None:
                return Scaling(np.ones(values.n_kernels)), np.zeros((len(rows), 1)), np.zeros(1), 0.0, 0.0
            values.check(rows)
            b = self.kernel_weights_[t]
            if shared is not None:
                return shared, *stage.solve(values, shared, every, rows, b, machines[t])
            scaling = values.scaling(rows, data.sample_weight[rows], self.normalize)
            return scaling, *stage.solve(values, scaling, rows, np.arange(len(rows)), b, machines[t])

        with Workers(self.n_jobs) as workers:
            scalings, a, intercepts, primals, gaps = zip(*workers.map(one, range(data.n_tasks)), strict=True)
        self.objective_, self.duality_gap_ = float(sum(primals)), float(sum(gaps))
        bank = KernelBank(values.names, values.kernels, scalings if shared is None else (shared,))
        self.functions_ = task_functions(data, bank, self.kernel_weights_.T, a, intercepts)
        self.dual_coef_ = list(a)
        self.intercept_ = stack_intercepts(intercepts)
        self._spread_classes(sound)
        self._note_nystroem(data)

    def _store_coupled_machines(self, data: TaskData, values: RowKernels, couplings: tuple[Coupling, ...]) -> None:
        """Fit linked tasks as one machine. A coupling's kernel weights are the mean of its tasks' own.

        Own part and couplings are equally strong, and together have a mean diagonal of one, as a single kernel has.
        """
        for fault in self._faults.values():
            raise ValueError(fault)
        own = self.kernel_weights_.T
        touched = [np.square(coupling.factor).sum(axis=1) for coupling in couplings]
        shared = np.column_stack([own @ weight / weight.sum() for weight in touched])
        B = np.hstack([own, shared]) / (1 + len(couplings))
        grams, bank = build_grams(data, values.kernels, self.normalize, couplings)
        machines = link_machines(self._machines(data), connected_tasks(couplings, data.n_tasks), data.labels)
        with Workers(self.n_jobs) as workers:
            duals = [
                dual
                for batch in grams.batches()
                for dual in solve_batch(grams, machines, self._learner(), B, batch, tol=self.tol, each=workers.map)
            ]
        self.objective_ = sum(dual.primal for dual in duals)
        self.duality_gap_ = sum(max(dual.gap, 0.0) for dual in duals)
        assert isinstance(grams, CoupledGrams)
        self.part_shares_ = grams.part_shares(B, [dual.a for dual in duals])
        self.dual_coef_, intercepts = tasks_of_machines(duals, data, couplings)
        self.intercept_ = stack_intercepts(intercepts)
        self.functions_ = task_functions(data, bank, B, self.dual_coef_, intercepts, couplings)
        self._store_couplings(couplings, B[:, data.n_tasks :])
        self.nystroem_tasks_ = data.labels[:0]

    def _spread_classes(self, sound: list[int]) -> None:
        """Give `task_classes_`, which has the tasks with a machine, a place for every task."""
        if is_classifier(self) and self._faults:
            mine = dict(zip(sound, self.__dict__["task_classes_"], strict=True))
            self.__dict__["task_classes_"] = [mine.get(t, self.classes_) for t in range(len(self.tasks_))]

    def _note_nystroem(self, data: TaskData) -> None:
        large = [t for t, rows in enumerate(data.rows) if len(rows) > self.max_exact]
        self.nystroem_tasks_ = data.labels[large]
        if self.verbose and large:
            print(f"[kernelkin] Nystroem features for {listing(self.nystroem_tasks_)}", flush=True)

    def _fault(self, label: Any, y: np.ndarray) -> str | None:
        name = "the data" if self.data_form_ == "single" else f"task {label!r}"
        return task_fault(name, y, classification=is_classifier(self))

    def _read_queries(self, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
        queries = super()._read_queries(X, tasks, allow_unknown)
        if not hasattr(self, "functions_"):
            reservoirs = self._settled.reservoirs
            classes = None if self._settled.classes is None else self._settled.classes.labels
            data = reservoirs.data(self.tasks_, classes)
            self._store_machines(data, RowKernels.of(data.X, list(reservoirs.kernels), self.normalize))
        asked = range(len(self.tasks_)) if queries.codes is None else np.unique(queries.codes).tolist()
        for t in asked:
            if t in self._faults:
                raise ValueError(self._faults[t])
        return queries


def _check_classes(y: np.ndarray, classes: Any) -> None:
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has classes {listing(unknown)}, which are not among classes={listing(list(classes))}")
