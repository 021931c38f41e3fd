"""Tasks with and without structure, small enough for many tests."""

import numpy as np

from kernelkin import AverageRegressor

SIZES = (6, 8, 12, 18, 28, 40)


def draw_function(rng, d=2):
    """A smooth random function of variance one, about."""
    frequencies, phases = 0.7 * rng.normal(size=(40, d)), rng.uniform(0, 2 * np.pi, 40)
    weights = rng.normal(size=40) / np.sqrt(20)
    return lambda X: np.cos(X @ frequencies.T + phases) @ weights


def null_problem(kind, seed):
    """X, y and tasks without structure."""
    rng = np.random.default_rng(seed)
    sizes = SIZES if kind == "different sizes" else (18,) * 6
    tasks = np.repeat(np.arange(6), sizes)
    X = rng.normal(size=(len(tasks), 2))
    y = 0.5 * rng.normal(size=len(tasks))
    if kind != "noise only":
        y = y + draw_function(rng)(X)
    if kind == "different levels":
        y = y + 2 * rng.normal(size=6)[tasks]
    if kind == "random labels":
        tasks = rng.permutation(tasks)
    return X, y, tasks


def group_problem(n_groups, n_rows, seed, n_tasks=6):
    """X, y, tasks and groups: a common function and one of each group."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n_tasks) * n_groups // n_tasks
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), 2))
    common, own = draw_function(rng), [draw_function(rng) for _ in range(n_groups)]
    y = common(X) + np.choose(groups[tasks], [f(X) for f in own]) + 0.3 * rng.normal(size=len(tasks))
    return X, y, tasks, groups


def average_model(X, y, tasks):
    """A cheap model: its kernels are what the test takes from it."""
    return AverageRegressor(C=10.0).fit(X, y, tasks=tasks)
