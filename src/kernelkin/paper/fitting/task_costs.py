"""The C of each task, chosen by its own leave-one-out errors at kernel weights that were learned with one C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...data import TaskData
from ...memory import check_memory
from ...uncertainty.machines import leave_one_out
from ..grams import Grams
from ..learners import Machine, Ridge
from ..mixes.components import expected_gains, mean_strengths
from ..penalties import FixedWeights
from .base import Fitted, RunOptions
from .fit import Fit, Shape

# Factors of C that are tried: their geometric mean is one.
FACTORS = np.logspace(-1, 1, 9)
# The position of C itself among them.
_COMMON = len(FACTORS) // 2
_TINY = np.finfo(float).tiny
# So many rows count as spread like those of all tasks: the spread of few is uncertain.
_PRIOR_ROWS = 10


def run_with_task_costs(
    fit: Fit, data: TaskData, B: np.ndarray, options: RunOptions
) -> tuple[Fitted, np.ndarray] | None:
    """Fit machines at kernel weights B (K, T) with a C for each task: what that leaves, and the C (T,).

    None where leave-one-out errors of a task alone have no closed form: with another than the squared loss, or where
    tasks share parts of their functions.
    """
    if not isinstance(fit.targets.learner(), Ridge) or fit.fit_couplings(data):
        return None
    plan = replace(fit, penalty=partial(_fixed, B), has_path=False, init=None, solver=None).plan(data)
    check_memory(plan.memory())
    grams, bank = plan.grams()
    factors = cost_factors(grams, plan.machines, B)
    # C times a factor is the same as kernel weights times it.
    return replace(plan, penalty=FixedWeights(factors * B)).run_scaled(grams, bank, options), fit.C * factors


def cost_factors(grams: Grams, machines: Sequence[Machine], B: np.ndarray) -> np.ndarray:
    """(T,) what to multiply the C of each task by, at kernel weights B (K, T).

    They are one unless such a choice pays: made by the errors of half of each task's rows, it must have smaller errors
    at the other half, by more than a standard error.
    """
    squares = [_squares(grams, machine, B, t) for t, machine in enumerate(machines)]
    order = np.random.default_rng(0)
    halves = [order.permutation(each.shape[1]) % 2 == 0 for each in squares]
    falls = []
    for first in (True, False):
        chosen = _choose([each[:, half == first] for each, half in zip(squares, halves, strict=True)])
        nearest = np.abs(np.log(FACTORS[:, np.newaxis] / chosen)).argmin(axis=0)
        for each, half, i in zip(squares, halves, nearest.tolist(), strict=True):
            falls.append((each[_COMMON] - each[i])[half != first] / max(float(each[_COMMON].mean()), _TINY))
    gains = np.concatenate(falls)
    pays = gains.mean() > gains.std() / np.sqrt(len(gains))
    return _choose(squares) if pays else np.ones(len(machines))


def _choose(squares: Sequence[np.ndarray]) -> np.ndarray:
    """Squared errors (factors, n_t) of each task -> its factor (T,).

    A task is compared with all tasks: by how much its error at a factor is smaller, beyond the mean of that over tasks,
    counts by how certain it is. A task whose rows say little keeps the C of all.
    """
    loss = np.array([np.maximum(each.mean(axis=1), _TINY) for each in squares]).T
    unit, rows = loss[_COMMON], np.array([each.shape[1] for each in squares], dtype=np.float64)
    falls = [(each[_COMMON] - each) / u for each, u in zip(squares, unit, strict=True)]
    gain, variance = (np.array([getattr(fall, name)(axis=1) for fall in falls]).T for name in ("mean", "var"))
    pooled = (variance @ rows / rows.sum())[:, np.newaxis]
    error = np.sqrt((rows * variance + _PRIOR_ROWS * pooled) / (rows + _PRIOR_ROWS) / rows)
    own = expected_gains(gain - gain.mean(axis=1, keepdims=True), error)
    return mean_strengths(FACTORS, unit * own, unit, rows)


def _squares(grams: Grams, machine: Machine, B: np.ndarray, task: int) -> np.ndarray:
    """(factors, n_t) squared leave-one-out errors of a task, by the weights of its rows.

    They are zero where a row alone determines its intercept.
    """
    weight = np.sqrt(machine.C[:, 0] / machine.C[:, 0].mean())
    gram = np.asarray(grams.combine(B, range(task, task + 1))[0])
    errors = [machine.y[:, 0] - leave_one_out(factor * gram, machine)[0][:, 0] for factor in FACTORS.tolist()]
    return np.square(weight * np.nan_to_num(np.array(errors), nan=0.0))


def _fixed(B: np.ndarray, shape: Shape) -> FixedWeights:
    return FixedWeights(B)
