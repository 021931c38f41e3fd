"""Models of the machines' values near an evaluation, from their gradient and Hessian.

    L(B0 + D)  ~  L(B0) - <Q, D> + 1/2 sum_j d_j'H_j d_j / (1 + c_j'd_j)

As weights grow values fall like 1/b, where a parabola would rise again. The denominator, c_j a multiple of Q_j, makes
the model a hyperbola along the steepest way down, the one with this slope and this curvature. It leaves it convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ..problems import Evaluation
from .secants import curved_pairs, secant_hessian

# How far the denominator may fall as weights go to zero.
_FALL = 0.9
# Steps that a secant model remembers.
_MEMORY = 20

TINY = np.finfo(float).tiny


class Model:
    """The machines' values near one evaluation.

    Parameters
    ----------
    evaluation : Evaluation
    hessian : D (K, J) -> H D (K, J).
    axis : 0 where H has a block for each component, None where it is one block.
    """

    def __init__(
        self, evaluation: Evaluation, hessian: Callable[[np.ndarray], np.ndarray], axis: int | None = 0
    ) -> None:
        self.B, self.Q, self.loss = evaluation.B, evaluation.Q, evaluation.loss
        self.hessian, self.axis = hessian, axis
        steep = np.square(self.Q).sum(axis=axis)
        unit = self.Q / np.sqrt(np.maximum(steep, TINY))  # not Q itself: its fourth power would overflow
        fitted = (unit * hessian(unit)).sum(axis=axis) / np.maximum(2.0 * steep, TINY)
        self.c = self.Q * np.minimum(fitted, _FALL / np.maximum((self.Q * self.B).sum(axis=axis), _FALL * TINY))

    def value_and_gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """Value, and gradient (K, J), at B (K, J)."""
        D = B - self.B
        HD = self.hessian(D)
        below = 1.0 + (self.c * D).sum(axis=self.axis)
        curved = 0.5 * (HD * D).sum(axis=self.axis) / below
        value = self.loss - float(np.vdot(self.Q, D)) + float(curved.sum())
        return value, HD / below - self.Q - self.c * (curved / below)


def model_at(past: Sequence[Evaluation]) -> Model:
    """The model of the last evaluation: by the machines' own Hessians, or by secants where there are none."""
    evaluation = past[-1]
    if evaluation.curvature is not None:
        H = evaluation.curvature
        return Model(evaluation, lambda D: (H @ D.T[:, :, np.newaxis])[:, :, 0].T)
    return Model(evaluation, _secant_hessian(past), axis=None)


def remember(past: Sequence[Evaluation], evaluation: Evaluation) -> tuple[Evaluation, ...]:
    """The evaluations that the next model is made of."""
    if evaluation.curvature is not None:
        return (evaluation,)
    return (*past[-_MEMORY:], evaluation)


def _secant_hessian(past: Sequence[Evaluation]) -> Callable[[np.ndarray], np.ndarray]:
    """The BFGS matrix of the gradients -Q at the weights passed."""
    S = np.array([(b.B - a.B).ravel() for a, b in pairwise(past)])
    Y = np.array([(a.Q - b.Q).ravel() for a, b in pairwise(past)])
    if len(S):
        S, Y = curved_pairs(S, Y)
    if not len(S):
        last = past[-1]
        scale = 2.0 * float(np.vdot(last.Q, last.B)) / max(float(np.vdot(last.B, last.B)), TINY)
        return lambda D: scale * D
    product = secant_hessian(S, Y)
    return lambda D: product(D.ravel()).reshape(D.shape)
