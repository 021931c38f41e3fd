"""MK-MTFL and MKL-SA: values of their saddle points, certified bounds, reductions."""

import numpy as np
import pytest
from models.convex import KERNELS, long_data, mixed_norm, stacks, worst_task
from sklearn.exceptions import ConvergenceWarning

from kernelkin import gaussian_kernels, linear_kernels
from kernelkin.paper import IKLRegressor, MKLSAClassifier, MKMTFLClassifier, MKMTFLRegressor
from kernelkin.paper.grams.stack import GramStack, TaskGrams
from kernelkin.paper.learners import Ridge
from kernelkin.paper.penalties import MixedNorm
from kernelkin.paper.problems import MachineList
from kernelkin.paper.problems.problem import MixedNormProblem
from kernelkin.paper.solvers.descents import mirror_step, uniform
from tasks import make_machine


def split(y, tasks):
    return [y[tasks == t] for t in np.unique(tasks)]


@pytest.mark.parametrize(("p", "kind"), [(2, "squared"), (3, "hinge"), (6, "squared"), (np.inf, "hinge")])
def test_the_value_is_that_of_the_conic_optimum(p, kind):
    X, y, labels, tasks = long_data(0)
    target, estimator = (labels, MKMTFLClassifier) if kind == "hinge" else (y, MKMTFLRegressor)
    model = estimator(KERNELS, p=p, C=2.0, tol=1e-5, max_iter=2000).fit(X, target, tasks=tasks)
    value = mixed_norm(stacks(X, tasks), split(target, tasks), 2.0, p, kind)
    assert model.objective_ == pytest.approx(value, rel=2e-5)
    assert model.objective_ - model.duality_gap_ <= value * (1 + 1e-6)


@pytest.mark.parametrize("p", [2, 4])
def test_the_bounds_close_in_on_the_optimum(p):
    X, y, _, tasks = long_data(1)
    history = MKMTFLRegressor(KERNELS, p=p, C=5.0, tol=1e-7, max_iter=500).fit(X, y, tasks=tasks).history_
    # No bound, at any iteration, is on the wrong side of the value they close in on.
    assert history["primal"].min() >= history["bound"][-1] * (1 - 1e-12)
    assert history["bound"].max() <= history["primal"][-1] * (1 + 1e-12)
    assert history["relative_gap"][0] > 1e-4 and history["relative_gap"][-1] <= 1e-7


def test_p_two_is_the_shared_one_norm():
    """IKL with p=1 has the penalty (mu/2) |b|_1^2, MK-MTFL the bound |gamma|_1 = 1: one mix at the mu that fits."""
    X, y, _, tasks = long_data(2)
    ikl = IKLRegressor(KERNELS, p=1, C=2.0, mu=0.3, tol=1e-9, max_iter=2000).fit(X, y, tasks=tasks)
    total = ikl.kernel_weights_[0].sum()
    # On Grams `total` times as large, the weights of sum one are those of sum `total`: C scales the same way.
    model = MKMTFLRegressor(KERNELS, p=2, C=2.0 * total, tol=1e-9, max_iter=2000).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.kernel_weights_, ikl.kernel_weights_ / total, atol=1e-4)
    np.testing.assert_allclose(model.predict(X, tasks=tasks), ikl.predict(X, tasks=tasks), atol=1e-4)


def test_the_published_step_never_raises_the_objective():
    """gamma_k N_k^(1/2) is the best gamma for the w at hand."""
    X, y, _, tasks = long_data(7)
    machines = MachineList(make_machine(part, 5.0) for part in split(y, tasks))
    grams, norm = TaskGrams([GramStack(stack) for stack in stacks(X, tasks)]), MixedNorm(2.0)
    problem, gamma, trace = MixedNormProblem(grams, machines, Ridge(), norm), uniform(grams.n_kernels), []
    for _ in range(30):
        found = problem.evaluate(np.repeat(gamma[:, np.newaxis], 3, axis=1))
        trace.append(found.upper)
        gamma = mirror_step(gamma, 0.5 * np.log(norm.dual_terms(found.Q)))
    assert (np.diff(trace) <= 1e-12 * trace[0]).all()
    assert trace[-1] < 0.99 * trace[0]


@pytest.mark.parametrize(("p", "evaluations", "C"), [(2, 60, 1e4), (4, 100, 1e4)])
def test_kernels_that_resemble_each_other_do_not_slow_it_down(p, evaluations, C):
    """Ten Gaussians of neighbouring widths, and a kernel for each column."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 6))
    Y = np.sin(X @ rng.normal(size=(6, 5))) + X @ rng.normal(size=(6, 5)) + 0.1 * rng.normal(size=(50, 5))
    kernels = [*gaussian_kernels(np.geomspace(0.125, 8, 10).tolist()), *linear_kernels(per_feature=True)]
    model = MKMTFLRegressor(kernels, p=p, C=C, tol=1e-5, max_iter=evaluations).fit(X, Y)
    assert model.duality_gap_ <= 1e-5 * model.objective_


def test_few_kernels_are_selected():
    X, y, _, tasks = long_data(4, n=25)
    weights = MKMTFLRegressor(KERNELS, C=5.0, tol=1e-6, max_iter=500).fit(X, y, tasks=tasks).kernel_weights_
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert (weights < 1e-3).any()


def test_stochastic_approximation_comes_to_the_saddle_value():
    X, _, labels, tasks = long_data(5)
    value = worst_task(stacks(X, tasks), split(labels, tasks), 2.0)
    above = []
    for passes in (4, 32, 256):
        model = MKLSAClassifier(KERNELS, C=2.0, tol=1e-9, max_iter=passes, random_state=0)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(X, labels, tasks=tasks)
        above.append(model.objective_ / value - 1)
        assert model.objective_ - model.duality_gap_ <= value * (1 + 1e-6)
    assert above[0] > above[2] >= -1e-6
    assert above[2] < 2e-3


def test_the_worst_task_counts():
    """One task is hard and one is easy: the objective is the hard one's value alone."""
    X, _, labels, tasks = long_data(6, T=2, n=30)
    rng = np.random.default_rng(6)
    labels = np.where(tasks == 0, np.where(X[:, 0] > 0, 1, -1), rng.choice([-1, 1], size=len(X)))
    both = MKLSAClassifier(KERNELS, tol=1e-3, max_iter=500, random_state=0).fit(X, labels, tasks=tasks)
    hard = MKLSAClassifier(KERNELS, tol=1e-3, max_iter=500, random_state=0).fit(X[tasks == 1], labels[tasks == 1])
    # Each has its own Gaussian widths, from its own rows.
    assert both.objective_ == pytest.approx(hard.objective_, rel=0.05)
