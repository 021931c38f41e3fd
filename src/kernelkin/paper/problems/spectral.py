"""The problem of MTFL and MTRL: one kernel for all tasks, and a norm of the singular values of all tasks' functions.

With the tasks' functions as the columns of W, in the feature space of the kernel,

    minimise over W:   sum_t loss_t(w_t) + (l1/2) |W|_F^2 + (l2/2) |W|_*^2

and `|W|_*^2 = min { tr(W' inv(D) W) : D >= 0, tr D <= 1 } = min { tr(W inv(Omega) W') : Omega >= 0, tr Omega <= 1 }`.
D is a covariance of features (MTFL), Omega one of tasks (MTRL); the problem is the same, and a point of it is D or
Omega, whichever the form is written in. The machines work with the metric `A = D inv(l1 D + l2 I)`. With V = (sum over
rows i of task t of a_i phi(x_i))_t, W = A V (or V A), and Q is half of VV' (or V'V).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ...decompositions import eigh, eigvalsh
from ...engines import Each, serially
from ..grams.row_kernels import Features, PooledKernel
from ..learners import DualSolution, Learner, Machine
from ..penalties import Relation, SpectralNorm
from .machines import SolvedMachines, Units
from .problem import AnyProblem, Evaluation


class FeatureForm:
    """The problem from the side of the features: A is (r, r), and every task is a machine of its own.

    Both forms stand for Gram matrices; `unpack`, `coefficients` and `task_covariance` return what a fitted model needs.
    """

    def __init__(self, features: Any, rows: Sequence[np.ndarray], machines: Sequence[Machine]) -> None:
        self.features = features
        self.machines = machines
        self.Phi = [np.ascontiguousarray(features.Phi[kept]) for kept in rows]
        self.n_kernels = self.n_components = features.Phi.shape[1]
        self.n_machines = len(machines)

    def with_machines(self, machines: Sequence[Machine]) -> FeatureForm:
        """The same form with other targets and costs, given in the shape of `machines`."""
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
        """The dual variables (n_t, m_t) and intercepts (m_t,) of each task."""
        return [dual.a for dual in duals], [dual.intercept.sum(axis=0) for dual in duals]

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """(n, O): every output as a sum over the pooled rows."""
        return self.features.dual(A @ self._directions([dual.a for dual in duals]))

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """W'W (O, O)."""
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


SpectralForm = FeatureForm | GramForm


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


# All outputs are one machine, and solvers take many steps to the best D. What is left open of a machine would grow with
# every one of them, and a row of weight two would come out as another fit than the row twice. So machines of so many
# rows at most are solved to this relative gap.
_SMALL = 200
_EXACT = 1e-12


@dataclass(frozen=True)
class SpectralProblem(AnyProblem):
    """Machines in one of the two forms, a learner, and the spectral norm of their functions."""

    form: SpectralForm
    learner: Learner
    norm: SpectralNorm
    name: ClassVar[str] = "spectral"

    @property
    def grams(self) -> SpectralForm:
        return self.form

    @property
    def machines(self) -> Sequence[Machine]:  # type: ignore[override]
        return self.form.machines

    def evaluate(self, B: np.ndarray, *, tol: float = 1e-3, **options: Any) -> Evaluation:
        """Solve every machine at the covariance B = D (r, r) of trace one; small machines exactly."""
        tol = _EXACT if max(len(machine.y) for machine in self.machines) <= _SMALL else tol
        return super().evaluate(B, tol=tol, weights=self.machine_weights(B), **options)

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at the metric of B = D (r, r)."""
        # The machines' norms are tr(W' inv(A) W); a trace above one, be it by rounding, has to be paid for.
        excess = max(float(np.trace(B)) - 1.0, 0.0)
        conjugate = self.norm.conjugate(np.sqrt(np.maximum(2.0 * eigvalsh(solved.Q), 0.0)))
        return Evaluation.of(B, solved, solved.upper + excess * solved.quad, solved.lin - conjugate - solved.rounding)

    def machine_weights(self, B: np.ndarray) -> np.ndarray:
        """The metric A (r, r) of the covariance B = D, which the forms' functions are made with."""
        return self.norm.metric(B)

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem with targets of order one, and the units that lead back: units of the form's own machines."""
        units = Units.of(self.machines, self.learner, weights=False)
        form = self.form.with_machines(units.machines(self.machines))
        return replace(self, form=form, learner=units.learner(self.learner)), units

    def relation(self, B: np.ndarray) -> Relation:
        """D itself."""
        values, vectors = eigh(B)
        return Relation(vectors, np.maximum(values, 0.0), 0.0)
