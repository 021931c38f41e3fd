"""Counts and proportions: means, offsets, intervals of whole numbers, scores, errors, and the binomial likelihood."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn import config_context
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import cross_val_score

from kernelkin import KinClassifier, KinRegressor, load_model, save_model
from kernelkin.kin.losses import LOSSES, Poisson, PoissonLoss, count_distribution, log_factor
from kin.problems import folds, keep_copies


def made(seed=0, T=12, n=10, rate=1.0):
    """Counts of groups with levels and a slope: X, y, tasks, log exposure, and log rates without it."""
    rng = np.random.default_rng(seed)
    tasks, X = np.repeat(np.arange(T), n), rng.normal(size=(T * n, 2))
    offset, f = np.log(rng.uniform(0.5, 10.0, T * n)), rate + 0.6 * rng.normal(size=T)[tasks] + 0.4 * X[:, 0]
    return X, rng.poisson(np.exp(f + offset)), tasks, offset, f


X, Y, TASKS, OFFSET, F = made()
CV = folds(len(X))


@pytest.fixture(scope="module")
def fitted():
    return KinRegressor(loss="poisson", cv=CV).fit(X, Y, tasks=TASKS, offset=OFFSET)


def test_means_are_close_to_the_truth_and_offsets_multiply_them(fitted):
    mean = fitted.predict(X, tasks=TASKS, offset=OFFSET)
    np.testing.assert_allclose(mean, np.exp(OFFSET) * fitted.predict(X, tasks=TASKS), rtol=1e-9)
    assert np.corrcoef(np.log(mean) - OFFSET, F)[0, 1] > 0.9
    assert abs(mean.sum() / Y.sum() - 1) < 0.02


def test_rows_of_different_exposures_or_further_groups_are_not_merged(monkeypatch):
    rows, copy = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    pairs = [(np.flatnonzero(rows % 3 != k), np.flatnonzero(rows % 3 == k)) for k in range(3)]
    asks = (
        {"tasks": TASKS[rows], "offset": 2.0 * copy},
        {"tasks": {"first": TASKS[rows], "second": copy * (1 + rows % 2)}},
    )
    found = []
    for merged in (True, False):
        if not merged:
            monkeypatch.setattr("kernelkin.kin.fit.merge_copies", keep_copies)
        models = [KinRegressor(loss="poisson", cv=pairs).fit(X[rows], Y[rows], **ask) for ask in asks]
        found.append([model.predict(X[rows], **ask) for model, ask in zip(models, asks, strict=True)])
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_a_constant_in_the_offset_changes_nothing(fitted):
    other = KinRegressor(loss="poisson", cv=CV).fit(X, Y, tasks=TASKS, offset=OFFSET + 3.0)
    expected = fitted.predict(X, tasks=TASKS, offset=OFFSET)
    np.testing.assert_allclose(other.predict(X, tasks=TASKS, offset=OFFSET + 3.0), expected, rtol=1e-6)


def test_the_score_is_the_share_of_deviance_explained(fitted):
    expected = d2_tweedie_score(Y, fitted.predict(X, tasks=TASKS, offset=OFFSET), power=1)
    assert fitted.score(X, Y, tasks=TASKS, offset=OFFSET) == pytest.approx(expected)
    by_task = fitted.score_tasks(X, Y, tasks=TASKS, offset=OFFSET)
    for task, score in by_task.items():
        rows = np.isin(TASKS, task)
        assert score == pytest.approx(fitted.score(X[rows], Y[rows], tasks=TASKS[rows], offset=OFFSET[rows]))
    with pytest.warns(UserWarning, match="^this model was fitted with offsets: without offset=, all exposures are one"):
        equal = fitted.score_tasks(X[:3], np.full(3, 2), tasks=TASKS[[0, 0, 0]])
    assert list(map(np.isnan, equal.values())) == [True]
    assert expected > 0.8


def test_intervals_are_whole_numbers_that_cover_new_counts(fitted):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(len(X), 2))
    level = F - 0.4 * X[:, 0]
    y = rng.poisson(np.exp(level + 0.4 * Z[:, 0] + OFFSET))
    low, high = fitted.predict_interval(Z, tasks=TASKS, offset=OFFSET).T
    assert (low == np.round(low)).all() and (low >= 0).all() and (high >= low).all()
    assert 0.82 < ((low <= y) & (y <= high)).mean() < 0.98
    _, std = fitted.predict(Z, tasks=TASKS, offset=OFFSET, return_std=True)
    assert (std > np.sqrt(fitted.predict(Z, tasks=TASKS, offset=OFFSET)) * 0.7).all()


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_the_noise_is_what_counts_vary_beyond_poisson(noise):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 8)
    X, level = rng.normal(size=(240, 1)), rng.normal(size=30)[tasks]
    y = rng.poisson(np.exp(2.0 + 0.5 * level + np.sqrt(noise) * rng.normal(size=240)))
    model = KinRegressor(loss="poisson", cv=folds(240)).fit(X, y, tasks=tasks)
    found = [member.model.noise_ for member in model.functions_.members]
    assert np.abs(np.average(found, weights=model.functions_.weights) - noise) < 0.1
    assert abs(model.predict(X, tasks=tasks).sum() / y.sum() - 1) < 0.05


def test_the_noise_of_rows_with_weights_is_that_of_copies():
    weight = 1.0 + np.arange(len(Y)) % 3
    parts = [SimpleNamespace(z=Y[:, None], weight=weight)]
    copies = np.repeat(Y, weight.astype(int))
    alike = [SimpleNamespace(z=copies[:, None], weight=np.ones(len(copies)))]
    found, expected = (Poisson().noise_variance(SimpleNamespace(parts=each, noise_=0.3)) for each in (parts, alike))
    assert found == pytest.approx(expected) and found == pytest.approx(0.3 + np.log1p(1 / copies.mean()))


def test_moments_are_those_of_a_mixture_of_log_normal_rates():
    rng = np.random.default_rng(0)
    f, variance, weights = np.array([[0.5], [1.5]]), np.array([[0.3], [0.1]]), np.array([0.4, 0.6])
    member = rng.random(400_000) < 0.6
    rate = np.exp(
        np.where(member, f[1], f[0]) + np.sqrt(np.where(member, variance[1], variance[0])) * rng.normal(size=400_000)
    )
    counts = rng.poisson(rate)
    mean, deviation = LOSSES["poisson"].count_moments(f, variance, weights[:, None])
    assert mean[0] == pytest.approx(counts.mean(), rel=0.01)
    assert deviation[0] == pytest.approx(counts.std(), rel=0.02)
    assert count_distribution(mean, deviation).std()[0] == pytest.approx(deviation[0])
    poisson = count_distribution(np.array([3.0]), np.sqrt([3.0]))
    np.testing.assert_allclose(poisson.cdf([0.0]), np.exp(-3.0), rtol=1e-5)


def test_a_loss_whose_counts_vary_more_says_so_in_one_place(fitted, monkeypatch):
    """All that depends on the variance of counts asks `count_moments`."""

    def doubled(self, f, variance, weights, usual=PoissonLoss.count_moments):
        mean, deviation = usual(self, f, variance, weights)
        return mean, 2.0 * deviation

    usual = fitted.predict(X, tasks=TASKS, offset=OFFSET, return_std=True)[1]
    monkeypatch.setattr(PoissonLoss, "count_moments", doubled)
    np.testing.assert_allclose(fitted.predict(X, tasks=TASKS, offset=OFFSET, return_std=True)[1], 2.0 * usual)
    again = KinRegressor(loss="poisson", cv=CV).fit(X, Y, tasks=TASKS, offset=OFFSET)
    # Held-out deviations are scaled to fit the counts.
    assert again.functions_.scores.scale == pytest.approx(0.5 * fitted.functions_.scores.scale)


def test_means_are_corrected_by_held_out_counts_as_far_as_these_are_certain():
    rng = np.random.default_rng(0)
    mean, weight = rng.uniform(1.0, 9.0, 4000), rng.integers(1, 4, 4000)
    y = rng.poisson(1.5 * mean)
    assert log_factor(y, mean, weight) == pytest.approx(np.log(1.5), abs=0.02)
    copies = log_factor(np.repeat(y, weight), np.repeat(mean, weight), np.ones(weight.sum()))
    assert log_factor(y, mean, weight) == pytest.approx(copies, rel=1e-9)
    # Of few counts, a part of a clear difference, and nothing of one that may be chance.
    mean, weight = np.full(10, 4.0), np.ones(10)
    log, variance = np.log((1 + 70) / (1 + 40)), (5 * 2.0**2 + 5 * 4.0**2) / (1 + 40) ** 2
    assert log_factor(np.tile([6.0, 8.0], 5), mean, weight) == pytest.approx(log - variance / log)
    assert log_factor(np.tile([2.0, 8.0], 5), mean, weight) == 0.0


def test_one_factor_corrects_held_out_values_and_predictions(fitted, monkeypatch):
    monkeypatch.setattr("kernelkin.kin.losses.log_factor", lambda *given: log_factor(*given) + 0.3)
    again = KinRegressor(loss="poisson", cv=CV).fit(X, Y, tasks=TASKS, offset=OFFSET)
    np.testing.assert_allclose(again.held_out_.values, np.exp(0.3) * fitted.held_out_.values, rtol=1e-9)
    first, second = (model.predict(X, tasks=TASKS, offset=OFFSET) for model in (fitted, again))
    np.testing.assert_allclose(second, np.exp(0.3) * first, rtol=1e-9)


def test_columns_of_counts_have_the_offsets_and_in_scores_the_weights_of_rows():
    counts, offset, weight = Y.reshape(4, 30).T, OFFSET[:30], 1.0 + np.arange(30) % 3
    model = KinRegressor(loss="poisson", cv=folds(30)).fit(X[:30], counts)
    predicted = model.predict(X[:30])
    np.testing.assert_allclose(model.predict(X[:30], offset=offset), predicted * np.exp(offset)[:, None], rtol=1e-9)
    expected = d2_tweedie_score(counts.ravel(), predicted.ravel(), sample_weight=np.repeat(weight, 4), power=1)
    assert model.score(X[:30], counts, sample_weight=weight) == pytest.approx(expected)
    missing = np.where(np.arange(120).reshape(30, 4) % 7 == 0, np.nan, counts)
    known = ~np.isnan(missing)
    expected = d2_tweedie_score(
        counts[known], predicted[known], sample_weight=np.repeat(weight, 4)[known.ravel()], power=1
    )
    assert model.score(X[:30], missing, sample_weight=weight) == pytest.approx(expected)


@pytest.mark.parametrize("level", [0.05, 0.5, 4.0, 400.0])
def test_scores_of_counts_are_normal_however_many_are_zero(level):
    mean, deviation = np.full(4000, level), np.full(4000, np.sqrt(level + 0.3 * level**2))
    y = count_distribution(mean, deviation).rvs(random_state=0).astype(float)
    scores = LOSSES["poisson"].sizes(y, mean, deviation)
    assert kstest(scores, "halfnorm").pvalue > 0.001
    # The last counts that an interval contains have at most its score.
    low, high = LOSSES["poisson"].ends(mean, deviation, 1.6).T
    assert ((low <= y) & (y <= high))[scores <= 1.6].all()


def test_intervals_of_a_group_with_counts_among_zeros_are_not_narrow():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(12), 15)
    X, counts = rng.normal(size=(180, 1)), np.where(tasks == 3, rng.poisson(4, 180), 0)
    model = KinRegressor(loss="poisson", random_state=0).fit(X, counts, tasks=tasks)
    low, high = model.predict_interval(X[:4], tasks=np.full(4, 3)).T
    new = rng.poisson(4, 4000)
    assert np.mean((low[0] <= new) & (new <= high[0])) > 0.85


def test_slopes_that_the_rows_hardly_show_have_errors():
    inside = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tasks, slopes = np.repeat(np.arange(20), 6), 0.4 * rng.normal(size=20)
        X = rng.normal(size=(120, 2))
        f = -1.0 + 0.6 * rng.normal(size=20)[tasks] + 0.5 * X[:, 0] + slopes[tasks] * X[:, 1]
        effects = (
            KinRegressor(loss="poisson", random_state=0).fit(X, rng.poisson(np.exp(f)), tasks=tasks).task_effects()
        )
        error = effects["slope of x1"] - (slopes - slopes.mean())
        inside.append(np.mean(np.abs(error) <= 2.0 * effects["standard_error of x1"]))
    # With variances that may vanish it is 0.1.
    assert np.mean(inside) > 0.75


@pytest.mark.parametrize(
    "y, message",
    [
        (np.where(np.arange(len(Y)) == 7, -1, Y), "y is negative in 1 rows, such as -1 in row 7"),
        (np.where(np.arange(len(Y)) == 3, 2.5, Y), "y is not a whole number in 1 rows, such as 2.5 in row 3"),
    ],
)
def test_targets_that_are_no_counts_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        KinRegressor(loss="poisson").fit(X, y, tasks=TASKS)


def test_offsets_are_checked(fitted):
    with pytest.raises(ValueError, match=r"offset is for loss=.poisson."):
        KinRegressor().fit(X, Y, tasks=TASKS, offset=OFFSET)
    with pytest.raises(ValueError, match="offset must hold 120 finite numbers"):
        KinRegressor(loss="poisson").fit(X, Y, tasks=TASKS, offset=OFFSET[:5])
    for offset in ([0.0, np.inf], ["a", "b"], np.array(["2024-01-01"] * 2, dtype="M8[D]")):
        with pytest.raises(ValueError, match="offset must hold 2 finite numbers"):
            fitted.predict(X[:2], tasks=TASKS[:2], offset=offset)
    for model in (fitted.predict, KinRegressor(loss="poisson").fit):
        arguments = {"X": X, "tasks": TASKS, "offset": np.full(len(X), 5000.0)}
        with pytest.raises(ValueError, match="offset is 5000 in row 0: pass the logarithm of the exposure"):
            model(**arguments, **({} if model == fitted.predict else {"y": Y}))


def test_a_new_group_has_the_mean_of_all_groups_and_wider_intervals(fitted):
    row, offset = np.zeros((1, 2)), [2.0]
    new, known = (fitted.predict_interval(row, tasks=[task], offset=offset)[0] for task in (99, 0))
    assert new[1] - new[0] > 1.5 * (known[1] - known[0])


def test_effects_of_groups_are_on_the_log_scale_and_files_keep_all(fitted, tmp_path):
    effects = fitted.task_effects()
    level = np.array([(F - 0.4 * X[:, 0])[t == TASKS][0] for t in range(12)])
    assert np.abs(effects["level"] - (level - level.mean())).max() < 4 * effects["standard_error"].max()
    save_model(fitted, tmp_path / "counts.kin")
    loaded = load_model(tmp_path / "counts.kin").model
    for ask in ("predict", "predict_interval"):
        first, second = (getattr(model, ask)(X, tasks=TASKS, offset=OFFSET) for model in (fitted, loaded))
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_offsets_are_routed():
    with config_context(enable_metadata_routing=True):
        model = KinRegressor(loss="poisson", cv=2, n_jobs=1)
        model.set_fit_request(offset=True).set_score_request(offset=True)
        scores = cross_val_score(model, X, Y, params={"tasks": TASKS, "offset": OFFSET}, cv=CV)
    assert (scores > 0.5).all()


def test_weights_of_two_rows_are_the_binomial_likelihood(monkeypatch):
    monkeypatch.setattr("kernelkin.kin.fit.merge_copies", keep_copies)
    monkeypatch.setattr("kernelkin.mixed.batch.JITTER", 1e-13)
    rng = np.random.default_rng(0)
    cells, trials = 20, rng.integers(1, 9, 20)
    Z, tasks = rng.normal(size=(cells, 1)), np.arange(cells) % 5
    successes = rng.binomial(trials, 1 / (1 + np.exp(-Z[:, 0])))
    held = folds(cells)
    each = np.repeat(np.arange(cells), trials)
    y = np.concatenate([np.arange(n) < s for n, s in zip(trials, successes, strict=True)])
    pairs = [tuple(np.flatnonzero(np.isin(each, part)) for part in pair) for pair in held]
    rows = KinClassifier(cv=pairs).fit(Z[each], y, tasks=tasks[each])
    both = np.tile(np.arange(cells), 2)
    pairs = [tuple(np.flatnonzero(np.isin(both, part)) for part in pair) for pair in held]
    weight = np.concatenate([successes, trials - successes])
    weighted = KinClassifier(cv=pairs).fit(Z[both], np.arange(2 * cells) < cells, tasks[both], sample_weight=weight)
    first, second = (model.predict_proba(Z, tasks=tasks) for model in (rows, weighted))
    np.testing.assert_allclose(first, second, rtol=1e-4)
    assert rows.variance_components_ == pytest.approx(weighted.variance_components_, rel=1e-3)


def test_successes_and_failures_of_one_cell_are_held_out_together():
    rng = np.random.default_rng(0)
    Z, tasks = np.repeat(rng.normal(size=(30, 1)), 2, axis=0), np.repeat(np.arange(30) % 5, 2)
    p = np.repeat(1 / (1 + np.exp(-rng.normal(size=5)[np.arange(30) % 5])), 2)
    y, weight = np.tile([False, True], 30), np.where(np.tile([False, True], 30), 100 * p, 100 * (1 - p))
    model = KinClassifier(random_state=0).fit(Z, y, tasks, sample_weight=weight)
    values = model.held_out_.values[:, 0]
    np.testing.assert_allclose(values[::2], values[1::2], rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(Z, tasks)[:, 1], p, atol=0.05)


def test_folds_of_whole_groups_hold_out_whole_groups():
    model = KinRegressor(cv="groups", random_state=0).fit(X, np.log1p(Y), tasks=TASKS)
    assert np.isfinite(model.held_out_.values).all()
    # Without rows of its own group, a level is not known, so that held-out errors are larger.
    rows = KinRegressor(random_state=0).fit(X, np.log1p(Y), tasks=TASKS)
    assert min(model.search_results_["error"]) > 1.2 * min(rows.search_results_["error"])
