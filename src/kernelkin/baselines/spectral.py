"""What MTFL and MTRL share: one kernel for all tasks, and a penalty on the singular values of all tasks' functions.

With the tasks' functions as the columns of W, in the feature space of the kernel,

    minimise over W:   sum_t loss_t(w_t) + (l1/2) |W|_F^2 + (l2/2) |W|_*^2

and `|W|_*^2 = min { tr(W' inv(D) W) : D >= 0, tr D <= 1 } = min { tr(W inv(Omega) W') : Omega >= 0, tr Omega <= 1 }`.
D is a covariance of features (MTFL), Omega one of tasks (MTRL); the problem is the same. For fixed D the tasks are
machines of their own, with the kernel `phi' A phi`; for fixed Omega they are one machine, with the kernel
`A[t,t'] k(x,x')`; both times `A = D inv(l1 D + l2 I)`. The smaller side is used: D where the kernel has at most as many
features as there are outputs (a linear kernel and many tasks), Omega otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..grams import Grams
from ..learners import DualSolution, Machine
from ..objective import Evaluation, Objective
from ..parallel import Each, serially
from ..penalties import Penalty
from .pooled import Features, PooledKernel

# Machines of so many rows are solved to this relative gap.
_SMALL = 200
_EXACT = 1e-12


@dataclass(frozen=True)
class SpectralPenalty(Penalty):
    """The penalty above, in the place of the kernel weights: B is the metric A, and Q half of VV' (or V'V).

    V = (sum over rows i of task t of a_i phi(x_i))_t, so that W = A V (or V A).
    """

    l1: float
    l2: float
    name: ClassVar[str] = "spectral"

    def metric(self, D: np.ndarray) -> np.ndarray:
        """D -> A = D inv(l1 D + l2 I)."""
        return _spectral_map(D, lambda d: d / (self.l1 * d + self.l2))

    def metric_adjoint(self, D: np.ndarray, G: np.ndarray) -> np.ndarray:
        """The gradient in D of a function whose gradient in A is G: l2 R G R with R = inv(l1 D + l2 I)."""
        R = np.linalg.inv(self.l1 * D + self.l2 * np.eye(len(D)))
        return self.l2 * R @ G @ R

    def relation(self, B: np.ndarray) -> np.ndarray:
        """The D of a metric A: the inverse of `metric`."""
        return _spectral_map(B, lambda a: self.l2 * a / (1.0 - self.l1 * a))

    def value_and_gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """0 and zeros: every metric stands for a D of trace one."""
        return 0.0, np.zeros_like(B)

    def bound(self, Q: np.ndarray, B: np.ndarray, mu: float) -> float:
        """Minus the convex conjugate of the penalty at V: with the machines' linear terms, the dual value."""
        return -self.conjugate(np.sqrt(np.maximum(2.0 * np.linalg.eigvalsh(Q), 0.0)))

    def conjugate(self, v: np.ndarray) -> float:
        """max over s >= 0 of v's - (l1/2) |s|^2 - (l2/2) (sum s)^2, for v (r,) >= 0.

        The k largest v have s_i = (v_i - l2 S)/l1 with S = sum of them / (l1 + k l2); the value is v's/2.
        """
        v = np.sort(v)[::-1]
        if self.l1 == 0:
            return float(v[0] ** 2) / (2.0 * self.l2)
        level = self.l2 * np.cumsum(v) / (self.l1 + self.l2 * np.arange(1, len(v) + 1))
        active = np.flatnonzero(v > level)
        s = v[: active[-1] + 1] - level[active[-1]] if len(active) else v[:0]
        return 0.5 * float(v[: len(s)] @ s) / self.l1


@dataclass(frozen=True)
class SpectralObjective(Objective):
    """The problem, with small machines solved to rounding.

    All outputs are one machine, and solvers take many steps to the best D. What is left open of a machine would grow
    with every one of them, and a row of weight two would come out as another fit than the row twice.
    """

    def evaluate(self, B: np.ndarray, **how: Any) -> Evaluation:
        if max(len(machine.y) for machine in self.machines) <= _SMALL:
            how["tol"] = _EXACT
        return super().evaluate(B, **how)


def _spectral_map(S: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to the eigenvalues of S, which are not negative but for rounding."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * function(np.maximum(values, 0.0))) @ vectors.T


def unit_root(S: np.ndarray) -> np.ndarray:
    """S^(1/2) / tr S^(1/2); where S is zero, the identity of trace one."""
    root = _spectral_map(S, np.sqrt)
    trace = np.trace(root)
    return root / trace if trace > 0 else np.eye(len(S)) / len(S)


class SpectralForm(Grams, Protocol):
    """One of the two sides the problem can be written from, with what a fitted model needs of it."""

    machines: Sequence[Machine]

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
    pool: PooledKernel, features: Features | None, rows: Sequence[np.ndarray], machines: Sequence[Machine]
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
