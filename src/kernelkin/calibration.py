"""Units and scales of tasks; calibration on held-out rows: a link from values to probabilities, quantiles of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, expit, logsumexp, polygamma, softmax
from scipy.stats import chi2, norm

# Tasks have their own units if the standard deviation of their log variances, beyond chance, is at least `OWN_UNITS`,
# or `OTHER_UNITS` if the median number of rows is below `ROWS_OF_TASK`. Groups whose noise or slopes differ are better
# off with one unit. (Births in 70 countries, 16 rows each, 1.3 beyond chance: own units make errors a third larger.)
OTHER_UNITS, OWN_UNITS, ROWS_OF_TASK = 3.0, 2.0, 12
CERTAIN = 1e-4
# Rounds of estimating shifts of tasks and the link in turn, and level of the test that there are shifts.
SHIFT_ROUNDS, SHIFT_LEVEL = 3, 0.95
# Values (n, m), probabilities of the classes (n, m), and weights (n,) of rows.
Part = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Link:
    """Link from values to probabilities.

    One value is for the second of two classes, whose log odds are slope * value + offset. If there is a value for each
    class, slope * values are the logits of a softmax.
    """

    slope: float = 1.0
    offset: float = 0.0

    @classmethod
    def fit(
        cls,
        parts: Sequence[Part],
        unit: float | None = None,
        pull: float = 1e-2,
        bounds: Sequence[tuple[float | None, float | None]] = ((0.05, None), (None, None)),
    ) -> Link:
        """Fit slope and offset within bounds, with a ridge penalty that pulls them towards the identity.

        They are those of values divided by `unit`, by default by the root mean square of all values. The defaults keep
        the slope positive, and finite if the values separate the classes.
        """
        if unit is None:
            squares = sum(weight @ (f**2).sum(axis=1) for f, _, weight in parts)
            unit = float(np.sqrt(squares / sum(weight.sum() * f.shape[1] for f, _, weight in parts))) or 1.0

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            distance = theta - (1.0, 0.0)
            value, gradient = 0.5 * pull * distance @ distance, pull * distance
            for f, target, weight in parts:
                # The offset cancels in a softmax.
                logits = theta[0] / unit * f + theta[1]
                if f.shape[1] == 1:
                    total, p = np.logaddexp(0.0, logits[:, 0]), expit(logits)
                else:
                    total, p = logsumexp(logits, axis=1), softmax(logits, axis=1)
                value += weight @ (total - (target * logits).sum(axis=1))
                error = weight[:, np.newaxis] * (p - target)
                gradient = gradient + np.array([(error * f).sum() / unit, error.sum()])
            return float(value), gradient

        options = {"gtol": 1e-8 * sum(weight.sum() for *_, weight in parts), "ftol": 1e-14}
        slope, offset = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        return cls(float(slope / unit), float(offset))

    @classmethod
    def of_tasks(cls, values: Sequence[np.ndarray], codes: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> Link:
        """Fit one link to the rows of all tasks; without rows, all classes are equally probable.

        Targets are smoothed as Platt proposed: 1 - 1 / ((m - 1) n_c + 2) for one of m classes with n_c rows, and the
        rest divided evenly over the other classes.

        Parameters
        ----------
        values : for each task (n_t, m_t), one column for two classes; rows with NaN are left out
        codes : for each task (n_t,), the position of each row's class; rows with larger numbers are left out
        weights : for each task (n_t,)
        """
        parts = []
        for width in sorted({part.shape[1] for part in values}):
            tasks = [t for t, part in enumerate(values) if part.shape[1] == width]
            f, code, weight = (np.concatenate([of_task[t] for t in tasks]) for of_task in (values, codes, weights))
            m = max(width, 2)
            known = np.isfinite(f).all(axis=1) & (code < m)
            f, code, weight = f[known], code[known], weight[known]
            rest = 1.0 / ((m - 1) * np.bincount(code, weight, m)[code] + 2.0)
            target = np.repeat(rest[:, np.newaxis] / (m - 1), m, axis=1)
            target[np.arange(len(code)), code] = 1.0 - rest
            parts.append((f, target[:, -width:], weight))
        return cls.fit(parts) if any(len(weight) for *_, weight in parts) else cls(0.0, 0.0)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the probability of the second class for each value."""
        return expit(self.slope * values + self.offset)

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Return the probabilities (q, classes) for values (q, 1) or (q, classes)."""
        if values.shape[1] > 1:
            return softmax(self.slope * values, axis=1)
        p = self(values)
        return np.hstack([1.0 - p, p])


def fit_shifts(
    values: Sequence[np.ndarray], codes: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> tuple[Link, np.ndarray]:
    """Fit a link, and what to add to the values of each task (T,) before it; arguments are those of `Link.of_tasks`.

    The log odds of a task with two classes may differ from those of the link by an offset, for example if shares of
    classes differ and rows have weights. Offsets are normal around zero. Their variance is a moment estimate (zero if
    Cochran's test does not reject that they are equal), and each is one Newton step, shrunk by this variance.
    """
    shifts, link = np.zeros(len(values)), Link.of_tasks(values, codes, weights)
    for _ in range(SHIFT_ROUNDS if link.slope else 0):
        gradient, curvature = np.zeros((2, len(values)))
        for t, (f, code, weight) in enumerate(zip(values, codes, weights, strict=True)):
            if f.shape[1] == 1:
                used = np.isfinite(f[:, 0]) & (code < 2)
                p = link(f[used, 0] + shifts[t])
                gradient[t], curvature[t] = weight[used] @ (code[used] - p), weight[used] @ (p - p**2)
        found = link.slope * shifts + gradient / np.maximum(curvature, CERTAIN)
        total, count = float(curvature @ found**2), np.count_nonzero(curvature)
        excess = total - count if count and total > chi2.ppf(SHIFT_LEVEL, count) else 0.0
        precision = curvature * excess / max(float(curvature.sum()), CERTAIN)
        shifts = found * precision / (1.0 + precision) / link.slope
        link = Link.of_tasks([f + shift for f, shift in zip(values, shifts, strict=True)], codes, weights)
    return link, shifts


@dataclass(frozen=True)
class Scores:
    """Scores of held-out targets, used to calibrate intervals.

    The score of a target is the number of standard deviations at which its interval just contains it.
    """

    # values, weights: (n,) scores in ascending order, and the weights of their rows.
    values: np.ndarray
    weights: np.ndarray
    scale: float  # the factor by which standard deviations are multiplied to match the held-out residuals

    @classmethod
    def of(cls, values: np.ndarray, residuals: np.ndarray, weights: np.ndarray) -> Scores:
        """Sort scores (n, ...) of rows with weights (n,); residuals (n, ...) are divided by standard deviations."""
        weights = np.repeat(weights, values.size // max(len(values), 1))
        order = np.argsort(values.ravel(), kind="stable")
        squares = np.average(residuals.ravel() ** 2, weights=weights) if len(weights) else 1.0
        return cls(values.ravel()[order], weights[order], float(np.sqrt(squares)))

    def quantile(self, coverage: float) -> float:
        """Return the score for intervals that contain a new target with this probability."""
        if not len(self.values):
            return float(norm.ppf(0.5 + 0.5 * coverage))
        last = np.cumsum(self.weights)
        n = last[-1]
        place = (n + 1) * coverage
        if place <= n:
            # A row of weight w counts as w rows.
            first = last - self.weights + np.minimum(self.weights, 1.0)
            return float(np.interp(place, np.stack([first, last], 1).ravel(), np.repeat(self.values, 2)))
        # Too few rows for this coverage: extrapolate as for normal residuals.
        return float(self.values[-1] * norm.ppf(0.5 + 0.5 * coverage) / norm.ppf(0.5 + 0.5 * n / (n + 1)))


def scale_prior(squares: np.ndarray, n: np.ndarray) -> tuple[float, float]:
    """Return mean and variance of the logarithms of mean squares between tasks, from those (T,) of n (T,) numbers."""
    known = (n > 1) & (squares > 0)
    if not known.any():
        return 0.0, 0.0
    logs, error = np.log(squares[known]), _log_errors(n[known])
    typical = np.average(logs, weights=1.0 / error)
    return float(typical), max(float(np.mean((logs - typical) ** 2 - error)), 0.0)


def shrunk_scales(squares: np.ndarray, n: np.ndarray, prior: tuple[float, float]) -> np.ndarray:
    """Return root mean squares (T,) of n (T,) numbers, shrunk towards the prior; those of few numbers the most."""
    typical, between = prior
    logs = np.log(squares, where=(n > 1) & (squares > 0), out=np.full(len(n), typical))
    return np.exp(0.5 * (typical + between / (between + _log_errors(n)) * (logs - typical)))


def _log_errors(n: np.ndarray) -> np.ndarray:
    """Return the variance of the logarithm of the mean square of n normal numbers around their mean."""
    return polygamma(1, np.maximum(n - 1, 1) / 2)


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
    # Targets of a task that differ by rounding only are equal.
    varies = (count > 1) & (squares > count * (1e-12 * mean) ** 2)
    if n_tasks < 2 or varies.sum() < 2 - own:
        return pooled
    dof = np.maximum(count - 1.0, 0.5) / 2.0
    # The mean and variance of the log of a variance estimated from few rows.
    log_variance = np.log(np.where(varies, squares, 1.0) / (2 * dof)) - digamma(dof) + np.log(dof)
    chance = polygamma(1, dof)
    known, noise = log_variance[varies], chance[varies]
    center = np.average(known, weights=1.0 / noise)
    between = max(float(np.mean((known - known.mean()) ** 2 - noise)), 0.0)
    statistic = ((known - center) ** 2 / noise).sum()
    least = OWN_UNITS if np.median(count) >= ROWS_OF_TASK else OTHER_UNITS
    if not own and (np.sqrt(between) < least or chi2.sf(statistic, len(known) - 1) > CERTAIN):
        return pooled
    center = np.average(known, weights=1.0 / (noise + between + 1e-12))
    drawn = np.where(varies, center + between / (between + chance) * (log_variance - center), center)
    spread = np.exp(0.5 * drawn)
    locations = mean[count > 0]
    return TargetUnits(mean, spread, float(locations.mean()), float(np.exp(0.5 * center)), float(locations.std(ddof=1)))
