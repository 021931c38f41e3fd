"""Sequential minimal optimisation for every machine with a box and group sums.

One compiled solver of

    max  p'a - epsilon |a|_1 - 1/2 a'Ga    subject to  lo <= a <= hi,  the sum of a over each group = 0

with ``lo <= 0 <= hi``. The hinge loss has p = y, epsilon = 0 and a box on one side of zero; the epsilon-insensitive
loss a box on both. Each step moves a pair of rows of the group that violates the optimality conditions most, chosen
by second-order information (Fan, Chen and Lin, 2005); without intercepts it moves single rows. A step stops at
a = 0, where |a| has its kink. Where steps creep, all free rows leap at once now and then. Import this module lazily:
numba is slow to import. It also caches what it compiled by the date of this file alone, so touch this file after a
change in `steps`, `leaps` or `intercepts`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from .base import DualSolution, Machine
from .intercepts import best_intercept, piecewise_loss
from .leaps import leap
from .steps import TINY, State, burst, extremes, kinks, steepest

# Steps at most: this many, or this many for each row.
_MAX_STEPS = 10_000_000
_MAX_STEPS_PER_ROW = 10_000
# Steps for each row after which a leap is tried. A warm start has most rows where they belong, and needs few steps. In
# machines of few rows a leap costs less than it saves, and comes four times as soon.
_CREEP, _FEW_ROWS = 2, 200
# A machine so small that it costs next to nothing is solved to this gap whatever is asked for: then a fit does not
# depend on how its rows are written (a row of weight two, or the row twice), and its gradients are exact.
_EXACT = 1e-11
_FREE = 30_000


def solve_box(
    gram: np.ndarray,
    machine: Machine,
    lo: np.ndarray,
    hi: np.ndarray,
    epsilon: float,
    a0: np.ndarray | None,
    tol: float,
) -> DualSolution:
    """Solve a machine whose dual has the box ``lo, hi`` (n, m) and the linear term ``y'a - epsilon |a|_1``."""
    gram = np.asarray(gram)  # a Gram with structure writes itself out
    a = np.zeros(machine.y.shape) if a0 is None else np.array(a0, dtype=np.float64)
    if machine.n_groups <= 1:
        starts = np.array([0, len(a)][: machine.n_groups + 1])
        return DualSolution(a, *_solve(gram, machine.y, lo, hi, epsilon, starts, a, tol))
    # The compiled code wants each group's rows side by side, so that it can scan them without a gather.
    starts = np.concatenate([[0], np.cumsum(np.bincount(machine.groups, minlength=machine.n_groups))])
    if np.all(machine.groups[1:] >= machine.groups[:-1]):
        return DualSolution(a, *_solve(gram, machine.y, lo, hi, epsilon, starts, a, tol))
    order = np.argsort(machine.groups, kind="stable")
    sorted_a = a[order]
    values = _solve(gram[np.ix_(order, order)], machine.y[order], lo[order], hi[order], epsilon, starts, sorted_a, tol)
    a[order] = sorted_a
    return DualSolution(a, *values)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _solve(gram, p, lo, hi, epsilon, starts, a, tol):
    """All outputs, one after the other; a (n, m) is overwritten by the solution."""
    n, m = a.shape
    intercept = np.zeros((len(starts) - 1, m))
    lin, quad, primal = 0.0, 0.0, 0.0
    diagonal = np.diag(gram).copy()
    for k in range(m):
        s = State(
            gram, diagonal, p[:, k].copy(), lo[:, k].copy(), hi[:, k].copy(), epsilon, starts, a[:, k].copy(),
            np.empty(n), np.empty(n), np.empty(n),
        )  # fmt: skip
        out = _solve_output(s, intercept[:, k], tol)
        a[:, k] = s.a
        lin, quad, primal = lin + out[0], quad + out[1], primal + out[2]
    return intercept, lin, quad, primal


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _solve_output(s, intercept, tol):
    """Bursts of steps between measurements of the gap, until it is small or rounding stops all progress."""
    n = len(s.a)
    floor = 1e-15 * np.max(np.abs(s.p))
    _make_feasible(s)
    _refresh(s)
    fresh, stalled, steps, idle, best = True, False, 0, 0, np.inf
    pace = max(n // 4, 1) if n < _FEW_ROWS else n
    leap_at, leapt = _CREEP * pace, 0.0
    while True:
        lin, quad, primal = _measure(s, intercept)
        gap, target = primal - lin + quad, tol * max(abs(primal), TINY)
        if gap <= target and steps * n < _FREE:
            target = _EXACT * max(abs(primal), TINY)
        over = gap <= target or steps >= min(_MAX_STEPS, _MAX_STEPS_PER_ROW * n)
        if (over or stalled) and not fresh:
            # Never certify with a slope that was only updated: rounding has made it drift.
            _make_feasible(s)
            _refresh(s)
            fresh = True
            continue
        if stalled:
            idle = 0 if gap <= 0.5 * best else idle + 1
            best = min(best, gap)
        if over or idle == 2:
            return lin, quad, primal + _rounding_of_loss(s)
        done, gain, violation, noise = _focused_burst(s, target / gap, floor)
        steps += done
        fresh = noise > 0.0
        # Perhaps nothing is left but rounding: then the gap will not fall any more. (The gap is of first order in the
        # violation but the gain of second, so a gain far below the rounding of the dual value still counts.)
        stalled = violation <= max(floor, noise) or (done >= n and gain <= 1e-26 * abs(lin - quad))
        if steps >= leap_at:
            # As much work in leaps as in steps, and less of it where leaps are of no use.
            work, useful = _try_leap(s, float(steps) * n * (n / pace) - leapt)
            leapt, fresh = leapt + work, fresh or work > 0.0
            leap_at = steps + pace if useful else 2 * steps


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _try_leap(s, budget):
    """Leap, and back where rounding makes that no gain; the work done, and whether it was of use."""
    _make_feasible(s)
    _refresh(s)
    before, value = s.a.copy(), _dual_value(s)
    work = leap(s, budget)
    _make_feasible(s)
    _refresh(s)
    useful = _dual_value(s) > value
    if not useful:
        s.a[:] = before
        _refresh(s)
    return work, useful


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _dual_value(s):
    value = 0.0
    for i in range(len(s.a)):
        value += 0.5 * s.a[i] * (s.p[i] + s.slope[i]) - s.epsilon * abs(s.a[i])
    return value


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _focused_burst(s, fraction, floor):
    """A burst on a compact copy of the rows that can still move (shrinking), or on s itself where that saves little.

    A copy costs as much as a few hundred steps, so it gets more of them. Rows left out by mistake come back with the
    next burst, as the copy stops at a tenth of the violation. Returns what `burst` returns, and the drift of the slope
    that a refresh took away: zero where there was none.
    """
    active = _active_rows(s)
    if len(active) > 0.7 * len(s.a) or len(s.a) < 200:
        done, gain, violation = burst(s, fraction, floor, len(s.a))
        return done, gain, violation, 0.0
    starts = np.searchsorted(active, s.starts)
    gram = np.empty((len(active), len(active)))
    for k in range(len(active)):
        gram[k] = s.gram[active[k]][active]
    part = State(
        gram, s.diagonal[active], s.p[active], s.lo[active], s.hi[active], s.epsilon, starts, s.a[active],
        s.slope[active], s.up[active], s.down[active],
    )  # fmt: skip
    done, gain, violation = burst(part, max(fraction, 0.1), floor, 10 * len(s.a))
    s.a[active] = part.a
    _make_feasible(s)
    _refresh(s)
    return done, gain, violation, max(np.max(np.abs(s.slope[active] - part.slope)), TINY)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _active_rows(s):
    """The rows that could still be in a pair that gains, going by the present extremes of their group."""
    active = np.ones(len(s.a), dtype=np.bool_)
    if len(s.starts) == 1:
        violation = steepest(s.slope, s.up, s.down, s.diagonal, s.starts)[2]
        for i in range(len(s.a)):
            active[i] = s.slope[i] + s.up[i] > -violation or s.slope[i] + s.down[i] < violation
    for group in range(len(s.starts) - 1):
        first, last = s.starts[group], s.starts[group + 1]
        _, highest, lowest = extremes(s.slope, s.up, s.down, uint64(first), uint64(last))
        for i in range(first, last):
            active[i] = s.slope[i] + s.up[i] >= lowest or s.slope[i] + s.down[i] <= highest
    return np.flatnonzero(active)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _make_feasible(s):
    """Clip a to its box and bring each group's sum to zero, moving a feasible point by rounding only."""
    for i in range(len(s.a)):
        s.a[i] = min(max(s.a[i], s.lo[i]), s.hi[i])
    for group in range(len(s.starts) - 1):
        a = s.a[s.starts[group] : s.starts[group + 1]]
        positive, negative = 0.0, 0.0
        for value in a:
            positive += max(value, 0.0)
            negative += max(-value, 0.0)
        if abs(positive - negative) > 1e-12 * (positive + negative):
            _shrink_side(a, positive, negative)
        _absorb_residue(a, s.lo[s.starts[group] :], s.hi[s.starts[group] :])


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _shrink_side(a, positive, negative):
    """Scale the heavier sign down to the lighter one: the box contains zero, so this stays inside."""
    for i in range(len(a)):
        if a[i] > 0.0:
            a[i] *= min(1.0, negative / positive)
        elif a[i] < 0.0:
            a[i] *= min(1.0, positive / negative)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _absorb_residue(a, lo, hi):
    """Give what rounding left of the sum to the row with most room on both sides; twice, for the last bit."""
    row, room = -1, 0.0
    for i in range(len(a)):
        if a[i] != 0.0 and min(a[i] - lo[i], hi[i] - a[i]) > room:
            row, room = i, min(a[i] - lo[i], hi[i] - a[i])
    for _ in range(2 if row >= 0 else 0):
        a[row] = min(max(a[row] - np.sum(a), lo[row]), hi[row])


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _refresh(s):
    """Slope, up and down from a, reading only the Gram rows of non-zero a."""
    s.slope[:] = s.p
    for i in range(len(s.a)):
        s.up[i], s.down[i] = kinks(s.a[i], s.lo[i], s.hi[i], s.epsilon)
    for i in range(uint64(len(s.a))):
        if s.a[i] != 0.0:
            for k in range(uint64(len(s.a))):
                s.slope[k] -= s.a[i] * s.gram[i, k]


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _rounding_of_loss(s):
    """What rounding of the slope may hide of the loss: the slope is added up in the other order, and compared."""
    slope, total = s.p.copy(), 0.0
    for i in range(len(s.a) - 1, -1, -1):
        if s.a[i] != 0.0:
            for k in range(uint64(len(s.a))):
                slope[k] -= s.a[i] * s.gram[i, k]
    for i in range(len(s.a)):
        total += max(s.hi[i], -s.lo[i]) * abs(slope[i] - s.slope[i])
    return 2.0 * total


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _measure(s, intercept):
    """lin, quad and primal at a, and the best intercepts into ``intercept``."""
    lin, quad, loss = 0.0, 0.0, 0.0
    for i in range(len(s.a)):
        lin += s.p[i] * s.a[i] - s.epsilon * abs(s.a[i])
        quad += 0.5 * s.a[i] * (s.p[i] - s.slope[i])
    if len(intercept) == 0:
        for i in range(len(s.a)):
            loss += piecewise_loss(s.slope[i], s.lo[i], s.hi[i], s.epsilon)
    for group in range(len(intercept)):
        first, last = s.starts[group], s.starts[group + 1]
        c = best_intercept(s.slope[first:last], s.lo[first:last], s.hi[first:last], s.epsilon)
        intercept[group] = c
        for i in range(first, last):
            loss += piecewise_loss(s.slope[i] - c, s.lo[i], s.hi[i], s.epsilon)
    return lin, quad, quad + loss
