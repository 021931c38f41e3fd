"""Kernel machines on one Gram matrix: ridge regression by a linear system, support vector machines by SMO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsyr2k

from ...decompositions import factorise, solve_symmetric

# From the images G_k a (K, n, m) of a machine's dual variables to the Hessian (K, K) of its value in kernel weights.
HessianFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Machine:
    """The data of one kernel machine, without its Gram matrix.

    Parameters
    ----------
    y : (n, m) array
        Coded targets: -1 and +1 for classification (one column for each one-vs-rest problem), reals for regression.
    C : (n, m) array
        Non-negative cost of each row in each output. A row with zero cost is ignored: its ``a`` is zero.
    groups : (n,) array of intp
        The intercept of each row, 0 to ``n_groups - 1``.
    n_groups : int
        Number of intercepts. Zero: no intercept, and ``groups`` is ignored.
    """

    y: np.ndarray
    C: np.ndarray
    groups: np.ndarray
    n_groups: int


@dataclass(frozen=True)
class DualSolution:
    """A feasible point of a machine's dual, with the values that bound the optimum from both sides.

    Parameters
    ----------
    a : (n, m) array
        Signed dual variables: exactly inside their box, with zero sum over each group up to rounding.
    intercept : (n_groups, m) array
        The intercepts that minimise the primal at this ``a``.
    lin, quad : float
        The terms of the dual without the Gram matrix, and ``1/2 a'Ga``, summed over outputs.
    primal : float
        Value of the primal at ``w = sum_i a_i phi(x_i)`` and these intercepts.
    """

    a: np.ndarray
    intercept: np.ndarray
    lin: float
    quad: float
    primal: float

    @property
    def dual(self) -> float:
        """Lower bound on the machine's optimal value."""
        return self.lin - self.quad

    @property
    def gap(self) -> float:
        """Distance of the two bounds; non-negative up to rounding."""
        return self.primal - self.dual


