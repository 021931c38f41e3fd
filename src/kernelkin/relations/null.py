"""P-values of the spread of tasks: draws without structure, and what the tasks' scores look like in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from ..decompositions import eigvalsh
from ..engines import Engine
from .common import CommonFit, ScoreProducts, even_features
from .rows import PooledRows


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


# Tasks are taken as exchangeable unless a test at this level says that they differ in inputs, levels or noise.
ALIKE_LEVEL = 0.05
# Directions of the features in which inputs are compared.
COMPARED = 10


@dataclass(frozen=True)
class Null:
    """How targets without structure are made, and why.

    Attributes
    ----------
    kind : "permutation", rows are dealt to tasks at random; or "simulation", from the common function and offsets.
    reason : in words.
    """

    kind: str
    reason: str


def choose_null(data: PooledRows, *, wide: bool) -> Null:
    """Rows are dealt to tasks at random where tasks have like inputs, levels and noise."""
    if wide:
        return Null("simulation", "the tasks are columns of targets on the same rows")
    fit = CommonFit(data, offsets=False)
    differ = []
    inputs = data.features[:, :COMPARED]
    if min(_anova(inputs, data), _anova(np.abs(inputs - data.means(inputs)), data)) < ALIKE_LEVEL / 2:
        differ.append("inputs")
    if _anova(fit.residuals, data) < ALIKE_LEVEL:
        differ.append("levels")
    if _anova(np.abs(fit.residuals - data.means(fit.residuals)), data) < ALIKE_LEVEL:
        differ.append("noise")
    if not differ:
        return Null("permutation", "the tasks have like inputs, levels and noise")
    return Null("simulation", f"the tasks differ in their {' and '.join(differ)}")


def _anova(values: np.ndarray, data: PooledRows) -> float:
    """The p-value of equal means of tasks, the smallest of the columns (n, q) times their number."""
    T, n = len(data.sizes), len(values)
    if n <= T:
        return 1.0
    means = data.means(values)
    within = np.square(values - means).sum(axis=0)
    between = np.square(means - values.mean(axis=0)).sum(axis=0)
    ratio = np.divide(between / (T - 1), within / (n - T), out=np.zeros_like(within), where=within > 0)
    return float(min(1.0, values.shape[1] * stats.f.sf(ratio, T - 1, n - T).min()))


@dataclass(frozen=True)
class CommonFunctionTest:
    """The products of the tasks' scores, as they are and as they would be without structure."""

    data: PooledRows
    null: Null
    wide: bool

    @cached_property
    def fit(self) -> CommonFit:
        return CommonFit(self.data, offsets=self.null.kind == "simulation")

    @cached_property
    def features(self) -> np.ndarray:
        return even_features(self.fit.design)

    @cached_property
    def products(self) -> ScoreProducts:
        return ScoreProducts(self.features, self.data, wide=self.wide)

    def observed(self) -> np.ndarray:
        """Products (T, T)."""
        return self.products.matrix(self.fit.residuals)

    def test(self, n: int, rng: np.random.RandomState, engine: Engine) -> StructureTest:
        """Compare with n draws without structure, which an engine with workers of its own evaluates there."""
        draws = (self._draw(rng) for _ in range(n))
        if not engine.splits:
            return StructureTest.of(self.observed(), map(self.drawn, draws))
        found = engine.map(drawn_statistics, list(draws), self)
        return StructureTest(np.array([statistics(self.observed()), *found]))

    def _draw(self, rng: np.random.RandomState) -> np.ndarray:
        """An order of the rows, or a sign for each row of X."""
        if self.null.kind == "permutation":
            return rng.permutation(len(self.data.codes))
        # One sign a row of X: errors of tasks on the same rows stay as correlated as they are.
        return rng.choice([-1.0, 1.0], size=self.data.rows.max() + 1)

    def drawn(self, draw: np.ndarray) -> np.ndarray:
        """Products (T, T) of a draw without structure."""
        if self.null.kind == "permutation":
            dealt = ScoreProducts(self.features[draw], self.data, wide=False)
            return dealt.matrix(self.fit.residuals[draw])
        return self.products.matrix(self.fit.simulate(draw[self.data.rows]))


def drawn_statistics(test: CommonFunctionTest, draw: np.ndarray) -> tuple[float, float]:
    """The statistics of a draw without structure."""
    return statistics(test.drawn(draw))
