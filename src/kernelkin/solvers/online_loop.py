"""The compiled loop of the online solver, all in this file as `compiled` requires; numba is slow to import.

Task t's weights are ``L held[t] + own[t]``: `held` (T, K) as they were when Omega was last refreshed, `own` (T, K)
what the task has gained by itself since, and L (K, K) what related tasks have contributed. ``n L - late`` is the sum
of L over the n rounds since, and ``n own - late_own`` that of `own`: every change is recorded times the number of
rounds before it.
"""

from __future__ import annotations

import numpy as np

from ..compiled import compiled, helper

# Indices into `counts`.
ROUNDS, MISTAKES, SINCE_ROUNDS, SINCE_MISTAKES, N_TASKS = 0, 1, 2, 3, 4
# Default number of mistakes between refreshes; the number of tasks if there are more. An Omega refreshed before most
# tasks have made a mistake would reflect only those that have.
REFRESH_AFTER = 100


_INPUTS = (
    "Array(int64, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), Array(float64, 2, 'C', readonly=True)"
)
_SETTINGS = "int64, float64, float64, boolean, int64"
_STATE = (
    "float64[:, ::1], float64[:, ::1], float64[:, ::1], boolean[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], float64[::1], int64[::1]"
)


@compiled(f"({_INPUTS}, {_SETTINGS}, {_STATE})", "the online solver", 2)
def run_rounds(
    tasks, signs, z, first, step, margin, project, refresh, held, own, late_own, fresh, L, late, P, rest, counts
):
    """Play rounds from `first`: tasks (n,), signs (n,) of size the weight of a round, z (n, K). Returns the next round.

    A round is a mistake where its sign times b'z is not positive, or below `margin`. `step` is 1/mu. The loop returns
    early when Omega is due for a refresh: after `refresh` mistakes, or after the default number where that is 0.
    """
    n_kernels = z.shape[1]
    b, p = np.empty(n_kernels), np.empty(n_kernels)
    for r in range(first, len(tasks)):
        if counts[SINCE_MISTAKES] >= (refresh if refresh else max(REFRESH_AFTER, counts[N_TASKS])):
            return r
        t, x = tasks[r], z[r]
        counts[N_TASKS] = max(counts[N_TASKS], t + 1)
        _times(L, held[t], b)
        for k in range(n_kernels):
            b[k] += own[t, k]
            if project and b[k] < 0.0:
                _move(own, late_own, t, k, -b[k], counts)
                b[k] = 0.0
        score = np.sign(signs[r]) * _dot(b, x)
        if signs[r] != 0.0 and (score <= 0.0 or score < margin):
            _times(P, held[t], p)
            alone = 1.0 / counts[N_TASKS] if fresh[t] else rest[0]
            for i in range(n_kernels):
                change = step * signs[r] * x[i]
                _move(own, late_own, t, i, change * alone, counts)
                for j in range(n_kernels):
                    _move(L, late, i, j, change * p[j], counts)
            counts[MISTAKES] += 1
            counts[SINCE_MISTAKES] += 1
        counts[ROUNDS] += 1
        counts[SINCE_ROUNDS] += 1
    return len(tasks)


@helper
def _move(array, late, i, j, change, counts):
    array[i, j] += change
    late[i, j] += counts[SINCE_ROUNDS] * change


@helper
def _dot(x, y):
    value = 0.0
    for k in range(len(x)):
        value += x[k] * y[k]
    return value


@helper
def _times(matrix, x, out):
    for i in range(len(x)):
        out[i] = _dot(matrix[i], x)
