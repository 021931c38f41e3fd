"""A short search, for tests of KinRegressor and KinClassifier that are not about what the search chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelkin.auto.candidates import Candidate, make_candidates

PLACE = "kernelkin.auto.kin_fit.make_candidates"


def few_candidates(*arguments: Any) -> list[Candidate]:
    """In place of `make_candidates` at `PLACE`: the first one and the average kernel, each at three values of C."""
    first, *others = make_candidates(*arguments)
    averages = [each for each in others if each.name.startswith("average kernel")]
    return [replace(candidate, grid=candidate.grid[::4]) for candidate in (first, *averages[:1])]


def cheap_candidates(*arguments: Any) -> list[Candidate]:
    """In place of `make_candidates`: all but those with large machines or kernels that are learned."""
    return [each for each in make_candidates(*arguments) if not each.is_costly and "relevance" not in each.name]
