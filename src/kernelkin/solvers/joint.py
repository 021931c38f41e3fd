"""The joint solver: Newton steps on the kernel weights, the relationship eliminated, until the duality gap is closed.

A step minimises a model of the machines' values plus the penalty itself, which solves no machine; then the machines are
solved at that minimiser. A penalty that is not smooth names smoother ones to walk through (its `ladder`); where its
optimum is expected to have rank one, a walk along `B = u v'` closes the gap to rounding. The gap is always that of the
true problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..learners import Machine
from ..objective import Evaluation
from ..penalties import Penalty
from .base import Finished, Run, Solution, Status, suitable_scale
from .models import TINY, Model, Models

# What is paid for kernel weights at an optimum, as a share of what is paid without any: mostly 0.04 to 0.13.
_SHARE = 0.1
# A start whose scale is wrong by no more than this factor is near enough for a step to mend it.
_NEAR = 3.0
# The projected gradient of a model is made this much smaller: more would be wasted on what is only a model.
_FORCING = 0.03
# Shares of the predicted gain: what a step must reach, and how far machines may be off.
_ENOUGH, _ROUGH = 1e-4, 0.3
_SHORTEST = 1e-4


@dataclass(frozen=True)
class Joint:
    """Minimise over all kernel weights at once.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.solvers import Joint
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> model = MKMTRLRegressor(data.kernels, solver=Joint()).fit(data.data, data.target, tasks=data.tasks)
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    name: ClassVar[str] = "joint"

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        run.max_evaluations = max_iter
        penalty, models = run.objective.penalty, Models()
        try:
            evaluation = _start(run, B)
            first, *rest = penalty.ladder()
            evaluation = _Walk(run, _Linear(first, evaluation.B), models).follow(evaluation)
            if penalty.collapses:
                walk = _Walk(run, _RankOne(penalty, evaluation.B), models)
                evaluation = walk.follow()
            for stage in rest:
                evaluation = _Walk(run, _Linear(stage, evaluation.B), models).follow(evaluation)
            run.finish(Status.STALLED)
        except Finished:
            pass
        return run.solution()


def _start(run: Run, B: np.ndarray | None, rounds: int = 3) -> Evaluation:
    """The first evaluation at B, by default all weights equal, whose scale suits mu but for a small factor."""
    objective = run.objective
    if B is None:
        B = np.ones((objective.grams.n_kernels, objective.grams.n_components))
        B *= np.sqrt(_SHARE * _spread(objective.machines) / (objective.mu * objective.penalty.value(B)))
        B = np.maximum(B, TINY)
    while True:
        evaluation = run.evaluate(B, curved=True)
        rounds -= 1
        scale = suitable_scale(objective.mu, evaluation)
        if 1 / _NEAR < scale < _NEAR or scale == 0 or rounds == 0:
            return evaluation
        B = scale * B


def _spread(machines: Sequence[Machine]) -> float:
    """Half the squared deviations of the targets: about what machines without kernels would have to pay."""
    total = 0.0
    for machine in machines:
        mean = np.average(machine.y, axis=0, weights=np.maximum(machine.C, TINY))
        total += 0.5 * float(np.sum(machine.C * np.square(machine.y - mean)))
    return total


class _Linear:
    """The free variables of a penalty."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        self.shape = penalty.free(B).shape
        self.start = penalty.free(B).ravel()

    def weights(self, x: np.ndarray) -> np.ndarray:
        return self.penalty.expand(x.reshape(self.shape))

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return self.penalty.pull(G).ravel()


class _RankOne:
    """B = u v': where the optimum has rank one, the penalty is smooth along such B, and only along them."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        U, s, Vt = np.linalg.svd(B)
        # Of a matrix without negative entries they have none either, but for their sign.
        self.start = np.sqrt(s[0]) * np.abs(np.concatenate([U[:, 0], Vt[0]]))
        self.n_kernels = len(B)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.outer(x[: self.n_kernels], x[self.n_kernels :])

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.concatenate([G @ x[self.n_kernels :], x[: self.n_kernels] @ G])


class _StageDone(Exception):
    pass


class _Walk:
    """Newton steps in the variables of one stage, until its own gap is small beside the true one, or it stalls."""

    def __init__(self, run: Run, path: _Linear | _RankOne, models: Models) -> None:
        self.run, self.path, self.models = run, path, models
        self.stage, self.mu = path.penalty, run.objective.mu
        self.x = path.start
        self.bound = -np.inf

    def follow(self, evaluation: Evaluation | None = None) -> Evaluation:
        """From an evaluation at the start, where there is one, to the last that was good."""
        try:
            self.here, self.value = self._measure(self.x) if evaluation is None else self._take(evaluation)
            while self._step():
                pass
        except _StageDone:
            pass
        return self.here

    def _step(self) -> bool:
        """One step, or machines solved more accurately where they are too rough to tell; False at the end."""
        target, gain = self._minimise(self.models.at(self.here))
        floor = 1e-3 * self.run.tol * abs(self.value) if isinstance(self.path, _RankOne) else 0.0
        if gain <= floor:
            return False
        self.run.expect(gain / max(abs(self.value), TINY))
        length = 1.0
        while self.here.upper - self.here.loss <= _ROUGH * gain and length > _SHORTEST:
            x = self.x + length * (target - self.x)
            evaluation, value = self._measure(x)
            if value <= self.value - _ENOUGH * length * gain:
                self.x, self.here, self.value = x, evaluation, value
                return True
            # Where the parabola through both values is least, if it falls as predicted at first.
            length *= float(np.clip(0.5 * length * gain / (value - self.value + length * gain), 0.1, 0.5))
        if not self.run.sharpen():
            return False
        self.here, self.value = self._measure(self.x)
        return True

    def _minimise(self, model: Model) -> tuple[np.ndarray, float]:
        """Where the model plus penalty is least, and how much it falls to there."""
        from .descent import descend

        unit, worth = float(np.abs(self.x).mean()) or 1.0, max(abs(self.value), TINY)

        def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
            x = unit * scaled
            B = self.path.weights(x)
            value, gradient = model.value_and_gradient(B)
            R, slope = self.stage.value_and_gradient(B)
            pulled = self.path.pull(x, gradient + self.mu * slope)
            return (value + 0.5 * self.mu * R) / worth, unit * pulled / worth

        found, fall = descend(function, self.x / unit, _FORCING)
        return unit * found, worth * fall

    def _measure(self, x: np.ndarray) -> tuple[Evaluation, float]:
        B = self.path.weights(x)
        R = None if self.stage is self.run.objective.penalty else self.stage.value(B)
        return self._take(self.run.evaluate(B, R, curved=True))

    def _take(self, evaluation: Evaluation) -> tuple[Evaluation, float]:
        """The value of this stage; a smoothed one ends once what is left of the gap is mostly the smoothing itself."""
        if self.stage is self.run.objective.penalty:
            value = evaluation.loss + 0.5 * self.mu * evaluation.R
        else:
            value = evaluation.loss + 0.5 * self.mu * self.stage.value(evaluation.B)
            lin = evaluation.loss + float(np.vdot(evaluation.B, evaluation.Q))
            self.bound = max(self.bound, lin + self.stage.bound(evaluation.Q, evaluation.B, self.mu))
            if value - self.bound <= 0.3 * self.run.relative_gap * abs(evaluation.primal):
                self.here = evaluation
                raise _StageDone
        return evaluation, value
