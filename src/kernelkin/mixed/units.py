"""Units of targets: the same for all rows, or different for each task if spreads differ significantly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import chi2

# Tasks have their own units if the standard deviation of their log variances, beyond chance, is at least `OWN_UNITS`,
# or at least `OTHER_UNITS` if the median number of rows is below `ROWS_OF_TASK`. The limit for few rows is high, so
# that only clear differences count. (Autism data, 3 rows per child, 1.9 beyond chance: the loss is 0.25 with one unit
# for all and 0.51 with own units.)
OTHER_UNITS, OWN_UNITS, ROWS_OF_TASK = 3.0, 0.6, 12
CERTAIN = 1e-4


@dataclass(frozen=True)
class TargetUnits:
    """Targets in standard units are (y - location) / spread."""

    # location, spread: (T,) location and spread of each task; all equal if the tasks share one unit.
    location: np.ndarray
    spread: np.ndarray
    # new_location, new_spread: those of a task that was not in training.
    new_location: float
    new_spread: float
    new_deviation: float = 0.0  # standard deviation of the location of such a task; 0 if the tasks share one unit

    def of(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return location and spread for task codes; -1 is a new task."""
        location = np.append(self.location, self.new_location)
        spread = np.append(self.spread, self.new_spread)
        return location[codes], spread[codes]


def pooled_units(y: np.ndarray, n_tasks: int, weight: np.ndarray) -> TargetUnits:
    """Return units with the mean and the standard deviation of all targets (N,) for every task."""
    location = float(np.average(y, weights=weight))
    spread = float(np.sqrt(np.average((y - location) ** 2, weights=weight)))
    spread = spread if spread > 1e-12 * max(abs(location), 1e-300) else 1.0
    return TargetUnits(np.full(n_tasks, location), np.full(n_tasks, spread), location, spread)


def choose_units(y: np.ndarray, codes: np.ndarray, n_tasks: int, weight: np.ndarray, own: bool = False) -> TargetUnits:
    """Return units for each task if `own` is True or spreads differ significantly, otherwise one for all rows."""
    pooled = pooled_units(y, n_tasks, weight)
    count = np.bincount(codes, weight, n_tasks)
    mean = np.bincount(codes, weight * y, n_tasks) / np.where(count > 0, count, 1.0)
    squares = np.bincount(codes, weight * (y - mean[codes]) ** 2, n_tasks)
    scale = pooled.new_spread**2
    varies = (count > 1) & (squares > 1e-20 * scale)
    if n_tasks < 2 or varies.sum() < 2:
        return pooled
    dof = np.maximum(count - 1.0, 0.5) / 2.0
    # The mean and variance of the log of a variance estimated from few rows.
    log_variance = np.log(np.where(varies, squares, scale) / (2 * dof)) - digamma(dof) + np.log(dof)
    chance = polygamma(1, dof)
    known, noise = log_variance[varies], chance[varies]
    center = np.average(known, weights=1.0 / noise)
    between = max(float(np.mean((known - known.mean()) ** 2 - noise)), 0.0)
    statistic = ((known - center) ** 2 / noise).sum()
    least = OWN_UNITS if np.median(count) >= ROWS_OF_TASK else OTHER_UNITS
    differ = np.sqrt(between) >= least and chi2.sf(statistic, len(known) - 1) <= CERTAIN
    if not own and not differ:
        return pooled
    center = np.average(known, weights=1.0 / (noise + between + 1e-12))
    drawn = np.where(varies, center + between / (between + chance) * (log_variance - center), center)
    spread = np.exp(0.5 * drawn)
    locations = mean[count > 0]
    return TargetUnits(mean, spread, float(locations.mean()), float(np.exp(0.5 * center)), float(locations.std(ddof=1)))
