"""Likelihoods: the distribution of targets given the values of the function.

A likelihood evaluates the negative log evidence of a prior covariance and its derivatives. With normal noise there is a
closed form. Two classes, and the losses of `kin/losses.py` without a closed form, use Laplace's method, with the mode
found by Newton's method. Each Newton step is the closed form with noise 1/W and targets f + g/W, where g is the first
derivative of log p(y | f) and W is minus the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from .covariance import Parameters, Prior, Solved

# Lower bound on W: a row predicted with certainty would have infinite noise.
LEAST_CURVATURE = 1e-7
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()

# Negative log evidence without the prior of the parameters, its derivatives by term and with respect to the log noise,
# and the solution used for predictions; `solved.a` are the coefficients of the posterior mean.
Evaluated = tuple[float, Parameters, float, Solved]


class Gaussian:
    """Squared loss: normal noise with one variance.

    Attributes of all likelihoods: `has_noise`, whether rows have normal noise, whose variance is a parameter;
    `log_scale`, added to the initial log variances, which are those for standardised targets; `weight_scale`: the
    weight of a structure falls by a factor e if its error rises by this many standard errors; `sparsity`: how strongly
    the prior prefers small variances of slopes and smooths (`MixedModel`).
    """

    has_noise = True
    log_scale = 0.0
    weight_scale = 0.5
    sparsity = 0.0

    def solve(self, prior: Prior, part: Any, noise: float) -> Solved:
        """Return the posterior alone, as the last part of what `evaluate` returns."""
        return Solved(prior, noise)

    def evaluate(self, prior: Prior, part: Any, noise: float) -> Evaluated:
        """Evaluate the evidence of targets `part.z` (N, r) of rows with weights `part.weight` (N,)."""
        solved = Solved(prior, noise)
        m = part.multiplicity
        # A row of weight w counts as w rows with the same target.
        repeated = 0.5 * m * float((part.weight - 1.0).sum())
        value = 0.5 * solved.quadratic + 0.5 * m * solved.log_det + repeated * np.log(noise)
        gradient, slope = solved.gradient(m)
        return value, gradient, slope + repeated, solved

    def noise_variance(self, model: Any) -> float:
        """Return the variance of the noise of a fitted model on the scale of f, for shares of variance."""
        return model.noise_

    def row_noise(self, part: Any, noise: float) -> np.ndarray:
        """Return the variance (N,) of a target around the function, after `solve` or `evaluate`."""
        return noise / part.weight

    def mean(self, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the mean of a target, given the mean and variance of the function."""
        return f

    def loss(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the loss of each target, given its predicted mean."""
        return (mean - y) ** 2


class LabelRegression(Gaussian):
    """Squared loss on labels -1 and 1: one factorisation serves many classes, or tasks with the same rows.

    The normal distribution converts values to probabilities; a link fitted to held-out rows calibrates them.
    """

    softness = 0.25

    def mean(self, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return ndtr(f / np.sqrt(variance + self.softness))


class Laplace:
    """A likelihood whose evidence is approximated by a Gaussian at the mode; f includes the noise of rows, if any."""

    has_noise = False
    log_scale = 0.0
    weight_scale = 0.5
    sparsity = 0.0

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def derivatives(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first, minus the second, and the third derivative of the log density with respect to f."""
        raise NotImplementedError

    def start(self, y: np.ndarray, offset: Any) -> np.ndarray:
        """Return initial values of f."""
        raise NotImplementedError

    def solve(self, prior: Prior, part: Any, noise: float = 0.0) -> Solved:
        """Return the posterior alone, as the last part of what `evaluate` returns."""
        return self._mode(prior, part, noise)[1]

    def evaluate(self, prior: Prior, part: Any, noise: float = 0.0) -> Evaluated:
        f, solved, loss = self._mode(prior, part, noise)
        _, curvature, skew = self._skew(part, f, solved)
        value = loss + 0.5 * solved.log_det + 0.5 * np.log(curvature).sum()
        further = solved.apply((-skew / curvature)[:, None])
        gradient, _ = solved.gradient(1.0, further)
        by_row = 0.5 * (solved.diagonal - solved.a[:, 0] ** 2) + solved.a[:, 0] * further[0][:, 0]
        return float(value), gradient, float((noise / part.weight * by_row).sum()), solved

    def _skew(self, part: Any, f: np.ndarray, solved: Solved) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first derivative and the curvature (N,) at the mode, and half the variance times the third one.

        To second order, the expected first derivative under the posterior is the sum of the first and the last part.
        """
        g, W, third = self.derivatives(part.z[:, 0], f + part.offset)
        curvature = np.maximum(part.weight * W, LEAST_CURVATURE)
        variance = (1.0 - solved.diagonal / curvature) / curvature
        return part.weight * g, curvature, 0.5 * variance * part.weight * third

    def _mode(self, prior: Prior, part: Any, noise: float, tol: float = 1e-12, max_iter: int = 50):
        """Find the mode by Newton's method; return f, the solution there, and -log p(y | f) + f'a/2.

        It ends where the next step would lower that value by less than `tol`, relative to the value.
        """
        y, w, offset, f = part.z[:, 0], part.weight, part.offset, part.state.get("f")
        noise = noise / w
        f, a, loss = self.start(y, offset) if f is None else f, None, np.inf
        for _ in range(max_iter):
            g, W, _ = self.derivatives(y, f + offset)
            curvature = np.maximum(w * W, LEAST_CURVATURE)
            solved = Solved(prior, noise + 1.0 / curvature, (f + w * g / curvature)[:, None])
            full = solved.a[:, 0]
            f_full = f + (w * g - full) / curvature
            if a is not None and (w * g - a) @ (f_full - f) <= tol * (1.0 + abs(loss)):
                break
            step, before = 1.0, loss
            while True:
                # f = K a holds along the step only if it held before, so the first step has full length.
                trial, f_trial = (
                    (full, f_full) if a is None or step == 1.0 else (a + step * (full - a), f + step * (f_full - f))
                )
                loss = float(-(w * self.log_density(y, f_trial + offset)).sum() + 0.5 * trial @ f_trial)
                if a is None or loss <= before + 1e-10 * abs(before) or step < 1e-3:
                    break
                step *= 0.5
            f, a = f_trial, trial
        part.state["f"] = f
        return f, solved, loss

    def row_noise(self, part: Any, noise: float) -> np.ndarray:
        curvature = part.weight * self.derivatives(part.z[:, 0], part.state["f"] + part.offset)[1]
        return noise / part.weight + 1.0 / np.maximum(curvature, LEAST_CURVATURE)

    def mean(self, f: np.ndarray, variance: np.ndarray) -> np.ndarray:
        values = self.inverse_link(f[..., None] + np.sqrt(np.maximum(variance, 0.0))[..., None] * NODES)
        return values @ NODE_WEIGHTS

    def inverse_link(self, f: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def loss(self, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Bernoulli(Laplace):
    """Two classes, y in {0, 1}, with a logistic link."""

    log_scale = float(np.log(2.0))

    def noise_variance(self, model):
        return np.pi**2 / 3.0

    def log_density(self, y, f):
        return -np.logaddexp(0.0, np.where(y > 0.5, -f, f))

    def derivatives(self, y, f):
        q = expit(f)
        return y - q, q * (1.0 - q), -q * (1.0 - q) * (1.0 - 2.0 * q)

    def start(self, y, offset):
        return np.zeros_like(y)

    def inverse_link(self, f):
        return expit(f)

    def loss(self, y, mean):
        return -np.log(np.maximum(np.where(y > 0.5, mean, 1.0 - mean), 1e-12))


Likelihood = Gaussian | Laplace
