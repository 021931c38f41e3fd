"""Landmine-like: 19 tasks of 80 rows, 5 polynomial kernels, SVM, to relative gap 1e-3, from X to the fitted model."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.svm import SVC

from kernelkin import MKMTRLClassifier, polynomial_kernels

from . import naive, peers
from .harness import NAIVE, NAIVE_TO_OURS, OURS, Contender, Report, naive_goals, race, threads
from .limits import against_limit
from .problems import landmine_like, mean_auc, polynomial_stack, referee

DEGREES = (1, 2, 3, 4, 5)
C, MU = 1.0, 1.0


class Fields:
    """Training rows and other rows of 19 fields, and what scikit-learn makes of them, task by task."""

    def __init__(self) -> None:
        self.X, self.y, self.tasks = landmine_like(seed=1, rows=80)
        self.queries, self.truth, self.query_tasks = landmine_like(seed=2, rows=200)
        self.parts = [np.flatnonzero(self.tasks == t) for t in np.unique(self.tasks)]
        self.targets = [self.y[rows] for rows in self.parts]

    def stacks(self) -> list[np.ndarray]:
        """Normalised Grams (K, n, n) of each task; computed anew whenever they are asked for, as contenders must."""
        return [polynomial_stack(self.X[rows], DEGREES) for rows in self.parts]

    @cached_property
    def crosses(self) -> list[np.ndarray]:
        """The other rows of each task against its training rows (K, q, n), on the scale of its Grams."""
        return [
            np.stack([self._cross(rows, self.queries[self.query_tasks == t], degree) for degree in DEGREES])
            for t, rows in enumerate(self.parts)
        ]

    def _cross(self, rows: np.ndarray, queries: np.ndarray, degree: int) -> np.ndarray:
        how = {"degree": degree, "gamma": 1, "coef0": 1}
        own = polynomial_kernel(self.X[rows], **how).diagonal().mean()
        return polynomial_kernel(queries, self.X[rows], **how) / own

    def machines(self, B: np.ndarray) -> list[SVC]:
        """scikit-learn's SVM of each task at kernel weights B (K, T)."""
        return [
            SVC(C=C, kernel="precomputed", class_weight="balanced").fit(np.tensordot(b, stack, 1), y)
            for b, stack, y in zip(B.T, self.stacks(), self.targets, strict=True)
        ]

    def auc(self, values: np.ndarray) -> float:
        return mean_auc(values, self.truth, self.query_tasks)

    def auc_at(self, B: np.ndarray, machines: list[SVC]) -> float:
        values = [
            machine.decision_function(np.tensordot(b, cross, 1))
            for machine, b, cross in zip(machines, B.T, self.crosses, strict=True)
        ]
        return self.auc(np.concatenate(values))


def run(repetitions: int) -> Report:
    fields = Fields()
    kernels = polynomial_kernels(DEGREES)
    model = MKMTRLClassifier(kernels, C=C, mu=MU, class_weight="balanced", tol=1e-3, n_jobs=threads())
    rows = race("T=19 n=80 K=5", [*_ours_and_naive(fields, model), *_others(fields)], repetitions)
    return Report("landmine-like, SVM", rows, naive_goals(rows, 10))


def _ours_and_naive(fields: Fields, model: MKMTRLClassifier) -> list[Contender]:
    """Contenders whose objective is the same; the referee computes it at the weights that each ends with."""
    objective = referee(model, fields.X, fields.y, fields.tasks)
    machine = naive.svm(C, class_weight="balanced")

    def fit(model: MKMTRLClassifier) -> MKMTRLClassifier:
        return model.fit(fields.X, fields.y, tasks=fields.tasks)

    def alternating(**stop: float):
        return naive.fit_alternating(fields.stacks(), fields.targets, machine, MU, **stop)

    def judge(B: np.ndarray) -> dict[str, float]:
        return {"objective": objective(B), "AUC": fields.auc_at(B, fields.machines(B))}

    def judge_ours(model: MKMTRLClassifier) -> dict[str, float]:
        limit = against_limit(model, fit, [80] * 19, len(DEGREES), ridge=False)
        return {**judge(model.kernel_weights_.T), "gap": model.duality_gap_ / model.objective_, **limit}

    def judge_naive(found) -> dict[str, float]:
        return {**judge(found[0]), "rounds": found[2]}

    reached = fit(model).objective_
    return [
        Contender(OURS, lambda: fit(model), judge_ours),
        Contender(NAIVE, alternating, judge_naive),
        Contender(NAIVE_TO_OURS, lambda: alternating(tol=0.0, target=reached * (1 + 1e-3)), judge_naive),
    ]


def _others(fields: Fields) -> list[Contender]:
    """Contenders that solve another problem: their AUC alone can be compared."""
    even = np.full((len(DEGREES), len(fields.parts)), 1 / len(DEGREES))
    average = Contender(
        "SVC, average kernel", lambda: fields.machines(even), lambda models: {"AUC": fields.auc_at(even, models)}
    )
    return [average, *(_mklpy(fields, name) for name in ("EasyMKL", "GRAM") if peers.HAS_MKLPY)]


def _mklpy(fields: Fields, name: str) -> Contender:
    return Contender(
        f"MKLpy {name}, task by task",
        lambda: peers.mklpy_tasks(name, fields.stacks(), fields.targets, C),
        lambda models: {"AUC": fields.auc(peers.mklpy_decisions(models, fields.crosses))},
    )
