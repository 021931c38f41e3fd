import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from kernelkin.paper.calibration import fit_link, fit_residuals
from kernelkin.paper.model_selection.scoring import pooled_link


def draw(rng, n, slope=2.0, offset=0.5):
    values = rng.normal(size=(n, 1))
    return values, (rng.uniform(size=n) < 1 / (1 + np.exp(-(slope * values[:, 0] + offset)))).astype(int)


def test_the_link_of_one_task_of_many_rows_is_platts():
    values, codes = draw(np.random.default_rng(0), 20_000)
    platt = _SigmoidCalibration().fit(values[:, 0], codes)
    found = fit_link([values], [codes]).probabilities(values, 0)[:, 1]
    np.testing.assert_allclose(found, platt.predict(values[:, 0]), atol=1e-3)


def test_a_task_of_many_rows_has_its_own_offset_and_one_of_few_rows_nearly_the_pooled_one():
    rng = np.random.default_rng(1)
    true = rng.normal(size=30)
    tasks = [draw(rng, 4000 if t == 0 else 40, offset=3.0 if t == 0 else true[t]) for t in range(30)]
    tasks[1] = tasks[1][0][:2], np.array([1, 1])
    link = fit_link(*zip(*tasks, strict=True))
    alone = LogisticRegression(C=1e6).fit(tasks[0][0] * link.slope, tasks[0][1])
    assert 0.5 < link.spread < 2
    np.testing.assert_allclose(link.offsets[0], alone.intercept_, atol=0.1)
    assert abs(link.offsets[1] - link.pooled[0]) < 0.7 * link.spread
    np.testing.assert_allclose(link.slope, 2.0, atol=0.2)


def test_equal_tasks_have_equal_offsets():
    rng = np.random.default_rng(2)
    link = fit_link(*zip(*[draw(rng, 30) for _ in range(20)], strict=True))
    assert link.spread == 0
    np.testing.assert_allclose(np.concatenate(link.offsets), link.pooled[0])


def test_probabilities_do_not_depend_on_the_units_of_the_values():
    rng = np.random.default_rng(3)
    values, codes = zip(*[draw(rng, 40, offset=t) for t in range(4)], strict=True)
    first, second = fit_link(values, codes), fit_link([1e-6 * part for part in values], codes)
    for t in range(4):
        np.testing.assert_allclose(
            second.probabilities(1e-6 * values[t], t), first.probabilities(values[t], t), rtol=1e-6
        )


def test_the_slope_is_never_negative():
    rng = np.random.default_rng(4)
    values, codes = draw(rng, 50, slope=-3.0)
    link = fit_link([values], [codes])
    assert link.slope == 0
    # Platt's smoothed targets, for want of any information in the values.
    np.testing.assert_allclose(link.probabilities(values, 0)[:, 1], codes.mean(), atol=0.02)


def test_weighting_a_row_equals_repeating_it():
    values, codes = draw(np.random.default_rng(5), 30)
    weight = np.where(np.arange(30) < 10, 2.0, 1.0)
    repeated = np.r_[np.arange(30), np.arange(10)]
    weighted, twice = fit_link([values], [codes], [weight]), fit_link([values[repeated]], [codes[repeated]])
    np.testing.assert_allclose(weighted.probabilities(values, 0), twice.probabilities(values, 0), rtol=1e-4)


def test_logits_of_several_classes_are_those_of_a_softmax():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(20_000, 3))
    logits = 1.5 * values + np.array([0.0, 1.0, -1.0])
    codes = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    link = fit_link([values], [codes])
    np.testing.assert_allclose(link.slope, 1.5, atol=0.1)
    np.testing.assert_allclose(link.offsets[0] - link.offsets[0][0], [0, 1, -1], atol=0.1)
    np.testing.assert_allclose(link.probabilities(values, 0).sum(axis=1), 1.0)


def test_rows_without_a_value_are_left_out():
    values, known = draw(np.random.default_rng(7), 20)
    with_missing = fit_link([np.vstack([values, [[np.nan], [np.nan]]])], [np.r_[known, 1, 1]])
    assert with_missing.slope == fit_link([values], [known]).slope


def test_the_link_of_pooled_rows_is_a_logistic_regression():
    values, codes = draw(np.random.default_rng(10), 80)
    weights = np.random.default_rng(11).uniform(0.5, 2.0, 80)
    found = pooled_link(values[:, 0], codes == 1, weights)
    exact = LogisticRegression(C=1e6, tol=1e-10).fit(values, codes, sample_weight=weights)
    # The pull to zero is that of a hundredth of a row.
    np.testing.assert_allclose(found, [exact.coef_[0, 0], exact.intercept_[0]], rtol=1e-2, atol=1e-2)
    # Larger values never make the class less likely, and classes that are separate leave slopes finite.
    assert pooled_link(-values[:, 0], codes == 1, weights)[0] > 0
    assert np.isfinite(pooled_link(codes - 0.5, codes == 1, weights)).all()


