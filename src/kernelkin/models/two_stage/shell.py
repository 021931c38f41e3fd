"""The shell of the two-stage estimators: kernel weights from pairs of rows of a data set, then the machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ...data import Form, TaskData
from ...grams.rows import RowKernels
from ...learners import Machine
from ...parallel import Workers
from ...penalties import effective_rank
from ...solvers.online import Online, OnlineRun, OnlineState, Relationship
from ..shell import Prepared
from .factored_relationship import FactoredRelationship
from .machine_stage import MachineStage
from .memory import first_stage_need
from .pairs import PairCenter, PairSource


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStageShell(FactoredRelationship, MachineStage):
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
    random_state: Any = None

    _online_constraints: ClassVar[dict[str, Any]] = {
        **MachineStage._stage_constraints,
        "mu": [Interval(Real, 0, None, closed="neither")],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "min_rank": [Interval(Real, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "update": [StrOptions({"perceptron", "hinge"})],
        "refresh": [Interval(Integral, 1, None, closed="left"), None],
        "average": ["boolean"],
        "center_pairs": ["boolean"],
        "reservoir": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _prepare(self, data: TaskData) -> Prepared:
        if self.min_rank > data.n_tasks:
            raise ValueError(f"min_rank={self.min_rank:g} is above the number of tasks, which is {data.n_tasks}")
        machines = self._machines(data)
        values = RowKernels.of(data.X, self._fit_kernels(data), self.normalize)
        values.check_present(np.flatnonzero(data.sample_weight > 0))
        need = first_stage_need(data, values, self.n_rounds, self._machine_need(data, values))
        return Prepared(need, partial(self._learn, data, machines, values))

    def _learn(self, data: TaskData, machines: Sequence[Machine], values: RowKernels) -> None:
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

    def _start(self) -> np.random.Generator:
        """The generator of all draws; its seed also places the landmarks."""
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return np.random.default_rng(self._seed)

    def _online(self) -> Online:
        return Online(self.mu, self.update, self.shrinkage, self.min_rank, self.refresh)

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
