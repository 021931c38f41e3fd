"""Effects of groups: equal to contrasts of predictions, standard errors of the posterior, and what they cover."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from kernelkin import KinClassifier, KinRegressor
from kernelkin.kin.effects import column_effect, effect_unit
from kernelkin.kin.functions import log_odds
from kernelkin.mixed import structures
from kernelkin.mixed.effects import GroupPosterior
from kernelkin.mixed.rows import Pairs, Rows
from kin.problems import classes, folds, grouped

X, Y, TASKS, LEVELS = grouped(T=6, n=5)
N, NAMES = len(X), np.unique(TASKS)
CV = folds(N)
FURTHER = np.random.default_rng(3).integers(4, size=N)
Y2 = Y + np.array([0.0, 2.0, -1.0, 1.0])[FURTHER]


def curves(model, X, names):
    """Predictions of all rows as rows of each group, (T, N), minus the mean over groups."""
    found = np.array([model.predict(X, tasks=np.full(len(X), name)) for name in names])
    return found - found.mean(0)


def slopes(D, weight):
    """Slopes (T, d) of the closest linear functions on rows with these weights."""
    design, root = np.column_stack([np.ones(N), X]), np.sqrt(weight)[:, None]
    return np.linalg.lstsq(root * design, root * D.T, rcond=None)[0][1:].T


@pytest.fixture(scope="module")
def fitted():
    return KinRegressor(cv=CV).fit(X, Y, tasks=TASKS)


@pytest.mark.parametrize("exact_rows", [300, 0])
def test_levels_and_slopes_are_those_of_predictions(monkeypatch, exact_rows):
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    weight = np.random.default_rng(5).uniform(0.5, 3.0, N)
    model = KinRegressor(cv=CV).fit(X, Y, tasks=TASKS, sample_weight=weight)
    effects, D = model.task_effects(), curves(model, X, NAMES)
    assert effects.index.tolist() == NAMES.tolist()
    assert effects["rows"].tolist() == [5] * 6
    np.testing.assert_allclose(effects["level"], D @ weight / weight.sum(), atol=1e-9)
    # Slopes are averaged over the structures that have slopes.
    functions = model.functions_
    own = functions.weights * [any(term.name == "slopes" for term in m.model.terms) for m in functions.members]
    assert 0 < own.sum() < 0.99
    model.functions_ = replace(functions, weights=own / own.sum())
    D = curves(model, X, NAMES)
    np.testing.assert_allclose(effects[["slope of x0", "slope of x1"]], slopes(D, weight), atol=1e-8)


@pytest.mark.parametrize("exact_rows", [300, 0])
def test_raw_levels_add_what_pooling_took_from_groups(monkeypatch, exact_rows):
    """The mean residual of the rows of a group, by weights; levels that differ by chance alone are pulled to zero."""
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    rows, y, tasks, _ = grouped(T=6, n=15, level=0.0, noise=1.0)
    weight = np.random.default_rng(5).uniform(0.3, 1.7, 90)
    model = KinRegressor(cv=folds(90)).fit(rows, y, tasks=tasks, sample_weight=weight)
    effects, residuals = model.task_effects(), weight * (y - model.predict(rows, tasks=tasks))
    raw = np.array([residuals[name == tasks].sum() / weight[name == tasks].sum() for name in NAMES])
    assert np.ptp(raw) > 0.1
    np.testing.assert_allclose(effects["raw_level"] - effects["level"], raw - raw.mean(), atol=1e-4)


def brute(member, M, A):
    """The variance of contrasts M (C, G) of functionals A (k, N), from the covariance of all rows in all groups."""
    model = member.model
    inner, G, n = model.parts[0].layout.pairs[0], M.shape[1], A.shape[1]
    codes = (np.repeat(np.arange(G), n)[None], np.full((1, G * n), -1))[: len(inner.A.groups)]
    rows = Rows(np.tile(inner.A.X, (1, G, 1)), codes)
    inside, across = (
        sum(term.block(model.p_[term.name], Pairs(rows, other, 1.0))[0][0] for term in model.terms)
        for other in (rows, inner.A)
    )
    covariance = inside - across @ model.solved[0].inverse @ across.T
    W = np.kron(M, A)
    return np.einsum("ij,jk,ik->i", W, covariance, W).reshape(len(M), len(A))


@pytest.mark.parametrize("has_features", [False, True])
def test_standard_errors_are_those_of_the_posterior(fitted, has_features):
    if has_features:
        features = pd.DataFrame({"size": np.square(np.arange(6.0))}, index=NAMES)
        fitted = KinRegressor(cv=CV, task_features=features).fit(X, Y, tasks=TASKS)
    effects, functions = fitted.task_effects(), fitted.functions_
    spread = functions.units.new_spread
    means, variances = [], []
    for member in functions.members:
        layout = member.model.parts[0].layout
        assert not layout.by_features
        rows = layout.pairs[0].A.X[0]
        design = np.column_stack([np.ones(N), rows - rows.mean(0)])
        A = np.linalg.pinv(design) / np.append(1.0, member.columns.scale)[:, None]
        variances.append(spread**2 * brute(member, np.eye(6) - 1 / 6, A))
        means.append(spread * np.linalg.pinv(design)[:1] @ member_values(member, rows))
    w = functions.weights
    mean = np.tensordot(w, means, axes=1)
    spread_of_members = sum(p * (m - mean) ** 2 for p, m in zip(w, means, strict=True))[0]
    expected = np.sqrt(np.tensordot(w, variances, axes=1)[:, 0] + spread_of_members)
    np.testing.assert_allclose(effects["standard_error"], expected, rtol=1e-6)
    np.testing.assert_allclose(effects["high"] - effects["low"], 2 * 1.6448536 * expected, rtol=1e-6)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_the_function_of_a_group_has_the_mean_and_variance_of_its_predictions(monkeypatch, fitted, in_blocks):
    """In blocks with few landmarks, features miss a part of the variance common to all groups."""
    if in_blocks:
        monkeypatch.setattr(structures, "EXACT_ROWS", 0)
        fitted = KinRegressor(cv=CV, n_features=3).fit(X, Y, tasks=TASKS)
    Q = np.random.default_rng(2).normal(size=(3, 2))
    for member in fitted.functions_.members:
        posterior = GroupPosterior(member, 0, member.columns(Q)[None], np.eye(3)[None])
        found = posterior.contrasts(sparse.csr_array(np.eye(6)), np.zeros(6))
        for group in range(6):
            expected = member.predict(Q, [np.full(3, group)])
            for part, asked in zip(found, expected, strict=True):
                np.testing.assert_allclose(part[group], asked[:, 0], rtol=1e-6, atol=1e-8)


def member_values(member, rows):
    """Values (N, G) of the groups' functions at standard rows, minus their mean over groups."""
    found = [member.model.predict(rows, [np.full(N, g)])[0][:, 0] for g in range(6)]
    return np.transpose(found - np.mean(found, axis=0))


