"""Fitted functions of all tasks as sums over support rows, without training Gram matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..data.forms import Queries, TaskData
from ..kernels.grams import Scaling
from ..kernels.kernel import FittedKernel, diagonals, evaluate
from .couplings import Coupling
from .grams.build import KernelBank
from .grams.operator import Arrays, arrays_on, in_blocks

# Bytes of kernel values in memory while predicting: small enough to stay in cache.
_BLOCK_BYTES = 1 << 22
# Bytes of coefficients of all kernels in memory.
_COEFFICIENT_BYTES = 1 << 26
# Number of rows that a device predicts in one batch.
_DEVICE_ROWS = 4096


@dataclass(frozen=True)
class LinearFunctions:
    """f_t(x) = coef_t'x + intercept_t, with coef (T, d) and intercept (T,)."""

    coef: np.ndarray
    intercept: np.ndarray

    def rows(self) -> None:
        """Return None: linear functions keep no training rows."""

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return values (q, 1) at rows X (q, d) of tasks `codes` (q,); without codes, of all tasks (q, T, 1)."""
        if codes is None:
            return (X @ self.coef.T + self.intercept)[..., np.newaxis]
        return (np.einsum("ij,ij->i", X, self.coef[codes]) + self.intercept[codes])[:, np.newaxis]


@dataclass(frozen=True)
class Expansion:
    """f_o(x) = sum_k b_ko sum_i a_io k_k(x, x_i) + c_o, for O outputs over one set of support rows."""

    b: np.ndarray  # (K, O) kernel weights
    intercept: np.ndarray  # (O,)
    # (A,) the kernels with a positive weight for some output; others are never evaluated. Empty: constants.
    active: np.ndarray
    kernels: tuple[FittedKernel, ...] | None = None  # the A kernels; None if Grams are precomputed
    scaling: Any = None  # their scaling
    support: Any = None  # (s,) the training rows with non-zero coefficients
    rows: np.ndarray | None = None  # (s, d) these rows of X; None if Grams are precomputed
    a: Any = None  # (s, O) coefficients

    def values(self, X: np.ndarray, arrays: Arrays | None = None) -> np.ndarray:
        """Return values (q, O) at X (q, d), or precomputed (q, n_train, K), computed on the device of `arrays`."""
        out = np.repeat(self.intercept[np.newaxis], len(X), axis=0)
        if arrays is not None and not arrays.in_main_memory and len(self.active):
            for start in range(0, len(X), _DEVICE_ROWS):
                out[start : start + _DEVICE_ROWS] += self._on_device(X[start : start + _DEVICE_ROWS], arrays)
            if np.isfinite(out).all():
                return out
            # The loop below raises an error that names the kernel that overflows.
            out = np.repeat(self.intercept[np.newaxis], len(X), axis=0)
        for part, outputs, added in self._products(X):
            out[part, outputs] += added.sum(axis=0)
        return out

    def parts(self, X: np.ndarray) -> np.ndarray:
        """Return the contribution (q, K, O) of each kernel at X (q, d); with the intercept they sum to `values`."""
        out = np.zeros((len(X), *self.b.shape))
        for part, outputs, added in self._products(X):
            out[part, self.active, outputs] = np.moveaxis(added, 0, 1)
        return out

    def _products(self, X: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Yield blocks of queries and outputs, and the contribution (A, q, o) of each kernel."""
        if not len(self.active):
            return
        weights, n_outputs = self._weights(), self.b.shape[1]
        row_bytes = 8 * len(self.active) * len(self.support)
        # Coefficients are computed for every block of queries, so a block has at least as many queries as outputs.
        width = max(1, _COEFFICIENT_BYTES // row_bytes)
        size = max(1, _BLOCK_BYTES // row_bytes, min(width, n_outputs))
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            cross = np.ascontiguousarray(self._cross(X[part]))
            for first in range(0, n_outputs, width):
                outputs = slice(first, first + width)
                with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                    added = cross @ (self.a[:, outputs] * weights[:, np.newaxis, outputs])
                finite = np.isfinite(added).all(axis=(1, 2))
                if not finite.all():
                    i = int(np.argmin(finite))
                    name = f"kernel {self.active[i]}" if self.kernels is None else self.kernels[i].name
                    raise ValueError(f"kernel {name!r} overflows at rows to predict: are they too large?")
                yield part, outputs, added

    def _on_device(self, X: np.ndarray, arrays: Arrays) -> np.ndarray:
        """Return the sum (q, O) over kernels at X (q, d), computed on the device of `arrays`."""
        cross, weights = arrays.array(self._cross(X)), self._weights()

        def some(outputs: slice) -> np.ndarray:
            a, w, total = arrays.array(self.a[:, outputs]), arrays.array(weights[:, outputs]), 0.0
            for values, weight in zip(cross, w, strict=True):
                total = total + arrays.cast(values, single=False) @ (a * weight)
            return arrays.numpy(total)

        size = arrays.columns(len(self.support) + len(X), len(self.active))
        return np.concatenate(in_blocks(arrays, self.b.shape[1], size, some), axis=1)

    def _weights(self) -> np.ndarray:
        """Return weights (A, O) of its kernels, multiplied by the scaling if that is a factor only."""
        weights = self.b[self.active]
        return weights * self.scaling.factor[:, np.newaxis] if self.scaling.factor_only else weights

    def _cross(self, X: np.ndarray) -> np.ndarray:
        """Return kernel values (A, q, s), scaled unless the scaling is a factor only."""
        if self.kernels is not None:
            cross = evaluate(self.kernels, X, self.rows)
            return cross if self.scaling.factor_only else self.scaling.apply(cross, diagonals(self.kernels, X), True)
        if len(self.active) == X.shape[2] and np.array_equal(self.support, np.arange(X.shape[1])):
            cross = np.moveaxis(X, 2, 0)
        else:
            cross = np.stack([X[:, :, k].take(self.support, axis=1) for k in self.active])
        return cross if self.scaling.factor_only else self.scaling.apply(cross)


def make_expansion(
    X: np.ndarray,
    rows: np.ndarray,
    kernels: tuple[FittedKernel, ...] | None,
    scaling: Scaling,
    a: np.ndarray,
    b: np.ndarray,
    intercept: np.ndarray,
) -> Expansion:
    """Build an expansion, without zeros, from a (n, O) over rows X[rows] and kernel weights b (K,) or (K, O)."""
    b = np.repeat(b[:, np.newaxis], a.shape[1], axis=1) if b.ndim == 1 else b
    support = np.arange(len(rows)) if scaling.row_mean is not None else np.flatnonzero(a.any(axis=1))
    active = np.flatnonzero(b.any(axis=1))
    if not len(support) or not len(active):
        return Expansion(b, intercept, active[:0])
    return Expansion(
        b=b,
        intercept=intercept,
        active=active,
        kernels=None if kernels is None else tuple(kernels[k] for k in active),
        scaling=scaling.select(active, support),
        support=rows[support],
        rows=None if kernels is None else X[rows[support]],
        a=a if len(support) == len(a) else a[support],
    )


@dataclass(frozen=True)
class Share:
    """The contribution of an expansion to a task: `sum_r weights[r] f_r`, each f_r a range of the outputs."""

    expansion: int
    outputs: slice
    weights: np.ndarray

    @property
    def n_outputs(self) -> int:
        return (self.outputs.stop - self.outputs.start) // len(self.weights)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """values (q, ..., O) of the expansion -> (q, ..., m) of the task."""
        used = values[..., self.outputs]
        return np.einsum("r,...rm->...m", self.weights, used.reshape(*used.shape[:-1], len(self.weights), -1))


@dataclass(frozen=True)
class TaskFunctions:
    """The fitted functions of all tasks: own parts and, for coupled tasks, shared parts."""

    expansions: tuple[Expansion, ...]  # the expansions, which tasks may share
    shares: tuple[tuple[Share, ...], ...]  # for each task, its own share and then that of each coupling
    n_kernels: int  # K
    # The shares of an unknown task (code -1): the common part and the mean intercept. Empty if there is no common part.
    unknown: tuple[Share, ...] = ()

    def values(
        self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None, arrays: Arrays | None = None
    ) -> np.ndarray:
        """Return values (q, M) at rows X (q, d) of tasks `codes` (q,); without codes, of all tasks (q, T, M).

        M is the largest number of outputs of a task; tasks with fewer outputs have NaN in the last ones. `only` selects
        one part: 0 the own parts, j the j-th coupling. Computed on the device of `arrays`, by default in main memory.
        """
        widths = {shares[0].n_outputs for shares in self.shares}
        if codes is None and not only and len(X) and len(self.expansions) == len(widths) == 1:
            # The functions of all tasks are the outputs of one expansion, in order.
            return self.expansions[0].values(X, arrays).reshape(len(X), len(self.shares), -1)
        return self._gather(X, codes, (), lambda expansion, rows: expansion.values(rows, arrays), only)

    def rows(self) -> np.ndarray | None:
        """Return the distinct support rows (s, d); None if there are none or Gram matrices are precomputed."""
        kept = [expansion.rows for expansion in self.expansions if expansion.rows is not None]
        return np.unique(np.concatenate(kept), axis=0) if kept else None

    def parts(self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None) -> np.ndarray:
        """Return the contribution of each kernel, (q, K, M) or (q, T, K, M); with intercepts they sum to `values`."""
        return self._gather(X, codes, (self.n_kernels,), lambda expansion, rows: expansion.parts(rows), only)

    def intercepts(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return the intercept of each row's task, (q, M) or (q, T, M)."""
        return self._gather(X, codes, (), lambda e, rows: np.repeat(e.intercept[np.newaxis], len(rows), axis=0), None)

    def _gather(
        self,
        X: np.ndarray,
        codes: np.ndarray | None,
        inner: tuple[int, ...],
        evaluate: Callable[[Expansion, np.ndarray], np.ndarray],
        only: int | None,
    ) -> np.ndarray:
        """Sum the shares of tasks; each expansion is evaluated once, on the rows of all tasks that use it."""
        shares = [*self.shares, self.unknown]
        rows_of = self._rows(len(X), codes)
        width = max(share.n_outputs for task_shares in shares for share in task_shares[:1])
        lead = (len(X), len(self.shares)) if codes is None else (len(X),)
        out = np.full((*lead, *inner, width), np.nan)
        users: dict[int, list[tuple[int, Share]]] = {}
        where = {t: np.index_exp[:, t] if codes is None else np.index_exp[rows] for t, rows in rows_of.items()}
        for task in rows_of:
            for share in shares[task] if only is None else shares[task][only : only + 1]:
                users.setdefault(share.expansion, []).append((task, share))
            out[(*where[task], ..., slice(0, shares[task][0].n_outputs))] = 0.0
        for e, used_by in users.items():
            sets = list({id(rows_of[task]): rows_of[task] for task, _ in used_by}.values())
            needed = sets[0] if len(sets) == 1 else np.unique(np.concatenate(sets))
            values = evaluate(self.expansions[e], X[needed])
            for task, share in used_by:
                rows = rows_of[task]
                used = values if len(rows) == len(needed) else values[np.searchsorted(needed, rows)]
                out[(*where[task], ..., slice(0, share.n_outputs))] += share(used)
        return out

    def _rows(self, n: int, codes: np.ndarray | None) -> dict[int, np.ndarray]:
        """Return the rows of each task that has rows; unknown tasks come after the last task."""
        if codes is None:
            return dict.fromkeys(range(len(self.shares)), np.arange(n)) if n else {}
        if not self.unknown and (codes < 0).any():
            advice = "set couplings='common'"
            raise ValueError(f"predicting tasks that were not in training needs a part that all tasks share: {advice}")
        codes = np.where(codes < 0, len(self.shares), codes)
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        return dict(zip(present.tolist(), np.split(order, starts[1:]), strict=True)) if n else {}


def task_functions(
    data: TaskData,
    bank: KernelBank,
    B: np.ndarray,
    a: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    couplings: Sequence[Coupling] = (),
    spread: np.ndarray | None = None,
) -> TaskFunctions:
    """Return the functions of all tasks, from kernel weights B (K, J) and the dual variables and intercepts of tasks.

    `spread` (n, outputs of all tasks) are the dual variables of wide data as one array, if available.
    """
    widths, T = [part.shape[1] for part in a], data.n_tasks
    if data.form == "wide":
        # One expansion for all tasks, over the rows they share.
        starts = np.cumsum([0, *widths]).tolist()
        outputs = [slice(start, stop) for start, stop in pairwise(starts)]
        if spread is None:
            spread = np.zeros((len(data.X), starts[-1]))
            for rows, where, part in zip(data.rows, outputs, a, strict=True):
                spread[rows, where] = part
        weights, every, c = np.repeat(B[:, :T], widths, axis=1), np.arange(len(data.X)), np.concatenate(intercepts)
        expansions = [make_expansion(data.X, every, bank.kernels, bank.scalings[0], spread, weights, c)]
        shares = [[Share(0, where, np.ones(1))] for where in outputs]
    else:
        expansions = [
            make_expansion(data.X, data.rows[t], bank.kernels, bank.scalings[t], a[t], B[:, t], intercepts[t])
            for t in range(T)
        ]
        shares = [[Share(t, slice(0, width), np.ones(1))] for t, width in enumerate(widths)]
    for j, coupling in enumerate(couplings):
        expansions.append(_link_expansion(data, bank, B[:, T + j], a, coupling))
        whole = slice(0, len(expansions[-1].intercept))
        for task, task_shares in enumerate(shares):
            task_shares.append(Share(len(expansions) - 1, whole, coupling.factor[task]))
    functions = TaskFunctions(tuple(expansions), tuple(map(tuple, shares)), len(B))
    is_common = [coupling.is_common for coupling in couplings]
    if not any(is_common) or len(set(widths)) > 1:
        return functions
    # An unknown task has the common parts, and the mean intercept instead of an own part.
    level = np.mean(intercepts, axis=0)
    constant = Expansion(np.zeros((len(B), len(level))), level, np.arange(0))
    own = Share(len(expansions), slice(0, len(level)), np.ones(1))
    parts = zip(functions.shares[0][1:], is_common, strict=True)
    unknown = (own, *(replace(share, weights=share.weights * common) for share, common in parts))
    return replace(functions, expansions=(*functions.expansions, constant), unknown=unknown)


def _link_expansion(
    data: TaskData, bank: KernelBank, b: np.ndarray, a: Sequence[np.ndarray], coupling: Coupling
) -> Expansion:
    """Return the functions of a coupling: f_r(x) = sum over tasks t, rows i of L[t, r] a_ti k(x, x_ti)."""
    assert bank.link_scaling is not None
    is_wide = data.form == "wide"
    rows = np.arange(len(data.X)) if is_wide else np.concatenate(data.rows)
    parts, start = np.zeros((len(rows), coupling.factor.shape[1], a[0].shape[1])), 0
    for factor, of_task, part in zip(coupling.factor, data.rows, a, strict=True):
        parts[of_task if is_wide else slice(start, start + len(part))] += factor[:, np.newaxis] * part[:, np.newaxis, :]
        start += len(part)
    V = parts.reshape(len(rows), -1)
    return make_expansion(data.X, rows, bank.kernels, bank.link_scaling, V, b, np.zeros(V.shape[1]))


def function_values(model: Any, queries: Queries) -> np.ndarray:
    """Return values (q, M) for rows with a task, (q, T, M) for wide data; see `TaskFunctions.values`."""
    functions, device = model.functions_, queries.device or getattr(model, "device", None)
    if device is None or not isinstance(functions, TaskFunctions):
        return functions.values(queries.X, queries.codes)
    return functions.values(queries.X, queries.codes, arrays=arrays_on(device))
