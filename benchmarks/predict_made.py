"""Regression tasks of known truth: what they share, and how much of it, differs from set to set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .small_sets import Data

NOISE = 0.3
Function = Callable[[np.ndarray], np.ndarray]


def shared(rng: np.random.Generator, rows: list[int]) -> Data:
    """One function of five columns for all tasks, but for an offset of each."""
    f = draw_function(rng, 5)
    X, y, tasks = assemble(rng, rows, 5, [f] * len(rows))
    return X, y + rng.normal(0, 0.3, len(rows))[tasks], tasks


def groups(rng: np.random.Generator, rows: list[int]) -> Data:
    """Three groups of tasks; each has its function, and each task adds a smaller one of its own."""
    common = [draw_function(rng, 5) for _ in range(3)]
    return assemble(rng, rows, 5, [add(common[t % 3], 0.3, draw_function(rng, 5)) for t in range(len(rows))])


def nothing(rng: np.random.Generator, rows: list[int]) -> Data:
    """A function of its own for each task."""
    return assemble(rng, rows, 5, [draw_function(rng, 5) for _ in rows])


def one_column(rng: np.random.Generator, rows: list[int]) -> Data:
    """One of twenty columns carries the signal, with an amplitude and a phase of each task."""
    column = int(rng.integers(20))
    return assemble(rng, rows, 20, [wave(column, rng.uniform(1.0, 2.0), rng.uniform(-0.8, 0.8)) for _ in rows])


def partly(rng: np.random.Generator, rows: list[int]) -> Data:
    """One function for all tasks, and a smaller one of each."""
    f = draw_function(rng, 5)
    return assemble(rng, rows, 5, [add(f, 0.5, draw_function(rng, 5)) for _ in rows])


def spreads(rng: np.random.Generator, rows: list[int]) -> Data:
    """The same, with targets whose units differ by factors up to 10,000."""
    X, y, tasks = partly(rng, rows)
    assert tasks is not None
    scale, shift = 10 ** rng.uniform(-2, 2, len(rows)), rng.normal(0, 3, len(rows))
    return X, (y + shift[tasks]) * scale[tasks], tasks


def draw_function(rng: np.random.Generator, d: int, width: float = 3.0) -> Function:
    """A draw of variance one from the Gaussian process with a Gaussian kernel, by 300 random frequencies."""
    frequencies, phases = rng.normal(0, 1 / width, (300, d)), rng.uniform(0, 2 * np.pi, 300)
    weights = rng.normal(0, np.sqrt(2 / 300), 300)
    return lambda X: np.cos(X @ frequencies.T + phases) @ weights


def add(f: Function, share: float, g: Function) -> Function:
    return lambda X: f(X) + share * g(X)


def wave(column: int, amplitude: float, phase: float) -> Function:
    return lambda X: amplitude * np.sin(2 * X[:, column] + phase)


def assemble(rng: np.random.Generator, rows: list[int], d: int, functions: list[Function]) -> Data:
    """Rows of all tasks, normal and independent; targets with noise."""
    tasks = np.repeat(np.arange(len(rows)), rows)
    X = rng.normal(size=(len(tasks), d))
    y = np.concatenate([f(X[tasks == t]) for t, f in enumerate(functions)])
    return X, y + NOISE * rng.normal(size=len(y)), tasks


# Name, what to draw, training rows of each task. make_folds needs a row of every task in training in every fold.
MADE: list[tuple[str, Callable, tuple[int, ...]]] = [
    *((f"one function, {n} rows", shared, (n,) * 10) for n in (10, 50)),
    *((f"groups, {n} rows", groups, (n,) * 12) for n in (15, 60)),
    *((f"nothing in common, {n} rows", nothing, (n,) * 8) for n in (20, 80)),
    *((f"one column of twenty, {n} rows", one_column, (n,) * 8) for n in (20, 80)),
    ("4 to 200 rows", partly, tuple(np.geomspace(4, 200, 12).round().astype(int).tolist())),
    *((f"different spreads, {n} rows", spreads, (n,) * 8) for n in (20, 80)),
]
