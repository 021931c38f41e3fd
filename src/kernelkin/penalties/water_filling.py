"""The eigenvalues of a relationship, in closed form."""

from __future__ import annotations

import numpy as np

from .base import Array


def water_fill(s: Array, n: int, low: float, high: float) -> tuple[Array, float]:
    """Minimise sum s_i^2/tau_i over low <= tau_i <= high with sum tau_i = n, for n values of which s (r,) are not zero.

    Returns tau (r,), and the tau of each of the n - r zero values. Needs low <= 1 <= high.
    """
    r = len(s)
    if low >= 1:
        return np.ones(r), 1.0
    if r * high + (n - r) * low <= n:
        # All can be at the cap; what is left over costs nothing, and is spread evenly.
        return np.full(r, high), max(low, (n - r * high) / (n - r)) if r < n else high
    return np.minimum(np.maximum(s / _water_level(s, n, low, high), low), high), low


def _water_level(s: Array, n: int, low: float, high: float) -> float:
    """lam with sum clip(s_i/lam, low, high) + (n - r) low = n, for s (r,) > 0 and a sum above n as lam falls to 0."""
    # As lam rises, value i leaves the cap at s_i/high and meets the floor at s_i/low. Between two such events the sum
    # is `fixed + moving/lam`. A plain loop: there are few values, and array calls would take longer than all of it.
    values = s.tolist()
    events = [(value / high, value, -high) for value in values]
    events += [(value / low if low > 0 else np.inf, -value, low) for value in values]
    events.sort()
    fixed, moving, last = len(values) * high + (n - len(values)) * low, 0.0, 0.0
    for lam, moved, freed in events:
        if fixed + moving / lam <= n or lam == events[-1][0]:
            break
        fixed, moving, last = fixed + freed, moving + moved, lam
    remaining = n - fixed
    return min(max(moving / remaining, last), lam) if remaining > 0 else lam
