"""P-values of the spread of tasks: do they follow one function, and do their deviations go together?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..decompositions import eigvalsh


@dataclass(frozen=True)
class StructureTest:
    """Two statistics of products (T, T), against their values without structure.

    The trace is the spread of the tasks around the common function. The largest eigenvalue is the spread in the one
    pattern over tasks that has most of it: larger where a few groups explain the spread.

    Attributes
    ----------
    statistics : (1 + n, 2) trace and largest eigenvalue: those observed, then n without structure.
    """

    statistics: np.ndarray

    @classmethod
    def of(cls, observed: np.ndarray, draws: Iterable[np.ndarray]) -> StructureTest:
        return cls(np.array([statistics(products) for products in (observed, *draws)]))

    @property
    def p_value(self) -> float:
        """Twice the smaller p-value of the two statistics: at most the level, whatever their correlation."""
        p = (self.statistics >= self.statistics[0]).mean(axis=0)
        return float(min(1.0, 2.0 * p.min()))

    @property
    def tail_p_value(self) -> float:
        """The same; where no draw is as extreme, a Pearson III distribution is fitted to them and read off."""
        draws = self.statistics[1:]
        if self.p_value > 2.5 / len(self.statistics):
            return self.p_value
        spread = np.maximum(draws.std(axis=0, ddof=1), 1e-300)
        standard = (self.statistics[0] - draws.mean(axis=0)) / spread
        tails = stats.pearson3.sf(standard, np.clip(stats.skew(draws), 0.01, 3.0))
        return float(min(2.0 * np.nanmin(tails), self.p_value))


def statistics(products: np.ndarray) -> tuple[float, float]:
    """The trace and the largest eigenvalue of products (T, T)."""
    return float(np.trace(products)), float(eigvalsh(products)[-1])


def shared_p_value(products: np.ndarray, sizes: np.ndarray, n: int, rng: np.random.RandomState) -> float:
    """Whether deviations from the common function go together, given that tasks deviate.

    Without that, the signs of a task's deviations in the directions of the features are independent of those of other
    tasks, and changing them at random gives products as large. products (T, T, m) by direction, sizes (T,). Two tasks
    cannot deviate together from their common function: the p-value is 1.
    """
    T, _, m = products.shape
    if T < 3:
        return 1.0
    root = np.sqrt(sizes / sizes.sum())
    centre = np.eye(T) - np.outer(root, root)
    away = ~np.eye(T, dtype=bool)

    def energy(signs: np.ndarray) -> float:
        total = np.einsum("stj,sj,tj->st", products, signs, signs, optimize=True)
        return float(np.square((centre @ total @ centre)[away]).sum())

    observed = energy(np.ones((T, m)))
    # The deviations have been centred once already: centring again takes another share away.
    gain = (T / (T - 1)) ** 2
    draws = [gain * energy(rng.choice([-1.0, 1.0], size=(T, m))) for _ in range(n)]
    return float((1 + np.sum(np.array(draws) >= observed)) / (n + 1))
