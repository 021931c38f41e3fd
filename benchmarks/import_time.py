"""Time of importing all of kernelkin, of the first and second fit in a new process, and of one with an empty cache.

The cache is numba's: a first fit either compiles the solver (empty cache) or loads what an earlier process compiled.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from .harness import OURS, Goal, Report, Row, with_bytecode

FIT = """
import time
import numpy as np
from kernelkin import {estimator} as Estimator
rng = np.random.default_rng(0)
X, tasks = rng.normal(size=(190, 5)), np.repeat(np.arange(19), 10)
y = np.tile([1, -1], 95)
for _ in range(2):
    start = time.perf_counter(), time.process_time()
    Estimator({parameters}).fit(X, y, tasks=tasks)
    print(time.process_time() - start[1], time.perf_counter() - start[0])
"""
# What is fitted, and its first fit with an empty cache in CPU seconds at most.
FITS = {
    "SVM": ("MKMTRLClassifier", "n_jobs=1", 10.0),
    "SVR": ("MKMTRLRegressor", "n_jobs=1, loss='epsilon_insensitive'", 10.0),
    "ridge": ("MKMTRLRegressor", "n_jobs=1", 2.0),
    "two-stage SVM": ("TwoStageMKMTRLClassifier", "n_jobs=1, random_state=0", 15.0),
}


def run(repetitions: int) -> Report:
    # Both libraries have bytecode, as installed packages do, whatever the environment says.
    with tempfile.TemporaryDirectory() as bytecode:
        return _measured(repetitions, bytecode)


def _measured(repetitions: int, bytecode: str) -> Report:
    medians, rows = _imports(repetitions, bytecode)
    times_longer = medians[OURS][0] / medians["sklearn.svm"][0]
    goals = [Goal("from kernelkin import * <= 1.3x import sklearn.svm", f"{times_longer:.2f}x", times_longer <= 1.3)]
    for name, (estimator, parameters, limit) in FITS.items():
        code = FIT.format(estimator=estimator, parameters=parameters)
        with tempfile.TemporaryDirectory() as cache:
            _fits(code, cache, bytecode)
            first, second = np.median([_fits(code, cache, bytecode) for _ in range(3)], axis=0)
        empty = np.median([_first_fit(code, bytecode) for _ in range(3)], axis=0)
        measured = (("first fit, empty cache", empty, 3), ("first fit", first, 3), ("second fit", second, 3))
        rows += [
            Row(f"new process, {name}", what, float(cpu), float(wall), count, float(cpu / first[0]))
            for what, (cpu, wall), count in measured
        ]
        later = first[0] - second[0]
        goals += [
            Goal(f"{name}: first fit, empty cache <= {limit:g} s", f"{empty[0]:.2f} s of CPU", empty[0] <= limit),
            Goal(f"{name}: first fit < 2 s slower than the second", f"{later:.2f} s of CPU", later < 2),
        ]
    return Report("import and first fit", rows, goals, clock="CPU of new processes")


def _imports(repetitions: int, bytecode: str) -> tuple[dict[str, np.ndarray], list[Row]]:
    """Median CPU and wall seconds of imports in new processes, and their rows."""
    imports = {OURS: "from kernelkin import *", "sklearn.svm": "import sklearn.svm", "python alone": "pass"}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in imports}
    for turn in range(repetitions + 2):
        for name, code in imports.items():
            took = _start(code, bytecode)
            # The first turn writes the bytecode.
            if turn > 0:
                times[name].append(took)
    medians = {name: np.median(taken, axis=0) for name, taken in times.items()}
    rows = [
        Row("import", name, *map(float, taken), len(times[name]), float(taken[0] / medians[OURS][0]))
        for name, taken in medians.items()
    ]
    return medians, rows


def _start(code: str, bytecode: str) -> tuple[float, float]:
    """CPU and wall seconds of a new process that reads and writes compiled modules in the folder `bytecode`."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=with_bytecode(bytecode))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - wall


def _first_fit(code: str, bytecode: str) -> list[float]:
    """CPU and wall seconds of the first fit in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return _fits(code, cache, bytecode)[0]


def _fits(code: str, cache: str, bytecode: str) -> list[list[float]]:
    """CPU and wall seconds of two fits in a new process with numba's cache in the folder `cache`."""
    environment = {**with_bytecode(bytecode), "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return [list(map(float, line.split())) for line in done.stdout.splitlines()]
