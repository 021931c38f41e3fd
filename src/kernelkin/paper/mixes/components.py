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
from scipy.optimize import nnls

from ...decompositions import eigh, least_squares, pseudo_inverse
from ..grams.operator import SharedOperator
from .spectrum import MixSpectrum

# Sweeps of coordinate descent, and the change relative to the largest weight at which they end.
_SWEEPS, _CHANGE = 500, 1e-6
# Traces of products are sums over so many rows at one time.
_TRACE_ROWS = 128
# Up to so many columns, bounded least squares are solved one column after the other, which is exact.
_FEW_COLUMNS = 200
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
        return cls(operator, spectrum, strength, information(operator, spectrum.inverse(strength)))

    def moments(self, turned: Any) -> np.ndarray:
        """Turned targets (n, o) -> (K + 2, o): r, and then y' R y."""
        arrays, a = self.operator.arrays, self.spectrum.duals(turned, self.strength)
        forms = [(a * a).sum(0)]
        forms += [(a * (self.operator.matrix(k) @ a)).sum(0) for k in range(self.operator.n_kernels)]
        forms.append((turned * turned / (self.strength * self.spectrum.values + 1.0)[:, None]).sum(0))
        return arrays.numpy(arrays.xp.stack(forms))


def information(operator: SharedOperator, inverse: Any) -> np.ndarray:
    """S (K + 1, K + 1), noise first, from R (n, n)."""
    arrays = operator.arrays
    products = [inverse, *(operator.matrix(k) @ inverse for k in range(operator.n_kernels))]
    S = np.zeros((len(products), len(products)))
    for first in range(0, len(inverse), _TRACE_ROWS):
        some = slice(first, first + _TRACE_ROWS)
        rows = arrays.xp.stack([product[some] for product in products]).reshape(len(products), -1)
        columns = arrays.xp.stack([product[:, some].T for product in products]).reshape(len(products), -1)
        S += arrays.numpy(rows @ columns.T)
    return 0.5 * (S + S.T)


def component_weights(S: np.ndarray, moments: np.ndarray, n_free: Any, classes: np.ndarray | None = None) -> np.ndarray:
    """Kernel weights (K, T) at cost 1, from S, and r and y' R y of all tasks (K + 2, T).

    `n_free` are the rows of each task, less one for an intercept; S and `classes` are those of `drawn_together`.
    """
    scale = moments[-1] / np.maximum(n_free, 1)
    theta = drawn_together(S, moments[:-1] / np.maximum(scale, np.finfo(float).tiny), classes)
    return theta[1:] / np.maximum(theta[0], _LEAST_NOISE * theta.sum(axis=0))


def drawn_together(S: np.ndarray, moments: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
    """Components theta >= 0 (K + 1, T) from S and r (K + 1, T), drawn towards those of all tasks.

    S is (K + 1, K + 1), or (q, K + 1, K + 1) where `classes` (T,) say which of them is that of a task. A task's own
    estimate has the covariance 2 inv(S). What estimates spread beyond that is the spread of the tasks.
    """
    if classes is None:
        S, classes = S[np.newaxis], np.zeros(moments.shape[1], dtype=np.intp)
    # Components that rows cannot distinguish have a singular S.
    covariances = [pseudo_inverse(each, cutoff=1e-10) for each in S]
    estimates, shares = np.empty_like(moments), np.bincount(classes, minlength=len(S)) / len(classes)
    for number, covariance in enumerate(covariances):
        estimates[:, classes == number] = covariance @ moments[:, classes == number]
    mean = _bounded_least_squares(np.tensordot(shares, S, 1), moments.mean(axis=1, keepdims=True))
    spread = estimates.var(axis=1, ddof=1) if estimates.shape[1] > 1 else np.full(len(mean), np.inf)
    chance = 2.0 * np.tensordot(shares, [np.diag(each) for each in covariances], 1)
    between = np.maximum(spread - chance, np.square(_LEAST_SPREAD * mean[:, 0] + 1e-12))
    prior, theta = np.diag(1.0 / between), np.empty_like(moments)
    for number, own in enumerate(S):
        right = 0.5 * moments[:, classes == number] + prior @ mean
        theta[:, classes == number] = _bounded_least_squares(0.5 * own + prior, right)
    return theta


def _bounded_least_squares(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The minimum of x' H x / 2 - g' x over x >= 0, for each column of g (K, T)."""
    if g.shape[1] <= _FEW_COLUMNS:
        return _bounded_by_column(H, g)
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


def _bounded_by_column(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The same by an active set for each column: |R x - d|^2 has the same minimum where R'R = H and R'd = g.

    Variables are scaled to a diagonal of ones, for their entries may differ by many orders of magnitude.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
    values, vectors = eigh(scale[:, np.newaxis] * H * scale)
    kept = values > 1e-12 * len(H)
    roots, basis = np.sqrt(values[kept])[:, np.newaxis], vectors[:, kept].T
    wanted = basis @ (scale[:, np.newaxis] * g) / roots
    found = [nnls(roots * basis, column, maxiter=100 * len(H))[0] for column in wanted.T]
    return scale[:, np.newaxis] * np.column_stack(found)


def expected_gains(gains: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Gains (c, T) of candidates over a reference, each with a standard error (c, T) -> what to expect of them.

    The true gains of a candidate are taken to spread over tasks around their mean, by as much as the measured ones do
    beyond their errors. The expectation is the posterior mean: a task whose rows tell little has the mean of all tasks.
    """
    mean = gains.mean(axis=1, keepdims=True)
    variance = np.square(errors)
    between = np.maximum(gains.var(axis=1, keepdims=True) - variance.mean(axis=1, keepdims=True), 0.0)
    total = between + variance
    drawn = (between * gains + variance * mean) / np.maximum(total, np.finfo(float).tiny)
    return np.where(total > 0, drawn, gains)


def mean_strengths(strengths: np.ndarray, gains: np.ndarray, loss: np.ndarray, n_rows: Any) -> np.ndarray:
    """The strength of each task (T,): the geometric mean of strengths (c,), weighted by their gains (c, T).

    The weights are those of Gaussian errors of which `loss` (T,) is the mean square, over `n_rows` or as many (T,).
    """
    weights = 0.5 * n_rows * gains / np.maximum(loss, np.finfo(float).tiny)
    weights = np.exp(weights - weights.max(axis=0))
    return np.exp(np.log(strengths) @ weights / weights.sum(axis=0))
