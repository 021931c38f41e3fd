"""Couplings: parts of the function that several tasks share, and which tasks they link into one machine.

Coupling j has a T x T positive semi-definite matrix M_j with unit diagonal on the tasks it touches. Its part of the
kernel is `sum_k b_kj M_j[t, t'] k_k(x, x')`: each coupling is one more column of the kernel weights B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .data import TaskData, as_array, listing, missing
from .decompositions import eigh, eigvalsh
from .kernels.embedding import input_similarity

COMMON, INPUTS, AUTO = "common", "inputs", "auto"


@dataclass(frozen=True)
class Coupling:
    """A named coupling, with a factor L (T, r) of its matrix: M = L L'."""

    name: str
    factor: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        return self.factor @ self.factor.T

    @property
    def is_common(self) -> bool:
        """Whether all tasks, and any other, share one function here."""
        return self.factor.shape[1] == 1 and bool(np.allclose(self.factor, self.factor[0]))

    @property
    def n_sharing(self) -> float:
        """How many tasks share one function: T for a common part, the size of the groups for equal groups."""
        # |M|^2 / tr M, from the (r, r) side.
        return float(np.sum((self.factor.T @ self.factor) ** 2) / np.sum(self.factor**2))

    def charged(self, sharing: float) -> Coupling:
        """Return the coupling with its part's Gram matrices divided by what it costs, n_sharing^(1 - sharing)."""
        return replace(self, factor=self.factor * self.n_sharing ** (-0.5 * (1.0 - sharing)))


def width(couplings: Sequence[Coupling]) -> int:
    """Return the number of columns of all couplings' factors together."""
    return sum(coupling.factor.shape[1] for coupling in couplings)


def read_couplings(couplings: Any, data: TaskData, sharing: float = 1.0) -> tuple[Coupling, ...]:
    """What a user passes as `couplings` -> couplings of the tasks of these data, charged as `sharing` says.

    None: none. "common": one function for all tasks. "inputs": tasks share as far as their inputs are alike. "auto":
    both of them, of which equal ones count once. A dict:
    names to one of these words, to group labels (one for each task, in the order of `data.labels`, or a dict from task
    to label; tasks with the same label share a function) or to T x T matrices.
    """
    if couplings is None:
        return ()
    if isinstance(couplings, str) and couplings == AUTO:
        couplings = {COMMON: COMMON, INPUTS: INPUTS}
    if isinstance(couplings, str) and couplings in _NAMED:
        couplings = {couplings: couplings}
    if not isinstance(couplings, Mapping):
        got = repr(couplings) if isinstance(couplings, str) else type(couplings).__name__
        raise ValueError(f"couplings must be None, 'common', 'inputs', 'auto' or a dict, got {got}")
    found = [Coupling(str(name), _factor(name, value, data)) for name, value in couplings.items()]
    if set(couplings) == {COMMON, INPUTS} and found[0].is_common and found[1].is_common:
        found = found[:1]
    return tuple(coupling.charged(sharing) for coupling in found)


def connected_tasks(couplings: Sequence[Coupling], n_tasks: int) -> list[np.ndarray]:
    """Return the tasks of each machine: those that couplings link, directly or through others."""
    if not couplings:
        return list(np.arange(n_tasks)[:, np.newaxis])
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import connected_components

    # A graph of tasks and columns of the couplings' factors: nothing of size T x T is needed.
    touches = csr_array(np.hstack([coupling.factor for coupling in couplings]))
    graph = block_array([[None, touches], [touches.T, None]])
    labels = connected_components(graph, directed=False)[1][:n_tasks]
    return [np.flatnonzero(labels == c) for c in dict.fromkeys(labels.tolist())]


def _common_factor(data: TaskData) -> np.ndarray:
    return np.ones((data.n_tasks, 1))


def _input_factor(data: TaskData) -> np.ndarray:
    similarity = input_similarity(data)
    return _common_factor(data) if (similarity == 1).all() else _matrix_factor(INPUTS, similarity, data.labels)


_NAMED: dict[str, Callable[[TaskData], np.ndarray]] = {COMMON: _common_factor, INPUTS: _input_factor}


def _factor(name: Any, value: Any, data: TaskData) -> np.ndarray:
    tasks = data.labels
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value](data)
    if isinstance(value, Mapping):
        unnamed = [task for task in tasks.tolist() if task not in value]
        if unnamed:
            raise ValueError(f"coupling {name!r} has no label for task {listing(unnamed)}")
        value = [value[task] for task in tasks.tolist()]
    array = as_array(value, f"coupling {name!r}")
    if array.ndim == 1:
        return _group_factor(name, array, tasks)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"coupling {name!r} is neither one label for each task nor a matrix of real numbers")
    return _matrix_factor(name, array.astype(np.float64), tasks)


def _group_factor(name: Any, labels: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """(T, groups) zero or one: the tasks of a group share one function."""
    if len(labels) != len(tasks):
        raise ValueError(f"coupling {name!r} has {len(labels)} group labels, and there are {len(tasks)} tasks")
    if missing(labels).any():
        raise ValueError(f"coupling {name!r} has no group for task {tasks[missing(labels)][0].item()!r}")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise ValueError(f"the group labels of coupling {name!r} are of mixed types") from None
    return (codes[:, np.newaxis] == np.arange(codes.max() + 1)).astype(np.float64)


def _matrix_factor(name: Any, M: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """A thin factor of a positive semi-definite matrix with ones on its diagonal (zeros for tasks it leaves alone)."""
    T = len(tasks)
    if M.shape != (T, T):
        raise ValueError(f"coupling {name!r} has shape {M.shape}; {T} tasks need ({T}, {T}), or one label each")
    if not np.isfinite(M).all() or np.abs(M - M.T).max() > 1e-8:
        raise ValueError(f"coupling {name!r} is not a finite symmetric matrix")
    diagonal = np.diag(M)
    if not (np.isclose(diagonal, 1.0) | (diagonal == 0)).all():
        bad = int(np.argmax(~(np.isclose(diagonal, 1.0) | (diagonal == 0))))
        raise ValueError(
            f"coupling {name!r} must have 1 on its diagonal, or 0 for tasks it leaves alone; task "
            f"{tasks[bad].item()!r} has {diagonal[bad]:g}"
        )
    if not diagonal.any():
        raise ValueError(f"coupling {name!r} is zero: it links no tasks")
    values = eigvalsh((M + M.T) / 2)
    if values[0] < -1e-8 * T:
        raise ValueError(f"coupling {name!r} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}")
    return _block_factor((M + M.T) / 2)


def _block_factor(M: np.ndarray) -> np.ndarray:
    """Factor M (T, T) = L L' block by block, so that tasks that are not linked share no column of L (T, r)."""
    from scipy.sparse.csgraph import connected_components

    columns = []
    count, labels = connected_components(np.abs(M) > 1e-12, directed=False)
    for block in range(count):
        tasks = np.flatnonzero(labels == block)
        values, vectors = eigh(M[np.ix_(tasks, tasks)])
        kept = values > 1e-12 * max(values[-1], 1e-12)
        factor = np.zeros((len(M), int(kept.sum())))
        factor[tasks] = vectors[:, kept] * np.sqrt(values[kept])
        columns.append(factor)
    return np.hstack(columns)