def test_blocks_with_all_rows_as_landmarks_give_the_effects_of_the_exact_form(monkeypatch, fitted):
    monkeypatch.setattr(structures, "EXACT_ROWS", 0)
    found = KinRegressor(cv=CV).fit(X, Y, tasks=TASKS)
    assert all(member.model.parts[0].layout.by_features for member in found.functions_.members)
    columns = ["level", "standard_error", "raw_level", "standard_error of x0"]
    np.testing.assert_allclose(found.task_effects()[columns], fitted.task_effects()[columns], rtol=0.03, atol=0.03)


@pytest.mark.parametrize("exact_rows", [300, 0])
def test_a_further_grouping_has_effects_of_its_own(monkeypatch, exact_rows):
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    tasks = pd.DataFrame({"school": TASKS, "class": FURTHER})
    model = KinRegressor(cv=CV).fit(X, Y2, tasks=tasks)
    effects = model.task_effects("class")
    assert effects.index.name == "class" and effects["rows"].tolist() == np.bincount(FURTHER).tolist()
    asked = [
        model.predict(X, tasks=pd.DataFrame({"school": ["new"] * N, "class": np.full(N, c)})).mean() for c in range(4)
    ]
    np.testing.assert_allclose(effects["level"], asked - np.mean(asked), atol=1e-8)
    assert np.abs(effects["level"] - [-0.5, 1.5, -1.5, 0.5]).max() < 3.5 * effects["standard_error"].max()
    pd.testing.assert_frame_equal(effects, model.task_effects(1))
    with pytest.raises(ValueError, match="unknown grouping 'room'; this model has 'school', 'class'"):
        model.task_effects("room")


