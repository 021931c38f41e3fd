import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.plots import PredictionSplitDisplay
from kernelkin.plots.fits import SHOWN


def test_the_bars_lead_from_zero_to_the_prediction(model, data):
    task = data.tasks_test[5]
    display = PredictionSplitDisplay.from_estimator(model, data.data_test[5:], task=task)
    prediction = model.predict(data.data_test[5:6], tasks=[task])[0]
    *steps, total = display.bars_
    assert_allclose(total.get_width(), prediction)
    assert total.get_x() == 0
    ends = np.cumsum([bar.get_width() for bar in steps])
    assert_allclose([bar.get_x() for bar in steps], [0, *ends[:-1]], atol=1e-15)
    assert_allclose(ends[-1], prediction)


def test_each_bar_has_its_kernel_and_its_part(model, data):
    display = PredictionSplitDisplay.from_estimator(model, data.data_test, task=data.tasks_test[0])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    split = model.predict(data.data_test[:1], tasks=data.tasks_test[:1], split=True)
    parts = dict(zip(split.kernels.tolist(), split.parts[0], strict=True), intercept=split.intercept[0])
    assert labels[0] == "intercept"
    assert labels[-1] == "total"
    assert set(labels[:-1]) == set(parts)
    assert_allclose([bar.get_width() for bar in display.bars_[:-1]], [parts[label] for label in labels[:-1]])
    sizes = np.abs([parts[label] for label in labels[1:-1]])
    assert (np.diff(sizes) <= 0).all()


def test_many_small_parts_are_added_up():
    parts = np.random.default_rng(0).normal(size=50)
    display = PredictionSplitDisplay(parts, [f"kernel{k}" for k in range(50)], intercept=0.5)
    labels, values = display.labels_, display.values_
    assert len(labels) == SHOWN + 3
    assert labels[-2] == f"{50 - SHOWN} other kernels"
    assert_allclose(sum(values[:-1]), values[-1])
    assert_allclose(values[-1], parts.sum() + 0.5)
    assert min(np.abs(values[1:-2])) >= np.sort(np.abs(parts))[-SHOWN]


def test_negative_bars_are_hatched():
    display = PredictionSplitDisplay([0.5, -1.0], ["a", "b"]).plot()
    hatched = {label: bool(bar.get_hatch()) for label, bar in zip(display.labels_, display.bars_, strict=True)}
    assert hatched == {"intercept": False, "a": False, "b": True, "total": True}


def test_a_task_of_wide_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = MKMTRLRegressor().fit(X, np.column_stack([X[:, 0], X[:, 1] ** 2]))
    display = PredictionSplitDisplay.from_estimator(model, X, task=1)
    assert_allclose(display.values_[-1], model.predict(X[:1])[0, 1])
    with pytest.raises(ValueError, match="every row has 2 predictions: pass task=, one of 0, 1"):
        PredictionSplitDisplay.from_estimator(model, X)


def test_of_several_classes_the_one_predicted():
    X, y = load_iris(return_X_y=True)
    model = MKMTRLClassifier().fit(X, y)
    display = PredictionSplitDisplay.from_estimator(model, X[75:])
    assert_allclose(display.values_[-1], model.decision_function(X[75:76]).max())
    assert display.value_name == f"decision value of class {model.predict(X[75:76])[0]}"


def test_the_task_of_a_row_may_come_from_its_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.repeat([3, 8], 30)])
    y = np.where(X[:, 2] == 3, np.where(X[:, 0] > 0, "yes", "no"), np.where(X[:, 1] > 0, "up", "down"))
    model = MKMTRLClassifier(task_column=2).fit(X, y)
    assert PredictionSplitDisplay.from_estimator(model, X[40:]).value_name == "decision value of class up"


def test_unknown_tasks_are_refused(model, data):
    with pytest.raises(ValueError, match="unknown task 'school'; this model knows 'task00'"):
        PredictionSplitDisplay.from_estimator(model, data.data_test, task="school")
