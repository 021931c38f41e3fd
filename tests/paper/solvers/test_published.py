"""The published algorithms of the other models: what their authors prove of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from kernelkin.paper.penalties import MixedNorm, SpectralNorm
from kernelkin.paper.problems.problem import FeatureForm, GramForm, MixedNormProblem, SpectralProblem, WorstTaskProblem
from kernelkin.paper.solvers import solve
from kernelkin.paper.solvers.descents import (
    MirrorAverage,
    SpectralAlternation,
    StochasticApproximation,
    gradient_estimates,
    mirror_step,
    uniform,
)
from tasks import LOSSES, make_machine, make_problem, random_problem, watch

T, K = 4, 5


def parts(loss):
    problem = make_problem(*random_problem(7, loss, T, K), loss, None, 5.0)
    return problem.grams, problem.machines, problem.learner


def test_the_mirror_step_of_mk_mtfl_never_raises_the_objective():
    """gamma_k N_k^(1/2) is the best gamma for the w at hand."""
    problem, gamma, trace = MixedNormProblem(*parts("squared"), MixedNorm(2.0)), uniform(K), []
    for _ in range(30):
        evaluation = problem.evaluate(np.repeat(gamma[:, np.newaxis], T, axis=1))
        trace.append(evaluation.upper)
        gamma = mirror_step(gamma, 0.5 * np.log(problem.norm.dual_terms(evaluation.Q)))
    assert (np.diff(trace) <= 1e-12 * trace[0]).all()
    assert trace[-1] < 0.99 * trace[0]


@pytest.mark.parametrize("form", [FeatureForm, GramForm])
@pytest.mark.parametrize("strengths", [(0.0, 1.0), (1.0, 0.5)])
def test_alternating_machines_and_covariance_never_raises_the_objective(form, strengths):
    rng = np.random.default_rng(1)
    Phi, rows = rng.normal(size=(60, 3)), [np.arange(15 * t, 15 * (t + 1)) for t in range(T)]
    machines = [make_machine(Phi[kept] @ rng.normal(size=3) + 0.1 * rng.normal(size=15), 3.0) for kept in rows]
    made = form(Phi @ Phi.T if form is GramForm else SimpleNamespace(Phi=Phi), rows, machines)
    problem = SpectralProblem(made, made.machines, LOSSES["squared"], SpectralNorm(*strengths))
    trace = solve(problem, SpectralAlternation(), tol=1e-9, max_iter=40).history["objective"]
    assert len(trace) > 3
    # The root of a singular matrix has half the digits.
    assert (np.diff(trace) <= 1e-7 * trace[0]).all()
    assert trace[-1] < 0.99 * trace[0]


def test_gradients_estimated_from_one_task_are_right_on_average():
    """Whatever is remembered of the tasks, the mean over draws is the gradient at the present machines."""
    rng = np.random.default_rng(0)
    Q, q = rng.uniform(size=(2, K, T))
    values, value = rng.uniform(size=(2, T))
    lam, chance = rng.dirichlet(np.ones(T), size=2)
    drawn = [gradient_estimates(Q, values, lam, t, chance[t], q[:, t], value[t]) for t in range(T)]
    slope, climb = (sum(c * part for c, part in zip(chance, parts, strict=True)) for parts in zip(*drawn, strict=True))
    np.testing.assert_allclose(slope, q @ lam, rtol=1e-12)
    np.testing.assert_allclose(climb, value, rtol=1e-12)


def test_stochastic_approximation_comes_nearer_with_more_passes():
    problem = WorstTaskProblem(*parts("hinge"))
    gaps = [
        solve(problem, StochasticApproximation(0), tol=1e-9, max_iter=passes).relative_gap for passes in (2, 16, 128)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-2


def test_stochastic_approximation_depends_on_its_seed_alone():
    problem = WorstTaskProblem(*parts("hinge"))
    runs = [watch(problem, StochasticApproximation(seed), tol=1e-9, max_iter=5)[1] for seed in (0, 0, 1)]
    one, two, other = (seen[-1].B for seen in runs)
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_mirror_steps_do_not_depend_on_a_constant_in_the_slopes():
    """Weights on the simplex have a fixed sum, so a constant says nothing, neither for a step nor for its size."""
    slopes = np.random.default_rng(0).normal(size=(6, 4))
    plain, moved = MirrorAverage(4), MirrorAverage(4)
    for i, slope in enumerate(slopes):
        plain.move(slope)
        moved.move(slope + 10.0 * (i + 1))
        np.testing.assert_allclose(moved.value, plain.value, rtol=1e-12)
        np.testing.assert_allclose(moved.mean, plain.mean, rtol=1e-12)
    # The first step has the size sqrt(2 log n) in the largest deviation from the middle of the slopes.
    first = MirrorAverage(4)
    first.move(slopes[0])
    middle = 0.5 * (slopes[0].max() + slopes[0].min())
    step = (slopes[0] - middle) / np.abs(slopes[0] - middle).max() * np.sqrt(2 * np.log(4))
    np.testing.assert_allclose(first.value, np.exp(step) / np.exp(step).sum(), rtol=1e-12)
