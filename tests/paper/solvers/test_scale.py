"""The scale that suits mu, against the least value along the weights."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from kernelkin.paper.penalties import RelationPenalty
from kernelkin.paper.solvers.driver import suitable_scale
from tasks import make_problem, random_problem

T, K = 3, 4


def at(C, size, mu):
    """A hinge problem at even weights of this size, and its evaluation."""
    problem = make_problem(*random_problem(0, "hinge", T, K), "hinge", RelationPenalty(T), C, mu)
    return problem, problem.evaluate(np.full((K, T), size), tol=1e-12)


@pytest.mark.parametrize(
    ("C", "size", "mu", "decay"),
    [(1e-3, 1e-3, 1e-4, 0.0), (1e4, 30.0, 1e-3, 1.0)],
    ids=["at the bounds", "functions that do not change"],
)
def test_scale_is_where_the_objective_is_least(C, size, mu, decay):
    problem, evaluation = at(C, size, mu)
    scale = suitable_scale(mu, evaluation, decay=decay)
    best = minimize_scalar(lambda s: problem.evaluate(np.exp(s) * evaluation.B, tol=1e-12).primal, (-1.0, 1.0))
    assert abs(np.log(scale)) > 0.3
    np.testing.assert_allclose(np.log(scale), best.x, atol=1e-4)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1e5])
def test_scale_solves_its_equation(mu):
    _, evaluation = at(1.0, 1.0, mu)
    gain = np.vdot(evaluation.B, evaluation.Q) / (mu * evaluation.R)
    for decay in (0.0, 0.01, 0.3, 0.99, 1.0):
        s = suitable_scale(mu, evaluation, decay=decay)
        np.testing.assert_allclose(s * (1 + decay * (s - 1)) ** 2, gain, rtol=1e-6)
