"""The memory that is available, and the check before a fit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from .exceptions import GramMemoryError

# The environment variable that limits the memory of a fit, in GiB.
LIMIT = "KERNELKIN_MEMORY_GIB"
# Bytes of the modules that a fit imports, and of the Python objects of a task.
FIXED, TASK_OBJECTS = 4 << 20, 12_000
# Number of arrays of the size of the weights in solvers: iterates, gradients and past steps of quasi-Newton methods.
SOLVER_ARRAYS = 80
# Fits below this size are not checked.
_NEGLIGIBLE = 32 << 20


class Need(NamedTuple):
    """An upper bound on the bytes of a fit, without its data, and advice if that is too much."""

    peak: int
    advice: str


def base_bytes(n_tasks: int, n_targets: int) -> int:
    """Return the bytes of what all fits hold: modules, objects of tasks, and targets, machines and functions."""
    return FIXED + n_tasks * TASK_OBJECTS + 144 * n_targets


def check_memory(need: Need) -> None:
    """Raise GramMemoryError if a fit may need more memory than is available."""
    if need.peak <= _NEGLIGIBLE and not os.environ.get(LIMIT):
        return  # reading the limits of the system would take as long as such a fit
    limit = memory_limit()
    if need.peak > limit:
        source = f"allowed ({LIMIT})" if os.environ.get(LIMIT) else "available"
        raise GramMemoryError(
            f"this fit may need {_gib(need.peak)} of memory, but only {_gib(limit)} are {source}: {need.advice}"
        )


def check_square(n: int, name: str, advice: str) -> None:
    """Raise GramMemoryError if an (n, n) array does not fit into memory."""
    need, limit = 2 * 8 * n * n, memory_limit()
    if need > limit:
        raise GramMemoryError(
            f"{name} is a {n} x {n} array and needs {_gib(need)}, but only {_gib(limit)} are left: {advice}"
        )


def memory_limit() -> int:
    """Return the bytes a fit may use: `KERNELKIN_MEMORY_GIB` GiB if that is set, else the available memory."""
    text = os.environ.get(LIMIT, "")
    if not text:
        return available_memory()
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit > 0:
        raise ValueError(f"the environment variable {LIMIT} must be a number of GiB above zero, got {text!r}")
    return int(min(limit * 2**30, 2.0**62))


def available_memory(root: str = "/") -> int:
    """Return the bytes that are available to this process.

    This is the minimum over the machine and the control groups (version 2). `root` is for tests.
    """
    found = re.search(r"^MemAvailable:\s+(\d+)", _read(root, "proc/meminfo"), re.MULTILINE)
    page = os.sysconf("SC_PAGE_SIZE")
    limits = [int(found[1]) * 1024 if found else os.sysconf("SC_PHYS_PAGES") * page]
    # A process is also limited by the groups above its own.
    group = re.search(r"^0::(/.*)$", _read(root, "proc/self/cgroup"), re.MULTILINE)
    parts = [part for part in group[1].split("/") if part] if group else []
    for depth in range(len(parts) + 1):
        folder = os.path.join("sys/fs/cgroup", *parts[:depth])
        most, used = (_read(root, f"{folder}/memory.{name}").strip() for name in ("max", "current"))
        if most.isdigit() and used.isdigit():
            # The page cache is freed if memory is needed.
            cache = re.search(r"^inactive_file (\d+)", _read(root, f"{folder}/memory.stat"), re.MULTILINE)
            limits.append(int(most) - int(used) + (int(cache[1]) if cache else 0))
    return max(min(limits), 0)


def _read(root: str, path: str) -> str:
    """Return the content of a system file; an empty string if it cannot be read."""
    try:
        return Path(root, path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"
