"""Kernel ridge regression: a linear system, factorised once for solutions and Hessians.

    (G + diag(1/C)) a + Z c = r,   Z'a = 0

With a = sqrt(C) x the constraint says that x is orthogonal to sqrt(C) Z, so x solves the system projected to that
complement. Unlike elimination through the inverse of G + diag(1/C), nothing of the size of C cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsyr2k

from ...decompositions import factorise, solve_symmetric
from .base import DualSolution, HessianFunction, Machine


def indicators(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """groups (n,) -> Z (n, n_groups), one where a row has that intercept."""
    return (groups[:, None] == np.arange(n_groups)).astype(float)


class Groups:
    """Rows with an intercept in common: what the indicators Z (n, n_groups) do, without these.

    Parameters
    ----------
    labels : (n,) the intercept of each row, 0 to count - 1.
    count : number of intercepts; 0: there are none, and the labels are ignored.
    """

    def __init__(self, labels: np.ndarray, count: int) -> None:
        self.labels, self.count = labels, count
        self.sizes = np.bincount(labels, minlength=count) if count else np.zeros(0, dtype=np.intp)
        self._sorted = count > 0 and bool((labels[1:] >= labels[:-1]).all())

    @classmethod
    def of(cls, Z: np.ndarray) -> Groups:
        """From the indicators Z (n, count)."""
        return cls(Z.argmax(axis=1) if Z.shape[1] else np.zeros(len(Z), dtype=np.intp), Z.shape[1])

    def sums(self, V: np.ndarray) -> np.ndarray:
        """Z'V (n_groups, m) for V (n, m)."""
        out = np.zeros((self.count, V.shape[1]))
        if self._sorted:
            used = np.flatnonzero(self.sizes)
            starts = np.cumsum(self.sizes)[used] - self.sizes[used]
            out[used] = np.add.reduceat(V, starts, axis=0)
        elif self.count:
            np.add.at(out, self.labels, V)
        return out

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Z values (n, m) for values (n_groups, m); zero without groups."""
        return values[self.labels] if self.count else np.zeros((len(self.labels), values.shape[1]))

    def balance(self, V: np.ndarray) -> np.ndarray:
        """V (n, m) less the mean of each group."""
        return V - self.spread(self.sums(V) / np.maximum(self.sizes, 1)[:, None]) if self.count else V

    def basis(self, root: np.ndarray) -> np.ndarray:
        """root (n, 1) -> the columns of root Z that are not zero, scaled to norm one."""
        Z = root * indicators(self.labels, self.count)[:, self.sizes > 0]
        return Z / np.sqrt((Z * Z).sum(axis=0))

    def across(self, ends: np.ndarray) -> np.ndarray:
        """(count,) which groups have rows of several of the blocks of consecutive rows with these ends."""
        block = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        pairs = np.unique(np.column_stack([self.labels, block]), axis=0)
        return np.bincount(pairs[:, 0], minlength=self.count) > 1


class Bordered:
    """The system of a Gram (n, n), costs C (n,) > 0 and groups of rows.

    A Gram with structure has a solver of its own, which is faster than a factorisation of its entries.
    """

    def __init__(self, gram: Any, cost: np.ndarray, groups: Groups) -> None:
        self.root, self.groups = np.sqrt(cost)[:, None], groups
        self._system = _system(gram, self.root, groups)

    def solve(self, r: np.ndarray) -> np.ndarray:
        """a (n, m) for right-hand sides r (n, m)."""
        a = self.root * self._system.solve(self.root * r)
        # What rounding left of the sums is spread evenly: twice, for the last bit.
        return self.groups.balance(self.groups.balance(a))

    def energy(self, R: np.ndarray) -> np.ndarray:
        """R' A (K, K), for the solutions A of the right-hand sides R (n, K)."""
        return self._system.energy(self.root * R)


def _system(gram: Any, root: np.ndarray, groups: Groups) -> _Structured | _Dense:
    if hasattr(gram, "solver"):
        try:
            return _Structured(gram, root, groups)
        except LinAlgError:  # it is not accurate enough for entries as large as these
            pass
    return _Dense(np.asarray(gram), root, groups.basis(root))


class _Dense:
    """The system projected to the complement of `basis`, from the entries of the Gram."""

    def __init__(self, gram: np.ndarray, root: np.ndarray, basis: np.ndarray) -> None:
        self.basis = basis
        self.factor = factorise(lambda: _projected(gram, root, basis))

    def solve(self, target: np.ndarray) -> np.ndarray:
        return self.factor.solve(self._project(target))

    def energy(self, target: np.ndarray) -> np.ndarray:
        half = self.factor.half(self._project(target))
        return half.T @ half

    def _project(self, target: np.ndarray) -> np.ndarray:
        return target - self.basis @ (self.basis.T @ target) if self.basis.size else target


