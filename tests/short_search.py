"""A short search, for tests of KinRegressor and KinClassifier that are not about what the search chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

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


def small_tasks(seed: int = 0, T: int = 3, n: int = 24, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks with one shared function of one column, levels and units of their own."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, d)), np.repeat(np.arange(T), n)
    y = 10.0 ** (tasks - 1) * (np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=T * n)) + 100 * tasks
    return X, y, tasks
