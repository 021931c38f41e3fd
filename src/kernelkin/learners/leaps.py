"""Leaps: all rows between their bounds move at once, where single steps creep.

A step changes two rows by at most their violation over their curvature. Where the Gram has entries far above 1/C and
few directions (a linear kernel on large features), steps are tiny beside the way to go, and there would be millions of
them. A leap solves for all free rows together, and in directions that the Gram does not see goes on to the next bound.

Plain loops throughout: array expressions and calls of LAPACK would take longer to compile than all else of the solver.
Import this module lazily: numba is slow to import.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .steps import TINY, kinks, next_above, next_below

# The Gram of the free rows may be singular: its diagonal is raised by this fraction of its largest entry.
_RIDGE = 1e-12


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def leap(s, budget):
    """Leap until the free rows stand best among themselves; the work done, at most `budget` multiplications."""
    work, blocked = 0.0, True
    rows = np.empty(len(s.a), dtype=np.int64)
    while blocked:
        f = _find_free(s, rows)
        cost = float(f) * f * f
        if f < 2 or work + cost > budget:
            break
        work += cost
        blocked = _leap_once(s, rows[:f])
    return work


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _find_free(s, rows):
    """Collect the rows at none of their bounds, nor at the kink at zero; their number."""
    f = 0
    for i in range(len(s.a)):
        if s.lo[i] < s.a[i] < s.hi[i] and (s.epsilon == 0.0 or s.a[i] != 0.0):
            rows[f] = i
            f += 1
    return f


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _leap_once(s, rows):
    """One leap of these rows, as far as the first bound; whether a bound stopped it."""
    d, image = np.zeros(len(rows)), np.zeros(len(s.a))
    rise = _find_direction(s, rows, d)
    for k in range(len(rows)):
        for i in range(len(s.a)):
            image[i] += d[k] * s.gram[rows[k], i]
    curvature, room = 0.0, np.inf
    for k in range(len(rows)):
        curvature += d[k] * image[rows[k]]
        if d[k] != 0.0:
            room = min(room, (_end(s, rows[k], d[k]) - s.a[rows[k]]) / d[k])
    if not (rise > 0.0 and room < np.inf):
        return False
    t = min(rise / max(curvature, TINY), room)
    for k in range(len(rows)):
        i = rows[k]
        if d[k] != 0.0:
            # At least the row that stopped the leap stands at its bound after it.
            end = _end(s, i, d[k])
            s.a[i] = end if t >= (end - s.a[i]) / d[k] else s.a[i] + t * d[k]
            s.up[i], s.down[i] = kinks(s.a[i], s.lo[i], s.hi[i], s.epsilon)
    for i in range(len(s.a)):
        s.slope[i] -= t * image[i]
    return t == room


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _end(s, i, d):
    """How far row i may go in the direction of d."""
    return next_above(s.a[i], s.hi[i], s.epsilon) if d > 0.0 else next_below(s.a[i], s.lo[i], s.epsilon)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _find_direction(s, rows, d):
    """d (f,) with the largest r'd - 1/2 d'Gd of those whose sum over each group is zero, but for the ridge; r'd.

    With M = G + ridge and the groups' indicators Z, d = inv(M) (r - Z nu) where Z' inv(M) Z nu = Z' inv(M) r.
    """
    f, edges = len(rows), _group_edges(s, rows)
    M = np.empty((f, f))
    largest = 0.0
    for k in range(f):
        d[k] = s.slope[rows[k]] + s.up[rows[k]]
        for j in range(k + 1):
            M[k, j] = s.gram[rows[k], rows[j]]
        largest = max(largest, M[k, k])
    _factorise(M, _RIDGE * largest + TINY)
    _substitute(M, d)
    _balance(M, d, edges)
    rise = 0.0
    for k in range(f):
        rise += d[k] * (s.slope[rows[k]] + s.up[rows[k]])
    return rise


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _group_edges(s, rows):
    """Where in `rows`, which ascend, each group that is there begins, and the end; one entry where sums are free."""
    edges = np.zeros(len(rows) + 1, dtype=np.int64)
    g, k = 0, 0
    for group in range(len(s.starts) - 1):
        first = k
        while k < len(rows) and rows[k] < s.starts[group + 1]:
            k += 1
        if k > first:
            g += 1
            edges[g] = k
    return edges[: g + 1]


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _balance(M, d, edges):
    """Bring the sums of d over the groups to zero, along inv(M) Z; what rounding leaves is spread evenly."""
    g = len(edges) - 1
    W, S, nu = np.zeros((g, len(d))), np.zeros((g, g)), np.zeros(g)
    for j in range(g):
        W[j, edges[j] : edges[j + 1]] = 1.0
        _substitute(M, W[j])
    for j in range(g):
        for k in range(edges[j], edges[j + 1]):
            nu[j] += d[k]
            for i in range(g):
                S[j, i] += W[i, k]
    _factorise(S, TINY)
    _substitute(S, nu)
    for j in range(g):
        for k in range(len(d)):
            d[k] -= nu[j] * W[j, k]
    for j in range(g):
        rest = 0.0
        for k in range(edges[j], edges[j + 1]):
            rest += d[k]
        for k in range(edges[j], edges[j + 1]):
            d[k] -= rest / (edges[j + 1] - edges[j])


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _factorise(M, ridge):
    """M + ridge -> L and D of LDL' in its lower triangle, in place; a pivot that rounding made smaller is the ridge."""
    f = len(M)
    column = np.empty(f)
    for j in range(f):
        pivot = max(M[j, j] + ridge, ridge)
        M[j, j] = pivot
        for i in range(j + 1, f):
            column[i] = M[i, j]
        for i in range(j + 1, f):
            m = column[i] / pivot
            M[i, j] = m
            for k in range(j + 1, i + 1):
                M[i, k] -= m * column[k]


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _substitute(M, x):
    """Solve with what `_factorise` left in M, in place."""
    f = len(x)
    for i in range(f):
        for k in range(i):
            x[i] -= M[i, k] * x[k]
    for i in range(f):
        x[i] /= M[i, i]
    for i in range(f - 1, -1, -1):
        for k in range(i):
            x[k] -= M[i, k] * x[i]
