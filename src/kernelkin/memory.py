"""Upper bounds on the memory of fits, the memory that is available, and the check before a fit.

The bounds are simple and conservative: they count every array that grows with the data, and add a margin for the rest.
Arrays of size T x T are not counted because none is made, unless the user passes or requests one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from .exceptions import GramMemoryError
from .paper.grams.build import GramPlan
from .paper.grams.operator import LARGEST_INVERSES, PANEL_COLUMNS, column_bytes
from .paper.grams.stack import batch_bytes

# The environment variable that limits the memory of a fit, in GiB.
LIMIT = "KERNELKIN_MEMORY_GIB"
# Bytes of the modules that a fit imports, and of the Python objects of a task.
FIXED, TASK_OBJECTS = 4 << 20, 12_000
# Number of arrays (K, J) in solvers: iterates, gradients and past steps of quasi-Newton methods.
SOLVER_ARRAYS = 80
# Fits below this size are not checked.
_NEGLIGIBLE = 32 << 20
_FEWER_GRAMS = (
    "use the TwoStageMKMTRL estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, which "
    "halves the size of Gram matrices; or, with coupled tasks, low-rank kernels (linear or polynomial on few columns, "
    "or on columns with few distinct rows), or a lower shared_rank with the squared loss"
)


class Need(NamedTuple):
    """An upper bound on the bytes of a fit, without its data, and advice if that is too much."""

    peak: int
    advice: str


def fit_need(plan: GramPlan, solved_by: str, n_jobs: int, n_folds: int = 0) -> Need:
    """Bound the memory of a fit on Gram matrices, or of a cross-validation with `n_folds` folds that share them.

    `solved_by` is the name of the learner, or "panel".
    """
    K, T = plan.n_kernels, len(plan.machines)
    stacks = K * plan.itemsize * sum(n * n for n in plan.sizes)
    if plan.dense:
        stacks += K * plan.itemsize * sum(plan.sizes) ** 2
    else:
        stacks += (plan.itemsize if plan.approximate_rank else 8) * sum(plan.machines) * plan.link_rank
    working = _working_bytes(plan, solved_by, n_jobs)
    if n_folds:
        # The evaluated kernels, and for each running fold the training part, the held-out part and its machines.
        fit = stacks + max(stacks + working, min(n_jobs, n_folds) * (2 * stacks + working))
    else:
        fit = stacks + max(working, plan.row_bytes * (6 * max(plan.sizes) + sum(plan.sizes)))
    # Targets, machines, weights, Hessians and functions; rows and their distances while kernels are fitted.
    held = sum(plan.machines) * (48 + 96 * plan.outputs) + sum(plan.sizes) * plan.row_bytes
    held += 8 * (SOLVER_ARRAYS * K * T + 3 * T * K * K) + T * TASK_OBJECTS
    return Need(FIXED + held + max(fit, fitting_bytes(plan)), _FEWER_GRAMS)


def fitting_bytes(plan: GramPlan) -> int:
    """Bound the memory needed to fit kernels to rows."""
    return plan.itemsize * sum(plan.sizes) * plan.n_columns + 40 * plan.fitted_rows**2


def _working_bytes(plan: GramPlan, solved_by: str, n_jobs: int) -> int:
    """Bound the memory of combined matrices, their factors, and running machines."""
    n, K, total = plan.sizes[0], plan.n_kernels, sum(plan.machines)
    squares = [8 * rows * rows for rows in plan.machines]
    if solved_by == "panel":
        outputs = len(plan.machines) * plan.outputs
        columns = outputs if plan.couplings_width else n_jobs * PANEL_COLUMNS
        # A basis; targets, costs and dual variables of two evaluations; and work arrays per column.
        work = (48 + 4 * K) * n * n + 96 * n * outputs + columns * column_bytes(n, K)
        if plan.couplings_width:
            work += 16 * min(n * outputs**2, LARGEST_INVERSES) + 32 * n * plan.couplings_width * plan.outputs
        return work
    if plan.couplings_width:
        factor = 24 * total * plan.shared_rank + 32 * plan.shared_rank**2 if plan.factored else 0
        dense = 0 if plan.factored and solved_by == "ridge" else 32 * total**2
        return 3 * sum(squares) + 192 * total + factor + dense
    # The buffers of wide data hold whole matrices even if labels are missing.
    buffers = [8 * n * n] * len(squares) if plan.wide else squares
    images = K * plan.outputs * batch_bytes([8 * rows for rows in plan.machines])
    return 2 * batch_bytes(buffers) + 2 * n_jobs * max(squares) + 2 * images


def search_need(fold: Need, last: Need, data_bytes: int, n_jobs: int) -> Need:
    """Bound the memory of a search whose folds share nothing: `n_jobs` folds in parallel, or the last fit."""
    together = n_jobs * (fold.peak + data_bytes)
    return last if last.peak >= together else Need(together, fold.advice)


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

    This is the minimum over the machine, the control group and the resource limits. `root` is for tests.
    """
    found = re.search(r"^MemAvailable:\s+(\d+)", _read(root, "proc/meminfo"), re.MULTILINE)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [int(found[1]) * 1024 if found else whole, *_group_memory(root), *_process_memory(root)]
    return max(min(limits), 0)


def _group_memory(root: str) -> list[int]:
    """Return the bytes left in each control group of this process and its parents (versions 1 and 2)."""
    left = []
    for line in _read(root, "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and not controllers:
            base, names, cache = "sys/fs/cgroup", ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):
            names, cache = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file"
            base = "sys/fs/cgroup/memory"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for folder in (os.path.join(base, *parts[:depth]) for depth in range(len(parts) + 1)):
            most, used = (_read(root, os.path.join(folder, name)).strip() for name in names)
            if most.isdigit() and used.isdigit() and int(most) < 2**60:
                # The page cache is freed if memory is needed.
                found = re.search(rf"^{cache} (\d+)", _read(root, os.path.join(folder, "memory.stat")), re.MULTILINE)
                left.append(int(most) - int(used) + min(int(found[1]) if found else 0, int(used)))
    return left


def _process_memory(root: str) -> list[int]:
    """Return the bytes that the process's resource limits leave for address space and data."""
    try:
        import resource

        pages = [int(field) for field in _read(root, "proc/self/statm").split()]
        used = {resource.RLIMIT_AS: pages[0], resource.RLIMIT_DATA: pages[5]}
    except (ImportError, IndexError, ValueError):
        return []
    limits = {name: resource.getrlimit(name)[0] for name in used}
    size = int(os.sysconf("SC_PAGE_SIZE"))
    return [limits[name] - used[name] * size for name in used if limits[name] != resource.RLIM_INFINITY]


def _read(root: str, path: str) -> str:
    """Return the content of a system file; an empty string if it cannot be read."""
    try:
        return Path(root, path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.3g} GiB"
