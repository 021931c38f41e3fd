"""Runs work in processes of their own and kills them; a program, so that nothing is forked off a process with threads.

    python killed.py WORK FOLDER PLAN

WORK is a name of `WORKS`, FOLDER where it keeps what is finished, PLAN a list in JSON of how each run ends:

    ["write", n]   by SIGKILL at its n-th step of writing a file: when the file is begun, synced, or renamed
    ["line", n]    by SIGKILL from outside when it has told of its n-th piece of work
    ["end"]        undisturbed
    ["straight"]   undisturbed, in a folder of its own
    ["together"]   undisturbed, two processes at once in another folder

A line of JSON for each process: the signal that ended it (0: none), what it said, and which files it finished.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from kernelkin import MKMTRLRegressor, cli, linear_kernels
from kernelkin.model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV

KERNELS = linear_kernels(per_feature=True)
GRID = {"mu": [0.1, 1.0, 10.0], "shrinkage": [0.1, 1.0], "min_rank": [1.0, 2.0]}


def reproduce(folder: str) -> str:
    import experiments
    import toy_experiment as toy
    from experiments.__main__ import main

    experiments.find_protocol = lambda name: toy.PROTOCOL
    return said(["stock", "--runs", "2", "--output", folder], main).replace(folder, "")


def compare(folder: str) -> str:
    table = Path(__file__).with_name("shops.csv")
    argv = ["compare", str(table), "--task", "shop", "--target", "sales", "--folds", "3", "--cache", folder]
    lines = said([*argv, "--cv", "--kernels", "linear", "--models", "AVG", "Lasso", "OLS"]).splitlines()
    # The last column is how long it took.
    return "\n".join(line.rpartition(" ")[0] for line in lines)


def classify(folder: str) -> str:
    X, y, tasks = data()
    return search(MKMTRLClassifierCV(KERNELS, grid=GRID, cache=folder, **HOW), X, y > 0, tasks)


def regress(folder: str) -> str:
    return search(MKMTRLRegressorCV(KERNELS, grid=GRID, cache=folder, **HOW), *data())


def choose(folder: str) -> str:
    return search(MultiTaskCV(MKMTRLRegressor(KERNELS), GRID, cache=folder, n_jobs=2, **HOW), *data())


HOW = {"cv": 3, "random_state": 0, "verbose": 1}
WORKS = {work.__name__: work for work in (reproduce, compare, classify, regress, choose)}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=36), np.repeat(["a", "b"], 18)


def search(model, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> str:
    """All that a search finds, to the bit."""
    with redirect_stdout(sys.stderr):
        model.fit(X, y, tasks=tasks)
    scores = [score.hex() for score in model.cv_results_["mean_test_score"].tolist()]
    return json.dumps([model.best_params_, scores, [w.hex() for w in model.kernel_weights_.ravel().tolist()]])


def said(argv: list[str], main=cli.main) -> str:
    with redirect_stdout(io.StringIO()) as out:
        assert main(argv) == 0
    return out.getvalue()


def start(work: str, folder: str, kill_at: int | None) -> tuple[int, int, int]:
    """Fork -> the process, its standard error, and where it says which files it finished and what it found."""
    lines, told = os.pipe(), os.pipe()
    process = os.fork()
    if process:
        os.close(lines[1])
        os.close(told[1])
        return process, lines[0], told[0]
    os.dup2(lines[1], 2)
    watch(folder, kill_at, told[1])
    try:
        os.write(told[1], json.dumps({"said": WORKS[work](folder)}).encode() + b"\n")
        os._exit(0)
    finally:
        os._exit(1)


def watch(folder: str, kill_at: int | None, told: int) -> None:
    """Count the steps of writing, and die at one of them."""
    place, steps = os.path.realpath(folder), iter(range(1, 10**9))

    def step() -> None:
        if next(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple) -> None:
        if event == "open" and str(arguments[0]).endswith(".part") and str(arguments[0]).startswith(place):
            step()
        elif event == "os.rename" and str(arguments[1]).startswith(place):
            step()
            os.write(told, json.dumps({"file": str(arguments[1])[len(place) :]}).encode() + b"\n")

    sync = os.fsync
    os.fsync = lambda handle: (step(), sync(handle))[1]
    sys.addaudithook(audit)


def finish(process: int, lines: int, told: int, kill_at_line: int | None) -> dict:
    """Wait for the end of a process, or bring it about."""
    with open(lines, errors="replace") as file:
        errors = []
        for number, line in enumerate(file, 1):
            errors.append(line)
            if number == kill_at_line:
                os.kill(process, signal.SIGKILL)
    with open(told) as file:
        facts = [json.loads(line) for line in file if line.endswith("\n")]
    _, status = os.waitpid(process, 0)
    return {
        "signal": status if os.WIFSIGNALED(status) else 0,
        "code": os.waitstatus_to_exitcode(status),
        "said": next((fact["said"] for fact in facts if "said" in fact), None),
        "files": [fact["file"] for fact in facts if "file" in fact],
        "errors": "".join(errors),
    }


def run(work: str, folder: str, how: str, at: int | None = None) -> list[dict]:
    folder += f"-{how}" if how in ("straight", "together") else ""
    processes = [start(work, folder, at if how == "write" else None) for _ in range(2 if how == "together" else 1)]
    return [finish(*process, at if how == "line" else None) for process in processes]


if __name__ == "__main__":
    # What is imported and compiled here, no process has to do again.
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        WORKS[sys.argv[1]](f"{sys.argv[2]}-first")
    for how in json.loads(sys.argv[3]):
        for outcome in run(sys.argv[1], sys.argv[2], *how):
            print(json.dumps(outcome), flush=True)
