"""`KinRegressor()` on 20 tasks of 100 rows and 20 columns, of which four matter.

With `--threads 1` the time is processor time, which a loaded machine changes least.
"""

from __future__ import annotations

import numpy as np

from kernelkin import KinRegressor

from .harness import OURS, Contender, Goal, Report, race, threads

TASKS, ROWS, TEST_ROWS, COLUMNS = 20, 100, 200, 20
LIMIT = 10.0


def data(seed: int, n_rows: int, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks with the same terms, weighted by the coefficients (T, 3) of each; noise of half a unit."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(TASKS * n_rows, COLUMNS)), np.repeat(np.arange(TASKS), n_rows)
    terms = np.column_stack([np.sin(2 * X[:, 0]), 0.5 * X[:, 1] * X[:, 2], X[:, 3]])
    return X, (terms * coefficients[tasks]).sum(axis=1) + 0.5 * rng.normal(size=len(X)), tasks


def run(repetitions: int) -> Report:
    coefficients = 1.0 + 0.5 * np.random.default_rng(0).normal(size=(TASKS, 3))
    X, y, tasks = data(1, ROWS, coefficients)
    X_test, y_test, tasks_test = data(2, TEST_ROWS, coefficients)
    model = KinRegressor(random_state=0)

    def judge(fitted: KinRegressor) -> dict[str, float]:
        score = fitted.score(X_test, y_test, tasks=tasks_test)
        return {"R2": score, "structures": len(fitted.search_results_["structure"])}

    (row,) = race("20 x 100 x 20", [Contender(OURS, lambda: model.fit(X, y, tasks=tasks), judge)], repetitions)
    limit = LIMIT * 2 if threads() == 1 else LIMIT
    what = "processor seconds, what two cores have in 10 s" if threads() == 1 else "s on two cores"
    goal = Goal(f"all structures and folds in {limit:g} {what}", f"{row.seconds:.1f} s", row.seconds <= limit)
    return Report("Kin", [row], [goal])
