"""The search: candidates are screened on one fold, and those that may matter are tried on all.

Groups of candidates are tried in waves, the cheap ones first. Of each wave every candidate is tried on the first fold.
What is so much worse there than the best so far that it would have no weight in the average is dropped, and so are
values of C that are clearly worse than others of the same candidate. Decisions are made between waves alone, so that
they do not depend on which process was faster.

Folds, not leave-one-out errors: for the squared loss the latter come in closed form, but with kernel weights learned on
all rows they choose worse where rows are few. Error on rows kept aside of what folds and leave-one-out choose: 2.47 and
2.79 (stock), 0.653 and 0.675 (nothing in common, 20 rows), the same on SARCOS (50 rows) and on groups (15 rows), at a
third to a half of the time of five full folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..data import TaskData
from ..fitting import Fit
from ..model_selection import Fold
from ..model_selection.default_grid import MAX_EXTENSIONS, next_costs
from ..model_selection.fold_fits import Deadline, Outcome
from ..model_selection.grid import Line, Step
from ..model_selection.pooled import ErrorPool, PooledError
from .candidates import SEARCH_TOL, Candidate
from .jobs import Job, JobRunner
from .remaining import GroupWork, Remaining
from .weights import REACH

# Standard errors of a difference on the first fold, beyond which it is taken as real.
CERTAIN = 2.0
# Errors of one candidate for classes that differ by less than this part of a standard error are the same: support
# vector machines are solved to a tolerance.
TIED = 1e-3


@dataclass(eq=False)
class Trial:
    """A candidate at one value of C: its outcomes on folds, and their pooled error.

    Attributes
    ----------
    candidate, C : what is tried.
    outcomes : on each fold that it was tried on.
    error : over these folds.
    is_dropped : whether it is left out after the first fold.
    """

    candidate: Candidate
    C: float
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    error: PooledError = field(default_factory=lambda: PooledError(np.inf, np.inf))
    is_dropped: bool = False

    @property
    def seconds(self) -> float:
        return sum(outcome.seconds for outcome in self.outcomes.values())

    @property
    def converged(self) -> bool:
        return all(outcome.converged for outcome in self.outcomes.values())


@dataclass(eq=False)
class Search:
    """A search over candidates, while there is time; without a cache an interrupt keeps what is complete.

    Attributes
    ----------
    report : called after each piece with the seconds spent, those left as expected now, and the best candidate so far.
    trials : all that was tried.
    stopped : why the search ended early; empty where it did not.
    """

    data: TaskData
    folds: Sequence[Fold]
    candidates: Sequence[Candidate]
    runner: JobRunner
    classification: bool
    costs: Sequence[np.ndarray] | None = None
    time_limit: float | None = None
    report: Callable[[float, float, str], None] | None = None
    trials: list[Trial] = field(default_factory=list)
    stopped: str = ""
    _began: float = 0.0
    _last: float = 0.0
    _work: Remaining | None = None

    def run(self) -> list[Trial]:
        """Return the trials that were tried on all folds."""
        self._began, self._last = time.time(), time.perf_counter()
        waves = make_waves(self.candidates, first_alone=self.time_limit is not None)
        self._work = Remaining(len(self.folds), {_name(group): _work(group) for wave in waves for group in wave})
        try:
            for wave in waves:
                if not self._try_wave(wave):
                    self.stopped = f"time_limit={self.time_limit:g} reached"
                    break
        except KeyboardInterrupt:
            # With a cache nothing is lost: the same fit continues from there.
            if self.runner.cache is not None or not self.complete():
                raise
            self.stopped = "interrupted"
        return self.complete()

    def complete(self) -> list[Trial]:
        """Return the trials that are complete by now."""
        return [trial for trial in self.trials if len(trial.outcomes) == len(self.folds)]

    def best_of_each(self) -> list[Trial]:
        """Return the complete trial with the least error of each candidate; of several that are as good the least C.

        A support vector machine that violates no margin is the same at all larger values of C, and rounding would
        choose among them. With the squared loss every C makes another machine.
        """
        found = []
        for own in _by_candidate(self.complete()):
            best = min((trial.error for trial in own), key=lambda error: error.error)
            limit = best.error + (TIED * best.standard_error if self.classification else 0.0)
            found.append(min((trial for trial in own if trial.error.error <= limit), key=lambda trial: trial.C))
        return found

    def out_of_fold(self, trials: Sequence[Trial]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values (n, m) of complete trials at all held-out rows, and targets (n,) and costs (n,) of the rows."""
        every = range(len(self.folds))
        columns = [self._pool(every).flat(_values(trial, every)) for trial in trials]
        return np.column_stack([values for values, _, _ in columns]), columns[0][1], columns[0][2]

    def tasks_out_of_fold(self) -> np.ndarray:
        """Return the task (n,) of each of these rows, for targets with one output."""
        return np.concatenate([np.repeat(np.arange(len(fold.held)), list(map(len, fold.held))) for fold in self.folds])

    def n_untried(self) -> int:
        """Return the number of groups of which nothing is known."""
        judged = {trial.candidate.group for trial in self.trials if trial.is_dropped or trial in self.complete()}
        return len({candidate.group for candidate in self.candidates} - judged)

    def _try_wave(self, groups: Sequence[Sequence[Candidate]]) -> bool:
        """Screen a wave, finish what remains, go on where the best C is at an end; False if time is over."""
        wave = [[Trial(candidate, C) for candidate in group for C in sorted(candidate.grid)] for group in groups]
        self.trials += [trial for group in wave for trial in group]
        if not self._perform([(group, (0,)) for group in wave]):
            return False
        wave = self._keep_promising(wave)
        others = tuple(range(1, len(self.folds)))
        if not self._perform([(group, others) for group in wave]):
            return False
        for _ in range(MAX_EXTENSIONS):
            extended = [more for group in wave if (more := self._extend(group))]
            self.trials += [trial for group in extended for trial in group]
            if not self._perform([(group, (0, *others)) for group in extended], counted=False):
                return False
        return True

    def _perform(self, work: Sequence[tuple[Sequence[Trial], tuple[int, ...]]], counted: bool = True) -> bool:
        """Try groups of trials on folds; False if there was no time for all."""
        numbers = {id(trial): i for i, trial in enumerate(self.trials)}
        jobs, last = [], set()
        for group, folds in work:
            lines = make_lines(group, [numbers[id(trial)] for trial in group])
            jobs += [Job(lines, part) for part in _chunks(folds, self.runner.n_workers)]
            last.add(len(jobs) - 1)
        is_complete = True
        for number, (job, found) in enumerate(self.runner.run(jobs, self._deadline())):
            is_complete &= len(found) == job.n_candidates
            for i, outcomes in found.items():
                self.trials[i].outcomes |= dict(zip(job.folds, outcomes, strict=True))
            if number in last and found:
                self._measure(self.trials[i] for i in found)
                self._note(self.trials[next(iter(found))].candidate.group, job.folds, counted)
            if not is_complete or (self._deadline().is_over() and number + 1 < len(jobs)):
                return False
        return not self._deadline().is_over()

    def _deadline(self) -> Deadline:
        """Return when the search has to end; there is none before something is complete that can be fitted."""
        if self.time_limit is None or not self.complete():
            return Deadline()
        return Deadline(self._began + self.time_limit)

    def _measure(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            trial.error = self._pool(sorted(trial.outcomes)).measure(_values(trial, sorted(trial.outcomes)))

    def _pool(self, folds: Sequence[int]) -> ErrorPool:
        chosen = [self.folds[f] for f in folds]
        return ErrorPool(self.data, chosen, classification=self.classification, costs=self.costs)

    def _keep_promising(self, wave: Sequence[Sequence[Trial]]) -> list[list[Trial]]:
        """Drop what is hopeless on the first fold; the most promising group comes first."""
        pool = self._pool([0])
        everyone = [*self.complete(), *(trial for group in wave for trial in group)]
        leader = min(everyone, key=lambda trial: pool.measure(_values(trial, [0])).error)
        kept = []
        for group in wave:
            promising = [trial for own in _by_candidate(group) for trial in self._promising(own, pool, leader)]
            if promising:
                kept.append(promising)
            self._remaining.kept(group[0].candidate.group, len(promising))
        return sorted(kept, key=lambda group: min(trial.error.error for trial in group))

    def _promising(self, own: Sequence[Trial], pool: ErrorPool, leader: Trial) -> list[Trial]:
        """Return the trials of one candidate that may have weight in the average; the others are marked."""
        best = min(own, key=lambda trial: trial.error.error)
        # The standard error over all folds, of which the leader may have been tried on the first alone.
        error = leader.error.standard_error * np.sqrt(len(leader.outcomes) / len(self.folds))
        if _lead(pool, leader, best) > REACH * error:
            kept = []
        else:
            kept = [trial for trial in own if self._may_matter(trial, pool, best)]
        for trial in own:
            trial.is_dropped = trial not in kept
        return kept

    def _may_matter(self, trial: Trial, pool: ErrorPool, best: Trial) -> bool:
        """Whether a value of C may be as good as the best of its candidate, for all tasks or for one of them."""
        if trial is best or _lead(pool, best, trial) <= 0:
            return True
        return not self.classification and pool.is_ahead_in_a_task(_values(trial, [0]), _values(best, [0]), CERTAIN)

    def _extend(self, group: Sequence[Trial]) -> list[Trial]:
        """Return trials beyond an end of the grid, for candidates that are best there and among the leaders."""
        leader = min(self.complete(), key=lambda trial: trial.error.error)
        limit = leader.error.error + leader.error.standard_error
        found = []
        for candidate in (own[0].candidate for own in _by_candidate(group)):
            tried = sorted((trial for trial in self.trials if trial.candidate is candidate), key=lambda trial: trial.C)
            best = min((trial for trial in tried if not trial.is_dropped), key=lambda trial: trial.error.error)
            if best.error.error > limit:
                continue
            errors = [np.inf if trial.is_dropped else trial.error.error for trial in tried]
            costs = next_costs([trial.C for trial in tried], errors, leader.error.standard_error)
            found += [Trial(candidate, C) for C in costs]
        return found

    @property
    def _remaining(self) -> Remaining:
        assert self._work is not None
        return self._work

    def _note(self, group: str, folds: Sequence[int], counted: bool) -> None:
        """A group was tried on folds: on the first, on all others, or (not counted) at further values of C."""
        now, work = time.perf_counter(), self._remaining
        seconds, self._last = now - self._last, now
        if not counted:
            work.spent += seconds
        elif tuple(folds) == (0,):
            work.screened(group, seconds)
        else:
            work.finished(group, seconds)
        if self.report is not None:
            self.report(work.spent, work.left, self._leader())

    def _leader(self) -> str:
        complete = self.complete()
        if not complete:
            return "first candidates"
        best = min(complete, key=lambda trial: trial.error.error)
        return f"best so far: {best.candidate.name}, C={best.C:.3g} (error {best.error.error:.4f})"


def make_waves(candidates: Sequence[Candidate], *, first_alone: bool) -> list[list[list[Candidate]]]:
    """Return groups of candidates in the order in which they are tried: cheap ones, then costly ones.

    Where time is limited the first group is a wave of its own, so that there is something to fit soon. Otherwise it is
    screened with the others: where these are far ahead, that saves most of its fits.
    """
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.group, []).append(candidate)
    first, *others = groups.values()
    cheap = [group for group in others if not group[0].is_costly]
    costly = [group for group in others if group[0].is_costly]
    if first[0].is_costly or first_alone:
        return [wave for wave in ([first], cheap, costly) if wave]
    return [wave for wave in ([first, *cheap], costly) if wave]


