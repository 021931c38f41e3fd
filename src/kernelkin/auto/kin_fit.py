"""The specification behind KinRegressor and KinClassifier: search, choose, fit the members of the average."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..data import TaskData, tiny_tasks
from ..fitting import Classification, Fit, FitPlan, Fitted, RunOptions, Targets
from ..functions import CombinedFunctions, InputIndex
from ..kernels import fit_kernels, gaussian_kernels, is_precomputed
from ..memory import Need, fit_need
from ..model_selection import Fold, make_folds
from ..progress import Progress
from ..uncertainty import HeldOutSource, KnownValues, Uncertainty, gather_folds
from ..uncertainty.machines import MachinesHeldOut
from ..uncertainty.members import AverageHeldOut, average_held_out
from ..uncertainty.nearest import WithNearest
from .candidates import SEARCH_TOL, Candidate, make_candidates
from .explain import column_shares
from .jobs import JobRunner
from .search import Search, Trial
from .standard import Standard
from .weights import average_weights, own_choices, stack_weights

# Attributes of the member with the largest weight that the average has too.
LEADING = (
    "kernels_",
    "kernel_names_",
    "kernel_weights_",
    "couplings_",
    "coupling_weights_",
    "part_shares_",
    "relation_",
    "effective_rank_",
    "objective_",
    "duality_gap_",
    "history_",
    "n_iter_",
)


# What is said of each member.
FACTS = ("kernel_names_", "kernel_weights_", "coupling_weights_", "objective_", "duality_gap_", "n_iter_")


@dataclass(frozen=True)
class Member:
    """A trial that is averaged: its weight for tasks as a whole and for each task (T,), and its fit on all rows."""

    trial: Trial
    weight: float
    task_weights: np.ndarray
    fitted: Fitted

    @property
    def mean_weight(self) -> float:
        return float(self.task_weights.mean())

    def facts(self) -> dict[str, Any]:
        found = {name.rstrip("_"): self.fitted.attributes[name] for name in FACTS if name in self.fitted.attributes}
        return {"name": self.trial.candidate.name, "C": self.trial.C, "weight": self.mean_weight, **found}


@dataclass(frozen=True, kw_only=True)
class KinFit:
    """Specification of the search.

    Parameters
    ----------
    targets : Classification or Regression
    kernels : None for all dictionaries, or the only kernels to use
    task_features : features of tasks, or kernels between tasks
    cv : folds of each task, or pairs of training and test rows
    unknown_tasks : {"error", "common", "nearest"}
    time_limit : seconds after which the search ends
    tol : the relative duality gap of the members of the average
    random_state : seed of the folds
    cache : a folder that keeps finished parts of the search
    device : a device of torch on which tasks of wide data are solved
    """

    targets: Targets
    kernels: Any = None
    task_features: Any = None
    cv: Any = 5
    unknown_tasks: str = "error"
    time_limit: float | None = None
    tol: float = 1e-3
    random_state: Any = None
    cache: Any = None
    device: str | None = None

    def plan(self, data: TaskData) -> KinPlan:
        """Apply to data: standardise, and list the candidates."""
        if is_precomputed(self.kernels):
            raise ValueError("kernels='precomputed' leaves no columns to choose kernels for: use MKMTRL...CV")
        classification = isinstance(self.targets, Classification)
        standard = Standard.fit(data, classification=classification)
        scaled = standard.apply(data)
        given = self.kernels, self.task_features, self.unknown_tasks, self.device
        candidates = make_candidates(scaled, self.targets, *given)
        folds = make_folds(scaled, self.cv, classification=classification, random_state=self.random_state)
        return KinPlan(self, scaled, standard, tuple(candidates), tuple(folds))


@dataclass(frozen=True)
class KinPlan:
    """A search on data: the data in standard units, the candidates and the folds."""

    fit: KinFit
    data: TaskData
    standard: Standard
    candidates: tuple[Candidate, ...]
    folds: tuple[Fold, ...]

    @property
    def classification(self) -> bool:
        return isinstance(self.fit.targets, Classification)

    def memory(self, n_jobs: int = 1) -> Need:
        needs = [self._need(candidate, n_jobs) for candidate in self.candidates]
        return max(needs, key=lambda need: need.peak)

    def _need(self, candidate: Candidate, n_jobs: int) -> Need:
        specification = candidate.make(1.0, SEARCH_TOL)
        if not isinstance(specification, Fit):
            return specification.plan(self.data).memory(n_jobs)
        # Kernels that look at targets are slow to fit, and no more than these.
        many = gaussian_kernels(tuple(range(1, 13)))
        kernels = fit_kernels(many, self.data.X) if specification.kernels_use_targets else None
        plan = specification.plan(self.data, kernels)
        need = fit_need(plan.gram_plan(), plan.solved_by, 1, len(self.folds))
        # Processes share nothing; one may have all folds.
        return replace(need, peak=n_jobs * need.peak)

    def run(self, options: RunOptions) -> Fitted:
        """Search, then fit the members of the average on all rows."""
        with Progress(1) if options.verbose else nullcontext() as display:
            if display is not None:
                display.begin("first candidates")
            search = self._search(options, display)
            search.run()
        trials = [trial for trial in search.trials if trial.outcomes]
        weights = self._weights(search, trials)
        choices = self._choices(search, trials, weights)
        wanted = np.union1d(np.flatnonzero(weights), choices[choices >= 0]).tolist()
        fitted = dict(zip(wanted, self._fit_members([trials[i] for i in wanted], options), strict=True))
        unfinished = [i for i, member in fitted.items() if _is_unfinished(member)]
        if not set(unfinished).issuperset(np.flatnonzero(weights).tolist()):
            # Members that did not reach `tol` have no certificate: the others can do without them.
            weights[unfinished] = 0.0
            weights /= weights.sum()
            choices[np.isin(choices, unfinished)] = -1
        by_task = np.where(choices >= 0, np.arange(len(trials))[:, np.newaxis] == choices, weights[:, np.newaxis])
        used = np.flatnonzero(weights + by_task.sum(axis=1)).tolist()
        members = [Member(trials[i], float(weights[i]), by_task[i], fitted[i]) for i in used]
        attributes = self._attributes(members) | {
            "search_results_": _table(trials, by_task.mean(axis=1), unfinished),
            "n_candidates_": len(trials),
            "is_complete_": not search.stopped,
        }
        warnings = [warning for member in members for warning in member.fitted.warnings]
        if search.stopped:
            n_untried = search.n_untried()
            groups = "group of candidates was" if n_untried == 1 else "groups of candidates were"
            left = f"{n_untried} {groups} not tried" if n_untried else "some costs C were not tried"
            warnings.insert(0, (f"{search.stopped}: {left}; the fit uses those that were", UserWarning))
        return Fitted(attributes | self.fit.targets.attributes(self.data), tuple(warnings))

    def _search(self, options: RunOptions, display: Progress | None) -> Search:
        def report(spent: float, left: float, leader: str) -> None:
            if display is not None:
                display.share(spent / (spent + left), leader)
            if options.callback is not None:
                options.callback(spent, spent + left)

        return Search(
            self.data,
            self.folds,
            self.candidates,
            JobRunner(self.data, self.folds, self.fit.cache, options.n_jobs, options.engine),
            self.classification,
            self._costs(),
            self.fit.time_limit,
            report,
        )

    def _costs(self) -> list[np.ndarray]:
        """Return the weights of each task's rows in the errors of candidates: those that they have in the machines.

        Where a class is rare, plain rows say little about it. On training rows of landmine (30 rows, 6% mines) the
        average of what balanced errors choose has an AUC of 0.617 by task on rows that had no part in the choice,
        plain ones 0.588, at the same logistic loss (0.251 and 0.252).
        """
        return [machine.C[:, 0] for machine in self.fit.targets.machines(self.data, 1.0)]

    def _weights(self, search: Search, trials: Sequence[Trial]) -> np.ndarray:
        """Return the weight of each trial in the average: each candidate enters with its best C, if it is complete.

        For the squared loss they are those of a stack, drawn towards weights from errors; for classes the latter.
        """
        entered = search.best_of_each()
        weights = average_weights([trial.error for trial in entered])
        if not self.classification:
            weights = stack_weights(weights, *search.out_of_fold(entered))
        found = dict(zip(map(id, entered), weights.tolist(), strict=True))
        return np.array([found.get(id(trial), 0.0) for trial in trials])

    def _choices(self, search: Search, trials: Sequence[Trial], weights: np.ndarray) -> np.ndarray:
        """Return for each task (T,) the trial that it takes in place of the average, or -1; -1 for classes."""
        complete = [i for i, trial in enumerate(trials) if len(trial.outcomes) == len(self.folds)]
        nobody = np.full(self.data.n_tasks, -1)
        if self.classification or len(complete) < 2 or self.data.n_tasks < 2:
            return nobody
        values, targets, _ = search.out_of_fold([trials[i] for i in complete])
        losses = (values - targets[:, np.newaxis]) ** 2
        average = (values @ weights[complete] - targets) ** 2
        found = own_choices(average[:, np.newaxis] - losses, search.tasks_out_of_fold(), self.data.n_tasks)
        return np.where(found >= 0, np.array(complete)[found], -1)

    def _attributes(self, members: Sequence[Member]) -> dict[str, Any]:
        """Return the fitted attributes that the members of the average lead to."""
        best = max(members, key=lambda member: member.mean_weight)
        leading = best.fitted.attributes
        weights = [member.mean_weight for member in members]
        functions, nearest = self._functions(members), self._nearest()
        return {name: leading[name] for name in LEADING if name in leading} | {
            **nearest,
            "tasks_": self.data.labels,
            "data_form_": self.data.form,
            "functions_": functions,
            "uncertainty_": self._uncertainty(functions, members, nearest.get("input_index_")),
            "members_": tuple(member.facts() for member in members),
            "task_weights_": functions.task_weights.T,
            "best_candidate_": best.trial.candidate.name,
            "best_C_": best.trial.C,
            "best_error_": best.trial.error.error,
            "column_shares_": column_shares(
                [member.fitted.attributes for member in members],
                weights,
                self.data,
                self.fit.kernels,
            ),
        }

    def _functions(self, members: Sequence[Member]) -> CombinedFunctions:
        return CombinedFunctions(
            members=tuple(member.fitted.attributes["functions_"] for member in members),
            weights=np.array([member.weight for member in members]),
            task_weights=np.array([member.task_weights for member in members]),
            slopes=np.array([member.trial.error.slope for member in members]),
            offsets=np.array([member.trial.error.offset for member in members]),
            center=self.standard.center,
            scale=self.standard.scale,
            location=self.standard.location,
            spread=self.standard.spread,
            borrowing=np.array([bool(member.fitted.attributes.get("couplings_", ())) for member in members]),
            tiny=np.isin(np.arange(self.data.n_tasks), list(tiny_tasks(self.data, classification=self.classification))),
        ).with_new_locations(self.data.labels)

    def _nearest(self) -> dict[str, InputIndex]:
        """Return what finds the most similar task, as a fitted attribute, where unknown tasks are predicted so."""
        if self.fit.unknown_tasks != "nearest" or self.data.form != "long":
            return {}
        return {"input_index_": InputIndex.of(self.data).in_units(self.standard.center, self.standard.scale)}

    def _uncertainty(
        self, functions: CombinedFunctions, members: Sequence[Member], index: InputIndex | None
    ) -> Uncertainty:
        """Return what follows from the out-of-fold values of the members, and from left-out tasks."""
        outputs = [[member.trial.outcomes[f].values for f in range(len(self.folds))] for member in members]
        values = [gather_folds(self.data, self.folds, output) for output in outputs]
        known = average_held_out(functions, values, None if self.classification else self.data.y)
        data, source = self.standard.restore(self.data), cast(HeldOutSource, KnownValues(known))
        if self.fit.unknown_tasks == "nearest":
            rows = replace(data, X=self.data.X * self.standard.scale + self.standard.center)
            source = WithNearest(source, functions, rows, self.classification, index)
        elif self.fit.unknown_tasks == "common" or self.fit.task_features is not None:
            sources = [member.fitted.attributes["uncertainty_"].source for member in members]
            machines = tuple(each for each in sources if isinstance(each, MachinesHeldOut))
            if functions.borrowing.all() and len(machines) == len(members):
                source = AverageHeldOut(functions, known, machines, self.data.labels)
        return Uncertainty(source, data, classification=self.classification)

    def _fit_members(self, trials: Sequence[Trial], options: RunOptions) -> list[Fitted]:
        """Fit trials on all rows; those of one candidate that follow each other on the same Gram matrices."""
        groups = [list(group) for _, group in groupby(trials, key=lambda trial: id(trial.candidate))]
        return [fitted for group in groups for fitted in self._fit_group(group, RunOptions(options.n_jobs))]

    def _fit_group(self, trials: Sequence[Trial], options: RunOptions) -> list[Fitted]:
        specifications = [trial.candidate.make(trial.C, self.fit.tol) for trial in trials]
        plan = specifications[0].plan(self.data)
        if len(trials) == 1 or not isinstance(plan, FitPlan):
            return [specification.plan(self.data).run(options) for specification in specifications]
        raw, fits = plan.raw_grams(), cast(list[Fit], specifications)
        return [fit.plan(self.data, plan.kernels).run(options, raw) for fit in fits]


def _is_unfinished(member: Fitted) -> bool:
    return any(issubclass(category, ConvergenceWarning) for _, category in member.warnings)


def _table(trials: Sequence[Trial], weights: np.ndarray, unfinished: Sequence[int]) -> dict[str, np.ndarray]:
    return {
        "candidate": np.array([trial.candidate.name for trial in trials]),
        "C": np.array([trial.C for trial in trials]),
        "error": np.array([trial.error.error for trial in trials]),
        "standard_error": np.array([trial.error.standard_error for trial in trials]),
        "weight": weights,
        "n_folds": np.array([len(trial.outcomes) for trial in trials]),
        "converged": np.array([trial.converged and i not in unfinished for i, trial in enumerate(trials)]),
        "seconds": np.array([trial.seconds for trial in trials]),
    }