def residuals_of(parts, unit=1.0):
    return fit_residuals(parts, [unit * np.linspace(-1.0, 1.0, max(len(part), 12)) for part in parts])


def test_one_task_has_the_quantile_of_split_conformal_prediction():
    residuals = np.random.default_rng(0).standard_t(3, size=39)
    half = residuals_of([residuals]).quantiles(0.9)[0]
    # The 36th of 39 is the smallest with a share of 0.9 among 40 exchangeable residuals at least.
    np.testing.assert_allclose(half, np.sort(np.abs(residuals))[35])


def test_coverage_is_exact_where_residuals_are_exchangeable():
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(1000):
        residuals = rng.exponential(size=20)
        covered.append(residuals[19] <= residuals_of([residuals[:19]]).quantiles(0.8)[0])
    # 16 of 20: exactly 0.8, within three standard errors of the simulation.
    assert abs(np.mean(covered) - 0.8) < 0.038


@pytest.mark.parametrize(("n_rows", "within"), [(10, 0.03), (3, 0.06)])
def test_many_small_tasks_are_covered_on_the_whole(n_rows, within):
    rng = np.random.default_rng(2)
    scale = np.exp(0.5 * rng.normal(size=200))
    half = residuals_of([s * rng.normal(size=n_rows) for s in scale]).quantiles(0.9)[:-1]
    covered = np.abs(scale[:, np.newaxis] * rng.normal(size=(200, 500))) <= half[:, np.newaxis]
    assert abs(covered.mean() - 0.9) < within


def test_scales_of_equal_tasks_are_pooled_and_those_of_unequal_tasks_with_many_rows_are_not():
    rng = np.random.default_rng(3)
    equal = [rng.normal(size=8) for _ in range(50)]
    np.testing.assert_allclose(residuals_of(equal).scales, np.sqrt(np.mean(np.concatenate(equal) ** 2)))
    unequal = [s * rng.normal(size=2000) for s in (0.1, 1.0, 10.0)]
    np.testing.assert_allclose(residuals_of(unequal).scales[:3], [0.1, 1.0, 10.0], rtol=0.05)


def test_tasks_in_other_units_are_compared_by_their_own_spread():
    rng = np.random.default_rng(4)
    units = np.array([1.0, 1e3, 1e-3, 50.0])
    residuals, targets = rng.normal(size=(4, 12)), rng.normal(size=(4, 40))
    scaled = fit_residuals(units[:, np.newaxis] * residuals, units[:, np.newaxis] * targets)
    plain = fit_residuals(residuals, targets)
    np.testing.assert_allclose(scaled.quantiles(0.9)[:4], units * plain.quantiles(0.9)[:4], rtol=0.3)


def test_few_or_no_errors():
    assert 1.0 < residuals_of([np.array([0.5, -1.0])]).quantiles(0.95)[0] < 100.0
    np.testing.assert_array_equal(residuals_of([np.zeros(5), np.zeros(7)]).quantiles(0.9), 0.0)


def test_every_task_that_was_left_out_counts_as_one_row():
    rng = np.random.default_rng(0)
    alike = [np.full(10, size) for size in rng.exponential(size=12)]
    found = fit_residuals(alike, alike, alike)
    # The highest of twelve tasks is not enough for 0.95, the quantile of Student's distribution is.
    assert found.scales[-1] == pytest.approx(np.sqrt(np.mean(np.square(alike))))
    assert found.quantiles(0.95)[-1] == pytest.approx(found.scales[-1] * 2.20099, rel=1e-4)
    assert found.quantiles(0.9)[-1] == pytest.approx(max(part[0] for part in alike))
    # More rows of one task do not count for more.
    longer = [np.repeat(part, 5) if t == 0 else part for t, part in enumerate(alike)]
    assert fit_residuals(alike, alike, longer).quantiles(0.8)[-1] == pytest.approx(found.quantiles(0.8)[-1])


def test_without_rows_all_classes_are_equally_probable():
    link = fit_link([np.full((3, 1), np.nan), np.full((4, 3), np.nan)], [np.zeros(3, int), np.zeros(4, int)])
    np.testing.assert_allclose(link.probabilities(np.ones((2, 1)), 0), 0.5)
    np.testing.assert_allclose(link.probabilities(np.arange(3.0)[np.newaxis], 1), 1 / 3)
