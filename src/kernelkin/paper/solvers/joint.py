"""The joint solver: Newton steps on the kernel weights, the relationship eliminated, until the duality gap is closed.

A step minimises a model of the machines' values plus the penalty itself, which solves no machine; then the machines are
solved at that minimiser. A penalty that is not smooth names smoother ones to solve first (its `ladder`); where its
optimum is expected to have rank one, a stage along `B = u v'` closes the gap to rounding. The gap is always that of the
true problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from ...decompositions import pseudo_inverse, svd
from ..penalties import Penalty
from ..problems import Evaluation, Problem, as_machines
from .base import Progress, Solver, State, Status, suitable_scale
from .lbfgs import minimise_bounded

# Pairs of a step s and a change y of the gradient with s'y below this share of |s||y| are left out: they would make the
# matrix indefinite.
_FLAT = 1e-10


def curved_pairs(S: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps S (m, n) and changes Y (m, n) of the gradient between which the function is curved upwards."""
    sizes = np.sqrt(np.einsum("in,in->i", S, S)) * np.sqrt(np.einsum("in,in->i", Y, Y))
    kept = np.einsum("in,in->i", S, Y) > _FLAT * sizes
    return S[kept], Y[kept]


def secant_hessian(S: np.ndarray, Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """v (n,) -> H v (n,), for curved pairs S, Y (m, n), m > 0."""
    SY = S @ Y.T
    scale = float(Y[-1] @ Y[-1]) / SY[-1, -1]
    W = np.vstack([scale * S, Y])
    lower = np.tril(SY, -1)
    middle = np.block([[scale * (S @ S.T), lower], [lower.T, -np.diag(np.diag(SY))]])
    inverse = pseudo_inverse(middle)
    return lambda v: scale * v - W.T @ (inverse @ (W @ v))


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


class FreeVariables:
    """The free variables of a penalty, which may be smoother than the problem's; `start` (n,) are those of B (K, J)."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        self.shape = penalty.free(B).shape
        self.start = penalty.free(B).ravel()

    def weights(self, x: np.ndarray) -> np.ndarray:
        """B (K, J) of x (n,) >= 0."""
        return self.penalty.expand(x.reshape(self.shape))

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Gradient in x of a gradient G (K, J) in B."""
        return self.penalty.pull(G).ravel()


class RankOne:
    """B = u v': where the optimum has rank one, the penalty is smooth along such B, and only along them."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        U, s, Vt = svd(B)
        # Of a matrix without negative entries they have none either, but for their sign.
        self.start = np.sqrt(s[0]) * np.abs(np.concatenate([U[:, 0], Vt[0]]))
        self.n_kernels = len(B)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.outer(x[: self.n_kernels], x[self.n_kernels :])

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.concatenate([G @ x[self.n_kernels :], x[: self.n_kernels] @ G])


# What is paid for kernel weights at an optimum, as a share of what is paid without any: mostly 0.04 to 0.13.
_SHARE = 0.1
# A start whose scale is wrong by no more than this factor is near enough for a step to correct it.
_NEAR = 3.0
# Evaluations that may be spent on the scale of the start.
_ROUNDS = 3
# The projected gradient of a model is made this much smaller: more would be wasted on what is only a model.
_FORCING = 0.03
# Shares of the predicted gain: what a step must reach, and how far machines may be off.
_ENOUGH, _ROUGH = 1e-4, 0.3
_SHORTEST = 1e-4


@dataclass(frozen=True, kw_only=True)
class JointState(State):
    """Where the solver is.

    Attributes
    ----------
    phase : what the next evaluation is for: to find the scale of the start, to measure the stage's point x, or to try a
        step from it.
    rounds : evaluations left for the scale of the start.
    stage : position in the list of stages.
    variables : the variables of the stage.
    x, here, value : the stage's point, its evaluation, and its value with the stage's penalty.
    stage_bound : lower bound on the optimum of the stage.
    target, gain, length : the minimiser of the model, the predicted gain, and how far towards it the trial is.
    past : evaluations that models are made of.
    """

    phase: Literal["scale", "measure", "trial"] = "scale"
    rounds: int = _ROUNDS
    stage: int = 0
    variables: FreeVariables | RankOne | None = None
    x: np.ndarray | None = None
    here: Evaluation | None = None
    value: float = np.inf
    stage_bound: float = -np.inf
    target: np.ndarray | None = None
    gain: float = 0.0
    length: float = 1.0
    past: tuple[Evaluation, ...] = ()


@dataclass(frozen=True)
class Joint(Solver):
    """Minimise over all kernel weights at once.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.paper.solvers import Joint
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> model = MKMTRLRegressor(data.kernels, solver=Joint()).fit(data.data, data.target, tasks=data.tasks)
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    name: ClassVar[str] = "joint"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (Problem,)
    indicators: ClassVar[bool | None] = False

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> JointState:
        """Given weights, or all weights equal at a scale that suits mu."""
        if start is None:
            start = np.ones((problem.grams.n_kernels, problem.grams.n_components))
            # Some penalties leave some weights no choice but zero.
            start = problem.penalty.expand(problem.penalty.free(start))
            scale = np.sqrt(
                _SHARE * as_machines(problem.machines).deviation() / (problem.mu * problem.penalty.value(start))
            )
            start *= max(scale, TINY)
        return JointState(B=start, progress=Progress(tol), curved=True, iterations=1)

    def step(self, problem: Problem, state: JointState, evaluation: Evaluation) -> JointState:
        """The next point to evaluate, by what the last one was for."""
        state = replace(state, iterations=state.iterations + 1)
        if state.phase == "scale":
            return _find_scale(problem, state, evaluation)
        value, bound, is_done = _stage_value(problem, state, evaluation)
        state = replace(state, stage_bound=bound)
        if is_done:
            return _enter(problem, state, state.stage + 1, evaluation)
        if state.phase == "measure":
            return _propose(problem, replace(state, here=evaluation, value=value))
        return _judge_trial(problem, state, evaluation, value)


def _find_scale(problem: Problem, state: JointState, evaluation: Evaluation) -> JointState:
    """Correct the scale of the start, or begin the first stage."""
    rounds, scale = state.rounds - 1, suitable_scale(problem.mu, evaluation)
    if 1 / _NEAR < scale < _NEAR or scale == 0 or rounds == 0:
        return _enter(problem, state, 0, evaluation)
    return replace(state, B=scale * evaluation.B, rounds=rounds)


def _stages(problem: Problem) -> list[tuple[type, int]]:
    """The variables of each stage, and the position of its penalty in the ladder."""
    count = len(problem.penalty.ladder())
    first, *rest = [(FreeVariables, i) for i in range(count)]
    return [first, *([(RankOne, count - 1)] if problem.penalty.collapses else []), *rest]


def _enter(problem: Problem, state: JointState, stage: int, evaluation: Evaluation) -> JointState:
    """Begin a stage at the weights of an evaluation; without further stages there is no progress left."""
    stages = _stages(problem)
    if stage == len(stages):
        return replace(state, status=Status.STALLED)
    make, rung = stages[stage]
    variables = make(problem.penalty.ladder()[rung], evaluation.B)
    state = replace(state, stage=stage, variables=variables, x=variables.start, stage_bound=-np.inf)
    if make is RankOne:
        return _measure(problem, state)
    value, bound, is_done = _stage_value(problem, state, evaluation)
    state = replace(state, here=evaluation, value=value, stage_bound=bound)
    return _enter(problem, state, stage + 1, evaluation) if is_done else _propose(problem, state)


def _stage_value(problem: Problem, state: JointState, evaluation: Evaluation) -> tuple[float, float, bool]:
    """Value and bound of this stage, and whether what is left of the gap is mostly its smoothing."""
    assert state.variables is not None
    penalty, mu = state.variables.penalty, problem.mu
    if penalty is problem.penalty:
        return evaluation.loss + 0.5 * mu * evaluation.R, -np.inf, False
    value = evaluation.loss + 0.5 * mu * penalty.value(evaluation.B)
    lin = evaluation.loss + float(np.vdot(evaluation.B, evaluation.Q))
    bound = max(state.stage_bound, lin + penalty.bound(evaluation.Q, evaluation.B, mu))
    return value, bound, value - bound <= 0.3 * state.progress.relative_gap * abs(evaluation.primal)


def _propose(problem: Problem, state: JointState) -> JointState:
    """Minimise the model at the stage's point, and try its minimiser; the next stage where it promises nothing."""
    here = state.here
    assert here is not None
    past = remember(state.past, here)
    state = replace(state, past=past)
    target, gain = _minimise_model(problem, state, model_at(past))
    floor = 1e-3 * state.progress.tol * abs(state.value) if isinstance(state.variables, RankOne) else 0.0
    if gain <= floor:
        return _enter(problem, state, state.stage + 1, here)
    progress = state.progress.expecting(gain / max(abs(state.value), TINY))
    return _try(problem, replace(state, target=target, gain=gain, length=1.0, progress=progress))


def _try(problem: Problem, state: JointState) -> JointState:
    """Evaluate the trial, unless machines are too rough to judge it or it is too short."""
    assert state.here is not None and state.x is not None and state.target is not None
    if state.here.upper - state.here.loss > _ROUGH * state.gain or state.length <= _SHORTEST:
        return _sharpen(problem, state)
    return _ask(problem, state, "trial", state.x + state.length * (state.target - state.x))


def _judge_trial(problem: Problem, state: JointState, evaluation: Evaluation, value: float) -> JointState:
    """Take the step where the objective fell enough, or shorten it."""
    assert state.x is not None and state.target is not None
    length, gain = state.length, state.gain
    if value <= state.value - _ENOUGH * length * gain:
        x = state.x + length * (state.target - state.x)
        return _propose(problem, replace(state, x=x, here=evaluation, value=value))
    # Where the parabola through both values is least, if it falls as predicted at first.
    shorter = float(np.clip(0.5 * length * gain / (value - state.value + length * gain), 0.1, 0.5))
    return _try(problem, replace(state, length=shorter * length))


def _sharpen(problem: Problem, state: JointState) -> JointState:
    """Solve the machines more accurately at the same point; the next stage where that is of no use."""
    progress = state.progress.sharpened()
    if progress.is_exhausted:
        assert state.here is not None
        return _enter(problem, replace(state, progress=progress), state.stage + 1, state.here)
    return _measure(problem, replace(state, progress=progress))


def _measure(problem: Problem, state: JointState) -> JointState:
    assert state.x is not None
    return _ask(problem, state, "measure", state.x)


def _ask(problem: Problem, state: JointState, phase: Literal["measure", "trial"], x: np.ndarray) -> JointState:
    """The state that evaluates x."""
    assert state.variables is not None
    B, penalty = state.variables.weights(x), state.variables.penalty
    own = None if penalty is problem.penalty else penalty.cost(B, problem.mu)
    return replace(state, phase=phase, B=B, own_penalty=own)


def _minimise_model(problem: Problem, state: JointState, model: Model) -> tuple[np.ndarray, float]:
    """Where the model plus penalty is least, and how much it falls to there."""
    variables, start, mu = state.variables, state.x, problem.mu
    assert variables is not None and start is not None
    unit, worth = float(np.abs(start).mean()) or 1.0, max(abs(state.value), TINY)

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        x = unit * scaled
        B = variables.weights(x)
        value, gradient = model.value_and_gradient(B)
        R, slope = variables.penalty.value_and_gradient(B)
        pulled = variables.pull(x, gradient + mu * slope)
        return (value + 0.5 * mu * R) / worth, unit * pulled / worth

    found, fall = minimise_bounded(function, start / unit, _FORCING)
    return unit * found, worth * fall
