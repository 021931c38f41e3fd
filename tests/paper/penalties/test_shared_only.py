"""Tasks without parts of their own."""

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, gaussian_kernels
from kernelkin.paper.fitting import Fit, Regression, RunOptions
from kernelkin.paper.penalties import RelationPenalty, SharedOnlyPenalty

KERNELS = gaussian_kernels((0.5, 1.0, 2.0))


def fit_one_function(X, y, tasks, **options):
    specification = Fit(
        targets=Regression(**options),
        penalty=lambda shape: SharedOnlyPenalty(shape.n_tasks, RelationPenalty(shape.n_couplings)),
        kernels=KERNELS,
        couplings="common",
        C=3.0,
        mu=0.2,
        tol=1e-8,
    )
    return specification.plan(MKMTRLRegressor().training_data(X, y, tasks)).run(RunOptions()).attributes


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60), tasks


def test_it_is_the_model_of_all_rows_as_one_task(problem):
    X, y, tasks = problem
    together = fit_one_function(X, y, tasks, fit_intercept=False)
    alone = MKMTRLRegressor(KERNELS, C=3.0, mu=0.2, tol=1e-8, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(together["objective_"], alone.objective_, rtol=1e-7)
    np.testing.assert_allclose(together["coupling_weights_"], alone.kernel_weights_, rtol=1e-3, atol=1e-5)
    assert not together["kernel_weights_"].any()
    codes = np.searchsorted(together["tasks_"], tasks)
    np.testing.assert_allclose(together["functions_"].values(X, codes)[:, 0], alone.predict(X), atol=1e-4)


def test_tasks_differ_by_their_levels(problem):
    X, y, tasks = problem
    levels = np.array([0.0, 5.0, -3.0])
    codes = np.searchsorted(["a", "b", "c"], tasks)
    plain, moved = fit_one_function(X, y, tasks), fit_one_function(X, y + levels[codes], tasks)
    np.testing.assert_allclose(moved["intercept_"] - plain["intercept_"], levels, atol=1e-6)
    values = [fitted["functions_"].values(X[:5], np.zeros(5, dtype=int))[:, 0] for fitted in (plain, moved)]
    np.testing.assert_allclose(*values, atol=1e-6)


def test_own_parts_are_not_allowed():
    penalty = SharedOnlyPenalty(2, RelationPenalty(1))
    B = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    assert penalty.value(B) == RelationPenalty(1).value(B[:, 2:])
    B[0, 1] = 1e-9
    assert penalty.value(B) == np.inf
    with pytest.raises(ValueError, match="n_tasks must be at least 1, got 0"):
        SharedOnlyPenalty(0, RelationPenalty(1))
