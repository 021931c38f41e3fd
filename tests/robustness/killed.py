"""A program that does work in processes of its own and kills them: nothing is forked from a process with threads.

    python killed.py FOLDER

A line of JSON for each process: the signal that ended it (0: none), the result of its work, and the files in its folder
afterwards. The processes replace a saved model. "begin", "sync" and "rename" kill a process when it begins to write its
n-th file, when it syncs it, or when it renames it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from kernelkin import MKMTRLRegressor, linear_kernels, save_model

KERNELS = linear_kernels(per_feature=True)
rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(24, 2)), np.repeat(["a", "b"], 12)
Y = X[:, 0] + 0.3 * rng.normal(size=24)


def save(model: MKMTRLRegressor, folder: Path) -> None:
    save_model(model, folder / "model.kin", about={"C": model.C})


def start(work: Callable[[Path], object], folder: Path, event: str = "", count: int = 0) -> tuple[int, int]:
    """Fork a process that does the work, or dies at this event -> its number and a pipe with its result."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    kill_at(event, count, os.path.realpath(folder))
    try:
        os.write(writer, json.dumps(work(folder)).encode())
        os._exit(0)
    finally:
        os._exit(1)


def kill_at(event: str, count: int, folder: str) -> None:
    """Have this process killed at the count-th event of a kind that concerns files in the folder."""
    seen: Counter[str] = Counter()

    def note(kind: str) -> None:
        seen[kind] += 1
        if kind == event and seen[kind] == count:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(name: str, arguments: tuple) -> None:
        # `open` with an opener is audited twice, by `os.open` without a mode.
        if name == "open" and str(arguments[0]).startswith(folder) and "x" in (arguments[1] or ""):
            note("begin")
        elif name == "os.rename" and str(arguments[1]).startswith(folder):
            note("rename")

    sync = os.fsync
    os.fsync = lambda handle: (note("sync"), sync(handle))[1]
    sys.addaudithook(audit)


def finish(process: int, reader: int, folder: Path) -> None:
    with open(reader) as file:
        result = file.read()
    _, status = os.waitpid(process, 0)
    outcome = {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "result": json.loads(result) if result else None,
        "files": sorted(path.suffix for path in folder.iterdir()),
        "model": (folder / "model.kin").read_bytes().hex() if (folder / "model.kin").exists() else None,
    }
    print(json.dumps(outcome), flush=True)


def run(work: Callable[[Path], object], folder: Path, *event) -> None:
    finish(*start(work, folder, *event), folder)


if __name__ == "__main__":
    base = Path(sys.argv[1])
    old, new = (MKMTRLRegressor(KERNELS, C=C).fit(X, Y, tasks=TASKS) for C in (1.0, 2.0))
    save(old, base)
    folder = base / "save"
    folder.mkdir()
    run(partial(save, old), folder)
    for event in (("begin", 1), ("sync", 1), ("rename", 1), ()):
        run(partial(save, new), folder, *event)