def test_tasks_on_the_same_rows_have_effects():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20, 2))
    wide = Z @ rng.normal(size=(2, 4)) + 5 * rng.normal(size=4) + 0.3 * rng.normal(size=(20, 4))
    model = KinRegressor(cv=folds(20)).fit(Z, wide)
    effects, predicted = model.task_effects(), model.predict(Z)
    np.testing.assert_allclose(effects["level"], predicted.mean(0) - predicted.mean(), atol=1e-8)
    np.testing.assert_allclose(effects["raw_level"], wide.mean(0) - wide.mean(), atol=1e-6)
    assert (effects["standard_error"] > 0.02).all()


def test_targets_with_units_of_their_own_have_effects_in_these():
    factors = 10.0 ** np.arange(6)[np.searchsorted(NAMES, TASKS)]
    many = np.repeat(np.arange(N), 3)
    rows = X[many] + 0.1 * np.random.default_rng(1).normal(size=(3 * N, 2))
    model = KinRegressor(random_state=0).fit(rows, (Y * factors)[many], tasks=TASKS[many])
    assert np.ptp(model.functions_.units.spread) > 0
    found = np.array([model.predict(rows, tasks=np.full(len(rows), name)).mean() for name in NAMES])
    np.testing.assert_allclose(model.task_effects()["level"], found - found.mean(), rtol=1e-6)


def test_levels_on_the_same_rows_have_the_errors_of_their_means():
    inside = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Z, b = rng.normal(size=(40, 1)), rng.normal(size=8)
        Y = b + np.sin(Z) + 0.7 * rng.normal(size=(40, 8))
        effects = KinRegressor(random_state=0, cv=2).fit(Z, Y).task_effects()
        inside.append(np.abs(effects["level"] - (b - b.mean())) < 2 * effects["standard_error"])
    assert 0.88 < np.mean(inside) < 1


def test_levels_and_curves_on_a_sample_are_those_of_all_rows(monkeypatch):
    monkeypatch.setattr("kernelkin.kin.effects.REFERENCES", 40)
    rng = np.random.default_rng(0)
    codes, Z = np.repeat(np.arange(10), 12), rng.normal(size=(120, 3)) + 1.0
    y = (Z * rng.normal(size=(10, 3))[codes]).sum(1) + 10.0 * Z[:, 2] + 0.3 * rng.normal(size=120)
    model = KinRegressor(random_state=0, cv=2).fit(Z, y, tasks=codes)

    def means(Z):
        return np.array([model.predict(Z, tasks=np.full(120, task)).mean() for task in range(10)])

    level = means(Z)
    np.testing.assert_allclose(model.task_effects()["level"], level - level.mean(), atol=0.03)
    effect = column_effect(model, 0, [3])
    along = np.array([means(np.column_stack([np.full(120, value), Z[:, 1:]])) for value in effect.values[::10]])
    np.testing.assert_allclose(effect.mean[::10], along.mean(1), atol=0.1)
    np.testing.assert_allclose(effect.curves[0][::10], along[:, 3], atol=0.1)


