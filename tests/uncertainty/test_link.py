import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from kernelkin.uncertainty import fit_link, pooled_link
from kernelkin.uncertainty.link import LinkRows


def draw(rng, n, slope=2.0, offset=0.5):
    values = rng.normal(size=(n, 1))
    return values, (rng.uniform(size=n) < 1 / (1 + np.exp(-(slope * values[:, 0] + offset)))).astype(int)


def test_the_link_of_one_task_of_many_rows_is_platts():
    values, codes = draw(np.random.default_rng(0), 20_000)
    platt = _SigmoidCalibration().fit(values[:, 0], codes)
    found = fit_link([values], [codes]).probabilities(values, 0)[:, 1]
    np.testing.assert_allclose(found, platt.predict(values[:, 0]), atol=1e-3)


def test_probabilities_are_means_over_the_posterior_of_slope_and_offset():
    values, codes = draw(np.random.default_rng(8), 60)
    link = fit_link([values], [codes])
    at = np.array([[-2.0], [0.0], [3.0]])
    smoothed = np.where(codes == 1, (codes.sum() + 1) / (codes.sum() + 2), 1 / (60 - codes.sum() + 2))
    slopes, offsets = np.meshgrid(np.linspace(0, 12, 301), np.linspace(-5, 5, 301))
    logits = slopes[..., np.newaxis] * values[:, 0] + offsets[..., np.newaxis]
    log_likelihood = (smoothed * logits - np.logaddexp(0, logits)).sum(axis=-1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    expected = [np.average(1 / (1 + np.exp(-(slopes * x + offsets))), weights=posterior) for x in at[:, 0]]
    np.testing.assert_allclose(link.probabilities(at, 0)[:, 1], expected, atol=0.03)
    # Less certain than the best slope and offset say, and right on average.
    assert 1 / (1 + np.exp(-(link.slope * 3 + link.offsets[0][0]))) > link.probabilities(at, 0)[2, 1] + 0.005
    np.testing.assert_allclose(link.probabilities(values, 0)[:, 1].mean(), smoothed.mean(), atol=1e-6)


def test_covariances_are_inverse_hessians():
    rng = np.random.default_rng(9)
    values, codes = zip(*[draw(rng, 30, offset=t - 1.0) for t in range(3)], strict=True)
    centers = [np.full((30, 1), 0.3 * t) for t in range(3)]
    rows = LinkRows.of(values, codes, [np.ones(30)] * 3, centers)
    spread = 0.8
    theta = rows.solve(spread, None)
    free = np.flatnonzero(np.r_[theta[:2] > 1e-9, np.ones(4, dtype=bool)])
    step = 1e-4 * np.eye(6)
    hessian = np.array([(rows.loss(theta + e, spread)[1] - rows.loss(theta - e, spread)[1]) / 2e-4 for e in step])
    covariance = np.zeros((6, 6))
    covariance[np.ix_(free, free)] = np.linalg.inv(hessian[np.ix_(free, free)])
    for t in range(3):
        change = np.zeros((3, 6))
        change[[0, 1, 2, 2], [0, 1, 2, 3 + t]] = [1.0, 1.0, 1.0, spread]
        np.testing.assert_allclose(rows.covariances(spread, theta)[t], change @ covariance @ change.T, atol=1e-5)


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
    np.testing.assert_allclose(np.concatenate(link.offsets), link.pooled[0, 0])


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


@pytest.mark.parametrize("codes", [np.array([0, 1]), np.array([1, 1])])
def test_rows_without_a_value_are_left_out(codes):
    rng = np.random.default_rng(7)
    values, known = draw(rng, 20)
    with_missing = fit_link([np.vstack([values, [[np.nan], [np.nan]]])], [np.r_[known, codes]])
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
