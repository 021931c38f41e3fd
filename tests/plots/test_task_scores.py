import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin import AverageRegressor
from kernelkin.plots import TaskScoresDisplay


def test_draws_what_score_tasks_says_of_each_model(model, data):
    average = AverageRegressor(data.kernels, C=10.0).fit(data.data, data.target, tasks=data.tasks)
    test = data.data_test, data.target_test
    display = TaskScoresDisplay.from_estimator(model, *test, tasks=data.tasks_test, baselines={"average": average})
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert sorted(labels) == data.task_names.tolist()
    for name, estimator in (("MKMTRLRegressor", model), ("average", average)):
        points, _, bars = display.points_[name].lines
        scores = estimator.score_tasks(*test, data.tasks_test)
        assert_allclose(points.get_xdata(), [scores[label] for label in labels])
        assert not bars
    gains = display.scores["MKMTRLRegressor"] - display.scores["average"]
    assert (np.diff(gains[display.order_]) >= 0).all()
    assert display.ax_.get_xlabel() == "R²"
    assert display.ax_.get_ylabel() == "task, by gain of MKMTRLRegressor on average"


def test_error_bars_are_standard_errors_of_the_runs():
    runs = {"ours": np.array([[0.9, 0.5, 0.7], [0.7, 0.6, 0.8]]), "theirs": np.array([[0.2, 0.4, 0.6]])}
    display = TaskScoresDisplay.from_runs(runs, ["a", "b", "c"], ax=plt.subplots()[1])
    assert_array_equal(display.order_, [1, 2, 0])
    points, _, (bars,) = display.points_["ours"].lines
    assert_allclose(points.get_xdata(), [0.55, 0.75, 0.8])
    lengths = [segment[1, 0] - segment[0, 0] for segment in bars.get_segments()]
    assert_allclose(lengths, 2 * np.array([0.05, 0.05, 0.1]))
    assert not display.points_["theirs"].lines[2]
    heights = [container.lines[0].get_ydata() for container in display.points_.values()]
    assert (heights[0] > heights[1]).all(), "bars of one task lie on each other"


def test_the_legend_shows_the_mean_of_each_model():
    display = TaskScoresDisplay({"ours": [0.5, np.nan, 0.7]}, ["a", "b", "c"]).plot()
    assert display.ax_.get_legend().get_texts()[0].get_text() == "ours (mean 0.600)"
    assert_array_equal(display.order_, [0, 2, 1])


def test_models_differ_by_marker_as_well_as_by_colour():
    display = TaskScoresDisplay({name: [0.5] for name in "abcdef"}, ["t"]).plot()
    lines = [container.lines[0] for container in display.points_.values()]
    assert len({line.get_marker() for line in lines}) == len({line.get_color() for line in lines}) == 6


def test_scores_of_the_wrong_length():
    with pytest.raises(ValueError, match=r"model 'ours' has scores of shape \(2,\) for 3 tasks"):
        TaskScoresDisplay({"ours": [0.5, 0.7]}, ["a", "b", "c"])