def test_classes_have_log_odds_and_task_features_count():
    Z, y, tasks = classes()
    names = np.unique(tasks)
    features = pd.DataFrame({"size": np.arange(5.0)}, index=names)
    model = KinClassifier(task_features=features, cv=3).fit(Z, y, tasks=tasks)
    effects = model.task_effects()
    members = zip(model.functions_.members, model.functions_.weights, strict=True)
    values = sum(w * np.array([m.predict(Z, [np.full(len(Z), g)])[0].mean() for g in range(5)]) for m, w in members)
    np.testing.assert_allclose(effects["level"], values - values.mean(), atol=1e-8)
    share = np.array([(y[tasks == name] == "yes").mean() for name in names])
    assert np.corrcoef(share, effects["level"])[0, 1] > 0.8
    # On wide data, log odds are a multiple of the values of functions: the slope of the link at even odds.
    model = KinClassifier(cv=3).fit(Z, Z + np.array([0.5, -0.5]) > 0)
    found, wide = model.task_effects()["level"], model.functions_
    even = log_odds(wide.members[0].likelihood.mean(np.array([-1e-4, 1e-4]), np.zeros(2)))
    values = np.tensordot(wide.weights, [m.predict(Z, [np.zeros(len(Z), int)])[0].mean(0) for m in wide.members], 1)
    np.testing.assert_allclose(found, wide.link.slope * np.diff(even) / 2e-4 * (values - values.mean()), rtol=1e-5)
    three = KinClassifier(cv=3).fit(Z, np.arange(len(Z)) % 3, tasks=tasks)
    with pytest.raises(ValueError, match="more classes"):
        three.task_effects()


def test_a_group_with_few_rows_is_pulled_further_to_the_average():
    rows = np.concatenate([np.flatnonzero(name == TASKS)[: 1 if name in "ab" else 5] for name in NAMES])
    model = KinRegressor(random_state=0).fit(X[rows], Y[rows], tasks=TASKS[rows])
    effects = model.task_effects()
    assert effects["standard_error"][["a", "b"]].min() > effects["standard_error"][["c", "d", "e", "f"]].max()


def test_one_group_has_no_effects():
    with pytest.raises(ValueError, match="one group"):
        KinRegressor(cv=CV).fit(X, Y, tasks=np.zeros(N)).task_effects()


def test_errors_lie_within_two_standard_errors():
    inside = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        T, n = 20, 5
        codes, Z = np.repeat(np.arange(T), n), rng.normal(size=(T * n, 1))
        b, s = rng.normal(size=T), 0.5 * rng.normal(size=T)
        y = b[codes] + (1 + s[codes]) * Z[:, 0] + 0.7 * rng.normal(size=T * n)
        effects = KinRegressor(random_state=0, n_jobs=1).fit(Z, y, tasks=codes).task_effects()
        true = b + s * Z.mean()
        inside.append(np.abs(effects["level"] - (true - true.mean())) < 2 * effects["standard_error"])
        inside.append(np.abs(effects["slope of x0"] - (s - s.mean())) < 2 * effects["standard_error of x0"])
    # 240 effects; `python -m benchmarks effects` has more.
    assert 0.88 < np.mean(inside) < 0.99


def test_levels_of_groups_whose_noise_differs_lie_within_two_standard_errors():
    inside = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sizes = np.r_[1, 1, 1, 2, 2, rng.integers(12, 20, 15)]
        codes = np.repeat(np.arange(20), sizes)
        Z, b = rng.normal(size=(len(codes), 1)), rng.normal(size=20)
        y = b[codes] + 0.5 * Z[:, 0] + np.exp(0.6 * rng.normal(size=20))[codes] * rng.normal(size=len(codes))
        effects = KinRegressor(random_state=0, cv=2).fit(Z, y, tasks=codes).task_effects()
        inside.append(np.abs(effects["level"] - (b - b.mean())) < 2 * effects["standard_error"])
    assert np.mean(inside) > 0.85


