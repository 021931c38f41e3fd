"""Wide ridge: 50 targets on 500 rows, 20 kernels, to relative gap 1e-3; held-out R2 on 500 other rows.

himalaya chooses its regularisation by cross-validation inside, in three folds; ours is run both with given parameters
and with mu chosen by `MKMTRLRegressorCV` in three folds, so that each has its like.
"""

from __future__ import annotations

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from kernelkin import MKMTRLRegressor, MKMTRLRegressorCV, gaussian_kernels

from . import naive, peers
from .harness import NAIVE, NAIVE_TO_OURS, OURS, Contender, Goal, Report, figure, naive_goals, race, ratio, threads
from .limits import against_limit
from .problems import gaussian_stack, mean_r2, referee, wide_targets

WIDTHS = (0.5, 2.0)
C, MU = 1.0, 1.0
CHOSEN = "kernelkin, mu by cross-validation"


def run(repetitions: int, n: int = 500, n_tasks: int = 50) -> Report:
    X, Y = wide_targets(1, n, n_tasks)
    Xq, Yq = wide_targets(2, n, n_tasks)
    kernels = gaussian_kernels(WIDTHS, relative=False, per_feature=True)
    model = MKMTRLRegressor(kernels, C=C, mu=MU, tol=1e-3, n_jobs=threads())
    search = MKMTRLRegressorCV(kernels, grid={"mu": np.logspace(-3, 1, 5)}, C=C, cv=3, tol=1e-3, n_jobs=threads())
    objective = referee(model, X, Y)
    machine = naive.ridge(C)
    cross = gaussian_stack(Xq, WIDTHS, X)

    def alternating(**stop: float):
        stack = gaussian_stack(X, WIDTHS)
        return naive.fit_alternating([stack] * n_tasks, list(Y.T), machine, MU, **stop)

    def judge_ours(m: MKMTRLRegressor) -> dict[str, float]:
        score = mean_r2(m.predict(Xq), Yq)
        limit = against_limit(m, lambda m: m.fit(X, Y), [n], 20, n_tasks, ridge=True)
        return {"objective": objective(m.kernel_weights_.T), "gap": m.duality_gap_ / m.objective_, "R2": score, **limit}

    def judge(found) -> dict[str, float]:
        stack, values = gaussian_stack(X, WIDTHS), []
        for b, y in zip(found[0].T, Y.T, strict=True):
            gram = np.tensordot(b, stack, 1)
            a = machine(gram, y)[0]
            values.append(np.tensordot(b, cross, 1) @ a + np.mean(y - gram @ a))
        return {"objective": objective(found[0]), "R2": mean_r2(np.column_stack(values), Yq), "rounds": found[2]}

    def average() -> KernelRidge:
        return KernelRidge(alpha=1 / C, kernel="precomputed").fit(gaussian_stack(X, WIDTHS).mean(axis=0), Y)

    reached = model.fit(X, Y).objective_
    contenders = [
        Contender(OURS, lambda: model.fit(X, Y), judge_ours),
        Contender(NAIVE, alternating, judge),
        Contender(NAIVE_TO_OURS, lambda: alternating(tol=0.0, target=reached * (1 + 1e-3)), judge),
        Contender("KernelRidge, average kernel", average, lambda m: {"R2": mean_r2(m.predict(cross.mean(axis=0)), Yq)}),
        Contender(CHOSEN, lambda: search.fit(X, Y), lambda m: {"R2": mean_r2(m.predict(Xq), Yq)}),
    ]
    for solver in ("hyper_gradient", "random_search") if peers.HAS_HIMALAYA else ():
        contenders.append(
            Contender(
                f"himalaya {solver}",
                lambda solver=solver: peers.himalaya_fit(solver, gaussian_stack(X, WIDTHS), Y - Y.mean(axis=0)),
                lambda m: {"R2": mean_r2(np.asarray(m.predict(cross)) + Y.mean(axis=0), Yq)},
            )
        )
    rows = race(f"T={n_tasks} n={n} K=20", contenders, repetitions)
    return Report("wide ridge", rows, _goals(rows))


def _goals(rows) -> list[Goal]:
    goals = naive_goals(rows, 5)
    if not peers.HAS_HIMALAYA:
        return [*goals, Goal(">= 10x himalaya's hyper-gradient at an R2 no worse", "himalaya is not installed", None)]
    theirs = figure(rows, "himalaya hyper_gradient", "R2")
    for name in (OURS, CHOSEN):
        times = ratio(rows, "himalaya hyper_gradient") / ratio(rows, name)
        score = figure(rows, name, "R2")
        measured, met = f"{times:.1f}x; R2 {score:.4f} against {theirs:.4f}", times >= 10 and score >= theirs
        goals.append(Goal(f">= 10x himalaya's hyper-gradient at an R2 no worse ({name})", measured, met))
    return goals
