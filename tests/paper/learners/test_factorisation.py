"""Systems that have no Cholesky factor, or no unique solution, are solved by slower factorisations."""

import numpy as np
import pytest
import scipy.linalg
from learners.problems import random_machine

from kernelkin import decompositions
from kernelkin.paper.grams.coupled import BlockLowRank
from kernelkin.paper.learners import Machine, Ridge
from kernelkin.paper.learners.machines import Bordered, Groups


@pytest.mark.parametrize("cost", [1.0, 1e14])
def test_energy_is_that_of_the_solutions(cost):
    """Also for repeated rows at an enormous cost, where rounding may leave no Cholesky factor."""
    gram, machine = random_machine(Ridge(), 2, 20, n_groups=2)
    twice = np.concatenate([np.arange(20), np.arange(20)])
    system = Bordered(gram[np.ix_(twice, twice)], np.full(40, cost), Groups(machine.groups[twice], 2))
    R = np.random.default_rng(3).normal(size=(20, 4))[twice]
    np.testing.assert_allclose(system.energy(R), R.T @ system.solve(R), rtol=1e-6)


def test_without_a_cholesky_factor_eigenvalues_below_rounding_are_zero():
    """I + S maps the null space of S to itself, which Cholesky loses where S is of size 1e20."""
    X = np.random.default_rng(1).normal(size=(30, 2))
    gram = 1e20 * X @ X.T
    with pytest.raises(scipy.linalg.LinAlgError, match=r"the leading minor of order .* is not positive definite"):
        decompositions.Cholesky(gram.copy())
    null = scipy.linalg.null_space(X.T)
    factor = decompositions.factorise(gram.copy)
    assert isinstance(factor, decompositions.Spectral)
    assert np.all(factor.roots >= 1.0)
    assert np.linalg.norm(null.T @ factor.solve(null)) <= np.sqrt(28) * (1 + 1e-12)


def test_a_structured_gram_without_cholesky_factors_is_solved_by_its_entries():
    rng = np.random.default_rng(5)
    rows = [rng.normal(size=(10, 2)) for _ in range(3)]
    gram = BlockLowRank([1e20 * X @ X.T for X in rows], 1e10 * rng.normal(size=(30, 3)))
    with pytest.raises(np.linalg.LinAlgError, match=r"the leading minor of order .* is not positive definite"):
        gram.solver(np.ones((30, 1)))
    machine = Machine(rng.normal(size=(30, 1)), np.ones((30, 1)), np.zeros(30, dtype=np.intp), 1)
    found, expected = Ridge().solve(gram, machine), Ridge().solve(np.asarray(gram), machine)
    np.testing.assert_array_equal(found.a, expected.a)


@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 1, 0]])
def test_blocks_plus_a_factor_are_solved_as_their_entries_are(labels):
    """An intercept for each block, or one that two blocks share; factors that do not reach every block."""
    rng = np.random.default_rng(6)
    rows = [rng.normal(size=(n, 4)) for n in (5, 8, 6)]
    U = rng.normal(size=(19, 5))
    U[:5, 3:] = U[5:13, :2] = 0.0
    gram = BlockLowRank([X @ X.T for X in rows], U)
    dense, cost = np.asarray(gram), rng.uniform(0.5, 20.0, size=19)
    groups = Groups(np.repeat(labels, [5, 8, 6]), 3)
    V = rng.normal(size=(19, 2))
    np.testing.assert_allclose(gram @ V, dense @ V, rtol=1e-12)
    found, expected = Bordered(gram, cost, groups), Bordered(dense, cost, groups)
    np.testing.assert_allclose(found.solve(V), expected.solve(V), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.energy(V), expected.energy(V), rtol=1e-9)
    kept = np.array([0, 2, 14, 18])  # none of the second block
    np.testing.assert_allclose(np.asarray(gram.take(kept)), dense[np.ix_(kept, kept)], rtol=1e-12)


def test_a_singular_symmetric_system_is_solved_by_least_squares():
    system, target = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 2.0]])
    np.testing.assert_allclose(decompositions.solve_symmetric(system, target), [[1.0, 1.0]])
