"""How alike tasks are: alignment of their combined kernels, correlation of their functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.rows import check_rows, read_rows, split_task_column
from ..decompositions import eigh
from ..memory import check_square
from .pooled import centred, pooled_kernels, spread_rows

BY = ("functions", "kernels")


def likeness_factor(model: Any, by: str, X: Any = None) -> np.ndarray:
    """Vectors (r, T) of length one, a column for each task, whose inner products are the likeness of tasks.

    Parameters
    ----------
    model : fitted model of this library
    by : {"functions", "kernels"}
        Values of the tasks' functions, centred; or their combined kernels, centred.
    X : rows at which tasks are compared; None: those that the model keeps
    """
    check_is_fitted(model)
    if by not in BY:
        raise ValueError(f"by must be 'functions' or 'kernels', got {by!r}")
    if by == "kernels" and not hasattr(model, "kernel_weights_"):
        raise ValueError(f"{type(model).__name__} has no kernel weights: use by='functions'")
    X = _comparison_rows(model, X)
    rows = spread_rows(len(X))
    vectors = _kernel_vectors(model, X, rows) if by == "kernels" else _function_vectors(model, X[rows])
    length = np.sqrt(np.square(vectors).sum(axis=0))
    # A task whose function is constant is like no other.
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def model_likeness(model: Any, by: str = "functions", X: Any = None) -> np.ndarray:
    """Likeness (T, T) of the tasks of a fitted model, ones on the diagonal; nothing is tested.

    Parameters
    ----------
    model : fitted model of this library
    by : {"functions", "kernels"}, default "functions"
        "functions": correlation of the tasks' functions over the rows of all tasks. "kernels": alignment of their
        combined kernels on these rows, centred; equal mixes have 1, whatever the number of rows or the sum of weights,
        and kernels that are nearly equal count as one.
    X : array of shape (n, d), optional
        Rows to compare at. None: the rows that the model keeps for predictions; models without kernels keep none.

    Returns
    -------
    likeness : array of shape (T, T)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.relations import model_likeness
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> model = MKMTRLRegressor().fit(X, np.column_stack([X[:, 0], X[:, 0], -X[:, 0]]))
    >>> model_likeness(model).round(2).tolist()
    [[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    vectors = likeness_factor(model, by, X)
    check_square(vectors.shape[1], "the likeness of all tasks", "use `related_tasks` for one task")
    likeness = np.clip(vectors.T @ vectors, -1.0, 1.0)
    np.fill_diagonal(likeness, 1.0)
    return likeness


def related_tasks(model: Any, task: Any, by: str, n: int, X: Any) -> dict[Any, float]:
    """The n tasks most like one task of a fitted model, and their likeness, the largest first."""
    vectors = likeness_factor(model, by, X)
    found = np.flatnonzero(model.tasks_ == task)
    if not len(found):
        raise ValueError(f"task {task!r} was not in training")
    t = int(found[0])
    values = np.clip(vectors.T @ vectors[:, t], -1.0, 1.0)
    order = np.argsort(-values, kind="stable")
    order = order[order != t][:n]
    return dict(zip(model.tasks_[order].tolist(), values[order].tolist(), strict=True))


def _comparison_rows(model: Any, X: Any) -> np.ndarray:
    if X is None:
        kept = model.functions_.rows()
        if kept is None:
            raise ValueError(f"this {type(model).__name__} keeps no rows to compare tasks at: pass X")
    else:
        table = read_rows(X)
        if getattr(model, "task_column", None) is not None:
            table, _ = split_task_column(table, model.task_column)
        kept = check_rows(model, table, fitting=False)
    return kept


def _function_vectors(model: Any, X: np.ndarray) -> np.ndarray:
    """Values of the functions (q M, T), each output centred; outputs that a task does not have are zero."""
    values = model.functions_.values(X, None)
    values = np.nan_to_num(values - values.mean(axis=0))
    return np.moveaxis(values, 2, 1).reshape(-1, values.shape[1])


def _kernel_vectors(model: Any, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A root (K, T) of the inner products of the tasks' combined kernels on some rows of X."""
    if X.ndim == 3 and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"kernels are compared on the Gram matrices of training rows, (n, n, K); X has shape {X.shape}"
        )
    kernels, shares = pooled_kernels(model, X)
    return kernel_root(centred(kernels.grams(X, rows, rows))) @ shares.T


def kernel_root(stack: np.ndarray) -> np.ndarray:
    """R (K, K) with R'R the alignments <G_k, G_l> / |G_k||G_l| of centred Gram matrices (K, n, n)."""
    flat = stack.reshape(len(stack), -1)
    length = np.sqrt(np.square(flat).sum(axis=1))
    flat = np.divide(flat, length[:, np.newaxis], out=np.zeros_like(flat), where=length[:, np.newaxis] > 0)
    values, vectors = eigh(flat @ flat.T)
    return np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T
