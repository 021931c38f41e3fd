"""Many kernels: time as K grows to 400 on 20 tasks of 60 rows, ridge; and what kernels without weight cost later."""

from __future__ import annotations

import numpy as np

from kernelkin import MKMTRLRegressor, gaussian_kernels

from .harness import Contender, Goal, Report, Row, race, threads
from .limits import against_limit

SIZES = (10, 30, 100, 200, 400)
TASKS, ROWS = 20, 60


def data(n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(TASKS * ROWS, n_features)), np.repeat(np.arange(TASKS), ROWS)
    return X, np.sin(2 * X[np.arange(len(X)), tasks % 5]) + 0.3 * rng.normal(size=len(X)), tasks


def run(repetitions: int) -> Report:
    rows = [row for K in SIZES for row in _one(K, repetitions)]
    fits = [row for row in rows if row.contender == "fit"]
    each = np.array([row.seconds for row in fits]) / SIZES
    start = 2
    growth = each[-1] / each[start]
    evaluation = [row.figures["ms each"] for row in fits]
    per = evaluation[-1] / evaluation[start] / (SIZES[-1] / SIZES[start])
    goals = [
        Goal(
            "time no faster than 1.3x linear",
            f"{growth:.2f}x linear for K from {SIZES[start]} to {SIZES[-1]} ({per:.2f}x for each evaluation)",
            growth <= 1.3,
        ),
        _free_kernels(repetitions, rows),
    ]
    return Report("many kernels, T=20, n=60, ridge", rows, goals)


def _one(K: int, repetitions: int) -> list[Row]:
    X, y, tasks = data(K // 2, seed=1)
    model = MKMTRLRegressor(gaussian_kernels((0.5, 2.0), relative=False, per_feature=True), n_jobs=threads())

    def judge(m: MKMTRLRegressor) -> dict[str, float]:
        used = int(m.kernel_weights_.any(axis=0).sum())
        limit = against_limit(m, lambda m: m.fit(X, y, tasks=tasks), [ROWS] * TASKS, K, ridge=True)
        return {"gap": m.duality_gap_ / m.objective_, "kernels used": used, **limit}

    return race(f"K={K}", [Contender("fit", lambda: model.fit(X, y, tasks=tasks), judge)], repetitions)


def _free_kernels(repetitions: int, rows: list[Row]) -> Goal:
    """Predict with a model of which all but ten kernels have no weight, and with one that only ever had those ten."""
    X, y, tasks = data(200, seed=1)
    Xq, _, tasks_q = data(200, seed=2)
    start = np.zeros((TASKS, 400))
    start[:, :10] = 0.1
    narrow = gaussian_kernels((0.5, 2.0), relative=False, per_feature=True, columns=list(range(5)))
    wide = gaussian_kernels((0.5, 2.0), relative=False, per_feature=True)
    start[:, [*range(5), *range(200, 205)]], start[:, 5:10] = 0.1, 0.0
    many = MKMTRLRegressor(wide, init=start, max_iter=1, tol=1e9, n_jobs=threads()).fit(X, y, tasks=tasks)
    few = MKMTRLRegressor(narrow, init=np.full((TASKS, 10), 0.1), max_iter=1, tol=1e9, n_jobs=threads())
    few.fit(X, y, tasks=tasks)
    difference = float(np.abs(many.predict(Xq, tasks_q) - few.predict(Xq, tasks_q)).max())
    raced = race(
        "predict, 10 with weight",
        [
            Contender("of 400 kernels", lambda: many.predict(Xq, tasks_q), lambda _: {"difference": difference}),
            Contender("of 10 kernels", lambda: few.predict(Xq, tasks_q)),
        ],
        20 * repetitions,
    )
    rows += raced
    times = 1 / raced[1].times
    return Goal("kernels with zero weight cost nothing to predict with", f"{times:.2f}x of ten kernels", times <= 1.1)
