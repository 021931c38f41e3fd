"""How alike the mixes of kernels of a fitted model are: alignment of the tasks' combined kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data import check_rows, read_rows, split_task_columns
from ..decompositions import eigh
from ..memory import check_square
from .pooled import centred, pooled_kernels, spread_rows


def kernel_likeness(model: Any, task: Any = None, X: Any = None) -> np.ndarray:
    """Alignment of the combined kernels of a fitted model's tasks, on centred rows of all tasks; nothing is tested.

    Equal mixes of kernels have 1, whatever the number of rows of the tasks and the sums of their weights, and kernels
    that are nearly equal count as one. This describes the fit: `task_relations` says whether mixes differ by more than
    chance.

    Parameters
    ----------
    model : fitted model of this library with kernel weights
    task : label, optional
        A task of `tasks_`: its likeness to every task is returned, without a matrix of tasks by tasks.
    X : array of shape (n, d), optional
        Rows to compare at. None: the rows that the model keeps for predictions.

    Returns
    -------
    likeness : array of shape (T, T), ones on the diagonal; or (T,), of one task

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, kernel_likeness
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> model = MKMTRLRegressor().fit(X, np.column_stack([X[:, 0], X[:, 0], -X[:, 0]]))
    >>> kernel_likeness(model, task=0).round(2).tolist()
    [1.0, 1.0, 1.0]
    """
    check_is_fitted(model)
    if not hasattr(model, "kernel_weights_"):
        raise ValueError(f"{type(model).__name__} has no kernel weights to compare")
    vectors = _kernel_vectors(model, _comparison_rows(model, X))
    if task is not None:
        return np.clip(vectors.T @ vectors[:, task_position(model.tasks_, task)], -1.0, 1.0)
    check_square(vectors.shape[1], "the likeness of all tasks", "pass `task` for that of one task")
    likeness = np.clip(vectors.T @ vectors, -1.0, 1.0)
    np.fill_diagonal(likeness, 1.0)
    return likeness


def task_position(tasks: np.ndarray, task: Any) -> int:
    """Where a label is among those of the tasks (T,)."""
    found = np.flatnonzero(tasks == task)
    if not len(found):
        raise ValueError(f"task {task!r} was not in training")
    return int(found[0])


def _comparison_rows(model: Any, X: Any) -> np.ndarray:
    if X is None:
        kept = model.functions_.rows()
        if kept is None:
            raise ValueError(f"this {type(model).__name__} keeps no rows to compare tasks at: pass X")
        return kept
    table = read_rows(X)
    if getattr(model, "task_column", None) is not None:
        table, _ = split_task_columns(table, model.task_column)
    return check_rows(table, fitting=False, precomputed=model.__sklearn_tags__().input_tags.pairwise)


def _kernel_vectors(model: Any, X: np.ndarray) -> np.ndarray:
    """Vectors (K, T) of length one, a column for each task, whose inner products are the alignments on rows of X."""
    if X.ndim == 3 and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"kernels are compared on the Gram matrices of training rows, (n, n, K); X has shape {X.shape}"
        )
    rows = spread_rows(len(X))
    kernels, shares = pooled_kernels(model, X)
    vectors = kernel_root(centred(kernels.grams(X, rows, rows))) @ shares.T
    length = np.sqrt(np.square(vectors).sum(axis=0))
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def kernel_root(stack: np.ndarray) -> np.ndarray:
    """R (K, K) with R'R the alignments <G_k, G_l> / |G_k||G_l| of centred Gram matrices (K, n, n)."""
    flat = stack.reshape(len(stack), -1)
    length = np.sqrt(np.square(flat).sum(axis=1))
    flat = np.divide(flat, length[:, np.newaxis], out=np.zeros_like(flat), where=length[:, np.newaxis] > 0)
    values, vectors = eigh(flat @ flat.T)
    return np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T
