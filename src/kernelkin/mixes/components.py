"""Kernel weights of each task as variance components: one step of Fisher scoring from weights that tasks share.

A task's targets have the covariance `theta_0 I + sum_k theta_k G_k`. Where V is about that, up to a factor s,

    S theta = r,    S_kl = tr(R G_k R G_l),   r_k = y' R G_k R y,      G_0 = I,

is an unbiased estimate of theta for any V (MINQUE), and a step of Fisher scoring towards the most likely one; the
information about theta/s is S/2. S does not depend on the task, so that K + 1 products give the estimates of all
tasks. They are then drawn towards those of all tasks, by how much each could tell from its own rows, and are not
negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..decompositions import least_squares, pseudo_inverse
from ..grams.operator import SharedOperator
from .spectrum import MixSpectrum

# Sweeps of coordinate descent, and the change relative to the largest weight at which they end.
_SWEEPS, _CHANGE = 500, 1e-6
# The least share of noise in the variance of a task, so that strengths stay finite.
_LEAST_NOISE = 1e-3
# The least spread over tasks, as a share of the mean: what many tasks say of each other is never certain.
_LEAST_SPREAD = 1e-2


@dataclass(frozen=True)
class Scoring:
    """What a step from one mix and strength needs.

    Attributes
    ----------
    spectrum, strength : where the step starts.
    information : (K + 1, K + 1) the matrix S, noise first.
    """

    operator: SharedOperator
    spectrum: MixSpectrum
    strength: float
    information: np.ndarray

    @classmethod
    def at(cls, operator: SharedOperator, spectrum: MixSpectrum, strength: float) -> Scoring:
        arrays, inverse = operator.arrays, spectrum.inverse(strength)
        products = [inverse, *(operator.matrix(k) @ inverse for k in range(operator.n_kernels))]
        S = np.zeros((len(products), len(products)))
        for k, first in enumerate(products):
            for j, second in enumerate(products[: k + 1]):
                S[k, j] = S[j, k] = float(arrays.numpy((first * second.T).sum()))
        return cls(operator, spectrum, strength, S)

    def moments(self, turned: Any) -> np.ndarray:
        """Turned targets (n, o) -> (K + 2, o): r, and then y' R y."""
        arrays, a = self.operator.arrays, self.spectrum.duals(turned, self.strength)
        forms = [(a * a).sum(0)]
        forms += [(a * (self.operator.matrix(k) @ a)).sum(0) for k in range(self.operator.n_kernels)]
        forms.append((turned * turned / (self.strength * self.spectrum.values + 1.0)[:, None]).sum(0))
        return arrays.numpy(arrays.stack(forms))

    def weights(self, moments: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """r (K + 1, T) and y' R y (T,) of all tasks -> kernel weights (K, T) at cost 1."""
        free = self.spectrum.n_rows - (1 if self.spectrum.has_intercept else 0)
        scaled = moments / np.maximum(scale / max(free, 1), np.finfo(float).tiny)
        theta = drawn_together(self.information, scaled)
        return theta[1:] / np.maximum(theta[0], _LEAST_NOISE * theta.sum(axis=0))


def drawn_together(S: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Components theta >= 0 (K + 1, T) from S and r (K + 1, T), drawn towards those of all tasks.

    A task's own estimate has the covariance 2 inv(S). What estimates spread beyond that is the spread of the tasks.
    """
    # Components that rows cannot distinguish have a singular S.
    covariance = pseudo_inverse(S, cutoff=1e-10)
    estimates = covariance @ moments
    mean = _bounded_least_squares(S, moments.mean(axis=1, keepdims=True))
    spread = estimates.var(axis=1, ddof=1) if estimates.shape[1] > 1 else np.full(len(S), np.inf)
    between = np.maximum(spread - 2.0 * np.diag(covariance), np.square(_LEAST_SPREAD * mean[:, 0] + 1e-12))
    prior = np.diag(1.0 / between)
    return _bounded_least_squares(0.5 * S + prior, 0.5 * moments + prior @ mean)


def _bounded_least_squares(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The minimum of x' H x / 2 - g' x over x >= 0, for each column of g (K, T), by coordinate descent."""
    diagonal = np.maximum(np.diag(H), np.finfo(float).tiny)
    x = np.maximum(least_squares(H, g), 0.0)
    for _ in range(_SWEEPS):
        largest = 0.0
        for k in range(len(H)):
            new = np.maximum(x[k] + (g[k] - H[k] @ x) / diagonal[k], 0.0)
            largest = max(largest, float(np.abs(new - x[k]).max()))
            x[k] = new
        if largest <= _CHANGE * float(x.max(initial=0.0)):
            break
    return x
