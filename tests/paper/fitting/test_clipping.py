"""Gram matrices that rounding left indefinite: the certificate speaks of the function that predicts."""

import numpy as np
import pytest

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.exceptions import ApproximationWarning
from kernelkin.paper import MTRLRegressor, TwoStageMKMTRLRegressor

N, C = 100, 1e6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = np.sin(X[:, 0]) + RNG.normal(size=N)
TASKS = np.repeat([0, 1], N // 2)
SINGLE = np.exp(-np.square(X[:, np.newaxis] - X).sum(axis=2) / 8).astype(np.float32)[:, :, np.newaxis]


def with_eigenvalue(smallest):
    """A float64 matrix with one eigenvalue below zero, in a direction that targets have a part in."""
    vectors = np.linalg.qr(np.column_stack([Y - Y.mean(), RNG.normal(size=(N, N - 1))]))[0]
    gram = (vectors * np.concatenate([[smallest], np.linspace(0.1, 2.0, N - 1)])) @ vectors.T
    return (0.5 * (gram + gram.T))[:, :, np.newaxis]


@pytest.mark.parametrize(
    ("model", "gram", "tasks"),
    [
        (MKMTRLRegressor("precomputed", C=C, normalize=None), SINGLE, TASKS),
        (MKMTRLRegressor("precomputed", C=C, normalize=None), with_eigenvalue(-1e-9), None),
        (MTRLRegressor("precomputed", C=C), SINGLE, TASKS),
    ],
    ids=["float32", "float64", "pooled"],
)
def test_the_objective_is_that_of_the_predictions(model, gram, tasks):
    with pytest.warns(ApproximationWarning, match="a kernel is not exactly positive semi-definite"):
        model.fit(gram, Y, tasks=tasks)
    loss = 0.5 * C * np.square(Y - model.predict(gram, tasks)).sum()
    assert loss <= model.objective_
    # The clipped matrix has a function of much less loss, and the gap says so.
    assert model.duality_gap_ >= 1e-3 * loss


def test_wide_classes_count_too():
    labels = np.where(np.column_stack([Y, X[:, 1]]) > 0, 1, -1)
    model = MKMTRLClassifier("precomputed", C=1e4, tol=1e-4)
    with pytest.warns(ApproximationWarning, match="which is included in objective_ and duality_gap_"):
        model.fit(SINGLE, labels)
    hinge = 1e4 * np.maximum(0.0, 1.0 - labels * model.decision_function(SINGLE)).sum()
    assert hinge <= model.objective_


def test_what_does_not_matter_is_not_warned_of():
    gram = with_eigenvalue(-1e-12)
    model = MKMTRLRegressor("precomputed", C=1.0).fit(gram, Y)
    assert model.duality_gap_ <= 1e-3 * model.objective_


@pytest.mark.parametrize("kind", [MTRLRegressor, TwoStageMKMTRLRegressor])
def test_kernels_that_are_functions_count_as_matrices_do(kind):
    gram = with_eigenvalue(-5e-7)
    options = {"n_rounds": 100, "random_state": 0} if kind is TwoStageMKMTRLRegressor else {}
    rows, found = np.arange(N, dtype=float)[:, np.newaxis], []

    def kernel(A, Z):
        return gram[np.ix_(A[:, 0].astype(int), Z[:, 0].astype(int))][:, :, 0]

    for kernels, given in (("precomputed", gram), ([kernel], rows)):
        model = kind(kernels, C=C, **options)
        with pytest.warns(ApproximationWarning, match="not exactly positive semi-definite"):
            model.fit(given, Y, tasks=np.zeros(N))
        loss = 0.5 * C * np.square(Y - model.predict(given, np.zeros(N))).sum()
        assert loss <= model.objective_
        found.append((model.objective_, model.duality_gap_))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)
