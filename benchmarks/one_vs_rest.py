"""One-vs-rest on shared Grams: 20 classes, 1,000 rows, 20 kernels, SVM, to relative gap 1e-3."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from kernelkin import MKMTRLClassifier, gaussian_kernels

from . import naive
from .harness import NAIVE, NAIVE_TO_OURS, OURS, Contender, Goal, Report, naive_goals, race, ratio, threads
from .limits import against_limit
from .problems import gaussian_stack, referee

WIDTHS = (0.5, 2.0)
C, MU = 1.0, 1.0


def data(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes around centres in ten features; wide labels (n, T) of +-1."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n_classes, 10))[labels] + 0.7 * rng.normal(size=(n, 10))
    return X, np.where(labels[:, np.newaxis] == np.arange(n_classes), 1, -1)


def run(repetitions: int, n: int = 1000, n_classes: int = 20) -> Report:
    X, Y = data(n, n_classes)
    kernels = gaussian_kernels(WIDTHS, relative=False, per_feature=True)
    model = MKMTRLClassifier(kernels, C=C, mu=MU, tol=1e-3, n_jobs=threads())
    objective = referee(model, X, Y)
    machine = naive.svm(C)

    def alternating(**stop: float):
        stack = gaussian_stack(X, WIDTHS)
        return naive.fit_alternating([stack] * n_classes, list(Y.T), machine, MU, **stop)

    def average() -> None:
        gram = gaussian_stack(X, WIDTHS).mean(axis=0)
        for y in Y.T:
            SVC(C=C, kernel="precomputed", cache_size=500).fit(gram, y)

    def judge(found) -> dict[str, float]:
        return {"objective": objective(found[0]), "rounds": found[2]}

    reached = model.fit(X, Y).objective_
    contenders = [
        Contender(
            OURS,
            lambda: model.fit(X, Y),
            lambda m: {
                "objective": objective(m.kernel_weights_.T),
                "gap": m.duality_gap_ / m.objective_,
                **against_limit(m, lambda m: m.fit(X, Y), [n], 20, n_classes, ridge=False),
            },
        ),
        Contender(NAIVE, alternating, judge),
        Contender(NAIVE_TO_OURS, lambda: alternating(tol=0.0, target=reached * (1 + 1e-3)), judge),
        Contender("SVC, average kernel", average),
    ]
    rows = race(f"T={n_classes} n={n} K=20", contenders, repetitions)
    goals = naive_goals(rows, 10)
    floor = 1 / ratio(rows, "SVC, average kernel")
    goals.append(Goal("<= 5x the time of T plain SVC fits on the average kernel", f"{floor:.1f}x", floor <= 5))
    return Report("one-vs-rest on shared Grams, SVM", rows, goals)
