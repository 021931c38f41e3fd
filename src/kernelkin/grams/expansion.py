"""A fitted function as a sum over support rows: all that prediction needs, without a training Gram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..kernels import FittedKernel, Scaling, diagonals, evaluate
from .build import KernelBank

# Kernel values held at one time while predicting, in bytes.
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class Expansion:
    """f_o(x) = sum_k b_ko sum_i a_io k_k(x, x_i) + c_o, for O outputs over one set of support rows.

    Attributes
    ----------
    kernels : the kernels with a weight above zero for some output; None where Grams are precomputed.
    active : (A,) their positions among all K kernels.
    scaling : theirs.
    support : (s,) the training rows with a coefficient that is not zero.
    rows : (s, d) those rows of X; None where Grams are precomputed.
    a : (s, O) coefficients.
    b : (A, O) kernel weights.
    intercept : (O,)
    """

    kernels: tuple[FittedKernel, ...] | None
    active: np.ndarray
    scaling: Scaling
    support: np.ndarray
    rows: np.ndarray | None
    a: np.ndarray
    b: np.ndarray
    intercept: np.ndarray

    def values(self, X: np.ndarray) -> np.ndarray:
        """X (q, d), or precomputed (q, n_train, K) -> (q, O)."""
        out = np.repeat(self.intercept[np.newaxis], len(X), axis=0)
        for part, cross in self._blocks(X):
            for gram, weights in zip(cross, self.b, strict=True):
                out[part] += gram @ (self.a * weights)
        return out

    def parts(self, X: np.ndarray, n_kernels: int) -> np.ndarray:
        """X (q, d) -> (q, K, O): what each kernel adds; with the intercept they sum to `values`."""
        out = np.zeros((len(X), n_kernels, self.a.shape[1]))
        for part, cross in self._blocks(X):
            for k, gram, weights in zip(self.active, cross, self.b, strict=True):
                out[part, k] = gram @ (self.a * weights)
        return out

    def _blocks(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of queries with their scaled kernel values (A, q, s); kernels of weight zero are never evaluated."""
        if not len(self.active) or not len(self.support):
            return
        size = max(1, _BLOCK_BYTES // (8 * len(self.active) * len(self.support)))
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            yield part, self._cross(X[part])

    def _cross(self, X: np.ndarray) -> np.ndarray:
        if self.kernels is None:
            cross = np.moveaxis(X[:, self.support][:, :, self.active], 2, 0)
            return self.scaling.apply(np.ascontiguousarray(cross), overwrite=True)
        cross = evaluate(self.kernels, X, self.rows)
        return self.scaling.apply(cross, diagonals(self.kernels, X), overwrite=True)


def make_expansion(
    X: np.ndarray,
    rows: np.ndarray,
    kernels: tuple[FittedKernel, ...] | None,
    scaling: Scaling,
    a: np.ndarray,
    b: np.ndarray,
    intercept: np.ndarray,
) -> Expansion:
    """Keep what counts of a (n, O) over the training rows X[rows], and of the kernel weights b (K, O)."""
    active = np.flatnonzero(b.any(axis=1))
    support = np.arange(len(rows)) if scaling.needs_all_rows else np.flatnonzero(a.any(axis=1))
    return Expansion(
        kernels=None if kernels is None else tuple(kernels[k] for k in active),
        active=active,
        scaling=scaling.select(active).take(support),
        support=rows[support],
        rows=None if kernels is None else X[rows[support]],
        a=a[support],
        b=b[active],
        intercept=intercept,
    )


@dataclass(frozen=True)
class TaskFunctions:
    """The fitted function of every task: a sum of outputs of expansions, which tasks may share.

    Attributes
    ----------
    expansions : the expansions.
    places : for each task, the expansions it adds up, each with the columns of outputs that are this task's.
    n_kernels : K.
    """

    expansions: tuple[Expansion, ...]
    places: tuple[tuple[tuple[int, slice], ...], ...]
    n_kernels: int

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, M); without codes, every task on every row -> (q, T, M).

        M is the largest number of outputs of a task; a task with fewer leaves the last ones NaN.
        """
        return self._gather(X, codes, (), lambda expansion, rows: expansion.values(rows))

    def parts(self, X: np.ndarray, codes: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """What each kernel adds, (q, K), and the intercept, (q,); one axis more at the end where M is above one."""
        parts = self._gather(X, codes, (self.n_kernels,), lambda expansion, rows: expansion.parts(rows, self.n_kernels))
        constant = self._gather(
            X, codes, (), lambda expansion, rows: np.repeat(expansion.intercept[np.newaxis], len(rows), axis=0)
        )
        if parts.shape[-1] == 1:
            return parts[..., 0], constant[..., 0]
        return parts, constant

    def _gather(
        self,
        X: np.ndarray,
        codes: np.ndarray | None,
        inner: tuple[int, ...],
        evaluate: Callable[[Expansion, np.ndarray], np.ndarray],
    ) -> np.ndarray:
        widths = [columns.stop - columns.start for ((_, columns), *_) in self.places]
        lead = (len(X), len(self.places)) if codes is None else (len(X),)
        out = np.full((*lead, *inner, max(widths)), np.nan)
        cache: dict[int, np.ndarray] = {}
        for t, place in enumerate(self.places):
            rows = np.arange(len(X)) if codes is None else np.flatnonzero(codes == t)
            if not len(rows):
                continue
            total = np.zeros((len(rows), *inner, widths[t]))
            for e, columns in place:
                if len(self.expansions) < len(self.places):
                    # An expansion that tasks share gives the outputs of all of them at once.
                    if e not in cache:
                        cache[e] = evaluate(self.expansions[e], X)
                    total += cache[e][rows][..., columns]
                else:
                    total += evaluate(self.expansions[e], X[rows])[..., columns]
            target = np.index_exp[:, t] if codes is None else np.index_exp[rows]
            out[(*target, ..., slice(0, widths[t]))] = total
        return out


def task_functions(
    data: TaskData,
    bank: KernelBank,
    B: np.ndarray,
    a: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
) -> TaskFunctions:
    """The functions of all tasks from kernel weights B (K, T), dual variables and intercepts of each task."""
    weights = [np.repeat(B[:, t : t + 1], part.shape[1], axis=1) for t, part in enumerate(a)]
    if data.form != "wide":
        expansions = tuple(
            make_expansion(data.X, rows, bank.kernels, scaling, *task)
            for rows, scaling, *task in zip(data.rows, bank.scalings, a, weights, intercepts, strict=True)
        )
        places = tuple(((t, slice(0, part.shape[1])),) for t, part in enumerate(a))
        return TaskFunctions(expansions, places, len(B))
    ends = np.cumsum([part.shape[1] for part in a]).tolist()
    columns = [slice(end - part.shape[1], end) for end, part in zip(ends, a, strict=True)]
    spread = np.zeros((len(data.X), ends[-1]))
    for rows, where, part in zip(data.rows, columns, a, strict=True):
        spread[rows, where] = part
    shared = make_expansion(
        data.X,
        np.arange(len(data.X)),
        bank.kernels,
        bank.scalings[0],
        spread,
        np.hstack(weights),
        np.concatenate(intercepts),
    )
    return TaskFunctions((shared,), tuple(((0, where),) for where in columns), len(B))
