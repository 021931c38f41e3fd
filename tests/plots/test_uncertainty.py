import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelkin import AverageClassifier, AverageRegressor, KinRegressor
from kernelkin.plots import CoverageDisplay, IntervalsDisplay, ReliabilityDisplay


def test_intervals_are_those_of_the_model_and_misses_stand_out(model, data):
    display = IntervalsDisplay.from_estimator(model, data.data_test, data.target_test, tasks=data.tasks_test)
    ends = model.predict_interval(data.data_test, data.tasks_test)
    inside = (ends[:, 0] <= data.target_test) & (data.target_test <= ends[:, 1])
    assert (display.is_covered_ == inside).all()
    assert 0 < inside.sum() < len(inside)
    lines = [segment for bars in display.ax_.collections[::2] for segment in bars.get_segments()]
    drawn = np.array([segment[:, 1] for segment in lines])
    assert_allclose(drawn, np.vstack([ends[inside], ends[~inside]]))
    shown = display.ax_.collections[1].get_offsets()
    predicted = model.predict(data.data_test, data.tasks_test)
    assert_allclose(shown, np.column_stack([predicted, data.target_test])[inside])


def test_coverage_is_that_of_each_task(model, data):
    display = CoverageDisplay.from_estimator(model, data.data_test, data.target_test, tasks=data.tasks_test)
    ends = model.predict_interval(data.data_test, data.tasks_test)
    inside = (ends[:, 0] <= data.target_test) & (data.target_test <= ends[:, 1])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert_allclose(display.ax_.lines[0].get_xdata(), [inside[data.tasks_test == label].mean() for label in labels])


def test_coverage_by_a_column_of_tasks(data):
    X, X_test = (np.column_stack([rows, tasks]) for rows, tasks in (pair(data, ""), pair(data, "_test")))
    model = AverageRegressor("linear", task_column=X.shape[1] - 1).fit(X, data.target)
    display = CoverageDisplay.from_estimator(model, X_test, data.target_test)
    assert display.counts_.sum() == len(data.target_test) and len(display.counts_) == len(data.task_names)


def pair(data, suffix):
    """Rows, and the number of each row's task."""
    return data[f"data{suffix}"], np.unique(data[f"tasks{suffix}"], return_inverse=True)[1]


def test_reliability_of_all_rows_and_of_each_task(data):
    y, y_test = data.target > 0, data.target_test > 0
    model = AverageClassifier(data.kernels).fit(data.data, y, data.tasks)
    display = ReliabilityDisplay.from_estimator(model, data.data_test, y_test, tasks=data.tasks_test)
    p = model.predict_proba(data.data_test, data.tasks_test)[:, 1]
    order = np.argsort(p, kind="stable")
    assert_allclose(display.observed_, [y_test[part].mean() for part in np.array_split(order, 10)])
    first = data.tasks_test == model.tasks_[0]
    assert_allclose(display.task_predicted_[0], p[first].mean())
    assert_allclose(display.task_observed_[0], y_test[first].mean())
    points = display.ax_.collections[0].get_offsets()
    assert_allclose(points, np.column_stack([display.task_predicted_, display.task_observed_]))


def test_wide_data_with_missing_targets():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    model = AverageRegressor().fit(X, Y)
    Y[:5, 1] = np.nan
    assert sorted(CoverageDisplay.from_estimator(model, X, Y).counts_.tolist()) == [25, 30, 30]


def test_arrays_of_the_wrong_length():
    with pytest.raises(ValueError, match="there are 3 probabilities, but 2 outcomes"):
        ReliabilityDisplay([0.1, 0.2, 0.3], [True, False])


def test_reliability_by_a_column_of_tasks_and_of_wide_data_with_missing_labels(data):
    X, _ = pair(data, "")
    labels = np.searchsorted(data.task_names, data.tasks)
    by_column = np.column_stack([X, labels])
    model = AverageClassifier("linear", task_column=X.shape[1]).fit(by_column, data.target > 0)
    display = ReliabilityDisplay.from_estimator(model, by_column, data.target > 0)
    assert_allclose(display.task_observed_, [(data.target > 0)[labels == t].mean() for t in range(6)])
    X, Y = X[:40], np.where(X[:40, :3] > 0, 1.0, 0.0)
    wide = AverageClassifier("linear").fit(X, Y)
    Y[:5, 1] = np.nan
    display = ReliabilityDisplay.from_estimator(wide, X, Y)
    assert_allclose(display.task_observed_, np.nanmean(Y, axis=0))


def test_intervals_go_by_the_first_of_several_groupings():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 1)), {"school": np.repeat(np.arange(4), 10), "class": np.tile(np.arange(10), 4)}
    y = X[:, 0] + rng.normal(size=40)
    model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    shown = IntervalsDisplay.from_estimator(model, X, y, tasks=tasks)
    np.testing.assert_array_equal(shown.tasks, tasks["school"])