def _name(group: Sequence[Candidate]) -> str:
    return group[0].group


def _work(group: Sequence[Candidate]) -> GroupWork:
    return GroupWork(sum(len(candidate.grid) for candidate in group), group[0].is_costly)


def make_lines(trials: Sequence[Trial], numbers: Sequence[int]) -> tuple[Line, ...]:
    """Return one warm-started line for each candidate where C leads from one solution to the next, else many."""
    lines: list[Line] = []
    number = dict(zip(map(id, trials), numbers, strict=True))
    for own in _by_candidate(trials):
        steps = [Step(trial.candidate.make(trial.C, SEARCH_TOL), (number[id(trial)],)) for trial in own]
        specification, params = steps[0].specification, own[0].candidate.params
        warm = isinstance(specification, Fit) and specification.has_path
        parts = [tuple(steps)] if warm else [(step,) for step in steps]
        lines += [Line(part, warm=warm, params=params) for part in parts]
    return tuple(lines)


def _by_candidate(trials: Sequence[Trial]) -> list[list[Trial]]:
    found: dict[int, list[Trial]] = {}
    for trial in trials:
        found.setdefault(id(trial.candidate), []).append(trial)
    return list(found.values())


def _values(trial: Trial, folds: Sequence[int]) -> list[list[np.ndarray]]:
    return [trial.outcomes[f].values for f in folds]


def _lead(pool: ErrorPool, first: Trial, second: Trial) -> float:
    """Return by how much the first is ahead of the second on the first fold, beyond what may be chance."""
    mean, error = pool.difference(_values(second, [0]), _values(first, [0]))
    return mean - CERTAIN * error


def _chunks(folds: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Split folds among processes."""
    return [tuple(part.tolist()) for part in np.array_split(np.array(folds, dtype=int), min(count, len(folds)))]
