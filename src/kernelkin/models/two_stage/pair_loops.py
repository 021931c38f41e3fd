"""Compiled loops over pairs of rows and streams; import them where they are used, since numba is slow to import."""

from __future__ import annotations

from ...compiled import compiled

# How many pairs the mean of all tasks counts for in the mean of one task.
PRIOR = 10.0

_INTS, _FLOATS = "Array(int64, 1, 'C', readonly=True)", "Array(float64, 1, 'C', readonly=True)"
_TABLE = "Array(float64, 2, 'C', readonly=True)"


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


@compiled(
    f"({_INTS}, {_TABLE}, int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    "the two-stage loops",
    2,
)
def plan_pairs(codes, u, slots, sizes, seen, used, source, partner, held):
    """Give every row of a block a partner from its task's reservoir, then offer it to the reservoir.

    codes (n,) tasks, u (n, 2) uniform numbers, slots (T, capacity) places in the store, sizes and seen (T,), used (1,)
    places of the store in use. Sets source (store,), the row of the block that is now at a place, and for each row its
    partner: a row of the block, or a place of the store in `held`, or neither (-1).
    """
    capacity = slots.shape[1]
    for e in range(len(codes)):
        t = codes[e]
        partner[e] = held[e] = -1
        if sizes[t] > 0:
            place = slots[t, int(u[e, 0] * sizes[t])]
            if source[place] >= 0:
                partner[e] = source[place]
            else:
                held[e] = place
        seen[t] += 1
        if sizes[t] < capacity:
            slots[t, sizes[t]] = used[0]
            source[used[0]] = e
            sizes[t] += 1
            used[0] += 1
        else:
            other = int(u[e, 1] * seen[t])
            if other < capacity:
                source[slots[t, other]] = e


@compiled(
    f"({_INTS}, {_FLOATS}, {_FLOATS}, {_INTS}, {_TABLE}, float64[:, ::1], float64[::1], boolean, boolean, "
    "float64[:, ::1], float64[::1], float64[:, ::1])",
    "the two-stage loops",
    2,
)
def scale_stream(codes, y, other, rounds, diagonal, z, signs, classes, trace, sums, counts, moments):
    """Signs and scaled values of the rounds of a block, from the statistics of their tasks up to each row.

    codes (n,), y (n,) targets, other (n,) those of the partners, rounds (n,) the round a row plays or -1, diagonal (n,
    K) k(x, x) of the rows. sums (T, K) of the diagonal, counts (T,), moments (T, 2): mean, and sum of squares about
    it.
    """
    for e in range(len(codes)):
        t, r = codes[e], rounds[e]
        counts[t] += 1.0
        step = y[e] - moments[t, 0]
        moments[t, 0] += step / counts[t]
        moments[t, 1] += step * (y[e] - moments[t, 0])
        for k in range(sums.shape[1]):
            sums[t, k] += diagonal[e, k]
        if r < 0:
            continue
        if classes:
            signs[r] = 1.0 if y[e] == other[e] else -1.0
        elif moments[t, 1] > 0.0:
            signs[r] = (y[e] - moments[t, 0]) * (other[e] - moments[t, 0]) * counts[t] / moments[t, 1]
        else:
            signs[r] = 0.0
        if trace:
            for k in range(sums.shape[1]):
                z[r, k] = z[r, k] * counts[t] / sums[t, k] if sums[t, k] > 0.0 else 0.0
