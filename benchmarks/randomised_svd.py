"""Whether a randomised SVD of the kernel weights pays, as the paper suggests for many tasks.

python -m benchmarks randomised_svd                  both tables
python -m benchmarks randomised_svd -- --quick       without the largest matrices and fits

First the decomposition alone, of weights (K, T) near rank one: LAPACK's SVD, the eigenvalues of the smaller Gram matrix
(what the relationship penalty uses where there is shrinkage), and scikit-learn's randomised SVD of rank 10. Then whole
fits: the share of their time in that decomposition, which is the most that any faster one could save. One thread; CPU
time, the median of up to five repetitions for matrices.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import product
from unittest.mock import patch

import numpy as np
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from kernelkin import MKMTRLRegressor, gaussian_kernels
from kernelkin.decompositions import gram_svd, svd
from kernelkin.paper.penalties import relation

KERNELS, TASKS = (6, 38, 117, 338, 1000), (1000, 10_000, 100_000)
LARGEST = 4e7  # entries of a matrix
RANK = 10
# T, K, rows of a task, whether all tasks have the same rows.
FITS = (
    (1000, 6, 20, False),
    (300, 40, 20, False),
    (139, 100, 40, False),
    (50, 400, 20, False),
    (300, 300, 10, False),
    (1000, 40, 100, True),
    (1000, 100, 100, True),
    (10_000, 6, 50, True),
    (100_000, 6, 50, True),
)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks randomised_svd --",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="leave the largest out")
    parser.add_argument("--fits", action="store_true", help="the second table only")
    options = parser.parse_args(arguments)
    quick, limit = options.quick, 0 if options.fits else 1e6 if options.quick else LARGEST
    with threadpool_limits(1):
        print(
            "| K | T | SVD, ms | Gram matrix, ms | randomised, ms | Gram over randomised |\n|---|---|---|---|---|---|"
        )
        for K, T in product(KERNELS, TASKS):
            if limit >= K * T:
                print(_decompositions(K, T), flush=True)
        print(
            "\n| T | K | rows | fit, s | evaluations | gap | decompositions | share of the fit |\n" + "|---" * 8 + "|"
        )
        for T, K, n, wide in FITS:
            if not (quick and T * K > 1e5):
                print(_fit(T, K, n, wide), flush=True)


def _decompositions(K: int, T: int) -> str:
    rng = np.random.default_rng(0)
    B = np.outer(rng.uniform(size=K), rng.uniform(size=T)) + 0.05 * rng.uniform(size=(K, T))
    full, gram = _milliseconds(lambda: svd(B.T)), _milliseconds(lambda: gram_svd(B))
    if K <= 2 * RANK:
        return f"| {K} | {T:,} | {full:.3g} | {gram:.3g} | | |"
    drawn = _milliseconds(lambda: randomized_svd(B.T, RANK, n_iter=2, random_state=0))
    return f"| {K} | {T:,} | {full:.3g} | {gram:.3g} | {drawn:.3g} | {gram / drawn:.2f} |"


def _milliseconds(run: Callable[[], object]) -> float:
    times: list[float] = []
    while len(times) < 5 and sum(times) < 2.0:
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return 1e3 * float(np.median(times))


def _fit(T: int, K: int, n: int, wide: bool) -> str:
    rng, d = np.random.default_rng(0), K // 2
    if wide:
        X, tasks = rng.normal(size=(n, d)), {}
        y = np.sin(2 * X[:, np.arange(T) % min(5, d)]) + 0.3 * rng.normal(size=(n, T))
    else:
        labels = np.repeat(np.arange(T), n)
        X, tasks = rng.normal(size=(T * n, d)), {"tasks": labels}
        y = np.sin(2 * X[np.arange(T * n), labels % min(5, d)]) + 0.3 * rng.normal(size=T * n)
    model = MKMTRLRegressor(gaussian_kernels((0.5, 2.0), relative=False, per_feature=True))
    times: list[float] = []

    def timed(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        began = time.process_time()
        found = gram_svd(A)
        times.append(time.process_time() - began)
        return found

    began = time.process_time()
    with patch.object(relation, "gram_svd", timed):
        model.fit(X, y, **tasks)
    total, seconds, gap = time.process_time() - began, sum(times), model.duality_gap_ / model.objective_
    rows = f"{n}, shared" if wide else str(n)
    return (
        f"| {T:,} | {K} | {rows} | {total:.2f} | {model.n_iter_} | {gap:.0e} | "
        f"{len(times)} in {seconds:.2f} s | {100 * seconds / total:.0f}% |"
    )
