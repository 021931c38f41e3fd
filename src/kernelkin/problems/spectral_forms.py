"""The two sides from which the problem of MTFL and MTRL can be written: that of the features and that of the tasks.

For fixed D the tasks are machines of their own, with the kernel `phi' A phi`; for fixed Omega they are one machine,
with the kernel `A[t,t'] k(x,x')`. The smaller side is used: D where the kernel has at most as many features as there
are outputs (a linear kernel and many tasks), Omega otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Protocol

import numpy as np

from ..engines import Each, serially
from ..grams import Grams
from ..learners import DualSolution, Machine


class Features(Protocol):
    """Explicit features of a kernel on the pooled rows."""

    @property
    def Phi(self) -> np.ndarray:
        """(n, r) with Phi Phi' the Gram."""
        ...

    def dual(self, W: np.ndarray) -> np.ndarray:
        """W (r, O) -> coefficients (n, O) of the same functions as sums of k(x, x_i)."""
        ...


class Pool(Protocol):
    """One kernel over the rows that any task uses."""

    @property
    def rows(self) -> np.ndarray:
        """(n,) these rows of the training X, ascending."""
        ...

    def gram(self) -> np.ndarray:
        """(n, n)."""
        ...


class SpectralForm(Grams, Protocol):
    """One of the two sides the problem can be written from, with what a fitted model needs of it."""

    machines: Sequence[Machine]

    def with_machines(self, machines: Sequence[Machine]) -> SpectralForm:
        """The same form with other targets and costs, given in the shape of `machines`."""
        ...

    def unpack(self, duals: Sequence[DualSolution]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The dual variables (n_t, m_t) and intercepts (m_t,) of each task."""
        ...

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """(n, O): every output as a sum over the pooled rows."""
        ...

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """W'W (O, O)."""
        ...


class FeatureForm:
    """From the side of the features: A is (r, r), and every task is a machine of its own."""

    def __init__(self, features: Features, rows: Sequence[np.ndarray], machines: Sequence[Machine]) -> None:
        self.features = features
        self.machines = machines
        self.Phi = [np.ascontiguousarray(features.Phi[kept]) for kept in rows]
        self.n_kernels = self.n_components = features.Phi.shape[1]
        self.n_machines = len(machines)

    def with_machines(self, machines: Sequence[Machine]) -> FeatureForm:
        other = copy(self)
        other.machines = machines
        return other

    def batches(self) -> Iterator[range]:
        yield range(self.n_machines)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        return each(lambda t: _symmetric_product(self.Phi[t], B), machines)

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        V = self._directions(a)
        return 0.5 * V @ V.T

    def _directions(self, a: Sequence[np.ndarray]) -> np.ndarray:
        """V (r, O)."""
        return np.hstack([Phi.T @ part for Phi, part in zip(self.Phi, a, strict=True)])

    def unpack(self, duals: Sequence[DualSolution]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [dual.a for dual in duals], [dual.intercept.sum(axis=0) for dual in duals]

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        return self.features.dual(A @ self._directions([dual.a for dual in duals]))

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        W = A @ self._directions([dual.a for dual in duals])
        return W.T @ W


class GramForm:
    """From the side of the tasks: A is (O, O), and all outputs are one machine with an intercept for each.

    Its rows are pairs of a row and an output, output by output.
    """

    def __init__(self, gram: np.ndarray, rows: Sequence[np.ndarray], machines: Sequence[Machine]) -> None:
        widths = [machine.y.shape[1] for machine in machines]
        self.shapes = [machine.y.shape for machine in machines]
        sizes = np.repeat([len(kept) for kept in rows], widths)
        self.n_rows = len(gram)
        self.position = np.concatenate([np.tile(kept, m) for kept, m in zip(rows, widths, strict=True)])
        self.output = np.repeat(np.arange(len(sizes)), sizes)
        self.gram = gram[np.ix_(self.position, self.position)]
        self.machines: Sequence[Machine] = [_join(machines, self.output)]
        self.n_kernels = self.n_components = len(sizes)
        self.n_machines = 1

    def with_machines(self, machines: Sequence[Machine]) -> GramForm:
        other = copy(self)
        other.machines = machines
        return other

    def batches(self) -> Iterator[range]:
        yield range(1)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        joint = B[np.ix_(self.output, self.output)]
        joint *= self.gram
        return [joint]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        spread = np.zeros((len(self.output), self.n_components))
        spread[np.arange(len(self.output)), self.output] = a[0][:, 0]
        S = spread.T @ (self.gram @ spread)
        return 0.25 * (S + S.T)

    def unpack(self, duals: Sequence[DualSolution]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        ends = np.cumsum([n * m for n, m in self.shapes])
        blocks = np.split(duals[0].a[:, 0], ends[:-1])
        constants = duals[0].intercept[:, 0] if len(duals[0].intercept) else np.zeros(self.n_components)
        a = [np.ascontiguousarray(block.reshape(m, n).T) for block, (n, m) in zip(blocks, self.shapes, strict=True)]
        return a, np.split(constants, np.cumsum([m for _, m in self.shapes])[:-1])

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        spread = np.zeros((self.n_rows, self.n_components))
        spread[self.position, self.output] = duals[0].a[:, 0]
        return spread @ A

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        return A @ (2.0 * self.quadratic_forms([duals[0].a], range(1))) @ A


def spectral_form(
    pool: Pool, features: Features | None, rows: Sequence[np.ndarray], machines: Sequence[Machine]
) -> SpectralForm:
    """The side of the features, where there are few, or that of the tasks. `rows` are each task's rows of X."""
    positions = [np.searchsorted(pool.rows, kept) for kept in rows]
    if features is not None:
        return FeatureForm(features, positions, machines)
    return GramForm(pool.gram(), positions, machines)


def _join(machines: Sequence[Machine], output: np.ndarray) -> Machine:
    """One machine of all outputs, an intercept for each."""
    return Machine(
        y=np.concatenate([machine.y.T.ravel() for machine in machines])[:, np.newaxis],
        C=np.concatenate([machine.C.T.ravel() for machine in machines])[:, np.newaxis],
        groups=output,
        n_groups=sum(machine.n_groups * machine.y.shape[1] for machine in machines),
    )


def _symmetric_product(Phi: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Phi A Phi' (n, n), exactly symmetric."""
    gram = Phi @ A @ Phi.T
    gram += gram.T
    gram *= 0.5
    return gram
