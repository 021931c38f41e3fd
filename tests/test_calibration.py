import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from kernelkin.calibration import Link, choose_units, fit_shifts, scale_prior, shrunk_scales


def draw(rng, n, slope=2.0, offset=0.5):
    values = rng.normal(size=(n, 1))
    return values, (rng.uniform(size=n) < 1 / (1 + np.exp(-(slope * values[:, 0] + offset)))).astype(int)


def link_of(*tasks):
    """The link of tasks of equal weights, pairs of values and codes."""
    values, codes = zip(*tasks, strict=True)
    return Link.of_tasks(values, codes, [np.ones(len(code)) for code in codes])


def test_the_link_is_platts():
    values, codes = draw(np.random.default_rng(0), 200)
    platt = _SigmoidCalibration().fit(values[:, 0], codes)
    found = link_of((values, codes)).probabilities(values)[:, 1]
    # The pull towards the identity is that of a hundredth of a row.
    np.testing.assert_allclose(found, platt.predict(values[:, 0]), atol=1e-3)


def test_all_tasks_share_one_link_whatever_their_order():
    rng = np.random.default_rng(1)
    tasks = [draw(rng, n) for n in (5, 30, 2, 80)]
    together = tuple(np.concatenate(part) for part in zip(*tasks, strict=True))
    found, turned, pooled = link_of(*tasks), link_of(*tasks[::-1]), link_of(together)
    for link in (turned, pooled):
        np.testing.assert_allclose([link.slope, link.offset], [found.slope, found.offset], rtol=1e-6)


def test_tasks_whose_log_odds_differ_are_shifted_and_others_are_not():
    rng = np.random.default_rng(2)
    offsets = np.array([-1.5, -0.5, 0.0, 0.5, 1.5, 1.5])
    drawn = [draw(rng, n, 2.0, offset) for n, offset in zip([4000] * 5 + [8], offsets, strict=True)]
    values, codes = zip(*drawn, strict=True)
    weights = [np.ones(len(code)) for code in codes]
    link, shifts = fit_shifts(values, codes, weights)
    own = link.offset + link.slope * shifts
    np.testing.assert_allclose(own[:5], offsets[:5], atol=0.15)
    # Eight rows say less on their offset.
    alone = LogisticRegression(C=np.inf).fit(values[5], codes[5]).intercept_[0]
    assert abs(own[5] - link.offset) < abs(alone - link.offset)
    # At a solution, the slope has the gradient zero on shifted values.
    f = np.concatenate([f[:, 0] + shift for f, shift in zip(values, shifts, strict=True)])
    assert abs((np.concatenate(codes) - link(f)) @ f) < 2e-3 * len(f)
    # The same rows in every task, and classes that are no pair, have no shift.
    same, none = fit_shifts(values[:1] * 3, codes[:1] * 3, weights[:1] * 3)
    assert not none.any() and same.slope == link_of(*[(values[0], codes[0])] * 3).slope
    f = rng.normal(size=(90, 3))
    assert not fit_shifts([f, f], [f.argmax(1), f.argmax(1)], [np.ones(90)] * 2)[1].any()


def test_shifts_are_pulled_to_zero_so_that_true_offsets_are_as_large_on_average():
    rng = np.random.default_rng(3)
    offsets = 0.5 * rng.normal(size=400)
    values, codes = zip(*(draw(rng, 40, 2.0, offset) for offset in offsets), strict=True)
    link, shifts = fit_shifts(values, codes, [np.ones(40)] * 400)
    found = link.slope * shifts
    # Without the pull it is 0.56.
    assert found @ offsets / (found @ found) == pytest.approx(0.95, abs=0.1)


def test_units_of_rows_with_weights_are_those_of_copies():
    rng = np.random.default_rng(6)
    codes, weight = np.repeat(np.arange(4), 20), rng.integers(1, 4, 80)
    y = 10.0**codes * (3.0 + rng.normal(size=80))
    found = choose_units(y, codes, 4, weight.astype(float))
    copies = choose_units(np.repeat(y, weight), np.repeat(codes, weight), 4, np.ones(weight.sum()))
    assert np.ptp(found.spread) > 0
    for name, value in vars(copies).items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-9)


def test_the_link_of_three_classes_has_the_targets_of_platt():
    """At its optimum the gradient of the loss with these targets is zero, up to the pull."""
    f, codes = np.random.default_rng(5).normal(size=(15, 3)), np.repeat([0, 1, 2], [2, 4, 9])
    f[np.arange(15), codes] += 2.0
    link, rest = link_of((f, codes)), 1 / (2 * np.repeat([2, 4, 9], [2, 4, 9]) + 2)
    target = np.repeat(rest[:, None] / 2, 3, axis=1)
    target[np.arange(15), codes] = 1 - rest
    unit = np.sqrt(np.mean(f**2))
    pull = 1e-2 * (link.slope * unit - 1)
    assert np.sum((link.probabilities(f) - target) * f) / unit + pull == pytest.approx(0.0, abs=1e-4)


def test_typical_spreads_of_tasks_with_few_rows_are_not_biased():
    codes = np.repeat(np.arange(400), 4)
    y = 2.0 * np.random.default_rng(4).normal(size=1600) + codes
    assert choose_units(y, codes, 400, np.ones(1600), own=True).new_spread == pytest.approx(2.0, rel=0.08)


def test_probabilities_do_not_depend_on_the_units_of_the_values():
    rng = np.random.default_rng(3)
    tasks = [draw(rng, 40, offset=t) for t in range(4)]
    first, second = link_of(*tasks), link_of(*((1e-6 * values, codes) for values, codes in tasks))
    for values, _ in tasks:
        np.testing.assert_allclose(second.probabilities(1e-6 * values), first.probabilities(values), rtol=1e-6)


