"""The specification behind KinRegressor and KinClassifier: search, choose, fit the members of the average."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import TaskData
from ..fitting import Classification, Fit, Fitted, RunOptions, Targets
from ..functions import CombinedFunctions
from ..kernels import fit_kernels, gaussian_kernels, is_precomputed
from ..memory import Need, fit_need
from ..model_selection import Fold, make_folds
from ..model_selection.fold_fits import Outcome
from ..model_selection.grid import Line, Step
from ..model_selection.search import SharedGrams, run_search, shares_grams
from ..progress import Progress
from .candidates import SEARCH_TOL, Candidate, make_candidates
from .errors import ErrorPool, PooledError, average_weights
from .explain import column_shares
from .standard import Standard

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
# Where the best value of C is at the end of its grid, the grid goes on by this factor, so often at most.
EXTENSION, MAX_EXTENSIONS = 10.0, 2


@dataclass(frozen=True)
class Trial:
    """A candidate at one value of C, and its pooled out-of-fold error."""

    candidate: Candidate
    C: float
    error: PooledError
    seconds: float


@dataclass(frozen=True, kw_only=True)
class KinFit:
    """Specification of the search.

    Parameters
    ----------
    targets : Classification or Regression
    kernels : None for all dictionaries, or the only kernels to use
    cv : folds of each task, or pairs of training and test rows
    unknown_tasks : {"error", "common"}
    time_limit : seconds after which no further candidates are tried
    tol : the relative duality gap of the members of the average
    random_state : seed of the folds
    cache : a folder that keeps finished parts of the search
    """

    targets: Targets
    kernels: Any = None
    cv: Any = 5
    unknown_tasks: str = "error"
    time_limit: float | None = None
    tol: float = 1e-3
    random_state: Any = None
    cache: Any = None

    def plan(self, data: TaskData) -> KinPlan:
        """Apply to data: standardise, and list the candidates."""
        if is_precomputed(self.kernels):
            raise ValueError("kernels='precomputed' leaves no columns to choose kernels for: use MKMTRL...CV")
        classification = isinstance(self.targets, Classification)
        standard = Standard.fit(data, classification=classification)
        scaled = standard.apply(data)
        candidates = make_candidates(scaled, self.targets, self.kernels, self.unknown_tasks == "common")
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
        kernels = fit_kernels(gaussian_kernels(tuple(range(1, 13))), self.data.X)
        plan = specification.plan(self.data, kernels if specification.kernels_use_targets else None)
        return fit_need(plan.gram_plan(), plan.solved_by, n_jobs, len(self.folds))

    def run(self, options: RunOptions) -> Fitted:
        """Search, then fit the members of the average on all rows."""
        search = _Search(self, options)
        trials = search.run()
        weights = _weights(trials)
        chosen = np.flatnonzero(weights)
        members = [self._fit_member(trials[i], options) for i in chosen]
        functions = CombinedFunctions(
            members=tuple(member.attributes["functions_"] for member in members),
            weights=weights[chosen],
            slopes=np.array([trials[i].error.slope for i in chosen]),
            offsets=np.array([trials[i].error.offset for i in chosen]),
            center=self.standard.center,
            scale=self.standard.scale,
            location=self.standard.location,
            spread=self.standard.spread,
        )
        best = int(weights.argmax())
        leading = members[int(weights[chosen].argmax())].attributes
        attributes = {name: leading[name] for name in LEADING if name in leading} | {
            "tasks_": self.data.labels,
            "data_form_": self.data.form,
            "functions_": functions,
            "members_": tuple(
                {"name": trials[i].candidate.name, "C": trials[i].C, "weight": float(weights[i]), **_facts(member)}
                for i, member in zip(chosen, members, strict=True)
            ),
            "search_results_": _table(trials, weights),
            "best_candidate_": trials[best].candidate.name,
            "best_C_": trials[best].C,
            "best_error_": trials[best].error.error,
            "column_shares_": column_shares(
                [member.attributes for member in members],
                weights[chosen].tolist(),
                self.data.feature_names,
                self.data.X.shape[1],
            ),
            "n_candidates_": len(trials),
            "is_complete_": search.is_complete,
        }
        warnings = tuple(warning for member in members for warning in member.warnings)
        return Fitted(attributes | self.fit.targets.attributes(self.data), (*search.warnings, *warnings))

    def _fit_member(self, trial: Trial, options: RunOptions) -> Fitted:
        specification = trial.candidate.make(trial.C, self.fit.tol)
        return specification.plan(self.data).run(RunOptions(options.n_jobs))


@dataclass
class _Search:
    """Tries candidates group by group, while there is time; an interrupt keeps what is complete."""

    plan: KinPlan
    options: RunOptions
    trials: list[Trial] = field(default_factory=list)
    is_complete: bool = True
    warnings: tuple[tuple[str, type[Warning]], ...] = ()

    def run(self) -> list[Trial]:
        began = time.perf_counter()
        groups = _groups(self.plan.candidates)
        display = Progress(len(groups)) if self.options.verbose else None
        try:
            with display or nullcontext():
                for number, group in enumerate(groups):
                    if self.trials and self._is_late(began):
                        self._stop(f"time_limit={self.plan.fit.time_limit:g} reached", len(groups) - number)
                        break
                    self._try_group(group)
                    if display is not None:
                        display.finish(self._leader())
        except KeyboardInterrupt:
            if not self.trials:
                raise
            self._stop("interrupted", len(groups) - number)
        return self.trials

    def _is_late(self, began: float) -> bool:
        limit = self.plan.fit.time_limit
        return limit is not None and time.perf_counter() - began >= limit

    def _stop(self, reason: str, left: int) -> None:
        self.is_complete = False
        message = f"{reason}: {left} groups of candidates were not tried; the fit uses those that were"
        self.warnings = ((message, UserWarning),)

    def _try_group(self, group: Sequence[Candidate]) -> None:
        """Try all candidates of a group along their grids, and go on where the best C is at an end."""
        todo = [(candidate, candidate.grid) for candidate in group]
        for _ in range(1 + MAX_EXTENSIONS):
            found = self._try(todo)
            self.trials += found
            todo = [extended for candidate in group if (extended := self._extended(candidate)) is not None]
            if not todo:
                break

    def _extended(self, candidate: Candidate) -> tuple[Candidate, tuple[float, ...]] | None:
        """Return values of C beyond an end of the grid at which this candidate is best, if it is among the leaders."""
        own = sorted((trial for trial in self.trials if trial.candidate is candidate), key=lambda trial: trial.C)
        errors = np.array([trial.error.error for trial in own])
        leader = min(self.trials, key=lambda trial: trial.error.error)
        best = int(errors.argmin())
        if errors[best] > leader.error.error + leader.error.standard_error or len(own) >= len(candidate.grid) + 4:
            return None
        if best == len(own) - 1:
            return candidate, (own[-1].C * EXTENSION**0.5, own[-1].C * EXTENSION)
        if best == 0:
            return candidate, (own[0].C / EXTENSION**0.5, own[0].C / EXTENSION)
        return None

    def _try(self, todo: Sequence[tuple[Candidate, tuple[float, ...]]]) -> list[Trial]:
        lines: list[Line] = []
        index: list[tuple[Candidate, float]] = []
        for candidate, grid in todo:
            steps = []
            for C in sorted(grid):
                steps.append(Step(candidate.make(C, SEARCH_TOL), (len(index),)))
                index.append((candidate, C))
            lines += _lines(steps, candidate)
        data, folds = self.plan.data, self.plan.folds
        pool = ErrorPool(data, folds, classification=self.plan.classification)
        outcomes: dict[int, list[Outcome]] = {}
        for part in (lines,) if shares_grams(lines) else ([line] for line in lines):
            grams = SharedGrams(data, part, len(folds), self.options.n_jobs) if shares_grams(part) else None
            found, _ = run_search(
                part,
                data,
                folds,
                grams,
                n_jobs=self.options.n_jobs,
                verbose=0,
                callback=None,
                cache=self.plan.fit.cache,
            )
            outcomes |= found
        return [
            Trial(
                candidate,
                C,
                pool.measure([outcome.values for outcome in outcomes[i]]),
                sum(outcome.seconds for outcome in outcomes[i]),
            )
            for i, (candidate, C) in enumerate(index)
        ]

    def _leader(self) -> str:
        best = min(self.trials, key=lambda trial: trial.error.error)
        return f"best so far: {best.candidate.name}, C={best.C:.3g} (error {best.error.error:.4f})"


def _weights(trials: Sequence[Trial]) -> np.ndarray:
    """Return the weight of each trial in the average: each candidate enters with its best C."""
    best: dict[str, int] = {}
    for i, trial in enumerate(trials):
        name = trial.candidate.name
        if name not in best or trial.error.error < trials[best[name]].error.error:
            best[name] = i
    entered = list(best.values())
    weights = np.zeros(len(trials))
    weights[entered] = average_weights([trials[i].error for i in entered])
    return weights


def _groups(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.group, []).append(candidate)
    return list(groups.values())


def _lines(steps: Sequence[Step], candidate: Candidate) -> list[Line]:
    """Return one warm-started line where C leads from one solution to the next, else a line for each value."""
    specification = steps[0].specification
    if isinstance(specification, Fit) and specification.has_path:
        return [Line(tuple(steps), warm=True, params=candidate.params)]
    return [Line((step,), warm=False, params=candidate.params) for step in steps]


def _facts(member: Fitted) -> dict[str, Any]:
    kept = ("kernel_names_", "kernel_weights_", "coupling_weights_", "objective_", "duality_gap_", "n_iter_")
    return {name.rstrip("_"): member.attributes[name] for name in kept if name in member.attributes}


def _table(trials: Sequence[Trial], weights: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "candidate": np.array([trial.candidate.name for trial in trials]),
        "C": np.array([trial.C for trial in trials]),
        "error": np.array([trial.error.error for trial in trials]),
        "standard_error": np.array([trial.error.standard_error for trial in trials]),
        "weight": weights,
        "seconds": np.array([trial.seconds for trial in trials]),
    }
