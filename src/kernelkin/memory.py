"""How much memory a fit may take, upper bounds on what each kind of fit takes, and the refusal of one that needs more.

The bounds are simple and meant to hold: they count every array that grows with the data, and add a margin for the rest.
Nothing of size T x T is counted because nothing of that size is made, unless the user passes or requests one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .exceptions import GramMemoryError
from .paper.grams import GramPlan, batch_bytes
from .paper.grams.operator import LARGEST_INVERSES, LEADING, MANY_ROWS, PANEL_COLUMNS, column_bytes

# The environment variable that limits the memory of a fit, in GiB.
LIMIT = "KERNELKIN_MEMORY_GIB"

# Bytes of Python objects that a task, its machine and its function consist of.
_TASK_OBJECTS = 12_000
# Arrays (K, J) and (K + J, J) that solvers hold: iterates, gradients and past steps of quasi-Newton methods.
_SOLVER_ARRAYS = 80
# Copies of a task's rows while its kernels are evaluated.
_ROW_COPIES = 6
# Arrays of all pairs of rows that a weighted median of distances takes.
_PAIR_ARRAYS = 10
# Copies of its Gram that an exact machine takes, and copies of Nystroem features that a linear machine takes.
_EXACT_COPIES = 3
_LINEAR_COPIES = 4
# A fit that needs no more than this is not refused.
_NEGLIGIBLE = 32 << 20
# A fixed amount for modules that are imported by a fit.
_FIXED = 4 << 20

_FEWER_GRAMS = (
    "use the TwoStageMKMTRL estimators, which need no Gram matrices; or fewer kernels or rows; or float32 X, for Gram "
    "matrices of half the size; or, where tasks are coupled, kernels of low rank (linear or polynomial on few columns, "
    "or with few distinct rows), or with the squared loss a lower shared_rank"
)
_SMALLER_SIDE = (
    "use a kernel with few features (linear, or polynomial on few columns) where there are many tasks; or fewer rows; "
    "or the TwoStageMKMTRL estimators, which hold no matrix over the rows of all tasks"
)
_SMALLER_TASKS = (
    "lower max_exact, so that large tasks use Nystroem features; or n_jobs, so that fewer tasks are fitted at a time; "
    "or pass the rows in pieces to partial_fit, which keeps `reservoir` rows of each task"
)


@dataclass(frozen=True)
class Need:
    """An upper bound on the memory of a fit, besides the data it is given.

    Attributes
    ----------
    peak : bytes in all.
    largest : what most of them are for, in words.
    part : bytes for that alone.
    advice : what to do where there are not so many, in words.
    """

    peak: int
    largest: str
    part: int
    advice: str


def fit_need(plan: GramPlan, solved_by: str, n_jobs: int, n_folds: int = 0) -> Need:
    """Bound a fit on Gram matrices, or with `n_folds` a cross-validation whose folds share them.

    `solved_by` is the name of the learner, or "panel".
    """
    stacks = plan.stack_bytes
    rows = plan.row_bytes * (_ROW_COPIES * max(plan.sizes) + sum(plan.sizes))
    working = _working_bytes(plan, solved_by, n_jobs)
    if n_folds:
        # The evaluated kernels, and for each fold at work the training part, the held-out part and its machines.
        fit = stacks + max(stacks + working, min(n_jobs, n_folds) * (2 * stacks + working))
    else:
        fit = stacks + max(working, rows)
    fitting = plan.itemsize * sum(plan.sizes) * plan.n_columns + 4 * _PAIR_ARRAYS * plan.fitted_rows**2
    peak = _FIXED + _common_bytes(plan) + max(fitting, fit)
    return Need(peak, "Gram matrices", stacks, _FEWER_GRAMS)


def _working_bytes(plan: GramPlan, solved_by: str, n_jobs: int) -> int:
    """Bound combined matrices, their factors, and what the machines at work write."""
    squares = [8 * n * n for n in plan.machines]
    if solved_by == "panel":
        return _panel_bytes(plan, n_jobs)
    if plan.couplings_width:
        total = sum(plan.machines)
        if not plan.factored:
            return 8 * 4 * total**2 + 2 * sum(squares)
        factor = 8 * total * plan.shared_rank
        dense = 0 if solved_by == "ridge" else 8 * 3 * total**2
        # Blocks and their factors; the factor of the shared part as it is made, and as the blocks leave it.
        return 3 * sum(squares) + 3 * factor + 8 * 4 * plan.shared_rank**2 + 8 * 24 * total + dense
    # The buffers of wide data hold whole matrices, whatever labels are missing.
    buffers = [8 * plan.sizes[0] ** 2] * len(squares) if plan.wide else squares
    images = plan.n_kernels * plan.outputs * batch_bytes([8 * n for n in plan.machines])
    return 2 * batch_bytes(buffers) + 2 * n_jobs * max(squares) + 2 * images


def _panel_bytes(plan: GramPlan, n_jobs: int) -> int:
    """Bound what machines that are solved together take: no combined matrix, but a basis and arrays a column."""
    n, K, T = plan.sizes[0], plan.n_kernels, plan.n_tasks * plan.outputs
    basis = 8 * 6 * n * n + 4 * K * n * n
    # Targets, costs and dual variables of the present and the last evaluation.
    panel = 8 * 12 * n * T
    if not plan.couplings_width:
        return basis + panel + n_jobs * PANEL_COLUMNS * column_bytes(n, K)
    directions = n if n < MANY_ROWS else LEADING + 1
    inverses = 4 * 4 * directions * T * T if directions * T * T <= LARGEST_INVERSES else 0
    # The functions that tasks mix, over all rows, and what one task adds to them.
    functions = 8 * (3 * n + max(plan.machines)) * plan.couplings_width * plan.outputs
    return basis + panel + T * column_bytes(n, K) + inverses + functions


def _common_bytes(plan: GramPlan) -> int:
    """Bound what every fit holds: targets, machines, weights, curvature and functions."""
    K, T = plan.n_kernels, plan.n_tasks
    labels = sum(plan.machines) * (48 + 8 * 12 * plan.outputs)
    support = sum(plan.sizes) * plan.row_bytes
    weights = 8 * (_SOLVER_ARRAYS * K * T + 3 * T * K * K)
    return labels + support + weights + T * _TASK_OBJECTS


def pooled_need(
    shapes: Sequence[tuple[int, int]], n_rows: int, n_kernels: int, row_bytes: int, rank: int | None, stacked: bool
) -> Need:
    """Bound a fit on one kernel over the rows of all tasks.

    `shapes` are rows and outputs of each task; `rank` is that of explicit features, None where the Gram is used;
    `stacked` whether the Gram matrices of all kernels are held to make it.
    """
    outputs = sum(m for _, m in shapes)
    tested = min(n_rows, 1001)
    held = 8 * (2 * n_kernels + 2) * (n_rows if stacked else tested) ** 2 + 8 * 2 * n_rows**2 * stacked
    kernels = 4 * _PAIR_ARRAYS * tested**2 + _ROW_COPIES * n_rows * row_bytes
    if rank is None:
        total = sum(n * m for n, m in shapes)
        work = 8 * (5 * total**2 + 4 * total * outputs + n_rows**2 + _SOLVER_ARRAYS * outputs**2)
        largest, part = "matrices over the rows of all tasks", 8 * total**2
    else:
        squares = [8 * n * n for n, _ in shapes]
        work = 4 * sum(squares) + 8 * (5 * n_rows * rank + _SOLVER_ARRAYS * rank**2 + 3 * n_rows * outputs)
        largest, part = "the machines of all tasks", sum(squares)
    labels = sum(n * (48 + 96 * m) for n, m in shapes) + len(shapes) * _TASK_OBJECTS
    return Need(_FIXED + labels + kernels + held + work, largest, part, _SMALLER_SIDE)


def linear_need(n_rows: int, n_columns: int, n_tasks: int, work: int, advice: str) -> Need:
    """Bound a linear model: targets, coefficients, and what its method takes (`work` bytes, copies of rows too)."""
    held = 8 * (24 * n_rows + 8 * n_columns * n_tasks) + n_tasks * _TASK_OBJECTS
    return Need(_FIXED + held + work, "copies of the rows", work, advice)


def machines_need(plan: GramPlan, columns: Sequence[int], block_bytes: int, n_jobs: int) -> Need:
    """Bound the machines of all tasks at known kernel weights, `n_jobs` of them at one time.

    `columns` are the rows that the machine of each task is an expansion over (all of them, or landmarks), and
    `block_bytes` is what kernel values evaluated at one time take.
    """
    shapes = zip(plan.machines, columns, strict=True)
    each = sorted((_machine_bytes(plan, n, c, block_bytes) for n, c in shapes), reverse=True)
    # Support rows of the functions: every task has its own, unless all have the same.
    support = plan.row_bytes * (plan.sizes[0] if plan.wide else sum(columns))
    held = sum(plan.machines) * (48 + 8 * 12 * plan.outputs) + plan.n_tasks * (_TASK_OBJECTS + 8 * 8 * plan.n_kernels)
    return Need(_FIXED + held + support + sum(each[:n_jobs]), "the largest tasks", each[0], _SMALLER_TASKS)


def _machine_bytes(plan: GramPlan, n: int, columns: int, block_bytes: int) -> int:
    """Bound one machine: its Gram, or features, and the blocks of kernel values that these are made from."""
    whole, points = 8 * n * columns, plan.sizes[0] if plan.wide else n
    blocks = min(2 * block_bytes, 2 * plan.n_kernels * 8 * n * max(columns, points if columns == n else 0)) + whole
    work = _EXACT_COPIES if columns == n else _LINEAR_COPIES
    return whole + max(blocks, work * whole) + 3 * points * plan.row_bytes


def two_stage_need(plan: GramPlan, machines: Need, pairs: int, rows: int, reservoir: int) -> Need:
    """Bound a two-stage fit, whose second stage needs `machines`.

    `pairs` and `rows` are those evaluated at one time in the first stage and for the stream, `reservoir` is how many
    rows of each task are kept for a stream (0: none is).
    """
    K, T = plan.n_kernels, plan.n_tasks
    kept = sum(min(n, reservoir) for n in plan.machines)
    places = T * min(max(plan.machines), reservoir) + 4 * kept
    stream = 8 * places + plan.row_bytes * (2 * kept + 3 * rows) + 8 * rows * (4 * K + 12)
    held = 8 * 8 * sum(plan.machines) + 8 * 20 * K * T
    drawn = pairs * (4 * plan.row_bytes + 8 * (5 * K + 12))
    fitting = plan.itemsize * sum(plan.sizes) * plan.n_columns + 4 * _PAIR_ARRAYS * plan.fitted_rows**2
    peak = held + stream + max(machines.peak, _FIXED + max(drawn, fitting))
    return replace(machines, peak=peak)


def search_need(fold: Need, last: Need, data_bytes: int, n_jobs: int) -> Need:
    """Bound a search whose folds share nothing: the fits of `n_jobs` folds at one time, or the last fit."""
    together = n_jobs * (fold.peak + data_bytes)
    return last if last.peak >= together else replace(fold, peak=together)


def check_memory(need: Need) -> None:
    """Refuse a fit that needs more memory than there is."""
    if need.peak <= _NEGLIGIBLE and not os.environ.get(LIMIT):
        return  # reading the limits of the system would take as long as such a fit
    limit = memory_limit()
    if need.peak > limit:
        source = f"allowed ({LIMIT})" if os.environ.get(LIMIT) else "available"
        raise GramMemoryError(
            f"this fit may need {_gib(need.peak)} of memory, {_gib(need.part)} of it for {need.largest}, and "
            f"{_gib(limit)} are {source}: {need.advice}"
        )


def check_square(n: int, name: str, advice: str) -> None:
    """Refuse to make an (n, n) array that does not fit into memory."""
    need, limit = 2 * 8 * n * n, memory_limit()
    if need > limit:
        raise GramMemoryError(f"{name} is a {n} x {n} array and needs {_gib(need)}; {_gib(limit)} are left: {advice}")


def memory_limit() -> int:
    """Return the bytes a fit may take: `KERNELKIN_MEMORY_GIB` GiB where that is set, else what is available."""
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
    """Return the bytes a process may still take: by the machine, by its control group and by its resource limits.

    `root` is where the files of the system are, for tests.
    """
    limits = [_machine_memory(root), *_group_memory(root), *_process_memory(root)]
    return max(min(limits), 0)


def _machine_memory(root: str) -> int:
    """Return what the system says is available, or where it does not say all that the machine has."""
    try:
        with open(os.path.join(root, "proc/meminfo"), encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))


def _group_memory(root: str) -> list[int]:
    """Return what each control group of this process, and those above it, has left (versions 1 and 2)."""
    left = []
    for limit, usage, statistics, cache in _group_files(root):
        most, used = _read_number(limit), _read_number(usage)
        if most is not None and used is not None and most < 2**60:
            # The page cache is given back under pressure.
            left.append(most - used + min(_read_field(statistics, cache), used))
    return left


def _group_files(root: str) -> list[tuple[str, str, str, str]]:
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            groups = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    files = []
    for _, controllers, path in (group for group in groups if len(group) == 3):
        if controllers == "":
            base, names = "sys/fs/cgroup", ("memory.max", "memory.current", "memory.stat", "inactive_file")
        elif "memory" in controllers.split(","):
            base = "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file")
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            folder = os.path.join(root, base, *parts[:depth])
            limit, usage, statistics = (os.path.join(folder, name) for name in names[:3])
            files.append((limit, usage, statistics, names[3]))
    return files


def _process_memory(root: str) -> list[int]:
    """Return what the resource limits of the process leave of address space and data."""
    try:
        import resource

        with open(os.path.join(root, "proc/self/statm"), encoding="ascii") as file:
            pages = [int(field) for field in file.read().split()]
    except (ImportError, OSError, ValueError):
        return []
    size = int(os.sysconf("SC_PAGE_SIZE"))
    used = {resource.RLIMIT_AS: pages[0] * size, resource.RLIMIT_DATA: pages[5] * size}
    limits = {name: resource.getrlimit(name)[0] for name in used}
    return [limits[name] - used[name] for name in used if limits[name] != resource.RLIM_INFINITY]


def _read_number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # "max" stands for no limit
        return None


def _read_field(path: str, name: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(dict(line.split(None, 1) for line in file)[name])
    except (OSError, KeyError, ValueError):
        return 0


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
