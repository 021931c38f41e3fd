"""Run a cross-validation: solve lines of candidates on folds and return values at held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning

from ...data.folds import Fold
from ...data.forms import TaskData
from ...engines import Jobs, count_workers
from ...estimators import Fitted, RunOptions
from ...kernels.kernel import FittedKernel
from ...memory import Need
from ...progress import Progress
from ..fitting.fit import Fit
from ..fitting.targets import split_by_task
from ..grams.build import RawGrams, raw_grams
from ..grams.row_kernels import HeldOut
from ..problems.problem import Problem
from ..solvers.driver import UNFINISHED, Path, solve
from ..uncertainty import fold_values
from .grid import Line, Params, identity
from .scoring import PooledScorer, Scorer

# Parameters that change the kernel values, and parameters that change how Gram matrices are scaled.
_GRAM_PARAMETERS = ("kernels", "kernel", "normalize")
_SCALE_PARAMETERS = ("couplings", "parsimony", "sharing")


class Outcome(NamedTuple):
    """Result of one problem on a fold: the values (q_t, m) at the held-out rows of each task."""

    values: list[np.ndarray]
    converged: bool
    seconds: float


class CandidateSearch:
    """What the jobs of a cross-validation share: data, folds, and kernel values among all rows.

    Kernel values are evaluated once for all folds and lines with the same kernels, if all lines are of kernel machines.
    """

    def __init__(self, data: TaskData, folds: Sequence[Fold], lines: Sequence[Line], n_jobs: int | None) -> None:
        self.data, self.folds, self.n_jobs = data, folds, count_workers(n_jobs)
        self.shares_grams = all(isinstance(line.specification, Fit) for line in lines)
        self.key: tuple | None = None
        self.raw: RawGrams | None = None
        self.kernels: Sequence[FittedKernel] | None = None

    def memory(self, lines: Sequence[Line]) -> Need:
        """Bound the memory of the search, and of the fit on all rows; errors of plans are raised here."""
        n_fits = min(self.n_jobs, len(self.folds) * len(lines))
        if self.shares_grams:
            return max(line.specification.plan(self.data).memory(self.n_jobs, n_fits) for line in lines)
        specification = lines[0].specification
        fold = specification.plan(self.data.take(self.folds[0].kept)).memory()
        together = Need(n_fits * (fold.peak + self.data.X.nbytes), fold.advice)
        return max(specification.plan(self.data).memory(self.n_jobs), together)

    def evaluate(self, specification: Fit, params: Params, coupled: bool) -> RawGrams:
        """Evaluate the kernels of a candidate, unless they are those of the last one."""
        key = identity(params, _GRAM_PARAMETERS)
        if self.raw is None or key != self.key:
            self.raw, self.key = None, key
            self.kernels = specification.plan(self.data).kernels
            self.raw = raw_grams(self.data, self.kernels, specification.normalize, coupled)
        return self.raw

    def run(
        self, lines: Sequence[Line], verbose: int, callback: Callable[[int, int], object] | None
    ) -> dict[int, list[Outcome]]:
        """Return the outcomes of each candidate on each fold."""
        found: dict[int, list[Outcome]] = {}
        total = sum(len(line.steps) for line in lines) * len(self.folds)
        display = Progress(1, shown=verbose > 0)
        display.begin("cross-validation")

        def report(done: int, of: int, text: str) -> None:
            display.share(done / of, f"{done} of {of} fits")
            if callback is not None:
                callback(done, of)

        with Jobs(total, n_jobs=self.n_jobs, report=report) as runner, display:
            for group in _groups(lines, _GRAM_PARAMETERS) if self.shares_grams else [lines]:
                parts = _groups(group, _SCALE_PARAMETERS) if self.shares_grams else [[line] for line in group]
                jobs = [(part, fold) for fold in self.folds for part in parts]
                if self.shares_grams:
                    coupled = any(line.specification.couplings is not None for line in group)
                    self.evaluate(group[0].specification, group[0].params, coupled)
                results = runner.map(lambda job: self._run_job(job[0], job[1], runner.step), jobs)
                for (part, _), result in zip(jobs, results, strict=True):
                    steps = [candidates for line in part for _, candidates in line.steps]
                    for candidates, outcome in zip(steps, result, strict=True):
                        for candidate in candidates:
                            found.setdefault(candidate, []).append(outcome)
        return found

    def _run_job(self, lines: Sequence[Line], fold: Fold, step: Callable[[], object]) -> list[Outcome]:
        """Return the outcomes of all problems of lines that share scaled Gram matrices, on a fold."""
        outcomes = []
        for outcome in (_solve_lines if self.shares_grams else _fit_lines)(self, fold, lines):
            outcomes.append(outcome)
            step()
        return outcomes

    def refit(self, specification: Any, params: Params, options: RunOptions) -> Fitted:
        """Fit a candidate on all rows."""
        if not self.shares_grams:
            return specification.plan(self.data).run(options)
        raw = self.evaluate(specification, params, specification.couplings is not None)
        return specification.plan(self.data, self.kernels).run(options, raw)


def _fit_lines(search: CandidateSearch, fold: Fold, lines: Sequence[Line]) -> Iterator[Outcome]:
    """Fit each problem to the training rows of a fold and predict the held-out rows; fits share nothing."""
    train = search.data.take(fold.kept)
    for specification in (specification for line in lines for specification, _ in line.steps):
        began = time.perf_counter()
        fitted = specification.plan(train).run(RunOptions(n_jobs=1))
        converged = not any(issubclass(category, ConvergenceWarning) for _, category in fitted.warnings)
        yield Outcome(fold_values(fitted.attributes, search.data, fold), converged, time.perf_counter() - began)


def _solve_lines(search: CandidateSearch, fold: Fold, lines: Sequence[Line]) -> Iterator[Outcome]:
    """Solve the problems of each line in turn, on slices of the kernel values of all rows."""
    data, raw, kernels, train = search.data, search.raw, search.kernels, search.data.take(fold.kept)
    assert raw is not None
    plan = lines[0].specification.plan(train, kernels)
    raw = raw if plan.couplings else raw._replace(linked=None)
    grams, bank = plan.grams(raw.restrict(data, fold.kept), overwrite=True)
    held = HeldOut(raw, bank, data, fold.kept, fold.held)
    for line in lines:
        plan = line.specification.plan(train, kernels)
        problem, fit = plan.problem(grams), plan.fit
        limits: Any = {"tol": fit.tol, "max_iter": fit.max_iter, "units": plan.units}
        path = Path(problem, fit.solver, **limits) if isinstance(problem, Problem) and line.warm else None
        for specification, _ in line.steps:  # one step if the line is not warm
            began = time.perf_counter()
            if path is None:
                solution = solve(problem, fit.solver, start=plan.start, **limits)
            else:
                # Only mu / C^3 matters, so C stays fixed along the path.
                distance = specification.path_position - line.specification.path_position
                solution = path.solve(plan.mu * np.exp(distance), plan.start)
            a, intercepts = split_by_task(solution.duals, plan.machines, train, plan.couplings)
            values = held.values(solution.B, a, intercepts, plan.couplings)
            yield Outcome(values, solution.status not in UNFINISHED, time.perf_counter() - began)


def tabulate(
    candidates: Sequence[Params], found: dict[int, list[Outcome]], scorer: Scorer | PooledScorer
) -> dict[str, Any]:
    """Return `cv_results_`, with one row per candidate."""
    # Equivalent candidates share their outcomes and are scored once.
    scored: dict[int, tuple[float, float, np.ndarray]] = {}
    for outcomes in found.values():
        if id(outcomes[0]) not in scored:
            scored[id(outcomes[0])] = scorer.score([outcome.values for outcome in outcomes])
    mean, error, each = zip(*(scored[id(found[i][0])] for i in range(len(candidates))), strict=True)
    table: dict[str, Any] = {"params": list(candidates)}
    for name in dict.fromkeys(name for params in candidates for name in params):
        column = np.empty(len(candidates), dtype=object)
        column[:] = [params.get(name) for params in candidates]
        table[f"param_{name}"] = column
    table |= {"mean_test_score": np.array(mean), "standard_error": np.array(error)}
    for fold in range(len(scorer.folds)):
        table[f"split{fold}_test_score"] = np.array([scores[fold] for scores in each])
    # 1 is the best; ties have equal ranks; undefined scores are last.
    table["rank_test_score"] = rankdata(-np.nan_to_num(mean, nan=-np.inf), "min").astype(int)
    table["converged"] = np.array([all(outcome.converged for outcome in found[i]) for i in range(len(candidates))])
    table["seconds"] = np.array([sum(outcome.seconds for outcome in found[i]) for i in range(len(candidates))])
    return table


def _groups(lines: Sequence[Line], names: Sequence[str]) -> list[list[Line]]:
    """Group lines by the values of some parameters."""
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        groups.setdefault(identity(line.params, names), []).append(line)
    return list(groups.values())
