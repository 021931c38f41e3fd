"""How much memory the two-stage estimators take at their peak: nothing that grows as the square of all rows."""

from __future__ import annotations

from ...data import TaskData
from ...grams.memory import fitting_bytes, machine_bytes
from ...grams.rows import BLOCK_BYTES, RowKernels
from ...memory import Need, label_bytes
from .pairs import block_length
from .second_stage import LANDMARKS

# Bytes of Python objects that a task's function is made of.
_OBJECTS = 3000
# Arrays (K, T) of the online solver: weights, their sums over rounds, and those of its last refresh.
_STATES = 8
# Copies of features while scikit-learn's linear machines are fitted: the kernel values, the features, and two more.
_LINEAR = 4
_INSTEAD = (
    "lower max_exact, so that large tasks have Nystroem features; or n_jobs, so that fewer tasks are fitted at a time; "
    "or give the rows in pieces to partial_fit, which keeps `reservoir` rows of each task"
)


def second_stage_need(data: TaskData, values: RowKernels, max_exact: int, factorises: bool, n_jobs: int) -> Need:
    """The machines of the second stage, `n_jobs` at a time."""
    each = sorted((_task_bytes(len(rows), values, max_exact, factorises) for rows in data.rows), reverse=True)
    kept = _functions_bytes(data, values, max_exact)
    peak = _held_bytes(data, values) + max(sum(each[:n_jobs]), kept)
    return Need(peak, "the largest tasks", each[0], _INSTEAD)


def first_stage_need(data: TaskData, values: RowKernels, n_rounds: int, second: Need) -> Need:
    """All of a fit: kernels, pairs of rows, and then the second stage."""
    row, K = _row_bytes(values), values.n_kernels
    early = label_bytes(data) + machine_bytes(data)
    # Values k(x, x) are taken of copies of both sides.
    checked = min(len(values.X), BLOCK_BYTES // (8 * K))
    seen = early + checked * (3 * row + 8 * K)
    pairs = min(n_rounds, block_length(max(row // 8, 1), K))
    played = _held_bytes(data, values) + pairs * (3 * row + 8 * (5 * K + 8))
    peak = max(early + fitting_bytes(values.kernels, data.X), seen, played, second.peak)
    return Need(peak, second.mostly, second.part, second.instead)


def _held_bytes(data: TaskData, values: RowKernels) -> int:
    """What is there from the first pair on: targets, costs, draws, weights, and the dual variables in the end."""
    per_row = label_bytes(data) + 2 * machine_bytes(data) + 7 * 8 * sum(len(rows) for rows in data.rows)
    return per_row + data.n_tasks * (_OBJECTS + 8 * _STATES * values.n_kernels)


def _functions_bytes(data: TaskData, values: RowKernels, max_exact: int) -> int:
    """The rows that fitted functions keep."""
    sizes = [len(data.X)] if data.form == "wide" else [len(rows) for rows in data.rows]
    return sum(_columns(n, max_exact) for n in sizes) * _row_bytes(values)


def _task_bytes(n: int, values: RowKernels, max_exact: int, factorises: bool) -> int:
    """One machine: its Gram, or features, and the blocks of kernel values that these are made from."""
    whole, K = 8 * n * _columns(n, max_exact), values.n_kernels
    # A block of values is there until the next one is, and so is the combination of the last one.
    blocks = min(2 * BLOCK_BYTES, K * whole) + min(BLOCK_BYTES // K, whole)
    machine = (_LINEAR - 1) * whole if n > max_exact else factorises * whole
    return whole + max(blocks, machine) + 3 * n * _row_bytes(values)


def _columns(n: int, max_exact: int) -> int:
    """The rows that a machine of n rows is an expansion over: all of them, or landmarks."""
    return n if n <= max_exact else min(LANDMARKS, max_exact)


def _row_bytes(values: RowKernels) -> int:
    """Bytes of a row of X; none where Gram matrices are given."""
    return 0 if values.kernels is None else values.X[:1].nbytes
