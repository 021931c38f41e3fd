"""The compiled part of sequential minimal optimisation; `BoxLearner` states the problem that is solved.

All compiled code of the solver is in this file, since numba's cache notices changes of one file only. It is written as
plain loops: array expressions, sorting and linear algebra of NumPy take several times as long to compile.

One output being solved is `gram` (n, n), `w` (8, n), `starts` (n_groups + 1,) and `epsilon`. The rows of `w` are
numbered by the constants below. Rows ``starts[g]`` to ``starts[g + 1]`` of the data form group g; `starts` has one
entry where there are no groups.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from ...compiled import compiled, helper, inlined_helper

# Rows of w. SLOPE is p - G a. SLOPE + UP is the derivative of the dual as a row's `a` increases (-inf at the upper
# bound) and SLOPE + DOWN that as it decreases (inf at the lower bound): UP and DOWN change only for rows that move.
DIAGONAL, P, LO, HI, A, SLOPE, UP, DOWN = range(8)
N_ARRAYS = 8

TINY = 1e-300
# Steps at most: this many, or this many for each row.
_MAX_STEPS = 10_000_000
_MAX_STEPS_PER_ROW = 10_000
# Newton steps are tried after this many steps for each row, and in machines of few rows, where they cost less than they
# save, four times as soon. A warm start has most rows where they belong, and needs few steps.
_STEPS_BEFORE_NEWTON, _FEW_ROWS = 2, 200
# A machine that took less work than this (steps times rows) is solved to this relative gap whatever the tolerance: then
# a fit does not depend on how its rows are written (a row of weight two, or the row twice), and gradients are exact.
_SMALL_WORK, _SMALL_GAP = 30_000, 1e-11
# The Gram of the free rows may be singular: its diagonal is raised by this fraction of its largest entry.
_JITTER = 1e-12


@compiled("(float64[:, ::1], float64[:, ::1], uint64[::1], float64, float64[::1], float64)", "the SVM solver", 10)
def solve_output(gram, w, starts, epsilon, intercept, tol):
    """Take steps between measurements of the gap, until it is small or rounding stops all progress.

    Row A of `w` holds the starting point and is overwritten by the solution, `intercept` (n_groups,) by the intercepts.
    Returns lin, quad and primal of `DualSolution`.
    """
    n = w.shape[1]
    floor = 0.0
    for i in range(n):
        floor = max(floor, 1e-15 * abs(w[P, i]))
    _restart(gram, w, starts, epsilon)
    fresh, stalled, steps, idle, best = True, False, 0, 0, np.inf
    pace = max(n // 4, 1) if n < _FEW_ROWS else n
    newton_at, newton_work = _STEPS_BEFORE_NEWTON * pace, 0.0
    while True:
        lin, quad, primal = _measure(w, starts, epsilon, intercept)
        gap, target = primal - lin + quad, tol * max(abs(primal), TINY)
        if gap <= target and steps * n < _SMALL_WORK:
            target = _SMALL_GAP * max(abs(primal), TINY)
        over = gap <= target or steps >= min(_MAX_STEPS, _MAX_STEPS_PER_ROW * n)
        if (over or stalled) and not fresh:
            # Never certify with a slope that was only updated: rounding has made it drift.
            _restart(gram, w, starts, epsilon)
            fresh = True
            continue
        if stalled:
            idle = 0 if gap <= 0.5 * best else idle + 1
            best = min(best, gap)
        if over or idle == 2:
            return lin, quad, primal + _rounding_of_loss(gram, w)
        done, gain, violation, drift = _steps_on_active_rows(gram, w, starts, epsilon, target / gap, floor)
        steps += done
        fresh = drift > 0.0
        # Perhaps nothing is left but rounding: then the gap will not fall any more. (The gap is of first order in the
        # violation but the gain of second, so a gain far below the rounding of the dual value still counts.)
        stalled = violation <= max(floor, drift) or (done >= n and gain <= 1e-26 * abs(lin - quad))
        if steps >= newton_at:
            # As much work in Newton steps as in pair steps, and less of it where they are of no use.
            work, useful = newton_steps(gram, w, starts, epsilon, float(steps) * n * (n / pace) - newton_work)
            newton_work, fresh = newton_work + work, fresh or work > 0.0
            newton_at = steps + pace if useful else 2 * steps


# ---------------------------------------------------------------------------------------------------------------------
# Steps of one row or of a pair of rows. These loops use unsigned indices: a signed one costs a test of its sign.


@inlined_helper
def _steps_on_active_rows(gram, w, starts, epsilon, fraction, floor):
    """Take steps on a compact copy of the rows that can still move (shrinking), or on all rows where that saves little.

    A copy costs as much as a few hundred steps, so it gets more of them. Rows left out by mistake come back with the
    next call, as the copy stops at a tenth of the violation. Returns what `take_steps` returns, and the drift of the
    slope by rounding that was corrected: zero where the slope was not computed anew.
    """
    n = w.shape[1]
    rows, part_starts = np.empty(n, dtype=np.uint64), np.zeros(len(starts), dtype=np.uint64)
    m = n if n < _FEW_ROWS else _find_active(w, starts, rows, part_starts)
    compact = m <= 0.7 * n
    if compact:
        part_gram, part = np.empty((m, m)), np.empty((N_ARRAYS, m))
        for i in range(m):
            for k in range(m):
                part_gram[i, k] = gram[rows[i], rows[k]]
            for k in range(N_ARRAYS):
                part[k, i] = w[k, rows[i]]
        fraction, limit = max(fraction, 0.1), 10 * n
    else:
        part_gram, part, part_starts, limit = gram, w, starts, n
    done, gain, violation = take_steps(part_gram, part, part_starts, epsilon, fraction, floor, limit)
    drift = 0.0
    if compact:
        for i in range(m):
            w[A, rows[i]] = part[A, i]
        _restart(gram, w, starts, epsilon)
        drift = TINY
        for i in range(m):
            drift = max(drift, abs(w[SLOPE, rows[i]] - part[SLOPE, i]))
    return done, gain, violation, drift


@helper
def _find_active(w, starts, rows, part_starts):
    """Collect the rows that could still be in a pair that gains, by the present extremes of their group; their number.

    `part_starts` receives the starts of the groups among them.
    """
    m = 0
    if len(starts) == 1:
        _, violation = _best_single(w, uint64(0), uint64(w.shape[1]))
        for i in range(uint64(w.shape[1])):
            if w[SLOPE, i] + w[UP, i] > -violation or w[SLOPE, i] + w[DOWN, i] < violation:
                rows[m] = i
                m += 1
    for group in range(len(starts) - 1):
        _, highest, lowest = _extremes(w, starts[group], starts[group + 1])
        for i in range(starts[group], starts[group + 1]):
            if w[SLOPE, i] + w[UP, i] >= lowest or w[SLOPE, i] + w[DOWN, i] <= highest:
                rows[m] = i
                m += 1
        part_starts[group + 1] = m
    return m


@inlined_helper
def take_steps(gram, w, starts, epsilon, fraction, floor, limit):
    """Step until the violation is ``fraction`` of the present one or at most ``floor``, at most ``limit`` times.

    Returns the number of steps, their gain in the dual and the violation that is left.
    """
    gain, goal, step, single = 0.0, -1.0, 0, len(starts) == 1
    while True:
        i, group, violation = uint64(0), 0, 0.0
        if single:
            i, violation = _best_single(w, uint64(0), uint64(w.shape[1]))
        for g in range(len(starts) - 1):
            row, highest, lowest = _extremes(w, starts[g], starts[g + 1])
            if highest - lowest > violation:
                i, group, violation = row, g, highest - lowest
        if goal < 0.0:
            goal = max(fraction * violation, floor)
        if violation <= goal or step == limit:
            return step, gain, violation
        if single:
            gain += _move_one(gram, w, epsilon, i)
        else:
            j, curvature = _partner(gram, w, i, starts[group], starts[group + 1])
            gain += _move_pair(gram, w, epsilon, i, j, curvature)
        step += 1


@helper
def _extremes(w, first, last):
    """The row of one group that gains most by an increase, its derivative, and the least derivative of a decrease."""
    row, highest, lowest = first, -np.inf, np.inf
    for k in range(first, last):
        rise, fall = w[SLOPE, k] + w[UP, k], w[SLOPE, k] + w[DOWN, k]
        if rise > highest:
            row, highest = k, rise
        if fall < lowest:
            lowest = fall
    return row, highest, lowest


@helper
def _best_single(w, first, last):
    """Without groups: the row whose own step would gain most, and the largest violation."""
    row, best, violation = first, 0.0, 0.0
    for k in range(first, last):
        v = max(w[SLOPE, k] + w[UP, k], -w[SLOPE, k] - w[DOWN, k])
        if v > 0.0:
            violation = max(violation, v)
            c = max(w[DIAGONAL, k], TINY)
            if v * v > best * c:
                row, best = k, v * v / c
    return row, violation


@inlined_helper
def _partner(gram, w, i, first, last):
    """The row whose decrease gains most while row i increases, and the curvature along that pair."""
    own, height = w[DIAGONAL, i], w[SLOPE, i] + w[UP, i]
    row, best, curvature, flat = first, 0.0, 0.0, 1e-12 * own + TINY
    for k in range(first, last):
        v = height - (w[SLOPE, k] + w[DOWN, k])  # these brackets make it exactly zero for row i itself
        if v > 0.0:
            c = max(own + w[DIAGONAL, k] - 2.0 * gram[i, k], flat)
            if v * v > best * c:
                row, best, curvature = k, v * v / c, c
    return row, curvature


@inlined_helper
def _move_pair(gram, w, epsilon, i, j, curvature):
    """Increase row i and decrease row j by the same amount; the gain in the dual."""
    violation = w[SLOPE, i] + w[UP, i] - (w[SLOPE, j] + w[DOWN, j])
    top, bottom = _limit(w, epsilon, i, 1.0), _limit(w, epsilon, j, -1.0)
    delta = min(violation / curvature, top - w[A, i], w[A, j] - bottom)
    w[A, i] = top if delta == top - w[A, i] else w[A, i] + delta
    w[A, j] = bottom if delta == w[A, j] - bottom else w[A, j] - delta
    _set_one_sided(w, epsilon, i)
    _set_one_sided(w, epsilon, j)
    for k in range(uint64(w.shape[1])):
        w[SLOPE, k] -= delta * (gram[i, k] - gram[j, k])
    return delta * (violation - 0.5 * delta * curvature)


@inlined_helper
def _move_one(gram, w, epsilon, i):
    """Move row i alone to the best of its own values; the gain in the dual."""
    rise, fall = w[SLOPE, i] + w[UP, i], -w[SLOPE, i] - w[DOWN, i]
    curvature = max(w[DIAGONAL, i], TINY)
    end = _limit(w, epsilon, i, 1.0 if rise > fall else -1.0)
    delta = min(max(rise, fall) / curvature, abs(end - w[A, i]))
    signed = delta if rise > fall else -delta
    w[A, i] = end if delta == abs(end - w[A, i]) else w[A, i] + signed
    _set_one_sided(w, epsilon, i)
    for k in range(uint64(w.shape[1])):
        w[SLOPE, k] -= signed * gram[i, k]
    return delta * (max(rise, fall) - 0.5 * delta * curvature)


@helper
def _set_one_sided(w, epsilon, i):
    """UP and DOWN of row i: one-sided derivatives of ``-epsilon |a|``, infinite where the box ends."""
    a = w[A, i]
    w[UP, i] = -np.inf if a >= w[HI, i] else (-epsilon if a >= 0.0 else epsilon)
    w[DOWN, i] = np.inf if a <= w[LO, i] else (-epsilon if a > 0.0 else epsilon)


@helper
def _limit(w, epsilon, i, direction):
    """How far `a` of row i may move, up if `direction` is positive: to its bound, or to zero, where |a| has a kink."""
    if epsilon > 0.0 and w[A, i] * direction < 0.0:
        return 0.0
    return w[HI, i] if direction > 0.0 else w[LO, i]


# ---------------------------------------------------------------------------------------------------------------------
# Newton steps: all rows between their bounds move at once. A step of a pair changes two rows by at most their violation
# over their curvature. Where the Gram has entries far above 1/C and low rank (a linear kernel on large features), such
# steps are tiny compared with the distance to the solution, and there would be millions of them. A Newton step solves
# for all free rows together, and in directions of the Gram's null space goes on to the next bound.


@inlined_helper
def newton_steps(gram, w, starts, epsilon, budget):
    """Take Newton steps until no bound stops them, and undo them where rounding makes them no gain.

    Returns the work done, at most `budget` multiplications, and whether there was a gain.
    """
    n = w.shape[1]
    before, work, blocked = np.empty(n), 0.0, True
    rows, member = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    value = _restart(gram, w, starts, epsilon)
    for i in range(n):
        before[i] = w[A, i]
    while blocked:
        f, g = _find_free(w, starts, epsilon, rows, member)
        cost = float(f) * f * f
        if f < 2 or work + cost > budget:
            break
        work += cost
        blocked = _newton_step(gram, w, epsilon, rows[:f], _newton_direction(gram, w, rows[:f], member, g))
    useful = _restart(gram, w, starts, epsilon) > value
    if not useful:
        for i in range(n):
            w[A, i] = before[i]
        _restart(gram, w, starts, epsilon)
    return work, useful


@helper
def _find_free(w, starts, epsilon, rows, member):
    """Collect the rows at none of their bounds, nor at zero where |a| is not differentiable, and their groups.

    Groups are numbered in `member` without those that have no such row. Returns the number of rows and of groups.
    """
    f, g = 0, 0
    for group in range(max(len(starts) - 1, 1)):
        first, last, found = uint64(0), uint64(w.shape[1]), False
        if len(starts) > 1:
            first, last = starts[group], starts[group + 1]
        for i in range(first, last):
            a = w[A, i]
            if w[LO, i] < a < w[HI, i] and (epsilon == 0.0 or a != 0.0):
                rows[f], member[f], found = i, g, True
                f += 1
        if found:
            g += 1
    return f, (g if len(starts) > 1 else 0)


@helper
def _newton_step(gram, w, epsilon, rows, direction):
    """Move these rows along `direction`, as far as the first bound; whether a bound stopped the step."""
    n = uint64(w.shape[1])
    image, rise, curvature, longest = np.zeros(n), 0.0, 0.0, np.inf
    for k in range(len(rows)):
        i, d = rows[k], direction[k]
        rise += d * (w[SLOPE, i] + w[UP, i])
        for j in range(n):
            image[j] += d * gram[i, j]
        if d != 0.0:
            longest = min(longest, (_limit(w, epsilon, i, 1.0 if d > 0.0 else -1.0) - w[A, i]) / d)
    for k in range(len(rows)):
        curvature += direction[k] * image[rows[k]]
    if not (rise > 0.0 and longest < np.inf):
        return False
    t = min(rise / max(curvature, TINY), longest)
    for k in range(len(rows)):
        i, d = rows[k], direction[k]
        if d != 0.0:
            # At least the row that stopped the step is at its bound after it.
            a, end = w[A, i], _limit(w, epsilon, i, 1.0 if d > 0.0 else -1.0)
            w[A, i] = end if t >= (end - a) / d else a + t * d
            _set_one_sided(w, epsilon, i)
    for j in range(n):
        w[SLOPE, j] -= t * image[j]
    return t == longest


@helper
def _newton_direction(gram, w, rows, member, g):
    """The d (f + g,) of which the first f have the largest r'd - 1/2 d'Md with zero sum over each of g groups.

    M is the Gram of the rows with its diagonal raised, r their slope. With the groups' indicators Z, d and the
    multipliers nu that follow it solve ``[[M, Z], [Z', 0]] (d, nu) = (r, 0)``.
    """
    f, largest = len(rows), 0.0
    system, d, sums = np.zeros((f + g, f + g)), np.zeros(f + g), np.zeros((2, g))
    for k in range(f):
        d[k] = w[SLOPE, rows[k]] + w[UP, rows[k]]
        for j in range(k + 1):
            system[k, j] = gram[rows[k], rows[j]]
        largest = max(largest, system[k, k])
        if g > 0:
            system[f + member[k], k] = 1.0
    _solve_bordered(system, d, f, _JITTER * largest + TINY)
    for k in range(f if g > 0 else 0):
        sums[0, member[k]] += d[k]
        sums[1, member[k]] += 1.0
    for k in range(f if g > 0 else 0):
        d[k] -= sums[0, member[k]] / sums[1, member[k]]  # what rounding left of the sums, spread evenly
    return d


@helper
def _solve_bordered(S, x, f, ridge):
    """Solve for x in place by LDL' of the lower triangle of S, which is overwritten.

    The first f pivots are raised by `ridge`, and those that rounding made negative are the ridge. The pivots of the
    borders are negative.
    """
    n = len(S)
    column = np.empty(n)
    for j in range(n):
        pivot = max(S[j, j] + ridge, ridge) if j < f else min(S[j, j] - TINY, -TINY)
        S[j, j] = pivot
        for i in range(j + 1, n):
            column[i] = S[i, j]
        for i in range(j + 1, n):
            m = column[i] / pivot
            S[i, j] = m
            for k in range(j + 1, i + 1):
                S[i, k] -= m * column[k]
    for i in range(n):
        for k in range(i):
            x[i] -= S[i, k] * x[k]
    for i in range(n):
        x[i] /= S[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i):
            x[k] -= S[i, k] * x[i]


# ---------------------------------------------------------------------------------------------------------------------
# Feasibility, slopes and values.


@helper
def _restart(gram, w, starts, epsilon):
    """Make `a` feasible, compute SLOPE, UP and DOWN from it, and return the value of the dual.

    A feasible point moves by rounding only. Of the Gram only the rows of non-zero `a` are read.
    """
    n, value = uint64(w.shape[1]), 0.0
    for i in range(n):
        w[A, i] = min(max(w[A, i], w[LO, i]), w[HI, i])
    for group in range(len(starts) - 1):
        _balance(w, starts[group], starts[group + 1])
    for i in range(n):
        w[SLOPE, i] = w[P, i]
        _set_one_sided(w, epsilon, i)
    for i in range(n):
        a = w[A, i]
        if a != 0.0:
            for k in range(n):
                w[SLOPE, k] -= a * gram[i, k]
    for i in range(n):
        a = w[A, i]
        value += 0.5 * a * (w[P, i] + w[SLOPE, i]) - epsilon * abs(a)
    return value


@helper
def _balance(w, first, last):
    """Bring the sum of `a` over one group to zero."""
    positive, negative = 0.0, 0.0
    for i in range(first, last):
        positive += max(w[A, i], 0.0)
        negative += max(-w[A, i], 0.0)
    if abs(positive - negative) > 1e-12 * (positive + negative):
        # Scale the larger side down to the smaller one: the box contains zero, so this stays inside.
        up, down = min(1.0, negative / positive), min(1.0, positive / negative)
        for i in range(first, last):
            a = w[A, i]
            w[A, i] = a * (up if a > 0.0 else down) if a != 0.0 else 0.0
    # Give what rounding left of the sum to the row farthest from both bounds; twice, for the last bit.
    row, margin = first, 0.0
    for i in range(first, last):
        a = w[A, i]
        own = min(a - w[LO, i], w[HI, i] - a)
        if a != 0.0 and own > margin:
            row, margin = i, own
    for _ in range(2 if margin > 0.0 else 0):
        total = 0.0
        for i in range(first, last):
            total += w[A, i]
        w[A, row] = min(max(w[A, row] - total, w[LO, row]), w[HI, row])


@inlined_helper
def _rounding_of_loss(gram, w):
    """What rounding of the slope may hide of the loss: the slope is added up in reverse order, and compared."""
    n, total = w.shape[1], 0.0
    slope = np.empty(n)
    for i in range(n):
        slope[i] = w[P, i]
    for i in range(n - 1, -1, -1):
        a = w[A, i]
        if a != 0.0:
            for k in range(uint64(n)):
                slope[k] -= a * gram[i, k]
    for i in range(n):
        total += max(w[HI, i], -w[LO, i]) * abs(slope[i] - w[SLOPE, i])
    return 2.0 * total


@inlined_helper
def _measure(w, starts, epsilon, intercept):
    """lin, quad and primal at `a`, and the best intercepts into ``intercept``.

    The loss of a row is ``max over lo <= a <= hi of a * residual - epsilon |a|``. ``lo = -C, hi = C`` is the
    epsilon-insensitive loss. The hinge has ``lo = 0, hi = C`` with ``y = 1`` and ``lo = -C, hi = 0`` with ``y = -1``.
    """
    lin, quad, loss = 0.0, 0.0, 0.0
    for i in range(uint64(w.shape[1])):
        a = w[A, i]
        lin += w[P, i] * a - epsilon * abs(a)
        quad += 0.5 * a * (w[P, i] - w[SLOPE, i])
    for group in range(max(len(starts) - 1, 1)):
        first, last, c = uint64(0), uint64(w.shape[1]), 0.0
        if len(starts) > 1:
            first, last = starts[group], starts[group + 1]
            c = best_intercept(w, first, last, epsilon)
            intercept[group] = c
        for i in range(first, last):
            residual = w[SLOPE, i] - c
            loss += w[HI, i] * max(0.0, residual - epsilon) - w[LO, i] * max(0.0, -residual - epsilon)
    return lin, quad, quad + loss


@helper
def best_intercept(w, first, last, epsilon):
    """The c that minimises the loss of rows first to last, with residuals ``SLOPE - c``.

    The midpoint where the minimisers form an interval, its finite end where that is a half-line, and zero where the
    loss does not depend on c.
    """
    points, jumps = np.empty(2 * (last - first)), np.empty(2 * (last - first))
    count, slope, total, least = 0, 0.0, 0.0, np.inf
    for i in range(first, last):
        for side in range(2):
            jump = w[HI, i] if side == 0 else -w[LO, i]
            if jump > 0.0:
                points[count] = w[SLOPE, i] + (-epsilon if side == 0 else epsilon)
                jumps[count] = jump
                least = min(least, points[count])
                slope -= jump if side == 0 else 0.0
                total += jump
                count += 1
    if count == 0:
        return 0.0
    if slope >= -1e-13 * total:
        return least
    return _weighted_quantile(points[:count], jumps[:count], slope, 1e-13 * total)


@helper
def _weighted_quantile(points, jumps, slope, flat):
    """Where a derivative that is `slope` at -inf and jumps at the points (in no order) becomes zero.

    The middle of the interval where it is zero, which are all values of size at most `flat`. Found by quickselect: the
    points on one side of a pivot remain, and the arrays are overwritten.
    """
    pivot, dropped_above, count = points[0], np.inf, len(points)
    while count > 0:
        pivot, less, equal, following = points[count // 2], 0.0, 0.0, dropped_above
        for k in range(count):
            if points[k] < pivot:
                less += jumps[k]
            elif points[k] > pivot:
                following = min(following, points[k])
            else:
                equal += jumps[k]
        smaller = slope + less >= -flat
        if not smaller:
            slope += less + equal
            if slope >= -flat:
                return 0.5 * (pivot + following) if slope <= flat and following < np.inf else pivot
        else:
            dropped_above = pivot
        kept = 0
        for k in range(count):
            if (points[k] < pivot) if smaller else (points[k] > pivot):
                points[kept], jumps[kept] = points[k], jumps[k]
                kept += 1
        count = kept
    return pivot
