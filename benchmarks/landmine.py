"""Landmine-like: 19 tasks of 80 rows, 5 polynomial kernels, SVM, to relative gap 1e-3, from X to the fitted model."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.svm import SVC

from kernelkin import MKMTRLClassifier, polynomial_kernels

from . import naive, peers
from .harness import OURS, Contender, Goal, Report, figure, race, ratio, threads
from .limits import against_limit
from .problems import landmine_like, mean_auc, polynomial_stack, referee

DEGREES = (1, 2, 3, 4, 5)
C, MU = 1.0, 1.0


def run(repetitions: int) -> Report:
    X, y, tasks = landmine_like(seed=1, rows=80)
    Xq, yq, tasks_q = landmine_like(seed=2, rows=200)
    parts = [np.flatnonzero(tasks == t) for t in np.unique(tasks)]
    queries = [np.flatnonzero(tasks_q == t) for t in np.unique(tasks)]
    targets = [y[rows] for rows in parts]
    model = MKMTRLClassifier(
        polynomial_kernels(DEGREES), C=C, mu=MU, class_weight="balanced", tol=1e-3, n_jobs=threads()
    )
    objective = referee(model, X, y, tasks)
    machine = naive.svm(C, class_weight="balanced")

    def stacks() -> list[np.ndarray]:
        return [polynomial_stack(X[rows], DEGREES) for rows in parts]

    def crosses() -> list[np.ndarray]:
        values = []
        for rows, asked in zip(parts, queries, strict=True):
            raw = [polynomial_kernel(Xq[asked], X[rows], degree=d, gamma=1, coef0=1) for d in DEGREES]
            own = [polynomial_kernel(X[rows], degree=d, gamma=1, coef0=1).diagonal().mean() for d in DEGREES]
            values.append(np.stack([r / o for r, o in zip(raw, own, strict=True)]))
        return values

    def average() -> list[SVC]:
        return [
            SVC(C=C, kernel="precomputed", class_weight="balanced").fit(stack.mean(axis=0), t)
            for stack, t in zip(stacks(), targets, strict=True)
        ]

    def judge_weights(B: np.ndarray) -> dict[str, float]:
        """Objective by the referee, AUC of machines of scikit-learn on these weights."""
        values = [
            SVC(C=C, kernel="precomputed", class_weight="balanced")
            .fit(np.tensordot(B[:, t], stack, 1), targets[t])
            .decision_function(np.tensordot(B[:, t], cross, 1))
            for t, (stack, cross) in enumerate(zip(stacks(), crosses(), strict=True))
        ]
        return {"objective": objective(B), "AUC": mean_auc(np.concatenate(values), yq, tasks_q)}

    def judge_average(models: list[SVC]) -> dict[str, float]:
        values = [m.decision_function(cross.mean(axis=0)) for m, cross in zip(models, crosses(), strict=True)]
        return {"AUC": mean_auc(np.concatenate(values), yq, tasks_q)}

    def judge_ours(model: MKMTRLClassifier) -> dict[str, float]:
        limit = against_limit(model, lambda m: m.fit(X, y, tasks=tasks), [80] * 19, len(DEGREES), ridge=False)
        return {**judge_weights(model.kernel_weights_.T), "gap": model.duality_gap_ / model.objective_, **limit}

    reached = model.fit(X, y, tasks=tasks).objective_
    contenders = [
        Contender(OURS, lambda: model.fit(X, y, tasks=tasks), judge_ours),
        Contender(
            "naive, own stopping rule",
            lambda: naive.fit_alternating(stacks(), targets, machine, MU),
            lambda found: {**judge_weights(found[0]), "rounds": found[2]},
        ),
        Contender(
            "naive, stopped at our objective",
            lambda: naive.fit_alternating(stacks(), targets, machine, MU, tol=0.0, target=reached * (1 + 1e-3)),
            lambda found: {**judge_weights(found[0]), "rounds": found[2]},
        ),
        Contender("SVC, average kernel", average, judge_average),
    ]
    for name in ("EasyMKL", "GRAM") if peers.HAS_MKLPY else ():
        contenders.append(
            Contender(
                f"MKLpy {name}, task by task",
                lambda name=name: peers.mklpy_tasks(name, stacks(), targets, C),
                lambda models: {"AUC": mean_auc(peers.mklpy_decisions(models, crosses()), yq, tasks_q)},
            )
        )
    rows = race("T=19 n=80 K=5", contenders, repetitions)
    return Report("landmine-like, SVM", rows, _goals(rows))


def _goals(rows) -> list[Goal]:
    goals = []
    for name in ("naive, own stopping rule", "naive, stopped at our objective"):
        times, ours, theirs = ratio(rows, name), figure(rows, OURS, "objective"), figure(rows, name, "objective")
        measured = f"{times:.1f}x; objective {ours:.6g} against {theirs:.6g}"
        goals.append(Goal(f">= 10x {name}, objective no worse", measured, times >= 10 and ours <= theirs * (1 + 1e-3)))
    return goals
