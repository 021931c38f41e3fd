import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from kernelkin import MKMTRLRegressor, tanimoto_kernels
from kernelkin.plots import KernelWeightsDisplay
from kernelkin.plots.fits import kernel_groups


def fitted(weights, kernels):
    """An estimator with these kernel weights."""
    weights = np.asarray(weights, dtype=float)
    model = MKMTRLRegressor()
    model.kernel_weights_, model.kernel_names_ = weights, np.array(kernels)
    model.tasks_ = np.array([f"task{t}" for t in range(len(weights))])
    return model


def tick_names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_draws_the_shares_of_the_tasks_in_the_order_of_its_labels(model):
    display = KernelWeightsDisplay.from_estimator(model)
    assert sorted(display.order_) == list(range(6))
    shares = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    assert_allclose(display.image_.get_array(), shares[display.order_])
    assert tick_names(display.ax_.yaxis) == [str(task) for task in model.tasks_[display.order_]]
    assert tick_names(display.ax_.xaxis) == model.kernel_names_.tolist()


def test_writes_the_shares_on_axes_that_are_given(model):
    ax = plt.subplots()[1]
    display = KernelWeightsDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    numbers = [float(text.get_text()) for text in display.texts_]
    assert_allclose(np.reshape(numbers, (6, -1)), display.image_.get_array(), atol=0.0051)


def test_similar_tasks_are_neighbours(model, data):
    order = KernelWeightsDisplay.from_estimator(model).order_
    assert np.count_nonzero(np.diff(data.groups[order])) == 1


def test_many_kernels_are_added_up_by_group():
    rng = np.random.default_rng(0)
    names = [f"rbf({s} x median)[{column}]" for s in (1, 2) for column in range(30)]
    estimator = fitted(rng.uniform(size=(5, 60)), names)
    display = KernelWeightsDisplay.from_estimator(estimator)
    assert display.kernels.tolist() == [str(column) for column in range(30)]
    expected = estimator.kernel_weights_[:, :30] + estimator.kernel_weights_[:, 30:]
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(display.image_.get_array(), expected[display.order_])
    every = KernelWeightsDisplay.from_estimator(estimator, grouped=False)
    assert every.image_.get_array().shape == (5, 60)


def test_a_task_without_weights_and_a_single_task():
    display = KernelWeightsDisplay.from_estimator(fitted([[0.0, 0.0], [1.0, 3.0]], ["a", "b"]))
    assert_allclose(display.image_.get_array()[np.argsort(display.order_)], [[0, 0], [0.25, 0.75]])
    one = KernelWeightsDisplay.from_estimator(fitted([[1.0, 3.0]], ["a", "b"]))
    assert_allclose(one.image_.get_array(), [[0.25, 0.75]])


def test_names_of_139_tasks_are_all_there_on_a_figure_of_its_own_and_thinned_on_a_small_one():
    estimator = fitted(np.random.default_rng(0).uniform(size=(139, 8)), list("abcdefgh"))
    own = KernelWeightsDisplay.from_estimator(estimator)
    assert tick_names(own.ax_.yaxis) == estimator.tasks_[own.order_].tolist()
    small = KernelWeightsDisplay.from_estimator(estimator, ax=plt.subplots(figsize=(4, 3))[1])
    shown = small.ax_.yaxis.get_ticklocs().astype(int)
    assert len(shown) < 139
    assert tick_names(small.ax_.yaxis) == estimator.tasks_[small.order_][shown].tolist()


def test_lines_separate_views_whose_kernels_stand_together():
    names = ["a: rbf", "a: linear", "b: rbf", "b: linear"]
    together = KernelWeightsDisplay(np.ones((2, 4)), ["s", "t"], names).plot()
    assert {line.get_xdata()[0] for line in together.ax_.lines} == {1.5}
    mixed = KernelWeightsDisplay(np.ones((2, 4)), ["s", "t"], [names[i] for i in (0, 2, 1, 3)]).plot()
    assert not mixed.ax_.lines


def test_groups_of_kernels_by_view_then_column_then_family():
    names = ["left: rbf(1 x median)", "rbf(gamma=2)[age]", "linear[age]", "poly2", "poly3", "rbf(2 x median)", "7"]
    assert kernel_groups(names).tolist() == ["left", "age", "age", "poly", "poly", "rbf", "7"]
    names = [kernel.name for kernel in tanimoto_kernels((1, 3))]
    assert kernel_groups(names).tolist() == ["tanimoto", "tanimoto"]


def test_weights_of_another_shape_and_unfitted_models_are_refused():
    with pytest.raises(ValueError, match=r"2 tasks and 3 kernels have shape \(2, 3\), not \(3, 2\)"):
        KernelWeightsDisplay(np.ones((3, 2)), ["s", "t"], ["a", "b", "c"])
    with pytest.raises(NotFittedError):
        KernelWeightsDisplay.from_estimator(MKMTRLRegressor())
