"""Posing a problem in standard units."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from .base import AnyProblem
from .penalised import Problem
from .spectral import SpectralProblem
from .units import Units

AProblem = TypeVar("AProblem", bound=AnyProblem)


def standardise(problem: AProblem) -> tuple[AProblem, Units]:
    """The problem rescaled to order one, and the units that lead back.

    Raises ValueError where mu, C and the spread of the targets are out of all proportion.
    """
    if isinstance(problem, SpectralProblem):
        units = Units.of(problem.form.machines, problem.learner, weights=False)
        form = problem.form.with_machines(units.machines(problem.form.machines))
        return replace(problem, form=form, learner=units.learner(problem.learner)), units
    free = isinstance(problem, Problem) and not problem.penalty.is_indicator
    units = Units.of(problem.machines, problem.learner, weights=free)
    changes = {"machines": units.machines(problem.machines), "learner": units.learner(problem.learner)}
    if free:
        changes["mu"] = units.mu(problem.mu)
    return replace(problem, **changes), units
