"""The compiled loops of the online solver; imported where they are used, since numba is slow to import.

`run_rounds` learns from rounds; `center_pairs` prepares them.

Task t's weights are ``held[t] L + own[t]``: `held` (T, K) as they were when Omega was last refreshed, `own` (T, K)
what the task has gained alone since, and L (K, K) what tasks have gained from each other's mistakes. ``n L - late`` is
the sum of L over the n rounds since, and ``n own - late_own`` that of `own`: `late` adds up every change times the
number of rounds before it. P (K, K) is symmetric. Inner loops run along rows, so that the compiler can vectorise them.
"""

from __future__ import annotations

import numpy as np

from ...compiled import compiled, helper

# Places in `counts`.
ROUNDS, MISTAKES, SINCE_ROUNDS, SINCE_MISTAKES = 0, 1, 2, 3
# Mistakes between refreshes by default, or the number of tasks if that is larger: an earlier Omega would depend only on
# the few tasks with mistakes so far.
REFRESH_AFTER = 100
# Weight of the mean of all tasks, in pairs, when it is combined with the mean of a task.
PRIOR = 10.0


_INTS, _FLOATS = "Array(int64, 1, 'C', readonly=True)", "Array(float64, 1, 'C', readonly=True)"
_TABLE = "Array(float64, 2, 'C', readonly=True)"
_SETTINGS = "int64, float64, float64, boolean, int64"
_STATE = (
    "float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], "
    "float64[::1], int64[::1]"
)


@compiled(f"({_INTS}, {_FLOATS}, {_TABLE}, {_SETTINGS}, {_STATE})", "the online solver", 2)
def run_rounds(tasks, signs, z, first, step, margin, project, refresh, held, own, late_own, L, late, P, rest, counts):
    """Learn from rounds from `first` on, and return the next one.

    tasks (n,), signs (n,) of size the weight of a round, z (n, K).
    A round is a mistake where its sign times b'z is not positive, or below `margin`. `step` is 1/mu. The loop comes
    back early when Omega is due for a refresh: after `refresh` mistakes (0: the default).
    """
    n_kernels = z.shape[1]
    b, p = np.empty(n_kernels), np.empty(n_kernels)
    for r in range(first, len(tasks)):
        if counts[SINCE_MISTAKES] >= (refresh if refresh else max(REFRESH_AFTER, len(held))):
            return r
        t, x = tasks[r], z[r]
        _times(held[t], L, b)
        for k in range(n_kernels):
            b[k] += own[t, k]
            if project and b[k] < 0.0:
                _move(own, late_own, t, k, -b[k], counts)
                b[k] = 0.0
        score = 0.0
        for k in range(n_kernels):
            score += b[k] * x[k]
        score *= np.sign(signs[r])
        if signs[r] != 0.0 and (score <= 0.0 or score < margin):
            _times(held[t], P, p)
            for k in range(n_kernels):
                b[k] = step * signs[r] * x[k]
                _move(own, late_own, t, k, b[k] * rest[0], counts)
            for i in range(n_kernels):
                for j in range(n_kernels):
                    _move(L, late, i, j, b[j] * p[i], counts)
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
def _times(x, matrix, out):
    """x (K,) times matrix (K, K) into `out`."""
    out[:] = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            out[j] += x[i] * matrix[i, j]


@compiled(f"({_INTS}, float64[:, ::1], float64[:, ::1], float64[::1])", "the two-stage loops", 2)
def center_pairs(tasks, z, sums, counts):
    """Subtract from z (n, K) the mean of its task so far. Row 0 of `sums`, `counts` is all tasks, t + 1 one."""
    for r in range(len(tasks)):
        t = tasks[r] + 1
        counts[0] += 1.0
        counts[t] += 1.0
        for k in range(z.shape[1]):
            sums[0, k] += z[r, k]
            sums[t, k] += z[r, k]
            z[r, k] -= (sums[t, k] + PRIOR * sums[0, k] / counts[0]) / (counts[t] + PRIOR)
