from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin import MKMTRLRegressor
from kernelkin.plots import PartSharesDisplay


@pytest.fixture(scope="module")
def coupled(data):
    return MKMTRLRegressor(data.kernels, C=10.0, couplings="common").fit(data.data, data.target, tasks=data.tasks)


def test_the_bars_of_a_task_are_its_shares_and_fill_the_width(coupled):
    display = PartSharesDisplay.from_estimator(coupled)
    expected = coupled.part_shares_[display.order_]
    common, own = display.bars_["common"], display.bars_["own"]
    assert_allclose([bar.get_width() for bar in own], expected[:, 0])
    assert_allclose([bar.get_width() for bar in common], expected[:, 1])
    assert_allclose([bar.get_x() for bar in own], expected[:, 1])
    assert_allclose([bar.get_x() + bar.get_width() for bar in own], 1.0)


def test_tasks_are_sorted_and_named_in_that_order(coupled):
    display = PartSharesDisplay.from_estimator(coupled, ax=plt.subplots()[1])
    assert (np.diff(coupled.part_shares_[display.order_, 0]) <= 0).all()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert_array_equal(labels, coupled.tasks_[display.order_])


def test_a_negative_share_goes_to_the_left():
    display = PartSharesDisplay([[-0.25, 1.25]], ["a"], ["common"]).plot()
    common, own = display.bars_["common"][0], display.bars_["own"][0]
    assert (common.get_x(), common.get_width()) == (0.0, 1.25)
    assert (own.get_x() + own.get_width(), own.get_x()) == (-0.25, 0.0)
    assert_allclose(display.ax_.get_xlim(), (-0.25, 1.25))


def test_the_legend_shows_the_mean_of_each_part():
    display = PartSharesDisplay([[0.2, 0.5, 0.3], [0.4, 0.1, 0.5]], ["a", "b"], ["common", "region"]).plot()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["common (mean 30%)", "region (mean 40%)", "own (mean 30%)"]


def test_parts_differ_in_lightness():
    display = PartSharesDisplay([[0.2, 0.5, 0.3]], ["a"], ["common", "region"]).plot()
    colours = [bars[0].get_facecolor()[:3] for bars in display.bars_.values()]
    lightness = np.sort(np.array(colours) @ [0.2126, 0.7152, 0.0722])
    assert (np.diff(lightness) > 0.1).all()


@pytest.mark.parametrize("n_tasks", [1, 3, 139])
def test_names_do_not_overlap(n_tasks):
    own = np.random.default_rng(0).uniform(size=n_tasks)
    display = PartSharesDisplay(np.column_stack([own, 1 - own]), [f"school {t}" for t in range(n_tasks)], ["common"])
    display.plot().figure_.draw_without_rendering()
    boxes = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for below, above in pairwise(boxes))


def test_models_without_shared_parts_and_shares_of_another_shape_are_refused(model):
    with pytest.raises(ValueError, match="fit MK-MTRL with couplings"):
        PartSharesDisplay.from_estimator(model)
    with pytest.raises(ValueError, match=r"have shape \(2, 2\), not \(2, 3\)"):
        PartSharesDisplay(np.ones((2, 3)), ["a", "b"], ["common"])
