"""Leave-one-out errors of all tasks of wide data at a mix of kernels, and kernel weights for each task.

With G the mix, c the strength and `V = c G + I`, a ridge machine of cost 1 has the dual variables `a = R y`. R is the
inverse of V without the direction of the intercept. One eigendecomposition gives the leave-one-out residuals
`a_i / R_ii` of every task at every strength. Memory is `O(K n^2 + n T)`.

The own weights of a task are variance components: its targets have the covariance `theta_0 I + sum_k theta_k G_k`. The
solution of

    S theta = r,    S_kl = tr(R G_k R G_l),   r_k = y' R G_k R y,      G_0 = I,

is an unbiased estimate of theta for any V (MINQUE). If V is this covariance up to a factor s, it is also a step of
Fisher scoring towards maximum likelihood, and the information about theta/s is S/2. S does not depend on the task, so
K + 1 products give the estimates of all tasks. Estimates are then shrunk towards the mean of all tasks, the more the
less information a task has, and constrained to be non-negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import nnls

from ...decompositions import eigh, least_squares, pseudo_inverse
from ..grams.operator import SharedOperator, in_blocks

_TINY = np.finfo(float).tiny
# Bounded least squares: up to this many columns are solved exactly, one by one. More columns are solved by coordinate
# descent with at most this many sweeps, until the largest change is below this share of the largest weight.
_FEW_COLUMNS, _SWEEPS, _CHANGE = 200, 500, 1e-6
# Number of rows of a block when traces of products are summed.
_TRACE_ROWS = 128
# Minimum standard deviation between tasks, as a share of the mean, so that tasks are never taken to be equal.
_LEAST_SPREAD = 1e-2


class TaskTargets:
    """The targets Y (n, T) of all tasks on the rows of an operator, and the strengths (c,) to try."""

    def __init__(self, operator: SharedOperator, Y: np.ndarray, has_intercept: bool, strengths: np.ndarray) -> None:
        self.operator, self.arrays = operator, operator.arrays
        self.has_intercept, self.strengths = has_intercept, strengths
        self.means = Y.mean(axis=0) if has_intercept else np.zeros(Y.shape[1])
        self.Y = Y - self.means
        self.variance = np.maximum(np.square(self.Y).mean(axis=0), _TINY)
        self._on_device = self.arrays.array(self.Y)

    def take(self, rows: np.ndarray) -> TaskTargets:
        """Return the targets at some rows."""
        return TaskTargets(self.operator.take(rows), self.Y[rows], self.has_intercept, self.strengths)

    def errors(
        self, spectrum: Spectrum, reference: Spectrum | None = None, strength: float = 1.0
    ) -> tuple[np.ndarray, ...]:
        """Return leave-one-out mean squared errors (c, T) at a mix, gains over a reference, and their standard errors.

        The reference is another mix at one strength; without it, gains are relative to errors of zero.
        """

        def work(Y: Any) -> np.ndarray:
            turned, rows = spectrum.vectors.T @ Y, []
            base = 0.0 if reference is None else reference.left_out(reference.vectors.T @ Y, strength) ** 2
            for c in self.strengths.tolist():
                loss = spectrum.left_out(turned, c) ** 2
                gain = (base - loss).mean(0)
                rows += [loss.mean(0), gain, ((base - loss - gain) ** 2).mean(0)]
            return self._table(rows)

        table = self._columns(work)
        return table[0::3], table[1::3], np.sqrt(table[2::3] / len(self.Y))

    def own_weights(self, spectrum: Spectrum, strength: float, members: np.ndarray) -> np.ndarray:
        """Return own mixes (K, members) of some tasks, by a step of Fisher scoring from a mix.

        Each has sum one, or is zero if no kernel explains variance of the task.
        """
        *moments, square = self._columns(lambda Y: self.moments(spectrum, strength, Y), members)
        S = information(self.operator, spectrum.inverse(strength))
        scale = square / max(len(self.Y) - int(self.has_intercept), 1)
        weights = shrunk_components(S, moments / np.maximum(scale, _TINY))[1:]
        return weights / np.maximum(weights.sum(axis=0), _TINY)

    def moments(self, spectrum: Spectrum, strength: float, Y: Any) -> np.ndarray:
        """Return r and, in the last row, y' R y of the columns of Y (n, o) -> (K + 2, o)."""
        turned = spectrum.vectors.T @ Y
        a = spectrum.duals(turned, strength)
        forms = [(a * a).sum(0)]
        forms += [(a * (self.operator.matrix(k) @ a)).sum(0) for k in range(self.operator.n_kernels)]
        forms.append((turned * turned / (strength * spectrum.values + 1.0)[:, None]).sum(0))
        return self._table(forms)

    def _columns(self, work: Callable[[Any], np.ndarray], members: np.ndarray | None = None) -> np.ndarray:
        """Apply `work` to the columns of Y, or to those of some tasks, in blocks."""
        Y, every = self._on_device, np.arange(self.Y.shape[1]) if members is None else members

        def some(where: slice) -> np.ndarray:
            return work(Y[:, where] if members is None else Y[:, self.arrays.array(every[where])])

        size = self.arrays.columns(self.operator.n_rows, self.operator.n_kernels)
        return np.concatenate(in_blocks(self.arrays, len(every), size, some), axis=-1)

    def _table(self, rows: list[Any]) -> np.ndarray:
        """Stack arrays of the operator's device into a NumPy array."""
        return self.arrays.numpy(self.arrays.xp.stack(rows))


