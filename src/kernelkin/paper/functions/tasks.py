"""The fitted functions of all tasks, from the expansions they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...data import Queries, TaskData
from ..couplings import Coupling, new_kernels
from ..grams import KernelBank, arrays_on
from ..grams.operator import Arrays
from ..task_features import TaskKernel, level_weights
from .expansion import Bundle, Expansion, make_expansion


@dataclass(frozen=True)
class LinearFunctions:
    """f_t(x) = coef_t'x + intercept_t, with coef (T, d) and intercept (T,)."""

    coef: np.ndarray
    intercept: np.ndarray

    def rows(self) -> None:
        """None: no training row is kept."""

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, 1); without codes, every task on every row -> (q, T, 1)."""
        if codes is None:
            return (X @ self.coef.T + self.intercept)[..., np.newaxis]
        return (np.einsum("ij,ij->i", X, self.coef[codes]) + self.intercept[codes])[:, np.newaxis]


@dataclass(frozen=True)
class Share:
    """What one expansion gives a task: `sum_r weights[r] f_r`, each f_r a run of the expansion's outputs."""

    expansion: int
    outputs: slice
    weights: np.ndarray

    @property
    def n_outputs(self) -> int:
        return (self.outputs.stop - self.outputs.start) // len(self.weights)

    def __call__(self, values: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """values (q, ..., O) of the expansion -> (q, ..., m) of the task, of some rows or of all."""
        used = values[..., self.outputs]
        used = used if rows is None else used[rows]
        if len(self.weights) == 1:
            return used if self.weights[0] == 1.0 else self.weights[0] * used
        return np.einsum("r,...rm->...m", self.weights, used.reshape(*used.shape[:-1], len(self.weights), -1))


@dataclass(frozen=True)
class NewTask:
    """How a task without rows follows from those of training.

    Attributes
    ----------
    loadings : for each coupling (r,), its row of the factor; zero where its share is not known.
    levels : (T,) the weights of the training tasks' intercepts in its own.
    """

    loadings: tuple[np.ndarray, ...]
    levels: np.ndarray


@dataclass(frozen=True)
class TaskFunctions:
    """The fitted function of every task: its own part and, for coupled tasks, its share of what tasks have in common.

    Attributes
    ----------
    expansions : the expansions, which tasks may share.
    shares : for each task, its own share and then that of each coupling.
    n_kernels : K.
    unknown : the shares of a task that was never seen (code -1): what all tasks have in common, and the mean of their
        intercepts. Empty where tasks have nothing in common.
    couplings : the couplings.
    new_tasks : (E,) labels of tasks without training rows that have features (codes T to T + E - 1).
    new_shares : their shares: an intercept in place of their own part, and then that of each coupling.
    new_similarities : (E, T) how like the tasks of training they are: the mean of the kernels between tasks.
    new_levels : (E, T) the weights of the training tasks' intercepts in theirs.
    """

    expansions: tuple[Expansion, ...]
    shares: tuple[tuple[Share, ...], ...]
    n_kernels: int
    unknown: tuple[Share, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    new_tasks: np.ndarray = field(default_factory=lambda: np.empty(0))
    new_shares: tuple[tuple[Share, ...], ...] = ()
    new_similarities: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    new_levels: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def values(
        self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None, arrays: Arrays | None = None
    ) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, M); without codes, every task on every row -> (q, T, M).

        M is the largest number of outputs of a task; a task with fewer leaves the last ones NaN. `only` picks one part:
        0 the tasks' own, j the j-th coupling's. Products are made where `arrays` are, by default in main memory.
        """
        if codes is None and not only and len(X) and self._are_columns:
            return self.expansions[0].values(X, arrays).reshape(len(X), len(self.shares), -1)
        return self._gather(X, codes, (), lambda expansion, rows: expansion.values(rows, arrays), only)

    @property
    def _are_columns(self) -> bool:
        """Whether the tasks' functions are the outputs of the first expansion, in order and of one number each."""
        width = self.shares[0][0].n_outputs
        return all(
            len(shares) == 1
            and shares[0].expansion == 0
            and shares[0].outputs == slice(t * width, (t + 1) * width)
            and shares[0].weights.tolist() == [1.0]
            for t, shares in enumerate(self.shares)
        ) and len(self.expansions[0].intercept) == width * len(self.shares)

    def rows(self) -> np.ndarray | None:
        """The rows (s, d) that the expansions are over; None where Gram matrices are precomputed, or there are none."""
        kept = [b.rows for expansion in self.expansions for b in expansion.bundles if b.rows is not None]
        return np.unique(np.concatenate(kept), axis=0) if kept else None

    def parts(self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None) -> np.ndarray:
        """What each kernel adds, (q, K, M) or (q, T, K, M); with the intercepts they sum to `values`."""
        shape = (self.n_kernels,)
        return self._gather(X, codes, shape, lambda expansion, rows: expansion.parts(rows), only)

    def intercepts(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """The intercept of each row's task, (q, M) or (q, T, M)."""
        return self._gather(X, codes, (), lambda e, rows: np.repeat(e.intercept[np.newaxis], len(rows), axis=0), None)

    def _gather(
        self,
        X: np.ndarray,
        codes: np.ndarray | None,
        inner: tuple[int, ...],
        evaluate: Callable[[Expansion, np.ndarray], np.ndarray],
        only: int | None,
    ) -> np.ndarray:
        """Add up the tasks' shares; an expansion is evaluated once on all rows of the tasks that have a share in it."""
        shares = [*self.shares, *self.new_shares, self.unknown]
        rows_of = self._rows(len(X), codes)
        width = max(share.n_outputs for task_shares in shares for share in task_shares[:1])
        lead = (len(X), len(self.shares)) if codes is None else (len(X),)
        out = np.full((*lead, *inner, width), np.nan)
        users: dict[int, list[tuple[int, Share]]] = {}
        for task, rows in rows_of.items():
            for share in shares[task] if only is None else shares[task][only : only + 1]:
                users.setdefault(share.expansion, []).append((task, share))
            where = np.index_exp[:, task] if codes is None else np.index_exp[rows]
            out[(*where, ..., slice(0, shares[task][0].n_outputs))] = 0.0
        for e, used_by in users.items():
            alone = len(used_by) == 1
            needed = rows_of[used_by[0][0]] if alone else _union(rows_of[task] for task, _ in used_by)
            values = evaluate(self.expansions[e], X[needed])
            for task, share in used_by:
                rows = rows_of[task]
                where = np.index_exp[:, task] if codes is None else np.index_exp[rows]
                picked = None if len(rows) == len(needed) else np.searchsorted(needed, rows)
                out[(*where, ..., slice(0, share.n_outputs))] += share(values, picked)
        return out

    def _rows(self, n: int, codes: np.ndarray | None) -> dict[int, np.ndarray]:
        """The rows that each task predicts, where there are any; one past the last task stands for unknown ones."""
        T = len(self.shares) + len(self.new_shares)
        if codes is None:
            return dict.fromkeys(range(len(self.shares)), np.arange(n)) if n else {}
        if not self.unknown and (codes < 0).any():
            raise ValueError(
                "tasks that were not in training are predicted by the part that all tasks share: fit with "
                "couplings='common'"
            )
        codes = np.where(codes < 0, T, codes)
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        return dict(zip(present.tolist(), np.split(order, starts[1:]), strict=True)) if n else {}

    def task_intercepts(self) -> np.ndarray:
        """(T, m) the intercepts of tasks that all have m outputs."""
        own = [shares[0] for shares in self.shares]
        return np.array([self.expansions[share.expansion].intercept[share.outputs] for share in own])

    def with_kept(self, old: TaskFunctions, kept: np.ndarray) -> TaskFunctions:
        """Return these functions with those of some tasks, by position in both, as they were in `old`."""
        shares, shift = list(self.shares), len(self.expansions)
        for t in kept.tolist():
            shares[t] = tuple(replace(share, expansion=shift + share.expansion) for share in old.shares[t])
        return replace(self, expansions=(*self.expansions, *old.expansions), shares=tuple(shares))

    def new_task(self, code: int) -> NewTask:
        """Return what the task of this code, T and more, or -1 for one without features, has of the others."""
        T = len(self.shares)
        shares = self.unknown if code < 0 else self.new_shares[code - T]
        levels = np.full(T, 1.0 / T) if code < 0 else self.new_levels[code - T]
        return NewTask(tuple(share.weights for share in shares[1:]), levels)

    def task_similarities(self, tasks: np.ndarray) -> np.ndarray | None:
        """(T, T) the mean of the kernels between tasks; None where there are none."""
        kernels = [coupling.kernel for coupling in self.couplings if coupling.kernel is not None]
        return np.mean([kernel.take(tasks).values for kernel in kernels], axis=0) if kernels else None

    def with_new(self, labels: np.ndarray, kernels: Sequence[TaskKernel | None], tasks: np.ndarray) -> TaskFunctions:
        """Return the functions with those of new tasks, from a kernel between tasks for each coupling that has one."""
        if not len(labels):
            return self
        similarities = np.mean([kernel.values for kernel in kernels if kernel is not None], axis=0)
        known = self.task_similarities(tasks)
        assert known is not None
        weights = level_weights(known, similarities, self.task_intercepts())
        levels = weights @ self.task_intercepts()
        expansions = (*self.expansions, _constant(self.n_kernels, levels.ravel()))
        m = levels.shape[1]
        factors = [
            None if kernel is None else coupling.factor_of_new(kernel.values)
            for coupling, kernel in zip(self.couplings, kernels, strict=True)
        ]
        found = []
        for i in range(len(labels)):
            intercept = Share(len(expansions) - 1, slice(i * m, (i + 1) * m), np.ones(1))
            rows = [None if factor is None else factor[i] for factor in factors]
            found.append((intercept, *_shares_of_new(self.shares[0], self.couplings, rows)))
        if len(self.new_tasks):
            labels = np.concatenate([self.new_tasks, labels])
            similarities = np.vstack([self.new_similarities, similarities])
            weights = np.vstack([self.new_levels, weights])
        return replace(
            self,
            expansions=expansions,
            new_tasks=labels,
            new_shares=(*self.new_shares, *found),
            new_similarities=similarities,
            new_levels=weights,
        )


def _shares_of_new(
    first: Sequence[Share], couplings: Sequence[Coupling], rows: Sequence[np.ndarray | None]
) -> list[Share]:
    """Return the shares of a task without rows in each coupling: by its factor's row (r,), or what is common to all.

    `first` are the shares of any task.
    """
    found = []
    for share, coupling, row in zip(first[1:], couplings, rows, strict=True):
        weights = row if row is not None else share.weights * coupling.is_common
        found.append(replace(share, weights=weights))
    return found


def task_functions(
    data: TaskData,
    bank: KernelBank,
    B: np.ndarray,
    a: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    couplings: Sequence[Coupling] = (),
    spread: np.ndarray | None = None,
) -> TaskFunctions:
    """The functions of all tasks from kernel weights B (K, J), and the dual variables and intercepts of each task.

    `spread` (n, outputs of all tasks) are the dual variables of wide data side by side, where they are known so.
    """
    if data.form == "wide":
        expansions, shares = _wide_expansions(data, bank, B, a, intercepts, spread)
    else:
        expansions, shares = _long_expansions(data, bank, B, a, intercepts)
    for j, coupling in enumerate(couplings):
        expansions.append(_link_expansion(data, bank, B[:, data.n_tasks + j], a, coupling))
        whole = slice(0, len(expansions[-1].intercept))
        for task, task_shares in enumerate(shares):
            task_shares.append(Share(len(expansions) - 1, whole, coupling.factor[task]))
    unknown: tuple[Share, ...] = ()
    if any(coupling.is_common for coupling in couplings):
        mean = np.mean(intercepts, axis=0)
        expansions.append(_constant(len(B), mean))
        intercept = Share(len(expansions) - 1, slice(0, len(mean)), np.ones(1))
        unknown = (intercept, *_shares_of_new(shares[0], couplings, [None] * len(couplings)))
    functions = TaskFunctions(tuple(expansions), tuple(map(tuple, shares)), len(B), unknown, tuple(couplings))
    if len({len(own) for own in intercepts}) > 1:
        return functions
    return functions.with_new(*new_kernels(couplings, data.labels), data.labels)


def _union(rows: Iterable[np.ndarray]) -> np.ndarray:
    distinct = {id(part): part for part in rows}
    return np.unique(np.concatenate(list(distinct.values())))


def _constant(n_kernels: int, value: np.ndarray) -> Expansion:
    """The function that is `value` (O,) everywhere."""
    return Expansion((), np.zeros((n_kernels, len(value))), value)


def _long_expansions(data, bank, B, a, intercepts) -> tuple[list[Expansion], list[list[Share]]]:
    """One expansion for each task, over its own rows."""
    expansions = [
        make_expansion(data.X, rows, bank.kernels, scaling, part, _repeat(B[:, t], part.shape[1]), c)
        for t, (rows, scaling, part, c) in enumerate(zip(data.rows, bank.scalings, a, intercepts, strict=True))
    ]
    return expansions, [[Share(t, slice(0, part.shape[1]), np.ones(1))] for t, part in enumerate(a)]


def _wide_expansions(data, bank, B, a, intercepts, spread) -> tuple[list[Expansion], list[list[Share]]]:
    """One expansion for all tasks, over the rows they share."""
    ends = np.cumsum([part.shape[1] for part in a]).tolist()
    outputs = [slice(end - part.shape[1], end) for end, part in zip(ends, a, strict=True)]
    if spread is None and all(len(part) == len(data.X) for part in a):
        spread = np.hstack(a)
    elif spread is None:
        spread = np.zeros((len(data.X), ends[-1]))
        for rows, where, part in zip(data.rows, outputs, a, strict=True):
            spread[rows, where] = part
    weights = np.repeat(B[:, : len(a)], [part.shape[1] for part in a], axis=1)
    every = np.arange(len(data.X))
    shared = make_expansion(data.X, every, bank.kernels, bank.scalings[0], spread, weights, np.concatenate(intercepts))
    return [shared], [[Share(0, where, np.ones(1))] for where in outputs]


def _link_expansion(
    data: TaskData, bank: KernelBank, b: np.ndarray, a: Sequence[np.ndarray], coupling: Coupling
) -> Expansion:
    """The functions f_r that a coupling's tasks mix: f_r(x) = sum over tasks t, rows i of L[t, r] a_ti k(x, x_ti)."""
    assert bank.link_scaling is not None
    weighted = (
        (coupling.factor[t][np.newaxis, :, np.newaxis] * part[:, np.newaxis, :]).reshape(len(part), -1)
        for t, part in enumerate(a)
    )
    if data.form == "wide":
        # Task by task: all labels with a column for each r may take gigabytes.
        rows, stacked = np.arange(len(data.X)), np.zeros((len(data.X), coupling.factor.shape[1] * a[0].shape[1]))
        for of_task, part in zip(data.rows, weighted, strict=True):
            stacked[of_task] += part
    else:
        rows, stacked = np.concatenate(data.rows), np.vstack(list(weighted))
    width = stacked.shape[1]
    if bank.link_factors is not None:
        return _factor_expansion(data, bank, rows, stacked, b)
    return make_expansion(data.X, rows, bank.kernels, bank.link_scaling, stacked, _repeat(b, width), np.zeros(width))


def _factor_expansion(data: TaskData, bank: KernelBank, rows: np.ndarray, a: np.ndarray, b: np.ndarray) -> Expansion:
    """The same on approximate factors: a kernel with landmarks is expanded over these."""
    assert bank.link_factors is not None and bank.link_scaling is not None and bank.kernels is not None
    exact, weights, bundles = b.copy(), _repeat(b, a.shape[1]), []
    for family in bank.link_factors.families:
        if family.landmarks is None:
            continue
        active = family.kernels
        exact[active] = 0.0
        if b[active].any():
            kernels, scaling = tuple(bank.kernels[k] for k in active), bank.link_scaling.select(active)
            landmarks, coefficients = family.landmarks, family.landmarks.dual(family.factor.T @ a)
            bundles.append(Bundle(kernels, active, scaling, landmarks.rows, data.X[landmarks.rows], coefficients))
    zeros = np.zeros(a.shape[1])
    rest = make_expansion(data.X, rows, bank.kernels, bank.link_scaling, a, _repeat(exact, len(zeros)), zeros)
    return Expansion((*rest.bundles, *bundles), weights, zeros)


def _repeat(b: np.ndarray, width: int) -> np.ndarray:
    return np.repeat(b[:, np.newaxis], width, axis=1)


def function_values(model: Any, queries: Queries) -> np.ndarray:
    """(q, M) for rows with a task, (q, T, M) for wide data; see `TaskFunctions.values`."""
    functions, device = model.functions_, queries.device or getattr(model, "device", None)
    if device is None or not isinstance(functions, TaskFunctions):
        return functions.values(queries.X, queries.codes)
    return functions.values(queries.X, queries.codes, arrays=arrays_on(device))
