"""The joint solver: Newton steps on the kernel weights, the relationship eliminated, until the duality gap is closed.

A step minimises a model of the machines' values plus the penalty itself, which solves no machine; then the machines are
solved at that minimiser. A penalty that is not smooth names smoother ones to solve first (its `ladder`); where its
optimum is expected to have rank one, a stage along `B = u v'` closes the gap to rounding. The gap is always that of the
true problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from ..learners import Machine
from ..problems import Evaluation, MachineBlocks, MachinePanel, Problem, deviation
from .base import Progress, Solver, State, Status
from .lbfgs import minimise_bounded
from .models import TINY, Model, model_at, remember
from .parametrisations import FreeVariables, Parametrisation, RankOne
from .scale import suitable_scale

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
    variables: Parametrisation | None = None
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
    >>> from kernelkin.solvers import Joint
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
            scale = np.sqrt(_SHARE * _spread(problem.machines) / (problem.mu * problem.penalty.value(start)))
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


def _spread(machines: Sequence[Machine]) -> float:
    """Half the squared deviations of the targets: about what machines without kernels would have to pay."""
    if isinstance(machines, MachineBlocks):
        return sum(machines.deviations.tolist())
    if isinstance(machines, MachinePanel):
        # In standard units the targets of each intercept are centred already.
        if len(machines.cost) == 1:
            return 0.5 * float(machines.cost[0] @ np.einsum("ij,ij->j", machines.y, machines.y))
        return 0.5 * float(np.sum(machines.cost * np.square(machines.y)))
    return sum(deviation(machine) for machine in machines)


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
