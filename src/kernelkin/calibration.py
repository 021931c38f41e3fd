"""Calibration on held-out rows: a link from values to probabilities, quantiles of scores, and scales of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, polygamma, softmax
from scipy.stats import norm

# Values (n, m), probabilities of the classes (n, m), and weights (n,) of rows.
Part = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Link:
    """Link from values to probabilities, the same for all tasks.

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
        """Sort scores (n, r) of rows with weights (n,); `residuals` (n, r) are divided by standard deviations."""
        weights = np.repeat(weights, values.shape[1])
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
