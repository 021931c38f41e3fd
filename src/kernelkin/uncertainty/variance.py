"""Predictive variance of ridge machines, which are Gaussian processes with intercepts of unknown size.

With k the covariances of a row x with the training rows, M = G + diag(1/C) and P as in `machines`,

    v(x) = k(x, x) - k'Pk - 2 h'k + h'Mh

where h are the coefficients with which the targets determine the intercept of the row's task: for any z with unit sum
over the rows of that task and zero sums over the others, h = z - PMz. The observation has the variance 1/C + v(x).

A task that was not in training has the covariance of its shared parts with the rows of the others, the whole variance
of all its parts beforehand, and an intercept that is a weighted mean of the others' (z has sums of these weights).

Nothing of the size of a Gram matrix is kept: it is built from the training rows when variances are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..kernels import FittedKernel, Scaling, diagonals, evaluate
from ..paper.couplings import Coupling, connected_tasks
from ..paper.functions import NewTask
from ..paper.learners.ridge import Bordered, Groups, indicators

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

    def deviations(
        self, X: np.ndarray, codes: np.ndarray | None, new: Mapping[int, NewTask] | None = None
    ) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q,); without codes, every task on every row -> (q, T).

        `new` has the tasks that were not in training, by their codes.
        """
        T, new = len(self.rows), new or {}
        out = np.zeros((len(X), T) if codes is None else len(X))
        rows_of = {t: (np.arange(len(X)) if codes is None else np.flatnonzero(codes == t)) for t in range(T)}
        for members in connected_tasks(self.couplings, T):
            wanted = [t for t in members.tolist() if len(rows_of[t])]
            if not wanted and not new:
                continue
            machine = self._posterior(members)
            for t in wanted:
                where = np.index_exp[:, t] if codes is None else (rows_of[t],)
                out[where] = self._variance(machine, X[rows_of[t]], t, members)
            for code, task in new.items():
                rows = np.flatnonzero(codes == code)
                out[rows] += self._new_change(machine, X[rows], task, members)
        for code in new:
            rows = np.flatnonzero(codes == code)
            out[rows] += self.new_prior(X[rows])
        return np.sqrt(self.noise + np.maximum(out, 0.0))

    def new_prior(self, X: np.ndarray) -> np.ndarray:
        """Return the variances (q,) that the function of a task that was not in training has beforehand.

        Its own part is as large as the mean of those of the tasks.
        """
        T, scaling = len(self.rows), self.scalings[0] if self.link_scaling is None else self.link_scaling
        every = np.arange(len(self.X)) if self.is_wide else np.concatenate(self.rows)
        b = self.B[:, :T].mean(axis=1)
        for j, coupling in enumerate(self.couplings):
            b = b + self.B[:, T + j] * float(np.square(coupling.factor).sum(axis=1).mean())
        return self._combined(X, b, scaling, every)[1]

    def covariance(self, X: np.ndarray, task: int, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return covariances (q, n) of rows of a task with the training rows of linked tasks, and variances (q,)."""
        loadings = tuple(coupling.factor[task] for coupling in self.couplings)
        cross, variance = self._shared(X, loadings, members)
        base = np.arange(len(self.X)) if self.is_wide else self.rows[task]
        own, diagonal = self._combined(X, self.B[:, task], self.scalings[0 if self.is_wide else task], base)
        starts = np.cumsum([0, *(len(self.rows[t]) for t in members)])
        position = int(np.flatnonzero(members == task)[0])
        part = own[:, self.rows[task]] if self.is_wide else own
        cross[:, starts[position] : starts[position + 1]] += part
        return cross, variance + diagonal

    def _shared(
        self, X: np.ndarray, loadings: tuple[np.ndarray, ...], members: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances (q, n) that couplings make, and variances (q,), of a task with these loadings."""
        sizes = [len(self.rows[t]) for t in members]
        cross, variance = np.zeros((len(X), sum(sizes))), np.zeros(len(X))
        for j, (coupling, loading) in enumerate(zip(self.couplings, loadings, strict=True)):
            if loading.any():
                shared, diagonal = self._linked(X, self.B[:, len(self.rows) + j], members)
                cross += shared * np.repeat(coupling.factor[members] @ loading, sizes)
                variance = variance + diagonal * float(loading @ loading)
        return cross, variance

    def _posterior(self, members: np.ndarray) -> Posterior:
        gram = np.vstack([self.covariance(self.X[self.rows[t]], t, members)[0] for t in members])
        groups = np.repeat(np.arange(len(members)), [len(self.rows[t]) for t in members])
        cost = np.concatenate([self.costs[t] for t in members])
        return Posterior((gram + gram.T) / 2, cost, indicators(groups, len(members) if self.has_intercept else 0))

    def _variance(self, machine: Posterior, X: np.ndarray, task: int, members: np.ndarray) -> np.ndarray:
        """Rows (q, d) of a task -> variances (q,) of its function."""
        levels, out = (members == task).astype(np.float64), np.empty(len(X))
        for part in machine.blocks(len(X)):
            cross, own = self.covariance(X[part], task, members)
            out[part] = own + machine.change(cross, levels)
        return out

    def _new_change(self, machine: Posterior, X: np.ndarray, task: NewTask, members: np.ndarray) -> np.ndarray:
        """Rows (q, d) of a new task -> what the rows of one machine add to its variances (q,)."""
        out = np.empty(len(X))
        for part in machine.blocks(len(X)):
            out[part] = machine.change(self._shared(X[part], task.loadings, members)[0], task.levels[members])
        return out

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


class Posterior:
    """What training rows say about functions that covary with them.

    Parameters
    ----------
    gram : (n, n) covariances of the rows, without noise
    cost : (n,) inverse variances of the noise
    groups : (n, G) one where a row has that intercept; G may be zero
    """

    def __init__(self, gram: np.ndarray, cost: np.ndarray, groups: np.ndarray) -> None:
        self.gram, self.cost, self.groups = gram, cost, groups
        self.system = Bordered(gram, cost, Groups.of(groups))

    def change(self, cross: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return what is added to the variances (q,) of a function.

        `cross` (q, n) are its covariances with the rows, `levels` (G,) the weights of the intercepts in its own.
        """
        h = self._intercept(levels)
        image = self.gram @ h + h / self.cost
        explained = np.einsum("qn,nq->q", cross, self.system.solve(cross.T))
        return float(h @ image) - explained - 2.0 * (cross @ h)

    def blocks(self, n: int) -> Iterator[slice]:
        """Slices of n rows, of a size that memory allows."""
        size = max(1, _BLOCK_BYTES // (8 * len(self.cost)))
        return (slice(start, start + size) for start in range(0, n, size))

    def _intercept(self, levels: np.ndarray) -> np.ndarray:
        """Return h (n,), zero without intercepts."""
        if not self.groups.size or not levels.any():
            return np.zeros(len(self.cost))
        weights = self.cost[:, np.newaxis] * self.groups
        z = (weights / weights.sum(axis=0)) @ levels
        return z - self.system.solve((self.gram @ z + z / self.cost)[:, np.newaxis])[:, 0]
