import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.linear_model import LogisticRegression

from kernelkin.uncertainty import fit_link


def draw(rng, n, slope=2.0, offset=0.5):
    values = rng.normal(size=(n, 1))
    return values, (rng.uniform(size=n) < 1 / (1 + np.exp(-(slope * values[:, 0] + offset)))).astype(int)


def test_the_link_of_one_task_is_platts():
    values, codes = draw(np.random.default_rng(0), 60)
    link = fit_link([values], [codes])
    platt = _SigmoidCalibration().fit(values[:, 0], codes)
    np.testing.assert_allclose(link.probabilities(values, 0)[:, 1], platt.predict(values[:, 0]), atol=1e-4)


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
