"""Time of `SVM.solve` against scikit-learn's SVC on the same precomputed Gram matrix, at the same duality gap.

SVC is fitted with its own tolerance; the relative duality gap that it reached is then the tolerance given to ours.
Both run on one thread, from a cold start; the figures are medians after a warm-up. The last column is the time of a
call whose warm start is optimal already.

    python benchmarks/smo_against_libsvm.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from kernelkin.paper.learners import SVM, Machine

SIZES = {80: 201, 500: 31, 2000: 7}
COSTS = (1.0, 10.0, 100.0)
TOLERANCES = (1e-3, 1e-5)


def problem(n: int, cost: float) -> tuple[np.ndarray, Machine]:
    """A noisy problem of ten features with a Gaussian kernel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    y = np.where(X[:, :1] + X[:, 1:2] * X[:, 2:3] + 0.5 * rng.normal(size=(n, 1)) > 0, 1.0, -1.0)
    return rbf_kernel(X, gamma=0.1), Machine(y, np.full((n, 1), cost), np.zeros(n, dtype=np.intp), 1)


def median_time(run: Callable[[], object], repetitions: int) -> float:
    run()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def compare(n: int, cost: float, tol: float) -> str:
    """One row of the table."""
    gram, machine = problem(n, cost)
    svc = SVC(kernel="precomputed", C=cost, tol=tol, cache_size=1000).fit(gram, machine.y[:, 0])
    a = np.zeros((n, 1))
    a[svc.support_, 0] = svc.dual_coef_[0]
    theirs = SVM().solve(gram, machine, a, tol=np.inf)
    gap = theirs.gap / theirs.primal
    ours = SVM().solve(gram, machine, tol=gap)
    times = [
        median_time(run, SIZES[n])
        for run in (
            lambda: svc.fit(gram, machine.y[:, 0]),
            lambda: SVM().solve(gram, machine, tol=gap),
            lambda: SVM().solve(gram, machine, ours.a, tol=gap),
        )
    ]
    return (
        f"{n:5d} {cost:6.0f} {tol:8.0e} {gap:9.1e} {ours.gap / ours.primal:9.1e} {1e3 * times[0]:9.3f} "
        f"{1e3 * times[1]:9.3f} {times[0] / times[1]:6.1f} {1e3 * times[2]:9.3f}"
    )


def main() -> None:
    print(f"{'n':>5} {'C':>6} {'SVC tol':>8} {'SVC gap':>9} {'our gap':>9} {'SVC ms':>9} {'ours ms':>9} ", end="")
    print(f"{'ratio':>6} {'warm ms':>9}")
    with threadpool_limits(1):
        for n in SIZES:
            for cost in COSTS:
                for tol in TOLERANCES:
                    print(compare(n, cost, tol), flush=True)


if __name__ == "__main__":
    main()
