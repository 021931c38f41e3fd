"""Means of columns in each group: against a linear mixed model of statsmodels, dense against blocks, new groups."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

import kernelkin.kin.fit
from kernelkin import KinRegressor
from kernelkin.kin.effects import column_effect
from kernelkin.mixed.columns import GroupMeans
from kernelkin.mixed.effects import GroupPosterior, training_rows
from kernelkin.mixed.model import flatten
from kernelkin.mixed.structures import FEW_STRUCTURES, FittedStructure, MixedData, Structure
from kernelkin.storage.model_files import load_model, save_model
from mixed.problems import task_values

LINEAR = Structure("means", slopes=False, two_lengths=True, means=True, rho=0.0, clip=False)
SMOOTH = Structure("means and smooths", common=True, own=True, two_lengths=True, means=True)


def panel(T=40, n=6, seed=0):
    """Rows whose column has one slope within groups and another between them."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(T), n)
    x = 1.5 * rng.normal(size=T)[codes] + rng.normal(size=T * n)
    mean = np.bincount(codes, x)[codes] / n
    y = 0.5 * (x - mean) - 1.0 * mean + 0.5 * rng.normal(size=T)[codes] + 0.3 * rng.normal(size=T * n)
    return x, mean, codes, y


def as_data(x, codes, y):
    X = x.reshape(len(x), -1)
    return MixedData(X, (codes,), (codes.max() + 1,), y[:, None], np.ones(len(y)), np.arange(X.shape[1]))


def test_means_of_groups_count_rows_by_their_weights():
    x, _, codes, _ = panel(T=5)
    weight = 1.0 + np.arange(30) % 3
    found = GroupMeans.fit(x[:, None], codes, 5, np.zeros(1, int), weight)
    expected = [np.average(x[codes == t], weights=weight[codes == t]) for t in range(5)]
    np.testing.assert_allclose(found.table[:, 0], expected)
    rows = np.repeat(np.arange(30), weight.astype(int))
    copies = GroupMeans.fit(x[rows, None], codes[rows], 5, np.zeros(1, int), np.ones(len(rows)))
    np.testing.assert_allclose(found(x[:, None], codes), copies(x[:, None], codes))


