"""Errors of `task_effects` relative to their standard errors, for levels and slopes of groups on made data.

python -m benchmarks effects -- --seeds 20 --n-jobs 2
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from kernelkin import KinClassifier, KinRegressor

KINDS = (
    "levels: 30 groups of 2 to 8 rows",
    "levels and slopes: 20 groups of 4 to 10 rows",
    "curves of groups: 15 groups of 10 to 20 rows",
    "levels and slopes: 100 groups of 3 to 10 rows",
    "levels of two crossed groupings: 20 and 15 groups, 200 rows; the second",
    "classes, levels: 20 groups of 10 to 40 rows",
    "counts, levels: 30 groups of 3 to 10 rows",
)
TRUTH, SECOND, CLASSES, COUNTS = 2.0, 4, 5, 6


def inside(kind: int, seed: int) -> tuple[list[bool], list[bool]]:
    """Return whether each level, and each slope, lies within two standard errors of the truth."""
    rng = np.random.default_rng([seed, kind])
    T = (30, 20, 15, 100, 20, 20, 30)[kind]
    sizes = rng.integers(*((2, 9), (4, 11), (10, 21), (3, 11), (10, 11), (10, 41), (3, 11))[kind], T)
    tasks, second = np.repeat(np.arange(T), sizes), rng.integers(15, size=sizes.sum())
    X = rng.normal(size=(len(tasks), 2)) * np.array([1.0, 5.0])
    level, slope = rng.normal(size=T), (0.5 if kind in (1, 3) else 0.0) * rng.normal(size=T)
    wave, other = (1.0 if kind == 2 else 0.0) * rng.normal(size=T), rng.normal(size=15)

    def values(group: np.ndarray) -> np.ndarray:
        return level[group] + X[:, 0] * (0.5 + slope[group]) + np.sin(X[:, 1] / 3) + wave[group] * np.sin(2 * X[:, 0])

    f = values(tasks) + (other[second] if kind == SECOND else 0.0)
    groups = np.column_stack([tasks, second]) if kind == SECOND else tasks
    if kind == CLASSES:
        effects = KinClassifier(random_state=0, n_jobs=1).fit(X, rng.random(len(f)) < expit(f), groups).task_effects()
    elif kind == COUNTS:
        model = KinRegressor(loss="poisson", random_state=0, n_jobs=1)
        effects = model.fit(X, rng.poisson(np.exp(f)), groups).task_effects()
    else:
        model = KinRegressor(random_state=0, n_jobs=1).fit(X, f + 0.7 * rng.normal(size=len(f)), groups)
        effects = model.task_effects(1 if kind == SECOND else None)
    F = np.array([values(np.full(len(X), t)) for t in range(T)])
    true = other if kind == SECOND else F.mean(1)
    levels = np.abs(effects["level"] - (true - true.mean())) < TRUTH * effects["standard_error"]
    if kind in (1, 3):
        slopes = np.abs(effects["slope of x0"] - (slope - slope.mean())) < TRUTH * effects["standard_error of x0"]
        return levels.tolist(), slopes.tolist()
    return levels.tolist(), []


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks effects --", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--kinds", type=int, nargs="*", default=range(len(KINDS)))
    options = parser.parse_args(arguments)
    jobs = list(product(options.kinds, range(options.seeds)))
    found = Parallel(options.n_jobs)(delayed(inside)(*job) for job in jobs)
    print("| data | levels within two standard errors | slopes | seeds | effects |\n| --- | --- | --- | --- | --- |")
    for kind in options.kinds:
        parts = [part for (k, _), part in zip(jobs, found, strict=True) if k == kind]
        levels, slopes = (share([part[i] for part in parts]) for i in (0, 1))
        count = sum(len(each) for part in parts for each in part)
        print(f"| {KINDS[kind]} | {levels} | {slopes} | {options.seeds} | {count} |", flush=True)


def share(by_seed: list[list[bool]]) -> str:
    """Return the share of effects within two standard errors, with its standard error over seeds."""
    each = np.array([np.mean(part) for part in by_seed if part])
    return f"{each.mean():.3f} ± {each.std(ddof=1) / len(each) ** 0.5:.3f}" if len(each) > 1 else ""
