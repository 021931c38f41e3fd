"""Many small tasks: time and memory as T grows, n=50 rows each, K=10 kernels, SVM and ridge, relative gap 1e-3.

Also 20,000 tasks of two rows each, where the cost of a task is nearly independent of its size.
"""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np

from kernelkin import AverageRegressor, MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, linear_kernels

from .harness import Contender, Goal, Report, Row, race, threads
from .limits import against_limit

SIZES = (10, 30, 100, 300, 1000, 3000)
TINY = 20_000
ROWS, WIDTHS = 50, (0.5, 2.0)


def data(n_tasks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Five features, each group of five tasks on one of them; real targets."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * ROWS, 5)), np.repeat(np.arange(n_tasks), ROWS)
    return X, np.sin(2 * X[np.arange(len(X)), tasks % 5]) + 0.3 * rng.normal(size=len(X)), tasks


def run(repetitions: int, largest: int = SIZES[-1]) -> Report:
    rows: list[Row] = []
    for loss in ("hinge", "squared"):
        for T in (size for size in SIZES if size <= largest):
            rows += _one(loss, T, repetitions)
    goals = _goals(rows)
    tiny = _tiny(TINY) if largest == SIZES[-1] else []
    return Report("many small tasks, n=50, K=10", rows + tiny, goals + _tiny_goals(tiny))


def _tiny(T: int) -> list[Row]:
    """Tasks of two rows, each model fitted twice: for its time, and for its memory."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(2 * T, 3)), np.repeat(np.arange(T), 2)
    y, kernels = X[:, 0] + 0.1 * rng.normal(size=2 * T), linear_kernels(per_feature=True)
    rows = []
    for name, model in (("AVG", AverageRegressor(kernels)), ("MK-MTRL", MKMTRLRegressor(kernels))):

        def judge(m) -> dict[str, float]:
            return {"peak/estimate": _peak(lambda: m.fit(X, y, tasks=tasks)) / m.estimate_memory(X, y, tasks)}

        rows += race(f"T={T}, n=2", [Contender(name, partial(model.fit, X, y, tasks=tasks), judge)], 1)
    return rows


def _tiny_goals(rows: list[Row]) -> list[Goal]:
    peaks = [(row, row.figures["peak/estimate"]) for row in rows]
    return [Goal(f"{row.contender}, {row.case}: within its estimate", f"{peak:.2f}x", peak <= 1) for row, peak in peaks]


def _one(loss: str, T: int, repetitions: int) -> list[Row]:
    X, y, tasks = data(T)
    kernels = gaussian_kernels(WIDTHS, relative=False, per_feature=True)
    if loss == "hinge":
        model, target = MKMTRLClassifier(kernels, n_jobs=threads()), np.where(y > 0, 1, -1)
    else:
        model, target = MKMTRLRegressor(kernels, n_jobs=threads()), y

    def judge(m) -> dict[str, float]:
        return {
            "gap": m.duality_gap_ / m.objective_,
            "peak/Grams": _peak(lambda: m.fit(X, target, tasks=tasks)) / (8 * 10 * T * ROWS**2),
            **against_limit(m, lambda m: m.fit(X, target, tasks=tasks), [ROWS] * T, 10, ridge=loss == "squared"),
        }

    return race(f"T={T}", [Contender(loss, lambda: model.fit(X, target, tasks=tasks), judge)], repetitions)


def _peak(run) -> float:
    """The most memory that a run holds above what was held before, in bytes."""
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _goals(rows: list[Row]) -> list[Goal]:
    goals = []
    for loss in ("hinge", "squared"):
        own = [row for row in rows if row.contender == loss]
        sizes = np.array([int(row.case[2:]) for row in own])
        each = np.array([row.seconds for row in own]) / sizes
        # Below a hundred tasks what a fit costs whatever its size is most of it, and makes growth look better.
        start = int(np.argmax(sizes >= min(100, sizes[-1])))
        growth, evaluation = each[-1] / each[start], [row.figures["ms each"] for row in own]
        per = evaluation[-1] / evaluation[start] / (sizes[-1] / sizes[start])
        span = f"T from {sizes[start]} to {sizes[-1]}"
        measured = f"{growth:.2f}x linear for {span} ({per:.2f}x for each evaluation)"
        goals.append(Goal(f"{loss}: time no faster than 1.3x linear", measured, growth <= 1.3))
        peak = max(row.figures["peak/Grams"] for row in own[start:])
        goals.append(Goal(f"{loss}: memory within 1.5x of the Grams", f"{peak:.2f}x at most, {span}", peak <= 1.5))
    return goals
