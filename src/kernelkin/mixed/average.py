"""The average of structures, weighted by the errors of folds that refit each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .likelihoods import Gaussian, Likelihood
from .structures import STRUCTURES, FittedStructure, MixedData, Structure

# Folds refit from the start up to this many rows, and otherwise go on from the parameters of all rows.
REFIT_ROWS = 600
EVALUATIONS, FOLD_EVALUATIONS, WARM_EVALUATIONS = 50, 30, 8
# A structure is dropped after the first fold where it is behind the best by so many standard errors of the difference.
HOPELESS = 4.0


@dataclass
class Member:
    """A structure, fitted to all rows and to folds.

    Attributes
    ----------
    fitted : the fit on all rows.
    mean, variance : (N, r) of the function at each row, from the fit that held it out.
    noise : (N,) the variance of the noise in that fit.
    loss : (N,) the loss of each row; NaN where no fold has held it out.
    weight : in the average.
    seconds : that the fits took.
    """

    structure: Structure
    fitted: FittedStructure
    mean: np.ndarray
    variance: np.ndarray
    noise: np.ndarray
    loss: np.ndarray
    weight: float = 0.0
    seconds: float = 0.0

    @property
    def error(self) -> float:
        return float(np.nanmean(self.loss))

    @property
    def standard_error(self) -> float:
        known = self.loss[~np.isnan(self.loss)]
        return float(known.std() / np.sqrt(len(known)))


@dataclass
class Search:
    """Fits structures in turn, until the deadline.

    Attributes
    ----------
    folds : (N,) the fold of each row; -1 for rows that are never held out.
    deadline : of `time.monotonic`.
    report : called with the share of the work that is done, and what was done.
    is_complete : whether everything was tried.
    """

    data: MixedData
    folds: np.ndarray
    likelihood: Likelihood = field(default_factory=Gaussian)
    structures: Sequence[Structure] = STRUCTURES
    deadline: float = np.inf
    report: Callable[[float, str], None] | None = None
    is_complete: bool = True
    members: list[Member] = field(default_factory=list)

    def run(self) -> list[Member]:
        """Return the members of the average, the largest weight first."""
        count, each = len(self.structures), int(self.folds.max(initial=-1)) + 2
        for i, structure in enumerate(self.structures):
            if self.members and time.monotonic() > self.deadline:
                self.is_complete = False
                break
            self._note(i * each, count * each, structure, 0)
            self._try(structure, partial(self._note, i * each + 1, count * each, structure))
        self._weigh()
        return self.members

    def _note(self, done: int, total: int, structure: Structure, folds: int) -> None:
        if self.report is not None:
            self.report((done + folds) / total, structure.name)

    def _try(self, structure: Structure, note: Callable[[int], None]) -> None:
        began, data = time.monotonic(), self.data
        fitted = FittedStructure(structure, data, self.likelihood, evaluations=EVALUATIONS, deadline=self.deadline)
        unknown, of_rows = np.full(data.z.shape, np.nan), np.full(data.n_rows, np.nan)
        member = Member(structure, fitted, unknown, unknown.copy(), of_rows, of_rows.copy())
        for fold in range(int(self.folds.max(initial=-1)) + 1):
            note(fold)
            if time.monotonic() > self.deadline:
                self.is_complete = False
                break
            self._hold_out(member, self.folds == fold)
            if fold == 0 and self._is_hopeless(member):
                return
        if np.isnan(member.loss).all():
            if self.members:
                return
            self._leave_out(member)
        member.seconds = time.monotonic() - began
        self.members.append(member)

    def _hold_out(self, member: Member, held: np.ndarray) -> None:
        """Refit without some rows, and predict these."""
        data, train = self.data, np.flatnonzero(~held)
        warm = data.n_rows > REFIT_ROWS
        fitted = FittedStructure(
            member.structure,
            data.take(train),
            self.likelihood,
            evaluations=WARM_EVALUATIONS if warm else FOLD_EVALUATIONS,
            start=member.fitted.model.x_ if warm else None,
            deadline=self.deadline,
        )
        kernels = [kernel[np.ix_(held, ~held)] for kernel in data.kernels]
        groups = [part[held] for part in data.groups]
        member.mean[held], member.variance[held] = fitted.predict(data.X[held], groups, kernels)
        member.noise[held] = fitted.model.noise_
        member.loss[held] = self._loss(member, held)

    def _leave_out(self, member: Member) -> None:
        """Where there was no time for a fold: values without each row's own target, at the parameters of all rows."""
        model = member.fitted.model
        groups = list(self.data.groups)
        mean, variance = member.fitted.predict(self.data.X, groups, self.data.kernels)
        if isinstance(self.likelihood, Gaussian) and not self.data.wide:
            diagonal = model.solved[0].diagonal()
            noise = model.noise_ / self.data.weight
            mean, variance = model.leave_one_out(), np.maximum(1.0 / diagonal - noise, 0.0)[:, None]
        member.mean, member.variance, member.noise = mean, variance, np.full(len(mean), model.noise_)
        member.loss = self._loss(member, np.ones(len(mean), dtype=bool))

    def _loss(self, member: Member, rows: np.ndarray) -> np.ndarray:
        z, mean = self.data.z[rows], member.mean[rows]
        if isinstance(self.likelihood, Gaussian):
            return ((mean - z) ** 2).mean(1)
        return self.likelihood.loss(z, self.likelihood.mean(mean, member.variance[rows])).mean(1)

    def _is_hopeless(self, member: Member) -> bool:
        """Whether a structure is so far behind on the first fold that it would have no weight."""
        if not self.members:
            return False
        best = min(self.members, key=lambda other: other.error)
        behind = member.loss - best.loss
        behind = behind[~np.isnan(behind)]
        return bool(len(behind) > 10 and behind.mean() > HOPELESS * behind.std() / np.sqrt(len(behind)) > 0)

    def _weigh(self) -> None:
        """Weigh members by exp(-(error - least error) / half the standard error of the least)."""
        w = self.data.weight
        known = np.all([~np.isnan(member.loss) for member in self.members], axis=0)
        losses = np.array([member.loss[known] for member in self.members])
        errors = np.average(losses, axis=1, weights=w[known])
        best = losses[errors.argmin()]
        scale = 0.5 * max(float(best.std()) / np.sqrt(len(best)), 1e-12)
        weights = np.exp((errors.min() - errors) / scale)
        for member, weight in zip(self.members, weights / weights.sum(), strict=True):
            member.weight = float(weight)
        self.members.sort(key=lambda member: -member.weight)


def average(parts: Sequence[tuple[np.ndarray, np.ndarray]], weights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of members -> those of their mixture."""
    mean: Any = sum(w * m for w, (m, _) in zip(weights, parts, strict=True))
    second: Any = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weights, parts, strict=True))
    return mean, second
