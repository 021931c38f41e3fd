"""Time of `import kernelkin` against `import sklearn.svm`, and of the first fit in a new process against the second."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np

from .harness import OURS, Goal, Report, Row

FIT = """
import time
import numpy as np
from kernelkin import MKMTRLClassifier
rng = np.random.default_rng(0)
X, tasks = rng.normal(size=(190, 5)), np.repeat(np.arange(19), 10)
y = np.where(np.tile([1, -1], 95) > 0, 1, -1)
for _ in range(2):
    start = time.perf_counter(), time.process_time()
    MKMTRLClassifier(n_jobs=1).fit(X, y, tasks=tasks)
    print(time.process_time() - start[1], time.perf_counter() - start[0])
"""


def run(repetitions: int) -> Report:
    imports = {OURS: "import kernelkin", "sklearn.svm": "import sklearn.svm", "python alone": "pass"}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in imports}
    for turn in range(repetitions + 2):
        for name, code in imports.items():
            took = _start(code)
            if turn > 0:
                times[name].append(took)
    medians = {name: np.median(taken, axis=0) for name, taken in times.items()}
    rows = [
        Row("import", name, *map(float, taken), len(times[name]), float(taken[0] / medians[OURS][0]))
        for name, taken in medians.items()
    ]
    first, second = np.median([_fits() for _ in range(3)], axis=0)
    rows += [
        Row("new process, SVM", name, float(cpu), float(wall), 3, float(cpu / first[0]))
        for name, (cpu, wall) in (("first fit", first), ("second fit", second))
    ]
    times_longer = medians[OURS][0] / medians["sklearn.svm"][0]
    later = first[0] - second[0]
    goals = [
        Goal("import kernelkin <= 1.3x import sklearn.svm", f"{times_longer:.2f}x", times_longer <= 1.3),
        Goal("first fit < 2 s slower than the second", f"{later:.2f} s of CPU", later < 2),
    ]
    return Report("import and first fit", rows, goals, clock="CPU of new processes")


def _start(code: str) -> tuple[float, float]:
    """CPU and wall seconds of a new process."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - wall


def _fits() -> list[list[float]]:
    """CPU and wall seconds of two fits in a new process."""
    done = subprocess.run([sys.executable, "-c", FIT], check=True, capture_output=True, text=True)
    return [list(map(float, line.split())) for line in done.stdout.splitlines()]
