"""Approximate factors of the part that coupled tasks share, against the kernels they stand for and exact fits."""

import numpy as np
import pytest

from kernelkin import MKMTRLRegressor, MKMTRLRegressorCV, gaussian_kernels, linear_kernels
from kernelkin.data.forms import read_training
from kernelkin.exceptions import ApproximationWarning
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper.grams import build
from kernelkin.paper.grams.lowrank import nystroem_kernels

KERNELS = [*gaussian_kernels((0.5, 2.0)), *linear_kernels()]


def coupled_data(n_tasks=4, n=25, seed=0):
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(n_tasks * n, 3)), np.repeat(np.arange(n_tasks), n)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * (tasks % 2) + tasks + 0.1 * rng.normal(size=len(X))
    return X, y, tasks


def factors(rank):
    X, y, tasks = coupled_data()
    data = read_training(X, y, tasks, None, classification=False)
    kernels = fit_kernels(KERNELS, data.X)
    return kernels, data.X[np.concatenate(data.rows)], nystroem_kernels(data, kernels, rank)


def test_what_factors_lack_is_positive_semi_definite_and_its_trace_is_known():
    kernels, X, found = factors(40)
    assert found.rank == 40
    lacking = found.missing()
    for family in found.families:
        k = int(family.kernels[0])
        rest = kernels[k](X) - family.factor @ family.factor.T
        assert np.linalg.eigvalsh(rest).min() > -1e-9
        np.testing.assert_allclose(np.trace(rest) / np.trace(kernels[k](X)), lacking[k], atol=1e-10)
        if family.landmarks is not None:
            np.testing.assert_allclose(rest[family.landmarks.rows], 0.0, atol=1e-7)
    assert lacking[2] == 0.0  # a linear kernel has an exact factor
    assert 0.0 < lacking[1] < lacking[0]


def test_held_out_rows_meet_training_rows_through_landmarks():
    kernels, X, found = factors(40)
    kept, held = np.arange(60), np.arange(60, 100)
    b, V = np.array([1.0, 2.0, 0.5]), np.random.default_rng(1).normal(size=(60, 2))
    product = found.take(kept).image(b, V, at=found.take(held))
    expected = 0.5 * kernels[2](X[held], X[kept]) @ V
    for family in found.families:
        if family.landmarks is not None:
            kernel, L = kernels[family.kernels[0]], X[family.landmarks.rows]
            through = np.linalg.solve(kernel(L), kernel(L, X[kept]) @ V)
            expected += b[family.kernels[0]] * kernel(X[held], L) @ through
    np.testing.assert_allclose(product, expected, atol=1e-6)


def test_factors_of_full_rank_give_the_exact_fit():
    X, y, tasks = coupled_data()
    exact, full = (
        MKMTRLRegressor(KERNELS, couplings="common", C=10.0, shared_rank=rank, tol=1e-6).fit(X, y, tasks=tasks)
        for rank in (None, 203)
    )
    assert exact.shared_error_ is None
    assert full.shared_error_.max() <= 2e-5
    np.testing.assert_allclose(full.objective_, exact.objective_, rtol=1e-4)
    np.testing.assert_allclose(full.predict(X, tasks=tasks), exact.predict(X, tasks=tasks), atol=1e-2)


@pytest.mark.parametrize("couplings", ["common", {"all": "common", "pairs": ["a", "b", "a", "b"]}])
def test_predictions_are_those_of_the_approximated_problem(couplings):
    """The residuals of squared errors are the dual variables over C; and less can be fitted than exactly."""
    X, y, tasks = coupled_data()
    exact, rough = (
        MKMTRLRegressor(KERNELS, couplings=couplings, C=10.0, shared_rank=rank).fit(X, y, tasks=tasks)
        for rank in (None, 30)
    )
    residuals = np.concatenate(rough.dual_coef_)[:, 0] / 10.0
    np.testing.assert_allclose(y - rough.predict(X, tasks=tasks), residuals, atol=1e-6)
    assert rough.duality_gap_ <= 1e-3 * rough.objective_
    assert rough.objective_ > exact.objective_ - exact.duality_gap_


def test_many_rows_are_approximated_with_a_warning(monkeypatch):
    monkeypatch.setattr(build, "MOST_EXACT_ROWS", 99)
    monkeypatch.setattr(build, "DEFAULT_RANK", 40)
    X, y, tasks = coupled_data()
    with pytest.warns(ApproximationWarning, match=r"^MKMTRLRegressor: the shared parts are approximated with rank "):
        model = MKMTRLRegressor(KERNELS, couplings="common").fit(X, y, tasks=tasks)
    assert model.shared_error_ is not None
    monkeypatch.setattr(build, "MOST_EXACT_ROWS", 100)
    assert MKMTRLRegressor(KERNELS, couplings="common").fit(X, y, tasks=tasks).shared_error_ is None


def test_cross_validation_judges_the_approximated_problem(monkeypatch):
    X, y, tasks = coupled_data()
    grid = {"C": [0.1, 10.0]}
    search = {"couplings": "common", "grid": grid, "random_state": 0}
    exact = MKMTRLRegressorCV(KERNELS, **search).fit(X, y, tasks=tasks)
    monkeypatch.setattr(build, "MOST_EXACT_ROWS", 99)
    monkeypatch.setattr(build, "DEFAULT_RANK", 250)  # nearly exact
    with pytest.warns(ApproximationWarning, match=r": the shared parts are approximated with rank"):
        rough = MKMTRLRegressorCV(KERNELS, **search).fit(X, y, tasks=tasks)
    assert rough.best_params_ == exact.best_params_
    np.testing.assert_allclose(rough.best_score_, exact.best_score_, atol=5e-3)


def test_a_hundred_thousand_rows_in_500_tasks_are_within_8_gb():
    X = np.random.default_rng(0).normal(size=(100_000, 3))
    tasks = np.repeat(np.arange(500), 200)
    model = MKMTRLRegressor(gaussian_kernels((0.5, 1.0, 2.0, 4.0)), couplings="common")
    assert model.estimate_memory(X, X[:, 0], tasks) < 8e9
    assert model.set_params(shared_rank=None).estimate_memory(X, X[:, 0], tasks) > 8e10
