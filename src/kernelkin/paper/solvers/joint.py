"""The joint solver: Newton steps on the kernel weights, with the relationship eliminated, until the gap is closed.

A step minimises a model of the machines' values plus the penalty, without solving machines. Then the machines are
solved at this point. If the penalty is not smooth, smoother ones are solved first (its `ladder`). If the optimum is
expected to have rank one, a stage along `B = u v'` closes the gap up to rounding. The gap is always that of the
original problem.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from ...decompositions import pseudo_inverse, svd
from ..penalties.relation import Penalty
from ..problems.problem import Evaluation, Problem
from .driver import Certificate, Point, Run, Solver, Status, suitable_scale

# Typical penalty at an optimum, as a share of the objective without kernels: mostly 0.04 to 0.13.
_SHARE = 0.1
# Steps can correct a start whose scale is wrong by at most this factor.
_NEAR = 3.0
# Maximum number of evaluations to find the scale of the start.
_ROUNDS = 3
# Models are minimised until the projected gradient is this much smaller; more accuracy would not help.
_FORCING = 0.03
# Shares of the predicted gain: the least gain of an accepted step, and the largest gap of machines.
_ENOUGH, _ROUGH = 1e-4, 0.3
_SHORTEST = 1e-4

TINY = np.finfo(float).tiny


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

    def run(self, problem: Problem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """From given weights, or equal ones at a scale that suits mu, through the stages of the penalty."""
        penalty, B = problem.penalty, start
        if B is None:
            B = np.ones((problem.grams.n_kernels, problem.grams.n_components))
            spread = problem.machines.deviation()
            B *= max(np.sqrt(_SHARE * spread / (problem.mu * penalty.value_and_gradient(B)[0])), TINY)
        for _ in range(_ROUNDS):
            evaluation = yield Point(B, curved=True)
            scale = suitable_scale(problem.mu, evaluation)
            if 1 / _NEAR < scale < _NEAR or scale == 0:
                break
            B = scale * evaluation.B
        first, *rungs = penalty.ladder()
        stages = [(first, False), *([(penalty, True)] if penalty.collapses else []), *((rung, False) for rung in rungs)]
        past: list[Evaluation] = []
        for rung, rank_one in stages:
            evaluation = yield from _stage(problem, rung, rank_one, evaluation, certificate, past)
        return Status.STALLED


def variables(penalty: Penalty, B: np.ndarray, rank_one: bool) -> tuple[np.ndarray, Callable, Callable]:
    """Return the variables x >= 0 (n,) at B (K, J), the function x -> B, and the gradient in x of x and that in B.

    If the optimum has rank one, the penalty is smooth along `B = u v'`, and only there.
    """
    K, J = B.shape
    if rank_one:
        U, s, Vt = svd(B)
        # The leading singular vectors of a non-negative matrix are non-negative, up to their sign.
        x = np.sqrt(s[0]) * np.abs(np.concatenate([U[:, 0], Vt[0]]))
        return x, lambda x: np.outer(x[:K], x[K:]), lambda x, G: np.concatenate([G @ x[K:], x[:K] @ G])
    if penalty.shared:
        return B.max(axis=1), lambda x: np.repeat(x[:, np.newaxis], J, axis=1), lambda x, G: G.sum(axis=1)
    return B.ravel(), lambda x: x.reshape(K, J), lambda x, G: G.ravel()


def _stage(
    problem: Problem,
    penalty: Penalty,
    rank_one: bool,
    here: Evaluation,
    certificate: Certificate,
    past: list[Evaluation],
) -> Generator[Point, Evaluation, Evaluation]:
    """Minimise a problem with a penalty that may be smoother than its own, from an evaluation; return the last one.

    Steps are taken until the remaining gap is mostly due to smoothing, or no step helps. Models are built from the
    evaluations in `past`. For `rank_one`, see `variables`.
    """
    x, weights, pull = variables(penalty, here.B, rank_one)
    if rank_one:
        here = yield Point(weights(x), curved=True)
    mu, is_own = problem.mu, penalty is problem.penalty
    value, gain, length, bound = np.inf, 0.0, 1.0, -np.inf
    evaluation, trial, target, again = here, x, x, True

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        """The model plus penalty, in units in which variables and values are of order one."""
        B = weights(unit * scaled)
        modelled, gradient = model(B)
        R, slope = penalty.value_and_gradient(B)
        return (modelled + 0.5 * mu * R) / worth, unit * pull(unit * scaled, gradient + mu * slope) / worth

    while True:
        # The value with this stage's penalty.
        R = evaluation.R if is_own else penalty.value(evaluation.B)
        reached = evaluation.loss + 0.5 * mu * R
        if not is_own:
            lin = evaluation.loss + float(np.vdot(evaluation.B, evaluation.Q))
            bound = max(bound, lin + penalty.bound(evaluation.Q, evaluation.B, mu))
            if reached - bound <= 0.3 * certificate.relative_gap * abs(evaluation.primal):
                return evaluation
        if again or reached <= value - _ENOUGH * length * gain:
            x, here, value, length = trial, evaluation, reached, 1.0
            # Evaluations with curvature need no others beside them.
            past[:] = [here] if here.curvature is not None else [*past[-_MEMORY:], here]
            model, unit, worth = model_at(past), float(np.abs(x).mean()) or 1.0, max(abs(value), TINY)
            found, fall = minimise_bounded(function, x / unit, _FORCING)
            target, gain = unit * found, worth * fall
            if gain <= (1e-3 if rank_one else 0.0) * certificate.tol * abs(value):
                return here
            # What is left of the gap after a step is a small part of what the step gains.
            certificate.accuracy = min(certificate.accuracy, max(0.01 * (gain / worth), 0.1 * certificate.tol))
        else:
            # Where the parabola through both values is least, if it falls as predicted at first.
            length *= float(np.clip(0.5 * length * gain / (reached - value + length * gain), 0.1, 0.5))
        # Machines too rough to judge the step, or a step too short: solve them more accurately at x.
        again = here.upper - here.loss > _ROUGH * gain or length <= _SHORTEST
        if again and not certificate.sharpen():
            return here
        trial = x if again else x + length * (target - x)
        B = weights(trial)
        evaluation = yield Point(B, curved=True, own_penalty=None if is_own else penalty.cost(B, mu))


# How far the denominator may fall as weights go to zero.
_FALL = 0.9
# Steps that a secant model remembers.
_MEMORY = 20
# Pairs of a step s and a change y of the gradient with s'y below this share of |s||y| make the matrix indefinite.
_FLAT = 1e-10


def model_at(past: Sequence[Evaluation]) -> Function:
    """A model of the machines' values near the last evaluation: B (K, J) -> value and gradient (K, J).

    Its Hessian is that of the machines, a block for each component, or from secants where they have none, one block.
    """
    last, H = past[-1], past[-1].curvature
    axis = None if H is None else 0
    product = secant_hessian(past) if H is None else None
    # D (K, J) -> H D (K, J)
    hessian = (lambda D: (H @ D.T[:, :, np.newaxis])[:, :, 0].T) if product is None else product
    steep = np.square(last.Q).sum(axis=axis)
    unit = last.Q / np.sqrt(np.maximum(steep, TINY))  # not Q itself: its fourth power would overflow
    fitted = (unit * hessian(unit)).sum(axis=axis) / np.maximum(2.0 * steep, TINY)
    c = last.Q * np.minimum(fitted, _FALL / np.maximum((last.Q * last.B).sum(axis=axis), _FALL * TINY))

    def model(B: np.ndarray) -> tuple[float, np.ndarray]:
        D = B - last.B
        HD = hessian(D)
        below = 1.0 + (c * D).sum(axis=axis)
        curved = 0.5 * (HD * D).sum(axis=axis) / below
        value = last.loss - float(np.vdot(last.Q, D)) + float(curved.sum())
        return value, HD / below - last.Q - c * (curved / below)

    return model


def secant_hessian(past: Sequence[Evaluation]) -> Callable[[np.ndarray], np.ndarray]:
    """D (K, J) -> H D (K, J), the BFGS matrix of the steps between evaluations and the changes of the gradient.

    Pairs without positive curvature are left out; if no pair is left, H is a multiple of the identity.
    """
    last = past[-1]
    S = np.array([(b.B - a.B).ravel() for a, b in pairwise(past)]).reshape(-1, last.B.size)
    Y = np.array([(a.Q - b.Q).ravel() for a, b in pairwise(past)]).reshape(-1, last.B.size)
    sizes = np.sqrt(np.einsum("in,in->i", S, S)) * np.sqrt(np.einsum("in,in->i", Y, Y))
    kept = np.einsum("in,in->i", S, Y) > _FLAT * sizes
    S, Y = S[kept], Y[kept]
    if not len(S):
        scale = 2.0 * float(np.vdot(last.Q, last.B)) / max(float(np.vdot(last.B, last.B)), TINY)
        return lambda D: scale * D
    SY = S @ Y.T
    scale = float(Y[-1] @ Y[-1]) / SY[-1, -1]
    W = np.vstack([scale * S, Y])
    lower = np.tril(SY, -1)
    inverse = pseudo_inverse(np.block([[scale * (S @ S.T), lower], [lower.T, -np.diag(np.diag(SY))]]))
    return lambda D: scale * D - (W.T @ (inverse @ (W @ D.ravel()))).reshape(D.shape)


# ---------------------------------------------------------------------------------------------------------------------
# L-BFGS as a generator, for functions that the caller evaluates; variables may be kept from being negative. Variables
# at zero that would become negative are held there; the others follow the quasi-Newton direction of the steps made so
# far, and each step is cut off at zero (Bertsekas, 1982). A step has to fall by a share of what its slope promises.
# SciPy's L-BFGS-B cannot be asked for one step at a time, as a solver of kernel machines must be; for the models of the
# joint solver, which could use it, it takes 1.3 to 3 times as long (`benchmarks/inner_minimiser.py`).

# Value and gradient (n,) at x (n,).
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Descent = Generator[np.ndarray, tuple[float, np.ndarray], np.ndarray]

# Share of the fall that the slope promises which must come true.
_PROMISE = 1e-4
# A step shorter than this share of the first trial will not help.
_LEAST_STEP = 1e-16
# Variables as near to zero as this, whose gradient is positive, go to zero.
_AT_ZERO = 1e-6
# How far the first step may move a variable: variables are expected to be of order one.
_FIRST_STEP = 0.1
# Steps that are remembered while a model is minimised: more take longer than they save.
_MODEL_MEMORY = 6
# Pairs with s'y below this share of |y|^2 are left out: they would make the Hessian indefinite.
_NOT_CURVED = 1e-10


def descend(x: np.ndarray, memory: int = 20, bounded: bool = False, max_trials: int = 60) -> Descent:
    """Yield points (n,), starting at x, receive the value and gradient at each, and return the best point at the end.

    `memory` is the number of past steps, `max_trials` the maximum number of points in a line search. `bounded`
    variables must not be negative.
    """
    value, gradient = yield x
    S = Y = np.empty((0, len(x)))
    while True:
        step, length, trials = _direction(x, gradient, S, Y, bounded), 1.0, 0
        trial = np.maximum(x + step, 0.0) if bounded else x + step
        if np.array_equal(trial, x):
            return x
        while True:
            reached, slope = yield trial
            move = trial - x
            promised = float(gradient @ move)
            if promised < 0 and reached <= value + _PROMISE * promised:
                break
            # Where the parabola through both values is least.
            shorter = float(np.clip(0.5 * promised / (promised - reached + value), 1e-3, 0.5)) if promised < 0 else 0.5
            length, trials = length * shorter, trials + 1
            if length < _LEAST_STEP or promised == 0 or trials >= max_trials:
                return x
            trial = np.maximum(x + length * step, 0.0) if bounded else x + length * step
        S, Y = np.vstack([S, move])[-memory:], np.vstack([Y, slope - gradient])[-memory:]
        x, value, gradient = trial, reached, slope


def _direction(x: np.ndarray, gradient: np.ndarray, S: np.ndarray, Y: np.ndarray, bounded: bool) -> np.ndarray:
    """The step (n,) from x (n,), by two loops over past steps S (m, n) and changes Y (m, n) of the gradient."""
    held = (x <= _AT_ZERO) & (gradient > 0) if bounded else np.zeros(len(x), dtype=bool)
    step = -gradient
    if held.any():
        free = ~held
        step, S, Y = step * free, S * free, Y * free
    curvatures, squares = np.einsum("in,in->i", S, Y), np.einsum("in,in->i", Y, Y)
    used = (curvatures > _NOT_CURVED * squares).nonzero()[0].tolist()
    if not used:
        # By the whole gradient: where the steepest variables are held at zero, the others are near their best.
        step *= _FIRST_STEP / max(float(np.abs(gradient).max()), np.finfo(float).tiny)
    shares = {}
    for i in reversed(used):
        shares[i] = float(S[i] @ step) / curvatures[i]
        step -= shares[i] * Y[i]
    if used:
        step *= curvatures[used[-1]] / squares[used[-1]]
    for i in used:
        step += (shares[i] - float(Y[i] @ step) / curvatures[i]) * S[i]
    return np.where(held, -x, step)


def minimise_bounded(function: Function, x: np.ndarray, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """Minimise from x (n,) >= 0 until the projected gradient is `forcing` times that at x.

    Returns the point and the decrease. At most `limit` evaluations are made; rounding may end it earlier.
    """
    first, gradient = function(x)
    goal = forcing * float(np.abs(np.minimum(gradient, x)).max())
    if goal == 0.0:
        return x, 0.0
    best, value, descent = first, first, descend(x, _MODEL_MEMORY, bounded=True)
    next(descent)
    for _ in range(limit):
        try:
            trial = descent.send((value, gradient))
        except StopIteration:
            break
        value, gradient = function(trial)
        if value < best:
            x, best = trial, value
            if float(np.abs(np.minimum(gradient, x)).max()) <= goal:
                break
    return x, first - best
