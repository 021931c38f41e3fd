"""The compiled loop of the online solver; imported where it is used, since numba is slow to import.

Task t's weights are ``L held[t] + own[t]``: `held` (T, K) as they were when Omega was last refreshed, `own` (T, K)
what the task has gained alone since, and L (K, K) what its relatives have given it. ``n L - late`` is the sum of L
over the n rounds since, and ``n own - late_own`` that of `own`: every change is put down with the rounds it came too
late for.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Places in `counts`.
ROUNDS, MISTAKES, SINCE_ROUNDS, SINCE_MISTAKES, N_TASKS = 0, 1, 2, 3, 4
# Mistakes between refreshes where nobody says how many, unless there are more tasks than that. An Omega refreshed
# before most tasks have made a mistake belongs to those that have.
REFRESH_AFTER = 100


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def run_rounds(
    tasks, signs, z, first, step, margin, project, refresh, held, own, late_own, fresh, L, late, P, rest, counts
):
    """Play rounds from `first`: tasks (n,), signs (n,) of size the weight of a round, z (n, K). Returns the next round.

    A round is a mistake where its sign times b'z is not positive, or below `margin`. `step` is 1/mu. The loop comes
    back early when Omega is due for a refresh: after `refresh` mistakes, 0 standing for as many as there are tasks.
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


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _move(array, late, i, j, change, counts):
    array[i, j] += change
    late[i, j] += counts[SINCE_ROUNDS] * change


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _dot(x, y):
    value = 0.0
    for k in range(len(x)):
        value += x[k] * y[k]
    return value


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _times(matrix, x, out):
    for i in range(len(x)):
        out[i] = _dot(matrix[i], x)
