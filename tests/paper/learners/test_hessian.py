"""The Hessian of every learner's value in its kernel weights against differences of its gradient."""

import dataclasses

import numpy as np
import pytest
from learners.problems import all_learners, random_machine, rbf_gram

from kernelkin.paper.learners import LEARNERS

K = 3


def problem(learner, n_groups, m, n=30):
    """A stack (K, n, n), weights (K,) and a machine with uneven costs, one of them zero."""
    _, machine = random_machine(learner, 0, n, m, n_groups)
    rng = np.random.default_rng(1)
    stack = np.array([rbf_gram(rng, n)[0] for _ in range(K)])
    C = machine.C.copy()
    C[3] = 0.0
    return stack, rng.uniform(0.5, 1.5, size=K), dataclasses.replace(machine, C=C)


def gradient(learner, stack, b, machine):
    """The gradient -Q (K,) of the machine's value."""
    a = learner.solve(np.tensordot(b, stack, 1), machine, tol=1e-14).a
    return -0.5 * np.einsum("im,kij,jm->k", a, stack, a)


@pytest.mark.parametrize("learner", all_learners(), ids=list(LEARNERS))
@pytest.mark.parametrize(("n_groups", "m"), [(0, 1), (1, 3), (2, 1)])
def test_hessian_is_the_derivative_of_the_gradient(learner, n_groups, m):
    stack, b, machine = problem(learner, n_groups, m)
    solution, hessian = learner.linearise(np.tensordot(b, stack, 1), machine, tol=1e-14)
    H = hessian(np.einsum("kij,jm->kim", stack, solution.a))
    step = 1e-5
    above, below = (
        np.array([gradient(learner, stack, b + move, machine) for move in sign * step * np.eye(K)]) for sign in (1, -1)
    )
    slopes = (above - below) / (2 * step)
    assert np.linalg.eigvalsh(H)[0] >= -1e-9 * np.abs(H).max()
    np.testing.assert_allclose(H, slopes, atol=2e-5 * np.abs(slopes).max())


@pytest.mark.parametrize("learner", all_learners(), ids=list(LEARNERS))
def test_linearise_returns_the_solution_of_solve(learner):
    stack, b, machine = problem(learner, 1, 2)
    gram = np.tensordot(b, stack, 1)
    np.testing.assert_array_equal(learner.linearise(gram, machine)[0].a, learner.solve(gram, machine).a)


@pytest.mark.parametrize("learner", all_learners(), ids=list(LEARNERS))
def test_hessian_is_finite_without_kernel_weights(learner):
    stack, _, machine = problem(learner, 1, 1)
    solution, hessian = learner.linearise(np.zeros(stack.shape[1:]), machine)
    assert np.isfinite(hessian(np.einsum("kij,jm->kim", stack, solution.a))).all()
