"""Coverage of intervals on made data: tiny groups, uneven noise, heavy tails, groups never seen.

python -m benchmarks intervals -- --model mk-mtrl --seeds 28 --n-jobs 2
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from kernelkin import KinRegressor, MKMTRLRegressor

KINDS = (
    "12 groups of 2 to 4 rows, noise alone",
    "12 groups of 2 to 4 rows, with signal",
    "10 groups of 8 to 40 rows",
    "10 groups of 20 rows, noise that grows with a column and differs by group",
    "10 groups of 20 rows, heavy tails",
    "8 groups never seen, beside 12 of 10 rows",
)
COVERAGES = (0.9, 0.99)
TEST_ROWS = 40
MODELS = {"kin": KinRegressor(random_state=0, n_jobs=1), "mk-mtrl": MKMTRLRegressor(C=10.0, couplings="common")}


def coverage(kind: int, seed: int, name: str) -> list[float]:
    """Return the share of test targets that intervals contain, for each nominal coverage."""
    rng = np.random.default_rng([seed, kind])
    T = (12, 12, 10, 10, 10, 20)[kind]
    least, most = ((2, 5), (2, 5), (8, 41), (20, 21), (20, 21), (10, 11))[kind]
    sizes = rng.integers(least, most, T)
    level, slope = rng.normal(size=T), 0.5 * rng.normal(size=T)

    def draw(tasks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(len(tasks), 2))
        f = 0.0 if kind == 0 else level[tasks] + X[:, 0] * (1 + slope[tasks]) + np.sin(2 * X[:, 1])
        noise = rng.standard_t(2.5, size=len(tasks)) if kind == 4 else rng.normal(size=len(tasks))
        if kind == 3:
            noise = noise * (0.2 + 0.4 * np.abs(X[:, 0]) * (1 + tasks % 3))
        return X, f + 0.7 * noise

    tasks, tasks_test = np.repeat(np.arange(T), sizes), np.repeat(np.arange(T), TEST_ROWS)
    if kind == 5:
        tasks, tasks_test = tasks[tasks < 12], tasks_test[tasks_test >= 12]
    (X, y), (X_test, y_test) = draw(tasks), draw(tasks_test)
    model = clone(MODELS[name]).fit(X, y, tasks=tasks)
    ends = [model.predict_interval(X_test, tasks=tasks_test, coverage=c) for c in COVERAGES]
    return [float(((y_test >= low) & (y_test <= high)).mean()) for low, high in (part.T for part in ends)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks intervals --", description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="kin")
    parser.add_argument("--seeds", type=int, default=28)
    parser.add_argument("--n-jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    # MK-MTRL has no intervals of groups never seen.
    kinds = KINDS if options.model == "kin" else KINDS[:-1]
    jobs = list(product(range(len(kinds)), range(options.seeds)))
    found = Parallel(options.n_jobs)(delayed(coverage)(*job, options.model) for job in jobs)
    shares = np.array(found).reshape(len(kinds), options.seeds, len(COVERAGES))
    print("| data | nominal 0.9 | least of all seeds | nominal 0.99 |\n| --- | --- | --- | --- |")
    for kind, each in zip(kinds, shares, strict=True):
        print(f"| {kind} | {each[:, 0].mean():.3f} | {each[:, 0].min():.2f} | {each[:, 1].mean():.3f} |")