class _Structured:
    """The same by the Gram's own solver, which projects each block.

    Groups with rows of several blocks (tasks that borrow their intercept) are eliminated afterwards.
    """

    def __init__(self, gram: Any, root: np.ndarray, groups: Groups) -> None:
        borders, across = None, np.zeros((len(root), 0))
        if groups.count:
            several = groups.across(gram.ends)
            parts = zip(np.split(groups.labels, gram.ends[:-1]), np.split(root, gram.ends[:-1]), strict=True)
            borders = [_block_basis(labels, part, several) for labels, part in parts]
            across = _block_basis(groups.labels, root, ~several)
        self._solver = gram.solver(root, borders)
        self._across, self._border = across, self._solver.solve(across)

    def solve(self, target: np.ndarray) -> np.ndarray:
        x = self._solver.solve(target)
        return x - self._border @ self._eliminate(self._across.T @ x) if self._across.size else x

    def energy(self, target: np.ndarray) -> np.ndarray:
        return target.T @ self.solve(target)

    def _eliminate(self, target: np.ndarray) -> np.ndarray:
        return solve_symmetric(self._across.T @ self._border, target.T).T


def _block_basis(labels: np.ndarray, root: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """The basis of the groups that the rows of a block have, but those that are left out."""
    found = np.unique(labels)
    Z = root * (labels[:, None] == found[~left_out[found]])
    return Z / np.sqrt((Z * Z).sum(axis=0))


def _projected(gram: np.ndarray, root: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """`root G root'` projected to the complement of `basis`, in its upper triangle; the lower one is undefined."""
    scaled = root * gram
    scaled *= root.T
    if not basis.size:
        return scaled
    image = scaled @ basis
    image -= 0.5 * basis @ (basis.T @ image)
    # In place and in one triangle alone: passes over the matrix take nearly as long as its factorisation.
    return dsyr2k(-1.0, basis, image, beta=1.0, c=scaled.T, lower=1, overwrite_c=1).T


@dataclass(frozen=True)
class Ridge:
    """Squared loss: primal ``1/2 |w|^2 + sum_i C_i/2 (y_i - f_i - c)^2``."""

    name: ClassVar[str] = "ridge"
    homogeneous: ClassVar[bool] = False

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - sum_i a_i^2/(2 C_i) - 1/2 a'Ga`` with zero sums; see `Learner`.

        The solution is exact, so ``a0`` and ``tol`` are not used. Outputs with equal costs share one factorisation.
        """
        return self.linearise(gram, machine, a0, tol)[0]

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return 0.5 * float(np.sum(machine.C * np.square(machine.y - f)))

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights, which uses the same factorisations."""
        n, m = machine.y.shape
        a, intercept = np.zeros((n, m)), np.zeros((machine.n_groups, m))
        lin = quad = primal = 0.0
        systems: list[tuple[Bordered, np.ndarray, np.ndarray]] = []
        for columns in _equal_columns(machine.C):
            cost = machine.C[:, columns[0]]
            rows = np.flatnonzero(cost > 0)
            if len(rows) == 0:
                continue
            part = gram if len(rows) == n else _take(gram, rows)
            y, groups = machine.y[np.ix_(rows, columns)], Groups(machine.groups[rows], machine.n_groups)
            system = Bordered(part, cost[rows], groups)
            systems.append((system, rows, columns))
            solution = system.solve(y)
            a[np.ix_(rows, columns)] = solution
            intercept[:, columns], values = _evaluate(part, y, cost[rows], groups, solution)
            lin, quad, primal = lin + values[0], quad + values[1], primal + values[2]
        return DualSolution(a, intercept, lin, quad, primal), partial(_hessian, systems)


def _take(gram: Any, rows: np.ndarray) -> Any:
    """The Gram of some rows, with its structure if it has one."""
    return gram.take(rows) if hasattr(gram, "solver") else gram[np.ix_(rows, rows)]


def _hessian(systems: Sequence[tuple[Bordered, np.ndarray, np.ndarray]], images: np.ndarray) -> np.ndarray:
    """The sum over outputs of V'PV, where P maps a change of the right-hand side to the change of a."""
    H = np.zeros((len(images), len(images)))
    for system, rows, columns in systems:
        for column in columns:
            H += system.energy(images[:, rows, column].T)
    return H


def _equal_columns(C: np.ndarray) -> list[np.ndarray]:
    """C (n, m) -> the columns of each distinct cost vector."""
    if np.all(C[:, :1] == C):
        return [np.arange(C.shape[1])]
    labels = np.unique(C, axis=1, return_inverse=True)[1].ravel()
    return [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]


def _evaluate(
    gram: np.ndarray, y: np.ndarray, cost: np.ndarray, groups: Groups, a: np.ndarray
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """The best intercepts (n_groups, m) at a, and (lin, quad, primal) summed over outputs."""
    f = gram @ a
    residual = y - f
    weight = groups.sums(cost[:, None])
    intercept = groups.sums(cost[:, None] * residual) / np.where(weight > 0, weight, 1.0)
    residual -= groups.spread(intercept)
    quad = 0.5 * float(np.sum(a * f))
    lin = float(np.sum(y * a) - 0.5 * np.sum(a**2 / cost[:, None]))
    return intercept, (lin, quad, quad + 0.5 * float(np.sum(cost[:, None] * residual**2)))