def test_slopes_within_and_between_groups_are_those_of_a_linear_mixed_model():
    from statsmodels.regression.mixed_linear_model import MixedLM

    x, mean, codes, y = panel(T=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = MixedLM(y, np.column_stack([np.ones_like(x), x, mean]), groups=codes).fit(reml=True)
    fitted = FittedStructure(LINEAR, as_data(x, codes, y), evaluations=200)
    # Wide priors make both slopes as free as fixed effects are.
    fitted.model.set_parameters(flatten(fitted.model.p_ | {"linear": {"variances": np.log([100.0, 100.0])}}))
    known = fitted.predict(np.array([[0.0], [1.0]]), [np.array([3, 3])])[0][:, 0]
    np.testing.assert_allclose(known[1] - known[0], reference.fe_params[1], atol=2e-3)
    at = mean[codes == 3][0]
    expected = reference.fe_params @ [1.0, 0.0, at] + reference.random_effects[3].item()
    np.testing.assert_allclose(known[0], expected, atol=5e-3)
    assert abs(reference.fe_params[2]) > 1.0


def test_the_gradient_is_that_of_finite_differences():
    x, _, codes, y = panel(T=6, n=4)
    X = np.column_stack([x, np.random.default_rng(1).normal(size=len(x))])
    model = FittedStructure(SMOOTH, as_data(X, codes, y), evaluations=2).model
    expected = approx_fprime(model.x_, lambda v: model.objective(v)[0], 1e-6)
    np.testing.assert_allclose(model.objective(model.x_)[1], expected, atol=2e-4)
    assert len(model.p_["linear"]["variances"]) == 4
    assert len(model.p_["slopes"]["variances"]) == len(model.p_["own smooth"]["lengths"]) == 2


@pytest.mark.parametrize(
    "structure, kernels", [(SMOOTH, ()), (Structure("slopes"), (task_values(12),))], ids=["means", "task features"]
)
def test_dense_and_block_form_agree(structure, kernels, monkeypatch):
    x, _, codes, y = panel(T=12, n=5)
    data = replace(as_data(x, codes, y), task_kernels=kernels)
    dense = FittedStructure(structure, data, evaluations=5)
    monkeypatch.setattr("kernelkin.mixed.structures.EXACT_ROWS", 0)
    blocks = FittedStructure(structure, data, evaluations=0, start=dense.model.x_, n_features=len(x))
    assert blocks.model.parts[0].layout.by_features
    np.testing.assert_allclose(
        blocks.model.objective(dense.model.x_)[0], dense.model.objective(dense.model.x_)[0], rtol=1e-4
    )
    Q, groups = np.linspace(-2, 2, 7)[:, None], [np.array([0, 1, 2, 3, 11, -1, -1])]
    for ours, theirs in zip(blocks.predict(Q, groups), dense.predict(Q, groups), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
    # Single functions, their mean, and one against the others.
    M = sparse.csr_array(np.vstack([np.eye(12)[:3], np.full(12, 1 / 12), np.eye(12)[0] - 1 / 12]))
    Q, A = training_rows(dense)[0][None, :5], np.eye(5)[None, :3]
    each = [GroupPosterior(fitted, 0, Q, A).contrasts(M, np.zeros(12)) for fitted in (blocks, dense)]
    for ours, theirs in zip(*each, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


def test_the_mean_of_a_new_group_is_expected_from_its_row():
    x, _, codes, _ = panel(T=300, n=20)
    X = ((x - x.mean()) / x.std())[:, None]
    means = GroupMeans.fit(X, codes, 301, np.zeros(1, int), np.ones(len(x)))
    # 1.5^2 of 1.5^2 + 1 is between groups.
    np.testing.assert_allclose(means.between, 2.25 / 3.25, atol=0.05)
    # Unknown, without rows, and known by its features alone.
    found = means(np.ones((3, 1)), np.array([-1, 300, 301]))
    np.testing.assert_allclose(found[:, 1], (means.between / means.columns.scale).item())
    np.testing.assert_allclose(means(X, codes)[:, 1].std(), 1.0)
    assert means.is_useful
    assert not GroupMeans.fit(X[codes * 20], codes, 300, np.zeros(1, int), np.ones(len(x))).is_useful


@pytest.fixture
def few_rows_are_many(monkeypatch):
    """Fit the structures for many rows to few."""
    monkeypatch.setattr(kernelkin.kin.fit, "MANY_ROWS", 100)


def test_effects_of_groups_and_columns_leave_structures_with_means_out(few_rows_are_many, tmp_path):
    x, _, codes, y = panel()
    model = KinRegressor(random_state=0, n_features=20).fit(x[:, None], y, tasks=codes)
    assert FEW_STRUCTURES[1].name in [member["name"] for member in model.members_]
    plain, weights = model.functions_.without_means()
    assert all(member.means is None for member in plain)
    assert len(plain) < len(model.functions_.members)
    np.testing.assert_allclose(weights.sum(), 1.0)
    effects = model.task_effects()
    truth = np.array([y[codes == t].mean() - 0.5 * x[codes == t].mean() for t in range(40)])
    assert np.corrcoef(effects["level"], truth)[0, 1] > 0.9
    curve = column_effect(model, 0, [])
    slope = np.polyfit(curve.values, curve.mean, 1)[0]
    assert 0.2 < slope < 0.7
    assert list(model.column_shares_) == ["x0"]
    save_model(model, tmp_path / "model.kin")
    again = load_model(tmp_path / "model.kin").model
    np.testing.assert_array_equal(again.predict(x[:, None], tasks=codes), model.predict(x[:, None], tasks=codes))


def test_without_variation_between_groups_there_are_no_means(few_rows_are_many):
    _, _, codes, y = panel()
    days = np.tile(np.arange(6.0), 40)[:, None]
    model = KinRegressor(random_state=0, n_features=20).fit(days, y, tasks=codes)
    assert FEW_STRUCTURES[1].name not in model.search_results_["structure"]


def test_tasks_known_by_their_features_alone_are_predicted(few_rows_are_many):
    x, _, codes, y = panel(T=20)
    features = pd.DataFrame({"place": np.arange(22.0)})
    model = KinRegressor(random_state=0, n_features=20, task_features=features).fit(x[:, None], y, tasks=codes)
    assert FEW_STRUCTURES[1].name in model.search_results_["structure"]
    assert np.isfinite(model.predict(np.zeros((2, 1)), tasks=[20, 21])).all()
