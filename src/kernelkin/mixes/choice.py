"""What each task takes of several candidates: by its own errors, drawn towards all tasks by how much they can tell."""

from __future__ import annotations

from typing import Any

import numpy as np


def expected_gains(gains: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Gains (c, T) of candidates over a reference, each with a standard error (c, T) -> what to expect of them.

    The true gains of a candidate are taken to spread over tasks around their mean, by as much as the measured ones do
    beyond their errors. The expectation is the posterior mean: a task whose rows tell little has the mean of all tasks.
    """
    mean = gains.mean(axis=1, keepdims=True)
    variance = np.square(errors)
    between = np.maximum(gains.var(axis=1, keepdims=True) - variance.mean(axis=1, keepdims=True), 0.0)
    total = between + variance
    drawn = (between * gains + variance * mean) / np.maximum(total, np.finfo(float).tiny)
    return np.where(total > 0, drawn, gains)


def mean_strengths(strengths: np.ndarray, gains: np.ndarray, loss: np.ndarray, n_rows: Any) -> np.ndarray:
    """The strength of each task (T,): the geometric mean of strengths (c,), weighted by their gains (c, T).

    The weights are those of Gaussian errors of which `loss` (T,) is the mean square, over `n_rows` or as many (T,).
    """
    weights = 0.5 * n_rows * gains / np.maximum(loss, np.finfo(float).tiny)
    weights = np.exp(weights - weights.max(axis=0))
    return np.exp(np.log(strengths) @ weights / weights.sum(axis=0))