@dataclass(frozen=True)
class Learner:
    """A loss: it solves one kernel machine given the machine's Gram matrix.

    Its key in `LEARNERS` is `name`. It is `homogeneous` if the terms of the dual without the Gram matrix are
    proportional to `a`: then the Gram ``t G`` with dual variables ``a / t`` gives the same function.
    """

    name: ClassVar[str]
    homogeneous: ClassVar[bool]

    def solve(self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3) -> DualSolution:
        """Solve to a gap of at most ``tol`` times the primal value, up to rounding.

        `gram` (n, n) is symmetric and positive semi-definite; `a0` (n, m) is where to start, and need not be feasible.
        """
        raise NotImplementedError

    def linearise(
        self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights.

        The Hessian is returned as a function of the images ``G_k a`` (K, n, m), to (K, K): they are needed for the
        gradient too. The function keeps the Gram matrix, or a factor of it, in memory.
        """
        raise NotImplementedError

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m) of a function, intercept included, at the rows of a machine."""
        raise NotImplementedError


class BoxLearner(Learner):
    """A support vector machine: dual variables in a box, solved by sequential minimal optimisation.

        max  y'a - epsilon |a|_1 - 1/2 a'Ga    subject to  lo <= a <= hi,  the sum of a over each group = 0

    with ``lo <= 0 <= hi``. The hinge loss has epsilon = 0 and a box on one side of zero (`one_sided`); the
    epsilon-insensitive loss a box on both. See `smo_core` for the algorithm.
    """

    homogeneous: ClassVar[bool] = True
    one_sided: ClassVar[bool] = False

    def solve(self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3) -> DualSolution:
        """Solve one output after the other; see `Learner`."""
        from .smo_core import DIAGONAL, HI, LO, N_ARRAYS, A, P, solve_output  # lazy: numba is slow to import

        (n, m), g = machine.y.shape, machine.n_groups
        order: Any = slice(None)
        starts = np.array([0, n][: g + 1], dtype=np.uint64)
        gram = np.asarray(gram)  # structured Grams become dense
        if g > 1:
            starts = np.concatenate([[0], np.cumsum(np.bincount(machine.groups, minlength=g))]).astype(np.uint64)
            if (machine.groups[1:] < machine.groups[:-1]).any():
                # The compiled code needs the rows of each group side by side.
                order = np.argsort(machine.groups, kind="stable")
                gram = gram[np.ix_(order, order)]
        # The compiled code has one signature: writable arrays in C order.
        gram = np.require(gram, np.float64, ["C", "W"])
        # |a_i| <= C_i; for the hinge loss also y_i a_i >= 0.
        lo, hi, epsilon = -machine.C, machine.C, float(getattr(self, "epsilon", 0.0))
        if self.one_sided:
            lo, hi = np.minimum(machine.y * machine.C, 0.0), np.maximum(machine.y * machine.C, 0.0)
        a, intercept, w = np.zeros((n, m)), np.empty((m, g)), np.empty((N_ARRAYS, n))
        values = np.zeros(3)
        for k in range(m):
            w[DIAGONAL], w[P], w[LO], w[HI] = gram.diagonal(), machine.y[order, k], lo[order, k], hi[order, k]
            w[A] = 0.0 if a0 is None else a0[order, k]
            values += solve_output(gram, w, starts, epsilon, intercept[k], tol)
            a[order, k] = w[A]
        return DualSolution(a, intercept.T, *values.tolist())

    def linearise(
        self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian, which depends on the rows between their bounds; see `Learner`."""
        solution = self.solve(gram, machine, a0, tol)
        size, cost = np.abs(solution.a), machine.C
        free = (size > _ROUNDING * cost) & (size < (1.0 - _ROUNDING) * cost)
        return solution, partial(_box_hessian, np.asarray(gram), machine, [column.nonzero()[0] for column in free.T])


# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This fraction of its mean diagonal is added to its diagonal.
_JITTER = 1e-8


def _box_hessian(gram: np.ndarray, machine: Machine, free: list[np.ndarray], images: np.ndarray) -> np.ndarray:
    """images G_k a (K, n, m) -> (K, K), from the free rows of each output."""
    H = np.zeros((len(images), len(images)))
    for k, rows in enumerate(free):
        part, V = gram[rows[:, np.newaxis], rows], images[:, rows, k]
        scale = part.trace() / max(len(rows), 1)
        if scale > 0.0:  # zero if all kernel weights are
            # A (G + jitter I) + c Z' = V with A Z = 0, for the indicators Z of the intercepts that these rows have.
            found = np.unique(machine.groups[rows]) if machine.n_groups > 1 else np.arange(machine.n_groups)
            Z = machine.groups[rows, np.newaxis] == found if machine.n_groups > 1 else np.ones((len(rows), len(found)))
            f, n = len(rows), sum(Z.shape)
            system, target = np.zeros((n, n)), np.zeros((len(V), n))
            system[:f, :f], system[:f, f:], system[f:, :f], target[:, :f] = part, Z, Z.T, V
            system.ravel()[: f * n : n + 1] += _JITTER * scale
            H += solve_symmetric(system, target)[:, :f] @ V.T
    return 0.5 * (H + H.T)


class SVM(BoxLearner):
    """Hinge loss: primal ``1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (f_i + c))`` with y in {-1, +1}."""

    name: ClassVar[str] = "svm"
    one_sided: ClassVar[bool] = True

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        return float(np.sum(machine.C * np.maximum(0.0, 1.0 - machine.y * f)))


@dataclass(frozen=True)
class SVR(BoxLearner):
    """Epsilon-insensitive loss: primal ``1/2 |w|^2 + sum_i C_i max(0, |y_i - f_i - c| - epsilon)``, epsilon >= 0."""

    epsilon: float = 0.1
    name: ClassVar[str] = "svr"

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        return float(np.sum(machine.C * np.maximum(0.0, np.abs(machine.y - f) - self.epsilon)))


class Ridge(Learner):
    """Squared loss: primal ``1/2 |w|^2 + sum_i C_i/2 (y_i - f_i - c)^2``, and so a linear system (see `Bordered`).

    The dual is ``y'a - sum_i a_i^2/(2 C_i) - 1/2 a'Ga`` with zero sums. Solutions are exact, so `a0` and `tol` are not
    used. Outputs with equal costs share one factorisation.
    """

    name: ClassVar[str] = "ridge"
    homogeneous: ClassVar[bool] = False

    def solve(self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3) -> DualSolution:
        return self.linearise(gram, machine, a0, tol)[0]

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        return 0.5 * float(np.sum(machine.C * np.square(machine.y - f)))

    def linearise(
        self, gram: Any, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights, which uses the same factorisations."""
        n, m = machine.y.shape
        a, intercept = np.zeros((n, m)), np.zeros((machine.n_groups, m))
        lin = quad = primal = 0.0
        systems: list[tuple[Bordered, np.ndarray, np.ndarray]] = []
        labels = np.zeros(m, dtype=np.intp)
        if not (machine.C[:, :1] == machine.C).all():
            labels = np.unique(machine.C, axis=1, return_inverse=True)[1].ravel()
        for label in range(labels.max() + 1):
            columns = np.flatnonzero(labels == label)
            rows = np.flatnonzero(machine.C[:, columns[0]] > 0)
            if len(rows) == 0:
                continue
            part = gram if len(rows) == n else gram.take(rows) if hasattr(gram, "solver") else gram[np.ix_(rows, rows)]
            y, cost = machine.y[np.ix_(rows, columns)], machine.C[rows, columns[0]][:, None]
            groups = Groups(machine.groups[rows], machine.n_groups)
            system = Bordered(part, cost[:, 0], groups)
            systems.append((system, rows, columns))
            x = system.solve(y)
            f = part @ x
            weight, residual = groups.sums(cost), y - f
            best = groups.sums(cost * residual) / np.where(weight > 0, weight, 1.0)
            residual -= groups.spread(best)
            a[np.ix_(rows, columns)], intercept[:, columns] = x, best
            norm = 0.5 * float(np.sum(x * f))
            lin, quad = lin + float(np.sum(y * x) - 0.5 * np.sum(x**2 / cost)), quad + norm
            primal += norm + 0.5 * float(np.sum(cost * residual**2))

        def hessian(images: np.ndarray) -> np.ndarray:
            """The sum over outputs of V'PV, where P maps a change of the right-hand side to the change of a."""
            H = np.zeros((len(images), len(images)))
            for system, rows, columns in systems:
                for column in columns:
                    H += system.energy(images[:, rows, column].T)
            return H

        return DualSolution(a, intercept, lin, quad, primal), hessian


class Groups:
    """Groups of rows that share an intercept: labels (n,) from 0 to count - 1, with indicators Z (n, count).

    Without intercepts, count is 0 and the labels are ignored.
    """

    def __init__(self, labels: np.ndarray, count: int) -> None:
        self.labels, self.count = labels, count
        self.sizes = np.bincount(labels, minlength=count) if count else np.zeros(0, dtype=np.intp)
        self._sorted = count > 0 and bool((labels[1:] >= labels[:-1]).all())

    def sums(self, V: np.ndarray) -> np.ndarray:
        """Z'V (count, m) for V (n, m)."""
        out = np.zeros((self.count, V.shape[1]))
        if self._sorted:
            used = np.flatnonzero(self.sizes)
            out[used] = np.add.reduceat(V, (np.cumsum(self.sizes) - self.sizes)[used], axis=0)
        elif self.count:
            np.add.at(out, self.labels, V)
        return out

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Z values (n, m) for values (count, m); zero without groups."""
        return values[self.labels] if self.count else np.zeros((len(self.labels), values.shape[1]))

    def balance(self, V: np.ndarray) -> np.ndarray:
        """Subtract the mean of each group from V (n, m)."""
        return V - self.spread(self.sums(V) / np.maximum(self.sizes, 1)[:, None]) if self.count else V


class Bordered:
    """The system of a Gram (n, n), costs C (n,) > 0 and groups of rows with indicators Z:

        (G + diag(1/C)) a + Z c = r,   Z'a = 0

    With a = sqrt(C) x the constraint says that x is orthogonal to sqrt(C) Z, so x solves the system projected to that
    complement. Unlike elimination through the inverse of G + diag(1/C), nothing of the size of C cancels. A Gram with
    structure has a solver of its own, which is faster than a factorisation of its entries.
    """

    def __init__(self, gram: Any, cost: np.ndarray, groups: Groups) -> None:
        self.root, self.groups, self._structured = np.sqrt(cost)[:, None], groups, None
        if hasattr(gram, "solver"):
            try:
                self._structured = _Structured(gram, self.root, groups)
                return
            except LinAlgError:  # not accurate enough for such large entries
                pass
        dense = np.asarray(gram)
        self._basis = _basis(groups.labels, self.root, np.flatnonzero(groups.sizes))
        self._factor = factorise(lambda: _projected(dense, self.root, self._basis))

    def solve(self, r: np.ndarray) -> np.ndarray:
        """a (n, m) for right-hand sides r (n, m)."""
        x = self._factor.solve(self._target(r)) if self._structured is None else self._structured.solve(self.root * r)
        a = self.root * x
        # Remove rounding errors of the sums; twice, for the last bit.
        return self.groups.balance(self.groups.balance(a))

    def energy(self, R: np.ndarray) -> np.ndarray:
        """R' A (K, K), for the solutions A of the right-hand sides R (n, K)."""
        if self._structured is not None:
            return R.T @ self.solve(R)
        half = self._factor.half(self._target(R))
        return half.T @ half

    def _target(self, r: np.ndarray) -> np.ndarray:
        """The right-hand sides r (n, m) of the projected system."""
        target = self.root * r
        return target - self._basis @ (self._basis.T @ target) if self._basis.size else target


class _Structured:
    """The projected system, solved by the Gram's own solver, which projects each block of consecutive rows.

    Groups with rows in several blocks (tasks that use the intercept of another task) are eliminated afterwards.
    """

    def __init__(self, gram: Any, root: np.ndarray, groups: Groups) -> None:
        borders, across = None, np.zeros((len(root), 0))
        if groups.count:
            block = np.repeat(np.arange(len(gram.ends)), np.diff(gram.ends, prepend=0))
            pairs = np.unique(np.column_stack([groups.labels, block]), axis=0)
            several = np.bincount(pairs[:, 0], minlength=groups.count) > 1
            parts = zip(np.split(groups.labels, gram.ends[:-1]), np.split(root, gram.ends[:-1]), strict=True)
            borders = [_basis(own, part, (found := np.unique(own))[~several[found]]) for own, part in parts]
            across = _basis(groups.labels, root, np.flatnonzero(several))
        self._solver = gram.solver(root, borders)
        self._across, self._border = across, self._solver.solve(across)

    def solve(self, target: np.ndarray) -> np.ndarray:
        x = self._solver.solve(target)
        if not self._across.size:
            return x
        return x - self._border @ solve_symmetric(self._across.T @ self._border, (self._across.T @ x).T).T


def _basis(labels: np.ndarray, root: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The columns of root Z (n, g) of the groups in use, scaled to norm one."""
    Z = root * (labels[:, None] == used)
    return Z / np.sqrt((Z * Z).sum(axis=0))


def _projected(gram: np.ndarray, root: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """`root G root'` projected to the complement of `basis`, in its upper triangle; the lower one is undefined."""
    scaled = root * gram
    scaled *= root.T
    if not basis.size:
        return scaled
    image = scaled @ basis
    image -= 0.5 * basis @ (basis.T @ image)
    # In place and only in one triangle: a pass over the matrix takes nearly as long as its factorisation.
    return dsyr2k(-1.0, basis, image, beta=1.0, c=scaled.T, lower=1, overwrite_c=1).T


LEARNERS: dict[str, type[Learner]] = {learner.name: learner for learner in (SVM, Ridge, SVR)}
