"""A Gaussian kernel with a length scale for each column, learned from the training rows of all tasks together.

The targets of all tasks, standardised, are modelled as one Gaussian process with the kernel

    s (rho + (1 - rho) [t = t']) exp(-1/2 sum_j (x_j - x'_j)^2 / l_j^2) + noise [i = i']

whose length scales, signal, noise and share rho of what all tasks have in common maximise its evidence, under a weak
prior on the length scales. On wide data tasks share their rows, and every column of y is a sample of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, lapack

# Rows that the evidence is computed on, and outputs of wide data.
MAX_ROWS, MAX_OUTPUTS = 400, 20
# Standard deviation of the prior on the logarithms of the length scales.
PRIOR_WIDTH = 2.0
MAX_ITER = 60
# The relative change of the evidence at which it is maximal: further steps change length scales by a few percent.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Sample:
    """Rows X (n, d), the task of each row (n,), or None where outputs share rows, and targets Y (n, m)."""

    X: np.ndarray
    tasks: np.ndarray | None
    Y: np.ndarray


def length_scales(sample: Sample) -> np.ndarray:
    """Return the length scale (d,) of each column that maximises the evidence of a sample."""
    from scipy.optimize import minimize

    d = sample.X.shape[1]
    spread = np.maximum(sample.X.std(axis=0), 1e-12)
    start = np.concatenate([np.log(spread * np.sqrt(2.0 * d)), [0.0, np.log(0.3), 0.0]])
    evidence = _Evidence(sample, start[:d])
    limits = [(c - 7.0, c + 7.0) for c in start[:d]] + [(-5.0, 5.0), (-8.0, 2.0), (-4.0, 4.0)]
    options = {"maxiter": MAX_ITER, "ftol": TOLERANCE}
    found = minimize(evidence, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return np.exp(found.x[:d])


class _Evidence:
    """The negative logarithm of the posterior density of log length scales, log signal, log noise and logit rho."""

    def __init__(self, sample: Sample, center: np.ndarray) -> None:
        self.X, self.Y, self.center = sample.X, sample.Y, center
        self.n, self.m = sample.Y.shape
        self.same = None if sample.tasks is None else (sample.tasks[:, np.newaxis] == sample.tasks)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        d = len(self.center)
        scale, (log_signal, log_noise, logit) = theta[:d], theta[d:]
        signal, noise, rho = np.exp(log_signal), np.exp(log_noise), 1.0 / (1.0 + np.exp(-logit))
        gaussian = self._gaussian(np.exp(-scale))
        coupling = np.ones_like(gaussian) if self.same is None else rho + (1.0 - rho) * self.same
        covariance = signal * gaussian * coupling
        try:
            factor = cho_factor(covariance + noise * np.eye(self.n), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return 1e25, np.zeros_like(theta)
        inverse = _inverse(factor[0])
        alpha = inverse @ self.Y
        value = 0.5 * float(np.vdot(self.Y, alpha)) + self.m * float(np.log(np.diag(factor[0])).sum())
        # Half the derivative by the covariance matrix.
        W = 0.5 * (self.m * inverse - alpha @ alpha.T)
        weighted = W * covariance
        columns = self.X * np.exp(-scale)
        by_scale = 2.0 * (weighted.sum(axis=1) @ columns**2 - (columns * (weighted @ columns)).sum(axis=0))
        by_rho = 0.0
        if self.same is not None:
            by_rho = rho * (1.0 - rho) * float((W * signal * gaussian * (1.0 - self.same)).sum())
        gradient = np.concatenate([by_scale, [weighted.sum(), noise * np.trace(W), by_rho]])
        away = (scale - self.center) / PRIOR_WIDTH
        gradient[:d] += away / PRIOR_WIDTH
        return value + 0.5 * float(away @ away), gradient

    def _gaussian(self, inverse_scale: np.ndarray) -> np.ndarray:
        Z = self.X * inverse_scale
        norms = (Z**2).sum(axis=1)
        return np.exp(-0.5 * np.maximum(norms[:, np.newaxis] + norms - 2.0 * Z @ Z.T, 0.0))


def _inverse(factor: np.ndarray) -> np.ndarray:
    """Return the inverse of a matrix from its lower Cholesky factor: a third of the work of as many solves."""
    inverse, _ = lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return lower + np.tril(inverse, -1).T


def make_sample(
    X: np.ndarray, rows: Sequence[np.ndarray], targets: Sequence[np.ndarray], wide: bool, max_rows: int = MAX_ROWS
) -> Sample:
    """Take at most `max_rows` rows of all tasks, the same for the same data, with targets standardised by task.

    `targets` (n_t, m_t) are those of the rows of each task. On wide data rows without all labels are left out, where
    enough others remain; otherwise tasks are taken to have rows of their own.
    """
    scaled = [_standard(part) for part in targets]
    if wide and all(len(part) == len(rows[0]) and (part == rows[0]).all() for part in rows):
        Y = np.hstack(scaled)[:, :MAX_OUTPUTS]
        kept = _spread(len(Y), max_rows)
        return Sample(X[rows[0][kept]], None, Y[kept])
    # An output of a task of several classes is a function of its own.
    where = np.concatenate([np.tile(part, y.shape[1]) for part, y in zip(rows, scaled, strict=True)])
    outputs = [np.full(len(y), 1000 * t + j) for t, y in enumerate(scaled) for j in range(y.shape[1])]
    y = np.concatenate([part.T.ravel() for part in scaled])
    kept = _spread(len(y), max_rows)
    return Sample(X[where[kept]], np.concatenate(outputs)[kept], y[kept, np.newaxis])


def _spread(n: int, count: int) -> np.ndarray:
    """Return at most `count` of n positions, drawn with a fixed seed."""
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def _standard(y: np.ndarray) -> np.ndarray:
    y = y - y.mean(axis=0)
    return y / np.maximum(y.std(axis=0), 1e-300)
