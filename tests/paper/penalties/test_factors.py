"""The relationship in factors against its matrix."""

import numpy as np
import pytest

from kernelkin.paper.penalties import RelationPenalty
from tasks import random_prior


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("K", [3, 8])
def test_rows_are_those_of_the_matrix(with_prior, K):
    prior = random_prior(1, 5) if with_prior else None
    relation = RelationPenalty(5, prior, shrinkage=0.2).relation(np.random.default_rng(0).uniform(size=(K, 5)))
    Omega = relation.matrix()
    np.testing.assert_allclose([relation.row(j) for j in range(5)], Omega, atol=1e-14)
