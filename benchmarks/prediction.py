"""Prediction against the least it can take: evaluate the kernels that have a weight, combine, one product.

`bare product` is the product of a combined cross-Gram that is there already with the coefficients: a limit that no
model whose queries are rows of X can come near, because evaluating a kernel takes longer than that product.
"""

from __future__ import annotations

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels
from kernelkin.kernels import evaluate

from .harness import OURS, Contender, Goal, Report, race, ratio, threads
from .problems import landmine_like, wide_targets

KERNELS = gaussian_kernels((0.5, 2.0), relative=False, per_feature=True)


def run(repetitions: int) -> Report:
    rows = [*_one_task(10 * repetitions), *_wide(10 * repetitions), *_many_tasks(10 * repetitions)]
    goals = []
    for case in dict.fromkeys(row.case for row in rows):
        times = 1 / ratio(rows, "kernels, combine, product", case)
        goals.append(Goal(f"{case}: within 1.5x of kernels, combination and product", f"{times:.2f}x", times <= 1.5))
    times = 1 / ratio(rows, "bare product", rows[0].case)
    goals.append(Goal(f"{rows[0].case}: within 1.5x of the bare product", f"{times:.1f}x", times <= 1.5))
    return Report("prediction", rows, goals)


def _direct(kernels, weights: np.ndarray, a: np.ndarray, c: float, X: np.ndarray, rows: np.ndarray):
    """The prediction of one task by hand; kernels of unit diagonal need no scaling."""
    used = np.flatnonzero(weights)
    kept = np.flatnonzero(a)
    some, b, coef, support = [kernels[k] for k in used], weights[used], a[kept], X[kept]
    return lambda: np.tensordot(b, evaluate(some, rows, support), 1) @ coef + c


def _one_task(repetitions: int):
    X, Y = wide_targets(1, 500, 1)
    Xq, _ = wide_targets(2, 2000, 1)
    model = MKMTRLRegressor(KERNELS, n_jobs=threads()).fit(X, Y[:, 0])
    direct = _direct(model.kernels_, model.kernel_weights_[0], model.dual_coef_[0][:, 0], model.intercept_[0], X, Xq)
    gram = np.tensordot(model.kernel_weights_[0], evaluate(model.kernels_, Xq, X), 1)
    a = model.dual_coef_[0][:, 0]
    error = float(np.abs(model.predict(Xq) - direct()).max())
    return race(
        "one task, 2000 queries",
        [
            Contender(OURS, lambda: model.predict(Xq), lambda _: {"difference": error}),
            Contender("kernels, combine, product", direct),
            Contender("bare product", lambda: gram @ a + model.intercept_[0]),
        ],
        repetitions,
    )


def _wide(repetitions: int):
    X, Y = wide_targets(1, 500, 20)
    Xq, _ = wide_targets(2, 500, 20)
    model = MKMTRLRegressor(KERNELS, n_jobs=threads()).fit(X, Y)
    a = np.hstack(model.dual_coef_)
    used = np.flatnonzero(model.kernel_weights_.any(axis=0))
    some, b = [model.kernels_[k] for k in used], model.kernel_weights_[:, used]

    def direct() -> np.ndarray:
        stack = evaluate(some, Xq, X)
        return np.column_stack([np.tensordot(b[t], stack, 1) @ a[:, t] for t in range(20)]) + model.intercept_

    error = float(np.abs(model.predict(Xq) - direct()).max())
    return race(
        "wide, 20 tasks",
        [
            Contender(OURS, lambda: model.predict(Xq), lambda _: {"difference": error}),
            Contender("kernels, combine, product", direct),
        ],
        repetitions,
    )


def _many_tasks(repetitions: int):
    X, y, tasks = landmine_like(1, 80)
    Xq, _, tasks_q = landmine_like(2, 200)
    model = MKMTRLClassifier(KERNELS, n_jobs=threads()).fit(X, y, tasks=tasks)
    by_hand = [
        _direct(
            model.kernels_,
            model.kernel_weights_[t],
            model.dual_coef_[t][:, 0],
            model.intercept_[t],
            X[tasks == t],
            Xq[tasks_q == t],
        )
        for t in range(19)
    ]
    values = np.concatenate([function() for function in by_hand])
    error = float(np.abs(model.decision_function(Xq, tasks_q) - values).max())
    return race(
        "19 tasks, 200 queries each",
        [
            Contender(OURS, lambda: model.decision_function(Xq, tasks_q), lambda _: {"difference": error}),
            Contender("kernels, combine, product", lambda: [function() for function in by_hand]),
        ],
        repetitions,
    )
