"""Coupled tasks at the size of the paper's data: time, memory and the gap reached; structure against dense.

- landmine: 19 tasks x 80 rows, 5 polynomial kernels, one part for all tasks, to relative gap 1e-3;
- school: 139 tasks, 60% of the rows for training, one Gaussian on each attribute, ridge, to relative gap 1e-3;
- the structured solve of the school machine (own blocks plus a factor of low rank) against the dense one on some tasks.

Needs the landmine and school data.
"""

from __future__ import annotations

import resource

import numpy as np

from experiments.data_sets import load_landmine, load_school
from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, polynomial_kernels
from kernelkin.data.forms import read_training
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper.couplings import read_couplings
from kernelkin.paper.fitting.targets import Regression, link_machines
from kernelkin.paper.grams.build import raw_grams, scale_grams
from kernelkin.paper.learners import Ridge

from .harness import Contender, Goal, Report, Row, race, threads

EACH = gaussian_kernels((1.0,), per_feature=True)


def landmine(rows: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data, rng, kept = load_landmine(), np.random.default_rng(0), []
    for task in data.task_names:
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        mines = order[data.target[order] == 1][:5]
        kept += [*mines, *order[data.target[order] == 0][: rows - len(mines)]]
    X = data.data[kept]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.target[kept], data.tasks[kept]


def school(share: float = 0.6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data, rng, kept = load_school(), np.random.default_rng(0), []
    for task in data.task_names:
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        kept += order[: round(share * len(order))].tolist()
    y = data.target[kept].astype(float)
    return data.data[kept].astype(float), (y - y.mean()) / y.std(), data.tasks[kept]


def fits(name: str, model, X: np.ndarray, y: np.ndarray, tasks: np.ndarray, repetitions: int) -> list[Row]:
    def judge(m) -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return {
            "rows": len(y),
            "evaluations": m.n_iter_,
            "gap": m.duality_gap_ / m.objective_,
            "GiB, the process at most": peak,
        }

    return race(name, [Contender("fit", lambda: model.fit(X, y, tasks=tasks), judge)], repetitions)


def structured_against_dense(n_tasks: int = 12) -> float:
    """One ridge machine of coupled schools, solved with structure and from its entries: the largest difference."""
    X, y, tasks = school()
    kept = np.isin(tasks, np.unique(tasks)[:n_tasks])
    data = read_training(X[kept], y[kept], tasks[kept], None, classification=False)
    couplings = read_couplings("common", data)
    kernels = fit_kernels(EACH, data.X)
    raw = raw_grams(data, kernels, "trace", bool(couplings))
    grams, _ = scale_grams(raw, data, "trace", couplings)
    (machine,) = link_machines(Regression().machines(data, 1.0), couplings, data.labels)
    B = np.random.default_rng(0).uniform(size=(grams.n_kernels, grams.n_components))
    (gram,) = grams.combine(B, range(1))
    structured, dense = Ridge().solve(gram, machine), Ridge().solve(np.asarray(gram), machine)
    return float(np.abs(structured.a - dense.a).max() / np.abs(dense.a).max())


def run(repetitions: int) -> Report:
    rows: list[Row] = []
    for loss in ("hinge", "squared"):
        model = MKMTRLClassifier(
            polynomial_kernels(range(1, 6)),
            couplings="common",
            C=0.03,
            mu=0.1,
            loss=loss,
            class_weight="balanced",
            n_jobs=threads(),
        )
        rows += fits(f"landmine, common part, {loss}", model, *landmine(), repetitions)
    model = MKMTRLRegressor(EACH, couplings="common", n_jobs=threads())
    rows += fits("school, common part, squared", model, *school(), repetitions)
    limits = [1.0, 1.0, 30.0]
    goals = [
        Goal(f"{row.case}: <= {limit:g} s", f"{row.seconds:.2f} s", row.seconds <= limit)
        for row, limit in zip(rows, limits, strict=True)
    ]
    peak, worst = rows[-1].figures["GiB, the process at most"], structured_against_dense()
    goals.append(Goal("school in 4 GB", f"{peak:.2f} GiB", peak * 2**30 <= 4e9))
    goals.append(Goal("structured solve that of the dense Gram", f"differs by {worst:.1e}", worst < 1e-9))
    return Report("coupled tasks", rows, goals)
