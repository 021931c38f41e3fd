"""Ridge machines of many tasks with missing labels, at all strengths at once, by conjugate gradients.

At the strength c a machine on the mix G solves `P (G + I/c) P x = P y`, P leaving out rows without a label and, where
there is an intercept, the mean. Systems that differ in c alone differ by a multiple of the identity, so that they share
their Krylov space (Jegerlehner, 1996): all strengths take the products with G of the largest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problems.columns import Block, ratio

# Iterations, and the norm of a residual, relative to the targets, at which a strength is solved: predictions are wrong
# by no more than that share of the targets.
_ITERATIONS, _TOL = 300, 5e-3


def solutions_at_strengths(block: Block, strengths: np.ndarray) -> Any:
    """x (c, n, o) of the columns of a block of one mix, at strengths (c,) in descending order, in single precision."""
    arrays, residual = block.arrays, block.project(block.y)
    first, shifts = 1.0 / float(strengths[0]), (1.0 / strengths - 1.0 / strengths[0]).reshape(-1, 1)
    shifts = arrays.cast(arrays.array(shifts), single=True)
    x = arrays.stack([0.0 * residual for _ in strengths])
    directions = x + residual
    square = goal = block.sums(residual * residual)
    # Residuals at smaller strengths are multiples of those at the first: now, and one iteration before.
    multiple = before = 0.0 * shifts + 0.0 * square + 1.0
    step_before, turn = 0.0 * square + 1.0, 0.0 * square
    for _ in range(_ITERATIONS):
        m = len(multiple)
        image = block.project(block.apply(directions[0])) + first * directions[0]
        step = ratio(arrays, square, block.sums(directions[0] * image))
        residual = residual - step * image
        square, old = block.sums(residual * residual), square
        below = step_before * before * (1.0 + step * shifts[:m]) + step * turn * (before - multiple)
        after = ratio(arrays, multiple * before * step_before, below)
        share, turn = ratio(arrays, after, multiple), ratio(arrays, square, old)
        x[:m] += (step * share)[:, None, :] * directions[:m]
        directions[:m] *= (turn * share**2)[:, None, :]
        directions[:m] += after[:, None, :] * residual
        # Smaller strengths are solved first, and are left as they are.
        m = int(((after**2 * square > _TOL**2 * goal).sum(1) > 0).sum())
        if m == 0:
            break
        before, multiple, step_before = multiple[:m], after[:m], step
    return x
