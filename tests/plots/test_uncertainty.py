import numpy as np
import pandas as pd
from numpy.testing import assert_allclose

from kernelkin import AverageRegressor, KinRegressor
from kernelkin.plots import CoverageDisplay, IntervalsDisplay


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


def test_wide_data_with_missing_targets():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    model = AverageRegressor().fit(X, Y)
    Y[:5, 1] = np.nan
    assert sorted(CoverageDisplay.from_estimator(model, X, Y).counts_.tolist()) == [25, 30, 30]
    shown = [
        IntervalsDisplay.from_estimator(model, X, pd.DataFrame(Y)[names]).target for names in ([0, 1, 2], [2, 0, 1])
    ]
    np.testing.assert_array_equal(*shown)


def test_intervals_go_by_the_first_of_several_groupings():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 1)), {"school": np.repeat(np.arange(4), 10), "class": np.tile(np.arange(10), 4)}
    y = X[:, 0] + rng.normal(size=40)
    model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    shown = IntervalsDisplay.from_estimator(model, X, y, tasks=tasks)
    np.testing.assert_array_equal(shown.tasks, tasks["school"])
