"""Machines of wide data solved together, against one factorisation for each."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernelkin import MKMTRLRegressor, MKMTRLRegressorCV
from kernelkin.engines import serially
from kernelkin.paper.grams import operator
from kernelkin.paper.grams.operator import Arrays
from kernelkin.paper.grams.stack import GramStack, SharedGrams
from kernelkin.paper.learners import Machine, Ridge
from kernelkin.paper.problems import MachineList, panel
from kernelkin.paper.problems.panel import MachinePanel

RNG = np.random.default_rng(3)
N, T = 60, 7
STACK = np.array([rbf_kernel(RNG.normal(size=(N, 3)), gamma=g) for g in (0.1, 0.5, 2.0)])
B = np.exp(RNG.normal(size=(3, T)))


def make_machines(missing: bool, weights: bool, intercept: bool, outputs: int = 1, C: float = 5.0):
    """Machines, and the rows of each."""
    rng = np.random.default_rng(1)
    rows = [np.flatnonzero(rng.uniform(size=N) < 0.8) if missing else np.arange(N) for _ in range(T)]
    cost = C * (rng.uniform(0.5, 2.0, size=N) if weights else np.ones(N))
    machines = [
        Machine(
            rng.normal(size=(len(kept), outputs)) + 3.0,
            np.repeat(cost[kept, np.newaxis], outputs, axis=1),
            np.zeros(len(kept), dtype=np.intp),
            int(intercept),
        )
        for kept in rows
    ]
    return machines, rows


def solve_machines(grams, machines, learner, B, warm=None, tol=1e-3, curved=False):
    made = machines if isinstance(machines, MachinePanel) else MachineList(machines)
    return made.solve(grams, learner, B, warm, tol, serially, curved)


def solve_both(machines, rows, tol=1e-10, stack=STACK, **options):
    """Solve as a panel, and machine by machine."""
    grams = SharedGrams(GramStack(stack), rows)
    columns = MachinePanel.of(machines, rows, N)
    together = solve_machines(grams, columns, Ridge(), B, tol=tol, **options)
    return together, solve_machines(grams, machines, Ridge(), B, **options)


@pytest.mark.parametrize(
    ("missing", "weights", "intercept"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, True)],
)
def test_values_are_those_of_factorisations(missing, weights, intercept):
    together, each = solve_both(*make_machines(missing, weights, intercept))
    np.testing.assert_allclose(together.Q, each.Q, rtol=1e-4)
    assert each.upper <= together.upper * (1 + 1e-12) <= each.upper * (1 + 1e-9)
    assert together.lin - together.quad <= (each.lin - each.quad) * (1 + 1e-12)
    for mine, exact in zip(together.duals, each.duals, strict=True):
        np.testing.assert_allclose(mine.a, exact.a, atol=1e-4)
        np.testing.assert_allclose(mine.intercept, exact.intercept, atol=1e-4)


def test_several_outputs_of_a_machine_are_added_up():
    together, each = solve_both(*make_machines(missing=False, weights=False, intercept=True, outputs=2), curved=True)
    np.testing.assert_allclose(together.Q, each.Q, rtol=1e-4)
    assert together.curvature().shape == each.curvature().shape == (T, 3, 3)


@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_bounds_hold_however_rough_the_solution(tol):
    together, each = solve_both(*make_machines(missing=True, weights=True, intercept=True), tol=tol)
    assert together.lin - together.quad <= (each.lin - each.quad) * (1 + 1e-12)
    assert together.upper >= each.upper * (1 - 1e-12)
    assert together.upper - together.lin + together.quad <= tol * together.upper


def test_hessian_is_exact_where_kernels_share_a_basis():
    values, U = np.linalg.eigh(STACK[0])
    stack = np.array([(U * np.abs(values) ** power) @ U.T for power in (0.5, 1.0, 1.5)])
    together, each = solve_both(*make_machines(False, False, intercept=False), stack=stack, curved=True)
    np.testing.assert_allclose(together.curvature(), each.curvature(), rtol=1e-3)


def test_columns_that_do_not_converge_are_factorised(monkeypatch):
    monkeypatch.setattr("kernelkin.paper.problems.columns._ITERATIONS", 1)
    monkeypatch.setattr("kernelkin.paper.problems.columns._ROUNDS", 1)
    together, each = solve_both(*make_machines(missing=True, weights=False, intercept=True, C=1e6))
    np.testing.assert_allclose(together.upper, each.upper, rtol=1e-9)


def test_less_memory_means_fewer_columns_and_the_same_numbers(monkeypatch):
    machines, rows = make_machines(missing=True, weights=False, intercept=True)
    whole, _ = solve_both(machines, rows)
    sizes = []

    class Small(Arrays):
        out_of_memory = (MemoryError,)

        def cast(self, values, single):
            if values.ndim == 2 and values.shape[1] not in (N, 1, 2, 3):
                sizes.append(values.shape[1])
                raise MemoryError
            return super().cast(values, single)

    grams = SharedGrams(GramStack(STACK), rows)
    grams.arrays = Small()
    halved = solve_machines(grams, MachinePanel.of(machines, rows, N), Ridge(), B, tol=1e-10)
    assert sizes
    np.testing.assert_allclose(halved.Q, whole.Q, rtol=1e-4)


def test_a_warm_start_does_not_change_the_solution():
    machines, rows = make_machines(missing=True, weights=False, intercept=True)
    together, _ = solve_both(machines, rows)
    again, _ = solve_both(machines, rows, warm=together.duals)
    halved, _ = solve_both(machines, rows, warm=together.duals.divided(2.0))
    np.testing.assert_allclose(again.upper, together.upper, rtol=1e-9)
    np.testing.assert_allclose(halved.upper, together.upper, rtol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_a_fit_has_the_same_optimum_either_way(monkeypatch, missing):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 30)) + 1e6
    y[:, :15] += np.sin(X[:, :1])
    if missing:
        y[rng.uniform(size=y.shape) < 0.2] = np.nan
    model = MKMTRLRegressor(tol=1e-6, C=2.0, mu=0.1)
    exact = model.fit(X, y)
    weights, objective, values = exact.kernel_weights_, exact.objective_, exact.predict(X)
    monkeypatch.setattr(panel, "LEAST_ROWS", 1)
    monkeypatch.setattr(panel, "ROWS_PER_KERNEL", 1)
    fitted = model.fit(X, y)
    assert fitted.duality_gap_ <= 1e-6 * fitted.objective_
    np.testing.assert_allclose(fitted.objective_, objective, rtol=2e-6)
    np.testing.assert_allclose(fitted.predict(X), values, atol=1e-2)
    np.testing.assert_allclose(fitted.kernel_weights_, weights, atol=1e-2 * weights.max())


def test_torch_gives_the_same_numbers(device):
    machines, rows = make_machines(missing=True, weights=True, intercept=True)
    whole, _ = solve_both(machines, rows, curved=True)
    grams = SharedGrams(GramStack(STACK), rows)
    grams.arrays = Arrays(device)
    tensors = solve_machines(grams, MachinePanel.of(machines, rows, N), Ridge(), B, tol=1e-10, curved=True)
    np.testing.assert_allclose(tensors.Q, whole.Q, rtol=1e-5)
    np.testing.assert_allclose(tensors.curvature(), whole.curvature(), rtol=1e-3)


def test_a_panel_has_the_targets_costs_and_scales_of_its_machines():
    machines, rows = make_machines(missing=True, weights=True, intercept=True)
    columns = MachinePanel.of(machines, rows, N)
    assert len(columns) == T
    for t, given in enumerate(machines):
        np.testing.assert_array_equal(columns.task(columns.y, t), given.y)
        np.testing.assert_array_equal(columns.task(columns.cost, t), given.C)
    (offsets, *scales), (expected, *others) = columns.scales(), MachineList(machines).scales()
    np.testing.assert_allclose(np.ravel(offsets), np.ravel(expected), rtol=1e-12)
    np.testing.assert_allclose(scales, others, rtol=1e-12)
    moved = np.concatenate(replace(columns, y=columns.y + 1e9).scales()[0])[:, 0]
    np.testing.assert_allclose(moved - 1e9, [machine.y.mean() for machine in machines], atol=1e-6)


@pytest.mark.parametrize("couplings", ["common", "groups", "matrix"])
@pytest.mark.parametrize("missing", [False, True])
def test_coupled_tasks_have_the_same_optimum_either_way(monkeypatch, couplings, missing):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 4)) + np.array([0.0, 5.0, -1e5, 2.0])
    y += np.sin(X[:, :1])
    if missing:
        y[rng.uniform(size=y.shape) < 0.2] = np.nan
    given = {
        "common": "common",
        "groups": {"groups": ["a", "b", "a", "b"], "inputs": np.eye(4) * 0.5 + 0.5},
        "matrix": {
            "likeness": 0.3 + 0.7 * np.eye(4),
            "pair": np.kron(np.eye(2), np.full((2, 2), 0.9)) + 0.1 * np.eye(4),
        },
    }[couplings]
    model = MKMTRLRegressor(couplings=given, tol=1e-5, C=2.0, mu=0.3)
    monkeypatch.setattr(panel, "COUPLED_ROWS", 10**9)
    exact = model.fit(X, y)
    objective, values, shares = exact.objective_, exact.predict(X), exact.part_shares_
    monkeypatch.setattr(panel, "COUPLED_ROWS", 0)
    fitted = model.fit(X, y)
    assert fitted.duality_gap_ <= 1e-5 * fitted.objective_
    np.testing.assert_allclose(fitted.objective_, objective, rtol=2e-5)
    np.testing.assert_allclose(fitted.predict(X), values, atol=2e-2)
    np.testing.assert_allclose(fitted.part_shares_, shares, atol=2e-2)
    # By their definition, on the rows of each task.
    split = fitted.predict(X, split=True)
    for t, kept in enumerate(~np.isnan(y.T)):
        parts = np.array([part[kept, t].sum(axis=1) for part in (split.own, *split.shared.values())])
        parts -= parts.mean(axis=1, keepdims=True)
        whole = parts.sum(axis=0)
        np.testing.assert_allclose(fitted.part_shares_[t], parts @ whole / (whole @ whole), atol=1e-6)


@pytest.mark.parametrize("missing", [False, True])
def test_a_basis_of_leading_eigenvectors_gives_the_same_optimum(monkeypatch, missing):
    machines, rows = make_machines(missing, weights=True, intercept=True)
    _, each = solve_both(machines, rows)
    monkeypatch.setattr(operator, "MANY_ROWS", N)
    monkeypatch.setattr(operator, "LEADING", 5)
    vectors, spectra = SharedGrams(GramStack(STACK), rows).operator.basis
    assert vectors.shape == (N, 5) and spectra.shape == (3, 6)
    # Five directions and the mean of all others have the trace of each matrix.
    np.testing.assert_allclose(spectra @ [1, 1, 1, 1, 1, N - 5], np.trace(STACK, axis1=1, axis2=2), rtol=1e-5)
    together, _ = solve_both(machines, rows)
    np.testing.assert_allclose(together.Q, each.Q, rtol=1e-4)
    assert together.upper <= each.upper * (1 + 1e-9)


def test_leading_eigenvectors_precondition_coupled_tasks(monkeypatch):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 4))
    y[rng.uniform(size=y.shape) < 0.4] = np.nan
    model = MKMTRLRegressor(couplings={"all": "common", "pair": 0.3 + 0.7 * np.eye(4)}, tol=1e-5, C=2.0, mu=0.3)
    monkeypatch.setattr(panel, "COUPLED_ROWS", 0)
    exact = model.fit(X, y)
    objective, values = exact.objective_, exact.predict(X)
    monkeypatch.setattr(operator, "MANY_ROWS", 40)
    monkeypatch.setattr(operator, "LEADING", 6)
    fitted = model.fit(X, y)
    assert fitted.duality_gap_ <= 1e-5 * fitted.objective_
    np.testing.assert_allclose(fitted.objective_, objective, rtol=2e-5)
    np.testing.assert_allclose(fitted.predict(X), values, atol=2e-2)


def test_hessian_by_leading_eigenvectors_is_exact_where_the_rest_is_one_eigenvalue(monkeypatch):
    U = np.linalg.qr(RNG.normal(size=(N, N)))[0]
    spectra = np.full((3, N), 0.5)
    spectra[:, :5] = [[40, 30, 25, 20, 15], [20, 15, 12, 10, 8], [80, 60, 50, 40, 30]]
    stack = np.array([(U * values) @ U.T for values in spectra])
    monkeypatch.setattr(operator, "MANY_ROWS", N)
    monkeypatch.setattr(operator, "LEADING", 5)
    together, each = solve_both(*make_machines(False, False, intercept=False), stack=stack, curved=True)
    np.testing.assert_allclose(together.curvature(), each.curvature(), rtol=1e-3)


def test_a_device_gives_the_same_fit(device):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 4))
    plain, tensors = (MKMTRLRegressor(device=d, tol=1e-6).fit(X, y) for d in (None, device))
    np.testing.assert_allclose(tensors.objective_, plain.objective_, rtol=2e-6)
    np.testing.assert_allclose(tensors.predict(X), plain.predict(X), atol=1e-3)


def test_a_device_gives_the_same_fit_on_precomputed_kernels(device):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(3, 12, 12))
    X, Y = np.moveaxis(roots @ roots.swapaxes(1, 2), 0, 2), rng.normal(size=(12, 4))
    plain, tensors = (MKMTRLRegressor("precomputed", device=d, tol=1e-6).fit(X, Y) for d in (None, device))
    np.testing.assert_allclose(tensors.objective_, plain.objective_, rtol=2e-6)
    np.testing.assert_allclose(tensors.predict(X[:5]), plain.predict(X[:5]), atol=1e-3)


def test_a_device_is_for_wide_data():
    X, y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
    with pytest.raises(
        ValueError, match=r"^device='cpu' is only for wide data \(y with a column for each task\) with the squared loss"
    ):
        MKMTRLRegressor(device="cpu").fit(X, y)


def test_a_device_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'^device=\'cuda\' needs torch: pip install "kernelkin\[torch\]"$'):
        MKMTRLRegressor(device="cuda").fit(STACK[0], STACK[1][:, :3])


def test_a_search_on_a_device_finds_the_same(device):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = X @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(60, 4))
    y[3, 1] = np.nan
    settings = {"grid": {"C": [0.01, 1.0]}, "cv": 3, "search_tol": 1e-6, "tol": 1e-6, "random_state": 0}
    searches = [MKMTRLRegressorCV(device=d, **settings).fit(X, y) for d in (None, device)]
    np.testing.assert_allclose(*(search.cv_results_["mean_test_score"] for search in searches), atol=1e-3)
    assert searches[0].best_params_ == searches[1].best_params_
    np.testing.assert_allclose(*(search.predict(X) for search in searches), atol=1e-2)
