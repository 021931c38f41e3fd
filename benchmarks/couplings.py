"""Coupled tasks at the size of the paper's data: time, memory and the gap reached; structure against dense.

- landmine: 19 tasks x 80 rows, 5 polynomial kernels, one part for all tasks, to relative gap 1e-3;
- school: 139 tasks, 60% of the rows for training, one Gaussian on each attribute, ridge, to relative gap 1e-3;
- the structured solve of the school machine (own blocks plus a factor of low rank) against the dense one on some tasks.

    KERNELKIN_DATA=<folder> python benchmarks/couplings.py
"""

from __future__ import annotations

import resource
import time

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, polynomial_kernels
from kernelkin.couplings import connected_tasks, read_couplings
from kernelkin.data import read_training
from kernelkin.datasets import load_landmine, load_school
from kernelkin.estimators.targets import link_machines, regression_machines
from kernelkin.grams import build_grams
from kernelkin.kernels import fit_kernels
from kernelkin.learners import Ridge

EACH = gaussian_kernels((1.0,), per_feature=True)


def landmine(rows: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data, rng, kept = load_landmine(), np.random.default_rng(0), []
    for task in data.task_names:
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        mines = order[data.y[order] == 1][:5]
        kept += [*mines, *order[data.y[order] == 0][: rows - len(mines)]]
    X = data.X[kept]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.y[kept], data.tasks[kept]


def school(share: float = 0.6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data, rng, kept = load_school(), np.random.default_rng(0), []
    for task in data.task_names:
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        kept += order[: round(share * len(order))].tolist()
    y = data.y[kept].astype(float)
    return data.X[kept].astype(float), (y - y.mean()) / y.std(), data.tasks[kept]


def fit(name: str, model, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> None:
    """Seconds of the second of two fits (the first compiles), the gap, and the peak memory of the process."""
    model.fit(X, y, tasks=tasks)
    start = time.perf_counter()
    model.fit(X, y, tasks=tasks)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    gap = model.duality_gap_ / model.objective_
    print(f"{name:34s} {len(y):6d} rows {seconds:7.2f} s {model.n_iter_:4d} solves  gap {gap:.1e}  peak {peak:.2f} GiB")


def structured_against_dense(n_tasks: int = 12) -> None:
    """One ridge machine of coupled schools, solved with structure and from its entries: the largest difference."""
    X, y, tasks = school()
    kept = np.isin(tasks, np.unique(tasks)[:n_tasks])
    data = read_training(MKMTRLRegressor(), X[kept], y[kept], tasks[kept], None, classification=False)
    couplings = read_couplings("common", data.labels)
    grams, _ = build_grams(data, fit_kernels(EACH, data.X), "trace", couplings)
    machines = regression_machines(data, 1.0, fit_intercept=True)
    (machine,) = link_machines(machines, connected_tasks(couplings, n_tasks), data.labels)
    B = np.random.default_rng(0).uniform(size=(grams.n_kernels, grams.n_components))
    (gram,) = grams.combine(B, range(1))
    structured, dense = Ridge().solve(gram, machine), Ridge().solve(np.asarray(gram), machine)
    worst = np.abs(structured.a - dense.a).max() / np.abs(dense.a).max()
    rank = gram.reach[0].shape[1]
    print(f"{'structured against dense':34s} {len(machine.y):6d} rows  rank {rank}  relative {worst:.1e}")


def main() -> None:
    X, y, tasks = landmine()
    for loss in ("hinge", "squared"):
        model = MKMTRLClassifier(
            polynomial_kernels(range(1, 6)),
            couplings="common",
            C=0.03,
            mu=0.1,
            loss=loss,
            class_weight="balanced",
            n_jobs=2,
        )
        fit(f"landmine, common part, {loss}", model, X, y, tasks)
    fit("school, common part, ridge", MKMTRLRegressor(EACH, couplings="common", n_jobs=2), *school())
    structured_against_dense()


if __name__ == "__main__":
    main()
