"""Support vector machines on Gram matrices of one size, all at once, by an interior point method.

    max  y'a - 1/2 a'Ga    subject to  0 <= y_i a_i <= C_i,  the sum of a = 0 where there is an intercept

Steps are Mehrotra's (1992): a predictor and a corrector from one factorisation of `G + D` for every machine, D a
diagonal. Their number hardly depends on the data, and the work is in factorisations and products, which suits devices.
Columns are machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..grams.arrays import Arrays

# Iterations, and the share of the way to the boundary that a step goes.
_ITERATIONS, _SHARE = 60, 0.99
# The gap that iterations aim at, as a share of what is asked for.
_AIM = 0.3
# The share of the costs that is nothing: the value of a machine of one class is zero.
_NOTHING = 1e-9
# The least share of their costs that dual variables start from.
_LEAST = 1e-2
# The share of its cost that a variable counts as away from its bounds, at least.
_NEAREST = 1e-14


@dataclass(frozen=True)
class BoxMachines:
    """Machines on the same rows.

    Attributes
    ----------
    arrays : where they are.
    grams : (t, n, n).
    sign, cost : (n, t) the side of zero that a variable is on, -1 or +1, and the largest size it may have.
    linear : (n, t) the linear term.
    summed : (n, t) one where a variable counts in the sum that must be zero, else zero.
    """

    arrays: Arrays
    grams: Any
    sign: Any
    cost: Any
    linear: Any
    summed: Any

    @classmethod
    def of(cls, arrays: Arrays, grams: Any, y: np.ndarray, C: np.ndarray, has_intercept: bool) -> Self:
        """From labels -1 and +1 (n, t) and costs (n, t).

        A variable without a cost is cut off from all others, and has a problem of its own with a solution of no
        interest.
        """
        known = C > 0
        if not known.all():
            mask = arrays.array(known.T.astype(np.float64))
            grams = grams * mask[:, :, None] * mask[:, None, :] + arrays.diagonals(1.0 - mask)
        parts = np.where(known, y, 1.0), np.where(known, C, 1.0), np.where(known, y, 0.5), known * float(has_intercept)
        return cls(arrays, grams, *map(arrays.array, parts))

    def apply(self, a: Any) -> Any:
        """G a (n, t), machine by machine."""
        return (self.grams @ a.T[:, :, None])[:, :, 0].T

    def start(self) -> _Point:
        """Variables of which the sums are zero, in the middle of the box of the class with less cost."""
        positive = 0.5 * (1.0 + self.sign)
        totals = (self.cost * positive).sum(0), (self.cost * (1.0 - positive)).sum(0)
        least = self.arrays.where(totals[0] < totals[1], *totals)
        shares = [self._at_least(0.5 * least / (total + 1e-300)) for total in totals]
        a = self.sign * self.cost * (positive * shares[0] + (1.0 - positive) * shares[1])
        slope = self.sign * (self.apply(a) - self.linear)
        lower = self.arrays.where(slope > 0, slope, 0.0 * slope) + 1.0
        return _Point(a, 0.0 * a.sum(0), lower, lower - slope)

    def slack(self, distance: Any) -> Any:
        """Distances (n, t) from a bound, none of them zero."""
        least = _NEAREST * self.cost
        return self.arrays.where(distance > least, distance, least)

    def _at_least(self, share: Any) -> Any:
        return self.arrays.where(share > _LEAST, share, 0.0 * share + _LEAST)


@dataclass(frozen=True)
class _Point:
    """Dual variables (n, t), the multiplier of their sum (t,), and those of lower and upper bounds (n, t)."""

    a: Any
    level: Any
    lower: Any
    upper: Any

    def moved(self, step: _Point, length: Any) -> _Point:
        return _Point(
            self.a + length * step.a,
            self.level + length * step.level,
            self.lower + length * step.lower,
            self.upper + length * step.upper,
        )


def solve_together(machines: BoxMachines, tol: float) -> tuple[Any, Callable[[Any], Any]]:
    """Dual variables (n, t) inside their boxes, and what solves the last Newton system for (t, n, r)."""
    arrays, sign, point = machines.arrays, machines.sign, machines.start()
    floor = _NOTHING * machines.cost.sum(0)
    for iteration in range(_ITERATIONS):
        image = machines.apply(point.a)
        below, above = machines.slack(sign * point.a), machines.slack(machines.cost - sign * point.a)
        wrong = machines.linear - image - point.level * machines.summed + sign * (point.lower - point.upper)
        solve = arrays.solver(machines.grams + arrays.diagonals((point.lower / below + point.upper / above).T))
        products = point.lower * below, point.upper * above
        gap = (products[0] + products[1]).sum(0)
        value = (point.a * (machines.linear - 0.5 * image)).sum(0)
        off = gap + (abs(wrong) * machines.cost).sum(0)
        is_open = off > _AIM * tol * arrays.where(value > floor, value, floor)
        if iteration and not bool(is_open.any()):
            break
        newton = _Newton(machines, solve, point, below, above, wrong)
        step = newton.step(0.0 * products[0], 0.0 * products[1])
        length = newton.length(step)
        ahead = point.moved(step, length)
        reached = (ahead.lower * (sign * ahead.a) + ahead.upper * (machines.cost - sign * ahead.a)).sum(0)
        target = gap / (2 * len(sign)) * (reached / gap) ** 3
        # Mehrotra's correction: the products of the two steps that the linear model leaves out.
        change = sign * step.a
        step = newton.step(target - change * step.lower, target + change * step.upper)
        # Machines that are solved stay where they are: further steps would take them onto their bounds.
        length = _SHARE * newton.length(step)
        point = point.moved(step, arrays.where(is_open, length, 0.0 * length))
    return point.a, solve


@dataclass(frozen=True)
class _Newton:
    """The system of a step: `below` and `above` (n, t) are distances from the bounds, `wrong` (n, t) the residual."""

    machines: BoxMachines
    solve: Callable[[Any], Any]
    point: _Point
    below: Any
    above: Any
    wrong: Any

    def step(self, lower: Any, upper: Any) -> _Point:
        """The step that makes products of multipliers and distances equal to these (n, t), to first order."""
        m, p = self.machines, self.point
        low, up = (lower - p.lower * self.below) / self.below, (upper - p.upper * self.above) / self.above
        right = m.arrays.stack([self.wrong + m.sign * (low - up), m.summed])
        found = self.solve(m.arrays.swapped(right))
        da, border = found[:, :, 0].T, found[:, :, 1].T
        total = (m.summed * border).sum(0)
        missing = (m.summed * (da + p.a)).sum(0)
        level = m.arrays.where(total > 0, missing / m.arrays.where(total > 0, total, total + 1.0), 0.0 * missing)
        da = da - level * border
        along = m.sign * da
        return _Point(da, level, low - p.lower / self.below * along, up + p.upper / self.above * along)

    def length(self, step: _Point) -> Any:
        """(t,) how far each machine can go, at most one."""
        along = self.machines.sign * step.a
        pairs = (
            (self.below, along),
            (self.above, -along),
            (self.point.lower, step.lower),
            (self.point.upper, step.upper),
        )
        where, longest = self.machines.arrays.where, 0.0
        for distance, change in pairs:
            ratio = where(change < 0, -change, 0.0 * change) / distance
            largest = self.machines.arrays.largest(ratio)
            longest = largest if isinstance(longest, float) else where(largest > longest, largest, longest)
        return 1.0 / where(longest > 1.0, longest, 0.0 * longest + 1.0)


def project(a: np.ndarray, lo: np.ndarray, hi: np.ndarray, has_intercept: bool) -> np.ndarray:
    """The nearest to a (n, t) with lo <= a <= hi and, where there is an intercept, sums of zero to rounding."""
    inside = np.clip(a, lo, hi)
    if not has_intercept:
        return inside
    least, most = (a - hi).min(axis=0), (a - lo).max(axis=0)
    for _ in range(100):
        shift = 0.5 * (least + most)
        inside = np.clip(a - shift, lo, hi)
        positive = inside.sum(axis=0) > 0
        least, most = np.where(positive, shift, least), np.where(positive, most, shift)
    # Bisection ends where the shift has no more digits; the rest of the sum goes to one variable.
    for _ in range(2):
        left = inside.sum(axis=0)
        furthest = np.where(left > 0, inside - lo, hi - inside).argmax(axis=0), np.arange(a.shape[1])
        inside[furthest] = np.clip(inside[furthest] - left, lo[furthest], hi[furthest])
    return inside


def best_intercepts(f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
    """(t,) the intercepts that minimise the hinge loss of values f (n, t): weighted medians of y - f."""
    margins = y - f
    order = margins.argsort(axis=0)
    total = np.cumsum(np.take_along_axis(C, order, axis=0), axis=0)
    wanted = (C * (y > 0)).sum(axis=0)
    at = np.minimum((total < wanted * (1 - 1e-12)).sum(axis=0), len(f) - 1)
    columns = np.arange(f.shape[1])
    return margins[order[at, columns], columns]
