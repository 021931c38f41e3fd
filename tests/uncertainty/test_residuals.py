import numpy as np

from kernelkin.uncertainty import fit_residuals


def scores_of(parts, spreads=None):
    spreads = np.ones(len(parts)) if spreads is None else spreads
    return fit_residuals(parts, [np.ones(len(part)) for part in parts], spreads)


def test_one_task_has_the_quantile_of_split_conformal_prediction():
    residuals = np.random.default_rng(0).standard_t(3, size=39)
    half = scores_of([residuals]).quantiles(0.9)[0]
    # The 36th of 39 is the smallest with a share of 0.9 among 40 exchangeable residuals at least.
    np.testing.assert_allclose(half, np.sort(np.abs(residuals))[35])


def test_coverage_is_exact_where_residuals_are_exchangeable():
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(2000):
        residuals = rng.exponential(size=20)
        covered.append(residuals[19] <= scores_of([residuals[:19]]).quantiles(0.8)[0])
    # 16 of 20: exactly 0.8, within three standard errors of the simulation.
    assert abs(np.mean(covered) - 0.8) < 0.027


def test_many_small_tasks_are_covered_on_the_whole():
    rng = np.random.default_rng(2)
    scale = np.exp(0.5 * rng.normal(size=200))
    train = [s * rng.normal(size=10) for s in scale]
    half = scores_of(train).quantiles(0.9)[:-1]
    covered = np.abs(scale[:, np.newaxis] * rng.normal(size=(200, 500))) <= half[:, np.newaxis]
    assert abs(covered.mean() - 0.9) < 0.025


def test_scales_of_equal_tasks_are_pooled_and_those_of_unequal_tasks_with_many_rows_are_not():
    rng = np.random.default_rng(3)
    equal = [rng.normal(size=8) for _ in range(50)]
    scales = scores_of(equal).scales
    np.testing.assert_allclose(scales, np.sqrt(np.mean(np.concatenate(equal) ** 2)))
    unequal = [s * rng.normal(size=2000) for s in (0.1, 1.0, 10.0)]
    np.testing.assert_allclose(scores_of(unequal).scales[:3], [0.1, 1.0, 10.0], rtol=0.05)


def test_tasks_in_other_units_are_compared_by_their_own_spread():
    rng = np.random.default_rng(4)
    units = np.array([1.0, 1e3, 1e-3, 50.0])
    parts = [rng.normal(size=12) for _ in units]
    plain = scores_of(parts)
    scaled = scores_of([u * part for u, part in zip(units, parts, strict=True)], units)
    np.testing.assert_allclose(scaled.quantiles(0.9)[:4], units * plain.quantiles(0.9)[:4])


def test_two_rows_have_intervals_of_finite_width():
    half = scores_of([np.array([0.5, -1.0])]).quantiles(0.95)[0]
    assert 1.0 < half < 100.0


def test_a_model_without_errors_has_intervals_of_no_width():
    np.testing.assert_array_equal(scores_of([np.zeros(5), np.zeros(7)]).quantiles(0.9), 0.0)
