"""Predictive variance of ridge machines, which are Gaussian processes with intercepts of unknown size.

With k the covariances of a row x with the training rows, M = G + diag(1/C) and P as in `machines`,

    v(x) = k(x, x) - k'Pk - 2 h'k + h'Mh

where h are the coefficients with which the targets determine the intercept of the row's task: for any z with unit sum
over the rows of that task and zero sums over the others, h = z - PMz. The observation has the variance 1/C + v(x).

Nothing of the size of a Gram matrix is kept: it is built from the training rows when variances are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..couplings import Coupling, connected_tasks
from ..kernels import FittedKernel, Scaling, diagonals, evaluate
from ..learners.bordered import Bordered, Groups, indicators

# Kernel values held at one time, in bytes.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class ProcessVariance:
    """Variance of all tasks, in units in which the process has the covariance that `B` says.

    Attributes
    ----------
    X : (n, d) training rows.
    rows : for each task, its rows of X.
    is_wide : whether all tasks share one scaling, fitted on all rows of X.
    kernels, scalings, link_scaling, couplings : as in the fit.
    B : (K, J) kernel weights.
    costs : for each task (n_t,), the inverse variance of its rows' noise.
    noise : variance of the noise of a row of weight one.
    has_intercept : whether each task has an intercept.
    """

    X: np.ndarray
    rows: tuple[np.ndarray, ...]
    is_wide: bool
    kernels: tuple[FittedKernel, ...]
    scalings: tuple[Scaling, ...]
    link_scaling: Scaling | None
    B: np.ndarray
    couplings: tuple[Coupling, ...]
    costs: tuple[np.ndarray, ...]
    noise: float
    has_intercept: bool

    def deviations(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q,); without codes, every task on every row -> (q, T)."""
        T = len(self.rows)
        out = np.empty((len(X), T) if codes is None else len(X))
        for members in connected_tasks(self.couplings, T):
            machine = _TaskMachine(self, members)
            unknown = () if codes is None or len(members) < T else (-1,)
            for t in (*members.tolist(), *unknown):
                where = np.index_exp[:, t] if codes is None else (np.flatnonzero(codes == t),)
                rows = X if codes is None else X[where]
                if len(rows):
                    out[where] = np.sqrt(self.noise + machine.variance(rows, t))
        return out

    def covariance(self, X: np.ndarray, task: int, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return covariances (q, n) of rows of a task with the training rows of linked tasks, and variances (q,)."""
        starts = np.cumsum([0, *(len(self.rows[t]) for t in members)])
        cross, variance = np.zeros((len(X), starts[-1])), np.zeros(len(X))
        if task < 0:
            # The part of its own that nothing is known about is as large as the mean of those of the tasks.
            variance += float(self.B[:, : len(self.rows)].sum(axis=0).mean())
        else:
            base = np.arange(len(self.X)) if self.is_wide else self.rows[task]
            scaling = self.scalings[0 if self.is_wide else task]
            own, diagonal = self._combined(X, self.B[:, task], scaling, base)
            position = int(np.flatnonzero(members == task)[0])
            part = own[:, self.rows[task]] if self.is_wide else own
            cross[:, starts[position] : starts[position + 1]], variance = part, variance + diagonal
        for j, coupling in enumerate(self.couplings):
            loading = coupling.factor[task] if task >= 0 else self._unknown_loading(coupling)
            if loading.any():
                shared, diagonal = self._linked(X, self.B[:, len(self.rows) + j], members)
                spread = np.repeat(coupling.factor[members] @ loading, np.diff(starts))
                cross += shared * spread
                variance = variance + diagonal * float(loading @ loading)
        return cross, variance

    def _unknown_loading(self, coupling: Coupling) -> np.ndarray:
        return coupling.factor[0] if coupling.is_common else np.zeros(coupling.factor.shape[1])

    def _linked(self, X: np.ndarray, b: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert self.link_scaling is not None
        wanted = np.concatenate([self.rows[t] for t in members])
        if self.is_wide:
            shared, diagonal = self._combined(X, b, self.link_scaling, np.arange(len(self.X)))
            return shared[:, wanted], diagonal
        every = np.concatenate(self.rows)
        shared, diagonal = self._combined(X, b, self.link_scaling, every)
        ends = np.cumsum([len(rows) for rows in self.rows])
        columns = np.concatenate([np.arange(ends[t] - len(self.rows[t]), ends[t]) for t in members])
        return shared[:, columns], diagonal

    def _combined(
        self, X: np.ndarray, b: np.ndarray, scaling: Scaling, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the combined kernel (q, n) between rows and the training rows `base`, and with themselves (q,)."""
        active = np.flatnonzero(b)
        cross, diagonal = np.zeros((len(X), len(base))), np.zeros(len(X))
        if not len(active):
            return cross, diagonal
        kernels, scaling = [self.kernels[k] for k in active], scaling.select(active)
        size = max(1, _BLOCK_BYTES // (8 * len(active) * len(base)))
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            own, raw = diagonals(kernels, X[part]), evaluate(kernels, X[part], self.X[base])
            diagonal[part] = b[active] @ scaling.apply_diagonal(own, raw)
            cross[part] = np.tensordot(b[active], scaling.apply(raw, own, overwrite=True), axes=1)
        return cross, diagonal


class _TaskMachine:
    """The machine of linked tasks, factorised."""

    def __init__(self, process: ProcessVariance, members: np.ndarray) -> None:
        self.process, self.members = process, members
        gram = np.vstack([process.covariance(process.X[process.rows[t]], t, members)[0] for t in members])
        self.gram = (gram + gram.T) / 2
        self.cost = np.concatenate([process.costs[t] for t in members])
        sizes = [len(process.rows[t]) for t in members]
        groups = np.repeat(np.arange(len(members)), sizes)
        n_groups = len(members) if process.has_intercept else 0
        self.groups = indicators(groups, n_groups)
        self.system = Bordered(self.gram, self.cost, Groups(groups, n_groups))

    def variance(self, X: np.ndarray, task: int) -> np.ndarray:
        """Rows (q, d) of a task -> variances (q,) of its function."""
        h = self._intercept(task)
        image = self.gram @ h + h / self.cost
        out = np.empty(len(X))
        for part in self._blocks(len(X)):
            cross, own = self.process.covariance(X[part], task, self.members)
            explained = np.einsum("qn,nq->q", cross, self.system.solve(cross.T))
            out[part] = own - explained - 2.0 * (cross @ h) + float(h @ image)
        return np.maximum(out, 0.0)

    def _intercept(self, task: int) -> np.ndarray:
        """Return h (n,), zero without intercepts; the intercept of a task that was not in training is their mean."""
        if not self.groups.size:
            return np.zeros(len(self.cost))
        weights = self.cost[:, np.newaxis] * self.groups
        wanted = np.full(len(self.members), 1.0 / len(self.members)) if task < 0 else self.members == task
        z = (weights / weights.sum(axis=0)) @ wanted.astype(np.float64)
        return z - self.system.solve((self.gram @ z + z / self.cost)[:, np.newaxis])[:, 0]

    def _blocks(self, n: int) -> Iterator[slice]:
        size = max(1, _BLOCK_BYTES // (8 * len(self.cost)))
        return (slice(start, start + size) for start in range(0, n, size))