@pytest.mark.parametrize("seed", [63, 93])
def test_slopes_have_errors_of_structures_with_slopes_where_others_predict_better(seed):
    """A curve of one column, and few rows: structures without slopes have most of the weight."""
    rng = np.random.default_rng([seed, 1])
    sizes = rng.integers(4, 11, 20)
    codes, _ = np.repeat(np.arange(20), sizes), rng.integers(15, size=sizes.sum())
    Z = rng.normal(size=(len(codes), 2)) * [1.0, 5.0]
    b, s = rng.normal(size=20), 0.5 * rng.normal(size=20)
    rng.normal(size=35)
    y = b[codes] + Z[:, 0] * (0.5 + s[codes]) + np.sin(Z[:, 1] / 3) + 0.7 * rng.normal(size=len(codes))
    model = KinRegressor(random_state=0, n_jobs=1).fit(Z, y, tasks=codes)
    effects = model.task_effects()
    assert sum(m["weight"] for m in model.members_ if m["name"].startswith("common")) > 0.8
    inside = np.abs(effects["slope of x0"] - (s - s.mean())) < 2 * effects["standard_error of x0"]
    assert inside.mean() >= 0.8


def test_every_share_of_variance_is_counted_once():
    rng = np.random.default_rng(0)
    X, first, second = rng.normal(size=(160, 2)), np.repeat(np.arange(8), 20), np.tile(np.arange(10), 16)
    slopes = rng.normal(size=10)[second]
    y = rng.normal(size=8)[first] + rng.normal(size=10)[second] + slopes * X[:, 0] + 0.2 * rng.normal(size=160)
    model = KinRegressor(random_state=0, cv=2).fit(X, y, np.column_stack([first, second]))
    assert {"slopes 2", "level 2"} <= set(model.variance_components_)
    own, further = model.variance_components_["level"], model.variance_components_["level 2"]
    text, noise = model.explain(), model.variance_components_["noise"]
    assert (
        f"{own:.0%} of the variation is between the levels of the 8 groups. {further:.0%} is between the levels" in text
    )
    first, second, common, own, rest = (int(part.rstrip("%")) / 100 for part in re.findall(r"\d+%", text)[:5])
    assert first + second + common + own + rest == pytest.approx(1, abs=0.026) and own > 0.1
    assert rest == pytest.approx(noise, abs=0.0051)
    page = dict(model.report().models[0]["variance"])
    assert {*list(page)[:2]} == {"levels of grouping 0", "levels of grouping 1"} and list(page)[-1] == "noise"
    assert page["columns, each group its own way"] == pytest.approx(own, abs=0.006)
    assert page.get("columns, alike in all groups", 0.0) == pytest.approx(common, abs=0.006)


def test_the_unit_of_effects_names_no_class_that_only_some_targets_have():
    X = np.random.default_rng(0).normal(size=(40, 1))
    low, high = np.where(X > 0, "no", "yes"), np.where(X > 0.2, "u", "v")
    model = KinClassifier(cv=2).fit(X, np.column_stack([low, high]))
    assert effect_unit(model) == "log odds of the second class"
    assert effect_unit(KinClassifier(cv=2).fit(X, np.column_stack([low, low]))) == "log odds of yes"


def test_a_column_that_is_constant_within_groups_has_no_slopes_of_groups():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(12), 5)
    Z = np.column_stack([rng.normal(size=60), rng.normal(size=12)[codes]])
    y = Z[:, 0] * (1 + 0.5 * rng.normal(size=12))[codes] + Z[:, 1] + 0.3 * rng.normal(size=60)
    effects = KinRegressor(cv=2, random_state=0).fit(Z, y, tasks=codes).task_effects()
    assert "slope of x0" in effects and "slope of x1" not in effects
