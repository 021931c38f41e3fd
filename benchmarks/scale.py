"""Scale on one machine: tasks solved together, and many classes on many kernels.

- wide: 500 targets on 2,000 rows, 8 kernels, ridge, to relative gap 1e-3; the contender factorises a matrix for each
  task, which is what fits of this size did before;
- drugs: 124 drugs x 124 cell lines, a tenth of the labels held out, coupled by a common part, then also by ten kernels
  between drugs; needs `drug_response.npz` in the data folder;
- classes: 102 one-vs-rest tasks on 3,060 rows, 38 kernels in single precision, SVM. Only the solver is timed.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from sklearn.base import clone

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.paper.problems import panel
from kernelkin.paper.solvers import solve

from .harness import OURS, Contender, Goal, Report, Row, figure, race, ratio, threads

FACTORISED = "a factorisation for each task"


def block_problem(n: int, n_tasks: int, n_kernels: int, n_test: int, seed: int = 0, width: int = 200):
    """Targets that are sums of linear functions of blocks of features, weighted unevenly, plus as much noise.

    Returns the Gram matrices (K, n, n) at mean diagonal one, those of test rows (K, q, n), and the targets of both.
    """
    rng = np.random.default_rng(seed)
    spread = np.logspace(0, -1.5, width)
    weights = rng.uniform(size=(n_kernels, n_tasks)) ** 3
    weights[n_kernels // 2 :] *= 0.2
    targets, train, test = np.zeros((n + n_test, n_tasks)), [], []
    for k in range(n_kernels):
        X = rng.normal(size=(n + n_test, width)) * spread
        targets += X @ (rng.normal(size=(width, n_tasks)) * weights[k])
        gram = X @ X[:n].T
        gram /= np.trace(gram[:n]) / n
        train.append(gram[:n])
        test.append(gram[n:])
    targets = targets / targets.std(axis=0) + rng.normal(size=targets.shape)
    return np.array(train), np.array(test), targets[:n], targets[n:]


@contextmanager
def factorised() -> Iterator[None]:
    """Inside, no fit solves its tasks together."""
    before = panel.LEAST_ROWS
    panel.LEAST_ROWS = 10**9
    try:
        yield
    finally:
        panel.LEAST_ROWS = before


def wide(repetitions: int, n: int = 2000, n_tasks: int = 500, n_kernels: int = 8) -> list[Row]:
    train, test, Y, Yq = block_problem(n, n_tasks, n_kernels, 500)
    X, Xq = np.moveaxis(train, 0, 2), np.moveaxis(test, 0, 2)
    model = MKMTRLRegressor("precomputed", C=0.1, mu=0.1, n_jobs=threads())

    def judge(m: MKMTRLRegressor) -> dict[str, float]:
        r2 = 1 - np.square(m.predict(Xq) - Yq).sum(axis=0) / np.square(Yq - Yq.mean(axis=0)).sum(axis=0)
        return {"objective": m.objective_, "gap": m.duality_gap_ / m.objective_, "R2": float(r2.mean())}

    def one_by_one() -> MKMTRLRegressor:
        with factorised():
            return clone(model).fit(X, Y)

    contenders = [Contender(OURS, lambda: model.fit(X, Y), judge), Contender(FACTORISED, one_by_one, judge)]
    return race(f"wide T={n_tasks} n={n} K={n_kernels}", contenders, repetitions)


def drugs(repetitions: int) -> list[Row]:
    """Predictions of the first of the ten published folds."""
    folder = os.environ.get("KERNELKIN_DATA")
    if folder is None or not (Path(folder) / "drug_response.npz").exists():
        return []
    data = np.load(Path(folder) / "drug_response.npz")
    response = data["response"].astype(float).T
    held = np.equal(data["fold"].reshape(response.shape).T, data["fold"].min())
    X = np.moveaxis(data["cell_kernels"].astype(float), 0, 2)
    drug_kernels = {f"drugs {i}": _correlation(kernel) for i, kernel in enumerate(data["drug_kernels"].astype(float))}
    rows: list[Row] = []
    for name, couplings in {"common": "common", "common, drugs": {"common": "common", **drug_kernels}}.items():
        model = MKMTRLRegressor("precomputed", couplings=couplings, n_jobs=threads())

        def judge(m: MKMTRLRegressor) -> dict[str, float]:
            error = (m.predict(X) - response)[held]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            gap = m.duality_gap_ / m.objective_
            return {"gap": gap, "RMSE": float(np.sqrt(np.mean(error**2))), "MiB, the process at most": peak}

        fit = Contender(OURS, lambda m=model: m.fit(X, np.where(held, np.nan, response)), judge)
        rows += race(f"drugs, {name}", [fit], repetitions)
    return rows


def class_grams(per_class: int, n_classes: int, n_kernels: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussians on 20 features each, in which classes are more or less apart: (n, n, K) float32, and labels (n, T)."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_classes), per_class)
    X = np.empty((len(labels), len(labels), n_kernels), dtype=np.float32)
    for k in range(n_kernels):
        apart = rng.uniform(0.5, 1.4)
        Z = apart * rng.normal(size=(n_classes, 20))[labels] + rng.normal(size=(len(labels), 20))
        square = np.square(Z).sum(axis=1)
        distance = np.maximum(square[:, np.newaxis] + square - 2 * Z @ Z.T, 0.0)
        X[:, :, k] = np.exp(-distance / np.median(distance))
    return X, np.where(labels[:, np.newaxis] == np.arange(n_classes), 1, -1)


def classes(per_class: int = 30, n_classes: int = 102, n_kernels: int = 38) -> list[Row]:
    X, Y = class_grams(per_class, n_classes, n_kernels)
    model = MKMTRLClassifier("precomputed", C=10.0)
    plan = model.specification().plan(model.training_data(X, Y))
    grams, _ = plan.grams()

    def judge(solution) -> dict[str, float]:
        return {"objective": solution.primal, "gap": solution.relative_gap}

    contender = Contender(OURS, lambda: solve(plan.problem(grams), units=plan.units), judge)
    return race(f"one-vs-rest T={n_classes} n={len(Y)} K={n_kernels}", [contender], 1)


def _correlation(kernel: np.ndarray) -> np.ndarray:
    """The kernel (T, T) with ones on the diagonal."""
    root = np.sqrt(np.diag(kernel))
    return kernel / np.outer(root, root)


def run(repetitions: int) -> Report:
    # The smaller ones first: the memory of the process is that of its largest fit so far.
    rows = drugs(repetitions)
    goals = [Goal(f"{row.case}: <= 5 s", f"{row.seconds:.2f} s", row.seconds <= 5) for row in rows]
    if rows:
        peak = rows[-1].figures["MiB, the process at most"]
        goals.append(
            Goal("drugs in 300 MB, the process with all its imports", f"{peak:.0f} MiB", peak <= 300e6 / 2**20)
        )
    large = wide(min(repetitions, 2))
    times = ratio(large, FACTORISED)
    worse = figure(large, OURS, "objective") / figure(large, FACTORISED, "objective") - 1
    measured = f"{times:.1f}x, objective {worse:+.1e} of theirs"
    goals.append(
        Goal(">= 5x a factorisation for each task, objective within 1e-3", measured, times >= 5 and worse < 1e-3)
    )
    return Report("scale", [*rows, *large, *classes()], goals)
