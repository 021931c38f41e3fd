"""Support vector machines of wide data on a device: combined Gram matrices of as many tasks as fit, solved together.

Dual variables are projected onto their boxes and sums in main memory and double precision, and values and bounds follow
from them: what they certify does not depend on how they were found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grams import SharedGrams
from ..learners import SVM, DualSolution, Machine
from ..learners.interior import BoxMachines, best_intercepts, project, solve_together

# Matrices (n, n) in double precision that there are for each column: its Gram, the Newton system and its factor.
_MATRICES = 4


def solve_svms(
    grams: SharedGrams, machines: Sequence[Machine], B: np.ndarray, tol: float, curved: bool
) -> tuple[list[DualSolution], np.ndarray, np.ndarray | None]:
    """Solve machines at B (K, T) where `grams` are: their solutions, Q (K, T), and about the Hessians if requested."""
    arrays = grams.arrays
    size, first, batches = arrays.matrices(grams.n_rows, _MATRICES), 0, []
    while first < len(machines):
        run = range(first, min(first + size, len(machines)))
        try:
            batches.append(_Batch.solve(grams, machines, B, run, tol))
            first = run.stop
        except arrays.out_of_memory:
            if size == 1:
                raise
            size = -(-min(size, len(run)) // 2)
            arrays.release()
    duals = [dual for batch in batches for dual in batch.duals(grams, machines, B, tol)]
    Q = np.concatenate([batch.by_machine(batch.forms) for batch in batches], axis=1)
    hessians = [batch.by_machine(batch.hessians, axis=0) for batch in batches] if curved else []
    return duals, Q, np.concatenate(hessians) if curved else None


@dataclass(frozen=True)
class _Batch:
    """Columns that were solved together: the outputs of some machines, on all rows.

    Attributes
    ----------
    run : the machines.
    starts : where the columns of each begin.
    y, C, a, values : (n, o) labels, costs, dual variables and what Gram matrices make of these.
    forms : (K, o) half the quadratic forms.
    hessians : (o, K, K) about those of the columns' values in kernel weights.
    has_intercept : whether there are intercepts.
    """

    run: range
    starts: np.ndarray
    y: np.ndarray
    C: np.ndarray
    a: np.ndarray
    values: np.ndarray
    forms: np.ndarray
    hessians: np.ndarray
    has_intercept: bool

    @classmethod
    def solve(cls, grams: SharedGrams, machines: Sequence[Machine], B: np.ndarray, run: range, tol: float) -> _Batch:
        arrays, operator = grams.arrays, grams.operator
        widths = [machines[m].y.shape[1] for m in run]
        starts, has_intercept = np.cumsum([0, *widths]), machines[run.start].n_groups > 0
        y, C = np.zeros((2, grams.n_rows, starts[-1]))
        for i, m in enumerate(run):
            rows = slice(None) if grams.rows[m] is None else grams.rows[m]
            y[rows, starts[i] : starts[i + 1]], C[rows, starts[i] : starts[i + 1]] = machines[m].y, machines[m].C
        b = arrays.array(np.repeat(B[:, run.start : run.stop], widths, axis=1))
        boxes = BoxMachines.of(arrays, arrays.mixed(operator.values, b), y, C, has_intercept)
        a, solve = solve_together(boxes, tol)
        a = project(arrays.numpy(a) * (C > 0), np.minimum(y * C, 0.0), np.maximum(y * C, 0.0), has_intercept)
        tensor = arrays.array(a)
        images = operator.images(tensor)
        forms, values = 0.5 * (tensor * images).sum(1), (b[:, None, :] * images).sum(0)
        # Rows without a label take no part.
        hessians = _hessians(boxes, solve, images * arrays.array((C > 0).astype(np.float64)))
        found = [arrays.numpy(each) for each in (values, forms, hessians)]
        return cls(run, starts, y, C, a, found[0], found[1], found[2], has_intercept)

    def by_machine(self, values: np.ndarray, axis: int = 1) -> np.ndarray:
        """Sums over the columns of each machine."""
        return np.add.reduceat(values, self.starts[:-1], axis=axis)

    def duals(
        self, grams: SharedGrams, machines: Sequence[Machine], B: np.ndarray, tol: float
    ) -> Iterator[DualSolution]:
        """The solution of each machine; what is not solved to `tol` is solved in main memory, from there."""
        c = best_intercepts(self.values, self.y, self.C) if self.has_intercept else np.zeros(self.a.shape[1])
        quad = 0.5 * (self.a * self.values).sum(axis=0)
        primal = quad + (self.C * np.maximum(0.0, 1.0 - self.y * (self.values + c))).sum(axis=0)
        sums = [self.by_machine(each[np.newaxis])[0] for each in ((self.y * self.a).sum(axis=0), quad, primal)]
        for i, m in enumerate(self.run):
            rows = slice(None) if grams.rows[m] is None else grams.rows[m]
            columns = slice(self.starts[i], self.starts[i + 1])
            a, intercept = self.a[rows, columns], c[np.newaxis, columns] if self.has_intercept else np.zeros((0, 0))
            dual = DualSolution(a, intercept, *(float(each[i]) for each in sums))
            if dual.gap > tol * dual.primal:
                dual = SVM().solve(grams.combine(B, range(m, m + 1))[0], machines[m], a, tol)
            yield dual


def _hessians(boxes: BoxMachines, solve: Callable[[Any], Any], images: Any) -> Any:
    """(o, K, K) from images G_k a (K, n, o), by the last Newton system: its diagonal holds rows at their bounds."""
    arrays, summed = boxes.arrays, boxes.summed
    right = arrays.swapped(arrays.stack([*images, summed]))
    border = right[:, :, -1:]
    found = solve(right)
    forms = (right.swapaxes(1, 2) @ found)[:, :-1, :]
    total = (border * found[:, :, -1:]).sum(1)[:, :, None]
    cross = forms[:, :, -1:] / arrays.where(total > 0, total, total + 1.0)
    H = forms[:, :, :-1] - cross @ forms[:, :, -1:].swapaxes(1, 2)
    return 0.5 * (H + H.swapaxes(1, 2))
