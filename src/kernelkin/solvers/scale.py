"""The scale of kernel weights that suits a strength mu."""

from __future__ import annotations

import numpy as np

from ..problems import Evaluation


def suitable_scale(mu: float, evaluation: Evaluation, R: float | None = None, decay: float = 1.0) -> float:
    """By what to multiply weights of penalty R, by default the evaluation's own, to suit mu.

    As weights grow by s, what the machines would gain by more, `q = <B, Q>`, falls to `q / (1 + decay (s - 1))^2`: with
    decay 0 where all dual variables are at their bounds, and 1 where the functions no longer change. The best s has
    `s (1 + decay (s - 1))^2 = q / (mu R)`.
    """
    goal = float(np.vdot(evaluation.B, evaluation.Q)) / (mu * (evaluation.R if R is None else R))
    if goal == 0 or decay == 1:
        return float(np.cbrt(goal))
    s = goal
    for _ in range(100):
        factor = 1.0 + decay * (s - 1.0)
        # Newton's method for the logarithms of both sides.
        step = float(np.log(goal / s) - 2.0 * np.log(factor)) / (1.0 + 2.0 * decay * s / factor)
        s *= float(np.exp(step))
        if abs(step) <= 1e-9:
            break
    return s
