"""Time of every model against a plain loop over scikit-learn's learners with as many machine solves.

The loop computes the Gram matrices once, and then, as often as the model solved all machines, combines them with the
model's final weights and fits scikit-learn's SVC or KernelRidge on each. Models that make one machine of all tasks
(MTFL and MTRL from the side of the tasks) are compared with one learner on a Gram of that size, linear models with
scikit-learn's. CPU seconds on one thread. The last part is wall time on the whole school data, on two threads.

    KERNELKIN_DATA=<folder> python benchmarks/baselines.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import kernelkin
from kernelkin.datasets import load_landmine, load_sarcos, load_school

DEGREES = (1, 2, 3, 4, 5)
WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
SKIPPED = ("MK-MTRL", "Two-stage MK-MTRL", "Mean")


def landmine(rows: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """19 tasks of 80 rows, 9 standardised features, 6% positive."""
    data, rng = load_landmine(), np.random.default_rng(0)
    kept = []
    for task in np.unique(data.tasks):
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        positive = order[data.y[order] == 1][:8]
        kept.append(np.concatenate([positive, order[data.y[order] != 1][: rows - len(positive)]]))
    index = np.concatenate(kept)
    return StandardScaler().fit_transform(data.X[index]), data.y[index], data.tasks[index]


def sarcos(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """7 tasks on the same 300 rows, 21 standardised features."""
    data, rng = load_sarcos(), np.random.default_rng(0)
    index = rng.permutation(len(data.X))[:rows]
    return StandardScaler().fit_transform(data.X[index]), StandardScaler().fit_transform(data.y[index])


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the second of two runs, and its result: the first one compiles."""
    run()
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def solves(model: Any) -> int:
    """How often the model solved the machines of all tasks."""
    if "MKLSA" not in type(model).__name__:
        return model.n_iter_
    checks = model.n_iter_
    return min(2 ** (checks - 1), model.max_iter) + checks


def classify(name: str, estimator: type) -> tuple[float, float, float]:
    X, y, tasks = landmine()
    kernels = kernelkin.polynomial_kernels(DEGREES)
    model = estimator(kernels, C=1.0, class_weight="balanced", n_jobs=1)
    ours, model = cpu(lambda: model.fit(X, y, tasks=tasks))
    joint = name in ("MTFL", "MTRL")
    groups = [np.arange(len(X))] if joint else [np.flatnonzero(tasks == t) for t in np.unique(tasks)]
    used = [kernelkin.kernels.resolve_kernels(kernels)[k].name in model.kernel_names_ for k in range(len(DEGREES))]
    degrees = np.array(DEGREES)[used]

    def loop() -> None:
        stacks = [
            np.stack([scaled(polynomial_kernel(X[r], degree=d, gamma=1, coef0=1)) for d in degrees]) for r in groups
        ]
        for _ in range(solves(model)):
            for t, (rows, stack) in enumerate(zip(groups, stacks, strict=True)):
                gram = np.tensordot(model.kernel_weights_[t], stack, 1)
                SVC(kernel="precomputed", class_weight="balanced").fit(gram, y[rows])

    return ours, cpu(loop)[0], solves(model)


def regress(name: str, estimator: type) -> tuple[float, float, float]:
    X, Y = sarcos()
    kernels = kernelkin.gaussian_kernels(WIDTHS, relative=False)
    model = estimator(kernels, C=1.0, n_jobs=1)
    ours, model = cpu(lambda: model.fit(X, Y))
    joint = name in ("MTFL", "MTRL")
    names = [kernel.name for kernel in kernelkin.kernels.resolve_kernels(kernels)]
    widths = [width for width, kernel in zip(WIDTHS, names, strict=True) if kernel in model.kernel_names_]

    def loop() -> None:
        stack = np.stack([rbf_kernel(X, gamma=0.5 / width**2) for width in widths])
        for _ in range(model.n_iter_):
            if joint:
                gram = np.tensordot(model.kernel_weights_[0], stack, 1)
                KernelRidge(alpha=1.0, kernel="precomputed").fit(np.kron(model.task_relationship_, gram), Y.T.ravel())
                continue
            for t in range(Y.shape[1]):
                gram = np.tensordot(model.kernel_weights_[t], stack, 1)
                KernelRidge(alpha=1.0, kernel="precomputed").fit(gram, Y[:, t])

    return ours, cpu(loop)[0], model.n_iter_


def linear(name: str, estimator: type) -> tuple[float, float, float] | None:
    """OLS and Lasso; MRCE and FES have no counterpart in scikit-learn."""
    theirs = {"OLS": LinearRegression(), "Lasso": Lasso(0.1)}.get(name)
    if theirs is None:
        return None
    data = load_school()
    groups = [np.flatnonzero(data.tasks == t) for t in np.unique(data.tasks)]
    ours, _ = cpu(lambda: estimator().fit(data.X, data.y, tasks=data.tasks))
    return ours, cpu(lambda: [theirs.fit(data.X[rows], data.y[rows]) for rows in groups])[0], 1


def scaled(gram: np.ndarray) -> np.ndarray:
    return gram / gram.diagonal().mean()


def school() -> None:
    """MTFL and MTRL on 139 tasks, 15,362 rows and a linear kernel."""
    data = load_school()
    for name in ("MTFL", "MTRL"):
        for tol in (1e-3, 1e-6):
            for C in (1.0, 100.0):
                estimator = kernelkin.registry.find_model(name).regressor
                assert estimator is not None
                start = time.perf_counter()
                model = estimator("linear", C=C, tol=tol, n_jobs=2, max_iter=500).fit(data.X, data.y, tasks=data.tasks)
                took = time.perf_counter() - start
                gap = model.duality_gap_ / model.objective_
                print(f"{name:6} C {C:5.0f}  tol {tol:.0e}  {took:6.1f} s  {model.n_iter_:3d} solves  gap {gap:.0e}")


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(f"{'model':8} {'data':9} {'solves':>6} {'ours s':>8} {'loop s':>8} {'ratio':>6}")
    with threadpool_limits(1):
        for model in kernelkin.models():
            if model.name in SKIPPED:
                continue
            cases = [(model.classifier, "landmine", classify)] if model.classifier else []
            has_kernels = model.regressor is not None and hasattr(model.regressor(), "kernels")
            cases += [(model.regressor, "sarcos", regress)] if has_kernels else [(model.regressor, "school", linear)]
            for estimator, data, compare in cases:
                found = compare(model.name, estimator) if estimator is not None else None
                if found is not None:
                    ours, loop, count = found
                    print(
                        f"{model.name:8} {data:9} {count:6.0f} {ours:8.3f} {loop:8.3f} {ours / loop:6.2f}", flush=True
                    )
    print("\nschool, linear kernel, two threads")
    school()


if __name__ == "__main__":
    main()
