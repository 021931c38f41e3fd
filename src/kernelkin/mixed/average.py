"""The average of structures, weighted by their cross-validated errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engines import Jobs
from ..engines.threads import Threads, count_workers
from .covariance import Place
from .likelihoods import Gaussian, Likelihood
from .structures import (
    MORE_ROWS,
    MOST_ROWS,
    STRUCTURES,
    FittedStructure,
    MixedData,
    Structure,
    count_features,
    landmark_count,
)

# Up to this many rows, fits of folds start from scratch; with more, they start at the parameters of all rows.
REFIT_ROWS = 600
EVALUATIONS, FOLD_EVALUATIONS, WARM_EVALUATIONS = 50, 30, 8
# The same for more than `MORE_ROWS` rows.
FEWER_EVALUATIONS, FEWER_WARM = 40, 5
# With more than `MOST_ROWS` rows, parameters are learned on whole groups with this many rows in all; then a few
# evaluations follow on all rows, and folds keep the parameters.
SUBSET_ROWS, LAST_EVALUATIONS = 30_000, 2
# A structure is dropped after the first fold if it is behind the best by this many standard errors.
HOPELESS = 4.0
# With fewer rows, fits are too short for threads.
THREADED_ROWS = 300


@dataclass
class Member:
    """A structure fitted to all rows and to folds."""

    structure: Structure
    fitted: FittedStructure  # the fit on all rows
    # mean, variance: (N, r) mean and variance of the function with offsets at each row, by the fit that held it out.
    mean: np.ndarray
    variance: np.ndarray
    noise: np.ndarray  # (N,) the variance of the noise in that fit
    loss: np.ndarray  # (N,) the loss of each row; NaN for rows that were not held out
    # weight, new_weight: the weights in the average for known and for new groups.
    weight: float = 0.0
    new_weight: float = 0.0
    # error, standard_error: the mean loss of held-out rows, and its standard error.
    error: float = np.nan
    standard_error: float = np.nan
    seconds: float = 0.0  # the run time of the fits
    of_fold: np.ndarray | None = None  # the parameters of the fit without the first fold


class Search:
    """Fit structures to all rows and to folds, on several threads, until the deadline.

    Results do not depend on the number of threads.

    Parameters
    ----------
    folds : (N,) the fold of each row; -1 for rows that are never held out.
    began, deadline : of `time.monotonic`. Fits on all rows may take half of the time.
    report : called with the number of finished fits, the number of all fits, and a text.
    n_features : number of features of a common smooth with many rows; None: depends on the number of rows.
    place : where the blocks of a fit are evaluated. On a cluster or a device, one fit runs at a time.

    Attributes
    ----------
    is_complete : whether all fits ended before the deadline.
    members : the structures that were fitted and not dropped.
    half_features : errors of the first member on the first fold with all features and, at the same parameters, with
        half of them; None if no function is represented by features, or the deadline was reached.
    """

    def __init__(
        self,
        data: MixedData,
        folds: np.ndarray,
        likelihood: Likelihood | None = None,
        structures: Sequence[Structure] = STRUCTURES,
        *,
        began: float | None = None,
        deadline: float = np.inf,
        n_jobs: int | None = None,
        report: Callable[[int, int, str], object] | None = None,
        n_features: int | None = None,
        place: Place | None = None,
    ) -> None:
        self.data, self.folds, self.structures = data, folds, structures
        self.likelihood = Gaussian() if likelihood is None else likelihood
        began = time.monotonic() if began is None else began
        self.deadline, self.limit = deadline, began + 0.5 * (deadline - began)
        self.n_folds = int(folds.max(initial=-1)) + 1
        n_jobs = count_workers(n_jobs) if data.n_rows >= THREADED_ROWS and place is None else 1
        self.n_features, self.place, self.n_jobs = n_features, place, n_jobs
        self.jobs = Jobs(len(structures) * (1 + self.n_folds), n_jobs=n_jobs, report=report, deadline=deadline)
        self.members: list[Member] = []

    def run(self) -> list[Member]:
        """Return the members of the average, the largest weight first."""
        with self.jobs as jobs:
            self._share_threads(len(self.structures))
            found = jobs.map(self._fit, self.structures, self.limit)
            # At least one structure is always fitted.
            self.members = [member for member in found if member is not None] or [self._fit(self.structures[0])]
            if self.n_folds:
                self._share_threads(len(self.members))
                jobs.map(self._hold_out, [(member, 0) for member in self.members])
                self._drop_hopeless()
                others = [(member, fold) for fold in range(1, self.n_folds) for member in self.members]
                self._share_threads(len(others))
                jobs.map(self._hold_out, others)
        self.is_complete = jobs.is_complete and time.monotonic() <= self.deadline
        if any(np.isnan(member.loss).all() for member in self.members):
            for member in self.members:
                self._leave_out(member)
        self._weigh()
        self.half_features = self._try_half()
        for member in self.members if self.place is not None else ():
            member.fitted.model.bring_here()
        return self.members

    def _share_threads(self, n_fits: int) -> None:
        """Divide the threads among the fits that run at the same time, unless there is a cluster or a device."""
        self.here = Place(Threads(max(1, self.n_jobs // max(n_fits, 1)))) if self.place is None else self.place

    def _fit(self, structure: Structure) -> Member:
        """Fit a structure to all rows."""
        began, count = time.monotonic(), FEWER_EVALUATIONS if self.data.n_rows > MORE_ROWS else EVALUATIONS
        start, steps = None, [(self.data, count)]
        n_features = count_features(self.data.n_rows) if self.n_features is None else self.n_features
        if self.data.n_rows > MOST_ROWS:
            some = some_groups(self.data.groups[0], SUBSET_ROWS)
            steps = [(self.data.take(some), count), (self.data, LAST_EVALUATIONS)]
        for data, count in steps:
            fitted = self._fitted(structure, data, self.limit, n_features, evaluations=count, start=start)
            start = fitted.model.x_
        self.jobs.is_complete &= time.monotonic() <= self.limit
        unknown, of_rows = np.full(self.data.z.shape, np.nan), np.full(self.data.n_rows, np.nan)
        self.jobs.step(structure.name)
        seconds = time.monotonic() - began
        return Member(structure, fitted, unknown, unknown.copy(), of_rows, of_rows.copy(), seconds=seconds)

    def _fitted(
        self, structure: Structure, data: MixedData, deadline: float, n_features: int | None, **options: Any
    ) -> FittedStructure:
        where: dict[str, Any] = {"deadline": deadline, "n_features": n_features, "place": self.here}
        return FittedStructure(structure, data, self.likelihood, **where, **options)

    def _drop_hopeless(self) -> None:
        """Drop structures whose error on the first fold is too large for them to get any weight."""
        known = [member for member in self.members if not np.isnan(member.loss).all()]
        if not known:
            return
        best = min(known, key=lambda member: self._mean(member.loss)[0])
        for member in known:
            behind, uncertain = self._mean(member.loss - best.loss)
            # Effects of groups need a structure without means of groups.
            needed = sum(not other.structure.means for other in self.members) == 1 and not member.structure.means
            needed |= not member.structure.sparse
            if np.isfinite(member.loss).sum() > 10 and behind > HOPELESS * uncertain > 0 and not needed:
                self.members.remove(member)
                self.jobs.total -= self.n_folds - 1

    def _mean(self, values: np.ndarray) -> tuple[float, float]:
        """Return the mean of the known values of rows (N,), and its standard error."""
        known = ~np.isnan(values)
        values, weight = values[known], self.data.weight[known]
        mean = np.average(values, weights=weight)
        return float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=weight) / weight.sum()))

    def _hold_out(self, job: tuple[Member, int]) -> None:
        """Refit a structure without the rows of a fold, and predict these rows."""
        member, fold = job
        began, held = time.monotonic(), self.folds == fold
        warm = self.data.n_rows > REFIT_ROWS
        few = FEWER_WARM if self.data.n_rows > MORE_ROWS else WARM_EVALUATIONS
        few = 0 if self.data.n_rows > MOST_ROWS else few
        start, count = (member.fitted.model.x_, few) if warm else (None, FOLD_EVALUATIONS)
        found = self._without(member, held, start, count, self.n_features)
        member.mean[held], member.variance[held], member.loss[held], fitted = found
        member.noise[held] = fitted.model.noise_
        if fold == 0:
            member.of_fold = fitted.model.x_
        member.seconds += time.monotonic() - began
        self.jobs.step(f"{member.structure.name}, fold {fold + 1}")

    def _without(self, member: Member, held: np.ndarray, start: Any, evaluations: int, n_features: int | None) -> Any:
        """Return means, variances (h, r) and losses (h,) of the rows `held` by a fit without them, and this fit."""
        data = self.data
        rest, options = data.take(np.flatnonzero(~held)), {"evaluations": evaluations, "start": start}
        fitted = self._fitted(member.structure, rest, self.deadline, n_features, **options)
        kernels = [kernel[np.ix_(held, ~held)] for kernel in data.kernels]
        mean, variance = fitted.predict(data.X[held], [part[held] for part in data.groups], kernels)
        mean = mean if data.offset is None else mean + data.offset[held, None]
        return mean, variance, self._loss(held, mean, variance + fitted.model.noise_), fitted

    def _try_half(self) -> tuple[float, float] | None:
        first = self.members[0]
        count = landmark_count(first.fitted)
        if count < 2 or first.of_fold is None or time.monotonic() > self.deadline:
            return None
        held, half = self.folds == 0, np.full(len(self.folds), np.nan)
        self._share_threads(1)
        *_, half[held], fitted = self._without(first, held, first.of_fold, 0, count // 2)
        if not landmark_count(fitted):
            return None
        return self._mean(np.where(held, first.loss, np.nan))[0], self._mean(half)[0]

    def _leave_out(self, member: Member) -> None:
        """Set the values of held-out rows without folds, at the parameters of all rows.

        With normal noise, these are leave-one-out values. For other likelihoods and for wide data, they are the values
        of the fit on all rows.
        """
        model = member.fitted.model
        groups = list(self.data.groups)
        mean, variance = member.fitted.predict(self.data.X, groups, self.data.kernels)
        if isinstance(self.likelihood, Gaussian) and not self.data.wide:
            diagonal = model.solved[0].diagonal
            noise = model.noise_ / self.data.weight
            mean, variance = model.leave_one_out(), np.maximum(1.0 / diagonal - noise, 0.0)[:, None]
        if self.data.offset is not None:
            mean = mean + self.data.offset[:, None]
        member.mean, member.variance, member.noise = mean, variance, np.full(len(mean), model.noise_)
        member.loss = self._loss(np.ones(len(mean), dtype=bool), mean, variance + model.noise_)

    def _loss(self, rows: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the loss of rows (q,) whose function, with its noise, has these means and variances (q, r)."""
        z = self.data.z[rows]
        if isinstance(self.likelihood, Gaussian):
            return ((mean - z) ** 2).mean(1)
        return self.likelihood.loss(z, self.likelihood.mean(mean, variance)).mean(1)

    def _weigh(self) -> None:
        """Weight members by exp(-(error - least error) / s).

        Here s is half the standard error of the least error, or a fifth of it for counts (`weight_scale`).
        """
        # If time ran out during the folds, members are compared on the rows that all of them have predicted.
        unknown = np.any([np.isnan(member.loss) for member in self.members], axis=0)
        for member in self.members:
            member.error, member.standard_error = self._mean(np.where(unknown, np.nan, member.loss))
        weights = self._soft_weights([(member.error, member.standard_error) for member in self.members])
        for member, weight in zip(self.members, weights.tolist(), strict=True):
            member.weight = member.new_weight = weight
        self.members.sort(key=lambda member: -member.weight)

    def _soft_weights(self, found: Sequence[tuple[float, float]]) -> np.ndarray:
        """Return weights (M,) from errors and their standard errors."""
        # A structure that is not sparse is for effects of groups alone.
        errors, uncertain = np.array(found).T
        errors = np.where([member.structure.sparse for member in self.members], errors, np.inf)
        scale = self.likelihood.weight_scale * max(uncertain[errors.argmin()], 1e-12)
        weights = np.exp((errors.min() - errors) / scale)
        return weights / weights.sum()

    def weigh_by_groups(self, folds: np.ndarray) -> None:
        """Set the weights for new groups by folds (N,) of whole groups, at the parameters of all rows."""
        found = []
        for member in self.members:
            loss = np.full(self.data.n_rows, np.nan)
            for fold in range(int(folds.max()) + 1):
                held = folds == fold
                loss[held] = self._without(member, held, member.fitted.model.x_, 0, self.n_features)[2]
            found.append(self._mean(loss))
        for member, weight in zip(self.members, self._soft_weights(found).tolist(), strict=True):
            member.new_weight = weight


def some_groups(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the rows of randomly drawn groups with about `n_rows` rows in total; `codes` (N,) are the groups."""
    count = np.bincount(codes)
    order = np.random.RandomState(0).permutation(len(count))
    chosen = order[: 1 + int(np.searchsorted(np.cumsum(count[order]), n_rows))]
    return np.flatnonzero(np.isin(codes, chosen))


def average(parts: Sequence[tuple[np.ndarray, np.ndarray]], weights: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and variance of a mixture of distributions with these means, variances and weights."""
    mean: Any = sum(w * m for w, (m, _) in zip(weights, parts, strict=True))
    second: Any = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, parts, strict=True))
    return mean, second