def test_a_larger_value_never_makes_a_class_less_probable():
    values, codes = draw(np.random.default_rng(4), 50, slope=-3.0)
    link = link_of((values, codes))
    assert 0 < link.slope < 0.1
    np.testing.assert_allclose(link(values)[:, 0], codes.mean(), atol=0.05)


def test_the_slope_is_finite_if_the_values_separate_the_classes():
    codes = np.arange(40) % 2
    for target in (codes[:, np.newaxis], np.eye(2)[codes]):
        f = target - 0.5
        assert 1 < Link.fit([(f, target, np.ones(40))]).slope < 100
    assert 1 < link_of((codes[:, np.newaxis] - 0.5, codes)).slope < 100


def test_weighting_a_row_equals_repeating_it():
    values, codes = draw(np.random.default_rng(5), 30)
    weight = np.where(np.arange(30) < 10, 2.0, 1.0)
    repeated = np.r_[np.arange(30), np.arange(10)]
    weighted, twice = Link.of_tasks([values], [codes], [weight]), link_of((values[repeated], codes[repeated]))
    np.testing.assert_allclose(weighted.probabilities(values), twice.probabilities(values), rtol=1e-4)


def test_values_of_several_classes_are_the_logits_of_a_softmax():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(5000, 3))
    codes = (1.5 * values + rng.gumbel(size=values.shape)).argmax(axis=1)
    link = link_of((values, codes))
    np.testing.assert_allclose(link.slope, 1.5, atol=0.1)
    np.testing.assert_allclose(link.probabilities(values).sum(axis=1), 1.0)
    losses = [-log_softmax(s * values, axis=1)[np.arange(5000), codes].sum() for s in link.slope * np.r_[0.99, 1, 1.01]]
    assert losses[1] < min(losses[0], losses[2])
    # Tasks of two classes and of three share the slope.
    both = link_of((values, codes), draw(rng, 5000, slope=1.5))
    np.testing.assert_allclose([both.slope, both.offset], [1.5, 0.5], atol=0.1)


def test_rows_without_a_value_and_of_other_classes_are_left_out():
    values, known = draw(np.random.default_rng(7), 20)
    more = np.vstack([values, [[np.nan], [np.nan], [0.3]]]), np.r_[known, 1, 1, 2]
    assert link_of(more) == link_of((values, known))


def test_without_rows_all_classes_are_equally_probable():
    link = link_of((np.full((3, 1), np.nan), np.zeros(3, int)), (np.full((4, 3), np.nan), np.zeros(4, int)))
    np.testing.assert_allclose(link.probabilities(np.ones((2, 1))), 0.5)
    np.testing.assert_allclose(link.probabilities(np.arange(3.0)[np.newaxis]), 1 / 3)


def test_a_link_without_smoothed_targets_is_a_logistic_regression():
    values, codes = draw(np.random.default_rng(10), 80)
    weights = np.random.default_rng(11).uniform(0.5, 2.0, 80)
    found = Link.fit([(values, codes[:, np.newaxis], weights)])
    exact = LogisticRegression(C=1e6, tol=1e-10).fit(values, codes, sample_weight=weights)
    np.testing.assert_allclose([found.slope, found.offset], [exact.coef_[0, 0], exact.intercept_[0]], atol=1e-2)


def scales_of(parts):
    n, squares = (
        np.array([len(part) for part in parts]),
        np.array([np.sum(part**2) / max(len(part), 1) for part in parts]),
    )
    return shrunk_scales(squares, n, scale_prior(squares, n))


def test_scales_of_equal_tasks_are_pooled_and_those_of_unequal_tasks_with_many_rows_are_not():
    rng = np.random.default_rng(3)
    equal = scales_of([rng.normal(size=8) for _ in range(50)])
    assert np.ptp(equal) < 0.1 * equal.mean()
    unequal = [s * rng.normal(size=2000) for s in (0.1, 1.0, 10.0)]
    np.testing.assert_allclose(scales_of(unequal), [0.1, 1.0, 10.0], rtol=0.05)


def test_a_task_without_a_scale_has_that_of_a_typical_task():
    rng = np.random.default_rng(4)
    parts = [2.0 * rng.normal(size=500), np.zeros(9), np.array([7.0]), np.empty(0)]
    assert scales_of(parts) == pytest.approx(scales_of(parts[:1])[0])
    np.testing.assert_array_equal(scales_of(parts[1:]), 1.0)


@pytest.mark.parametrize("scales", [(1e-9, 1e4, 1.0), (1.0, 0.0, 1e12)])
def test_units_of_columns_do_not_depend_on_the_units_of_other_columns(scales):
    y, codes = np.random.default_rng(0).normal(size=60), np.repeat(np.arange(3), 20)
    usual = choose_units(y, codes, 3, np.ones(60), own=True)
    scaled = choose_units(5.0 + y * np.array(scales)[codes], codes, 3, np.ones(60), own=True)
    varies = np.array(scales) > 0
    np.testing.assert_allclose(scaled.spread[varies], (usual.spread * scales)[varies], rtol=0.25)
    np.testing.assert_allclose((scaled.location - 5.0)[varies], (usual.location * scales)[varies], atol=1e-12)


def test_one_column_that_varies_has_its_own_unit():
    y = np.random.default_rng(0).normal(size=20)
    found = choose_units(np.append(np.full(20, 1e6), y), np.repeat([0, 1], 20), 2, np.ones(40), own=True)
    np.testing.assert_allclose(found.location, [1e6, y.mean()])
    np.testing.assert_allclose(found.spread[1], y.std(), rtol=0.1)
