import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin import AverageRegressor, KinRegressor
from kernelkin.plots import TaskScoresDisplay


def test_draws_what_score_tasks_says_of_each_model(model, data):
    average = AverageRegressor(data.kernels, C=10.0).fit(data.data, data.target, tasks=data.tasks)
    test = data.data_test, data.target_test
    display = TaskScoresDisplay.from_estimator(model, *test, tasks=data.tasks_test, baselines={"average": average})
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert sorted(labels) == data.task_names.tolist()
    for name, estimator in (("MKMTRLRegressor", model), ("average", average)):
        scores = estimator.score_tasks(*test, data.tasks_test)
        assert_allclose(display.points_[name].get_xdata(), [scores[label] for label in labels])
    gains = display.scores["MKMTRLRegressor"] - display.scores["average"]
    assert (np.diff(gains[display.order_]) >= 0).all()
    assert display.ax_.get_xlabel() == "R² (tasks by gain of MKMTRLRegressor)"


def test_scores_of_counts_are_named_so():
    rng, shops = np.random.default_rng(0), np.repeat(["a", "b", "c"], 12)
    X = rng.normal(size=(36, 1))
    y = rng.poisson(np.exp(1 + X[:, 0]))
    model = KinRegressor(loss="poisson", cv=2).fit(X, y, shops)
    assert TaskScoresDisplay.from_estimator(model, X, y, tasks=shops).ax_.get_xlabel() == "D²"


def test_the_legend_shows_the_mean_of_each_model():
    display = TaskScoresDisplay({"ours": [0.5, np.nan, 0.7]}, ["a", "b", "c"]).plot()
    assert display.ax_.get_legend().get_texts()[0].get_text() == "ours (mean 0.600)"
    assert_array_equal(display.order_, [0, 2, 1])


def test_models_differ_by_marker_as_well_as_by_colour():
    display = TaskScoresDisplay({name: [0.5] for name in "abcdef"}, ["t"]).plot()
    lines = display.points_.values()
    assert len({line.get_marker() for line in lines}) == len({line.get_color() for line in lines}) == 6


def test_scores_of_the_wrong_length():
    with pytest.raises(ValueError, match=r"model 'ours' has scores of shape \(2,\) for 3 tasks"):
        TaskScoresDisplay({"ours": [0.5, 0.7]}, ["a", "b", "c"])
