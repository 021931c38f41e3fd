"""Coverage and width of intervals, in random splits.

python -m benchmarks coverage --jobs 16        all sets and contenders, 20 splits, results in a file
python -m benchmarks coverage --report         write the table of the page from the file
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .uncertainty_run import Record, markdown, run
from .uncertainty_sets import REGRESSION, Split

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "uncertainty.md"
COVERAGE = 0.9
# Tasks with fewer test rows are not judged one by one.
MIN_ROWS = 50
COSTS = [0.1, 1.0, 10.0, 100.0]
# Lower and upper ends (q_t, 2) at the test rows of each task.
Ends = list[np.ndarray]


def main(arguments: Sequence[str]) -> None:
    run("coverage", __doc__ or "", list(REGRESSION), list(CONTENDERS), measure, table, PAGE, arguments)


def measure(data_set: str, split: int, contender: str) -> Record:
    """Fit a contender -> of each task, how many test rows there are and are covered, and the mean width.

    Widths are in units of the standard deviation of the task's targets.
    """
    data = REGRESSION[data_set](split)
    rows, covered, widths = [], [], []
    for t, ends in enumerate(CONTENDERS[contender](data)):
        y = data.test(data.y_test, t)
        spread = np.concatenate([data.train(t)[1], y]).std()
        rows.append(len(y))
        covered.append(int(((ends[:, 0] <= y) & (y <= ends[:, 1])).sum()))
        widths.append(float((ends[:, 1] - ends[:, 0]).mean() / spread))
    return {"rows": rows, "covered": covered, "width": widths}


def _ours(data: Split, model) -> Ends:
    ends = model.fit(data.X, data.y, tasks=data.tasks).predict_interval(data.X_test, data.tasks_test, COVERAGE)
    return [data.test(ends, t) for t in range(len(data.labels()))]


def _search(**parameters) -> Callable[[Split], Ends]:
    def contender(data: Split) -> Ends:
        from kernelkin import MKMTRLRegressor
        from kernelkin.paper.model_selection import MultiTaskCV

        return _ours(data, MultiTaskCV(MKMTRLRegressor(**parameters), {"C": COSTS}, random_state=0))

    return contender


def _kin(data: Split) -> Ends:
    from kernelkin import KinRegressor

    return _ours(data, KinRegressor(random_state=0))


def _processes(data: Split) -> Ends:
    """A Gaussian process for each task, with its own length scale and noise by maximum likelihood."""
    from scipy.stats import norm
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    found = []
    for t in range(len(data.labels())):
        X, y = data.train(t)
        X_test = data.X_test if data.tasks_test is None else data.test(data.X_test, t)
        kernel = ConstantKernel() * RBF(np.sqrt(X.shape[1])) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0).fit(X, y)
        mean, std = process.predict(X_test, return_std=True)
        half = norm.ppf((1 + COVERAGE) / 2) * std
        found.append(np.column_stack([mean - half, mean + half]))
    return found


CONTENDERS: dict[str, Callable[[Split], Ends]] = {
    "MK-MTRL": _search(),
    "MK-MTRL, epsilon-insensitive": _search(loss="epsilon_insensitive"),
    "Kin": _kin,
    "Gaussian process a task": _processes,
}


def table(records: list[Record]) -> str:
    """Return coverage over all rows and splits, that of the tasks with many test rows, and widths."""
    rows = []
    for each in REGRESSION:
        for contender in CONTENDERS:
            found = [r for r in records if (r["set"], r["model"]) == (each, contender)]
            if not found:
                continue
            covered, count = np.array([r["covered"] for r in found]), np.array([r["rows"] for r in found])
            judged = count.mean(axis=0) >= MIN_ROWS
            by_task = covered.sum(axis=0) / count.sum(axis=0)
            ends = f"{by_task[judged].min():.3f} to {by_task[judged].max():.3f}" if judged.any() else "-"
            width = np.mean([np.average(r["width"], weights=r["rows"]) for r in found])
            total = covered.sum() / count.sum()
            rows.append([each, contender, f"{total:.3f}", ends, f"{width:.2f}", str(len(found))])
    header = ["data", "intervals", "coverage", f"of tasks with {MIN_ROWS} test rows and more", "width", "splits"]
    return markdown(header, rows)