class Spectrum:
    """Eigenvalues (n,) and eigenvectors (n, n) of a mix (K,) of kernels, centred if there is an intercept."""

    def __init__(self, targets: TaskTargets, mix: np.ndarray) -> None:
        operator, arrays = targets.operator, targets.arrays
        gram = sum(float(mix[k]) * operator.matrix(k) for k in np.flatnonzero(mix).tolist())
        if targets.has_intercept:
            gram = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
        values, self.vectors = arrays.eigh(gram)
        self.values = arrays.xp.where(values > 0, values, 0.0 * values)
        # The direction of the intercept is removed by subtracting this from each entry of the inverse.
        self.free = 1.0 / len(values) if targets.has_intercept else 0.0

    def duals(self, turned: Any, strength: float) -> Any:
        """Return R Y (n, o), from Y in the basis of the eigenvectors."""
        return self.vectors @ (turned / (strength * self.values + 1.0)[:, None])

    def left_out(self, turned: Any, strength: float) -> Any:
        """Return leave-one-out residuals (n, o), from Y in the basis of the eigenvectors."""
        diagonal = (self.vectors * self.vectors) @ (1.0 / (strength * self.values + 1.0)) - self.free
        return self.duals(turned, strength) / diagonal[:, None]

    def inverse(self, strength: float) -> Any:
        """Return R (n, n)."""
        return (self.vectors / (strength * self.values + 1.0)) @ self.vectors.T - self.free


def information(operator: SharedOperator, inverse: Any) -> np.ndarray:
    """Return S (K + 1, K + 1), with the noise first, from R (n, n)."""
    arrays = operator.arrays
    products = [inverse, *(operator.matrix(k) @ inverse for k in range(operator.n_kernels))]
    S = np.zeros((len(products), len(products)))
    for first in range(0, len(inverse), _TRACE_ROWS):
        some = slice(first, first + _TRACE_ROWS)
        rows = arrays.xp.stack([product[some] for product in products]).reshape(len(products), -1)
        columns = arrays.xp.stack([product[:, some].T for product in products]).reshape(len(products), -1)
        S += arrays.numpy(rows @ columns.T)
    return 0.5 * (S + S.T)


def shrunk_components(S: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return components theta >= 0 (K + 1, T) from S and r (K + 1, T), shrunk towards the mean of all tasks.

    The estimate of a task has the covariance 2 inv(S). Variance of the estimates beyond that is variance between tasks.
    """
    # S is singular if the rows cannot distinguish some components.
    covariance = pseudo_inverse(S, cutoff=1e-10)
    estimates = covariance @ moments
    mean = _bounded_least_squares(S, moments.mean(axis=1, keepdims=True))
    spread = estimates.var(axis=1, ddof=1) if estimates.shape[1] > 1 else np.full(len(mean), np.inf)
    between = np.maximum(spread - 2.0 * np.diag(covariance), np.square(_LEAST_SPREAD * mean[:, 0] + 1e-12))
    prior = np.diag(1.0 / between)
    return _bounded_least_squares(0.5 * S + prior, 0.5 * moments + prior @ mean)


def _bounded_least_squares(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Return the minimum of x' H x / 2 - g' x over x >= 0, for each column of g (K, T)."""
    diagonal = np.maximum(np.diag(H), _TINY)
    if g.shape[1] > _FEW_COLUMNS:
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
    # |A x - d|^2 has the same minimum if A'A = H and A'd = g. Variables are scaled so that H has a diagonal of ones,
    # because its entries may differ by many orders of magnitude.
    scale = 1.0 / np.sqrt(diagonal)
    values, vectors = eigh(scale[:, np.newaxis] * H * scale)
    kept = values > 1e-12 * len(H)
    roots, basis = np.sqrt(values[kept])[:, np.newaxis], vectors[:, kept].T
    wanted = basis @ (scale[:, np.newaxis] * g) / roots
    found = [nnls(roots * basis, column, maxiter=100 * len(H))[0] for column in wanted.T]
    return scale[:, np.newaxis] * np.column_stack(found)
