"""Systems that have no Cholesky factor, or no unique solution, are solved by slower factorisations."""

import numpy as np
import pytest
import scipy.linalg

from kernelkin.learners import Machine, Ridge, factorisation
from kernelkin.learners.bordered import Bordered
from learners.problems import indicators, random_machine


@pytest.mark.parametrize("cost", [1.0, 1e14])
def test_energy_is_that_of_the_solutions(cost):
    """Also for repeated rows at an enormous cost, where rounding may leave no Cholesky factor."""
    gram, machine = random_machine(Ridge(), 2, 20, n_groups=2)
    twice = np.concatenate([np.arange(20), np.arange(20)])
    system = Bordered(gram[np.ix_(twice, twice)], np.full(40, cost), indicators(machine)[twice])
    R = np.random.default_rng(3).normal(size=(20, 4))[twice]
    np.testing.assert_allclose(system.energy(R), R.T @ system.solve(R), rtol=1e-6)


def test_without_a_cholesky_factor_eigenvalues_below_rounding_are_zero():
    """I + S maps the null space of S to itself, which Cholesky loses where S is of size 1e20."""
    X = np.random.default_rng(1).normal(size=(30, 2))
    gram = 1e20 * X @ X.T
    with pytest.raises(scipy.linalg.LinAlgError, match=r"the leading minor of order .* is not positive definite"):
        factorisation.Cholesky(gram.copy())
    null = scipy.linalg.null_space(X.T)
    factor = factorisation.factorise(gram.copy)
    assert isinstance(factor, factorisation.Spectral)
    assert np.all(factor.roots >= 1.0)
    assert np.linalg.norm(null.T @ factor.solve(null)) <= np.sqrt(28) * (1 + 1e-12)


def test_eigenvectors_by_a_second_method_where_the_first_does_not_converge(monkeypatch):
    def fails_by_default(matrix, lower, driver="evr"):
        if driver == "evr":
            raise scipy.linalg.LinAlgError("did not converge")
        return scipy.linalg.eigh(matrix, lower=lower, driver=driver)

    monkeypatch.setattr(factorisation, "eigh", fails_by_default)
    gram, _ = random_machine(Ridge(), 3, 20)
    r = np.random.default_rng(4).normal(size=(20, 2))
    solution = factorisation.Spectral(gram.copy()).solve(r)
    np.testing.assert_allclose(solution + gram @ solution, r, atol=1e-12)


class FailingStructure:
    """A Gram with a solver of its own that has no factorisation."""

    def __init__(self, gram):
        self.gram = gram

    def __array__(self, dtype=None, copy=None):
        return self.gram

    def __matmul__(self, other):
        return self.gram @ other

    def solver(self, root):
        raise np.linalg.LinAlgError("not positive definite")


def test_a_structured_gram_whose_solver_fails_is_solved_by_its_entries():
    gram, machine = random_machine(Ridge(), 5, n_groups=2)
    machine = Machine(machine.y, np.full_like(machine.y, 2.0), machine.groups, 2)
    expected = Ridge().solve(gram, machine)
    found = Ridge().solve(FailingStructure(gram), machine)
    np.testing.assert_array_equal(found.a, expected.a)
    assert found.gap == expected.gap


def test_a_singular_symmetric_system_is_solved_by_least_squares():
    system, target = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 2.0]])
    np.testing.assert_allclose(factorisation.solve_symmetric(system, target), [[1.0, 1.0]])
