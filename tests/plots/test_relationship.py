import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist, squareform

from kernelkin.plots import TaskRelationshipDisplay
from kernelkin.plots._graph import APART, layout, strongest_links


def test_draws_the_correlation_in_the_order_of_its_labels(model):
    display = TaskRelationshipDisplay.from_estimator(model)
    assert sorted(display.order_) == list(range(6))
    assert_allclose(display.image_.get_array(), model.task_correlation_[np.ix_(display.order_, display.order_)])
    expected = model.tasks_[display.order_].tolist()
    for axis in (display.ax_.xaxis, display.ax_.yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == expected


def test_groups_of_139_tasks_are_blocks(correlation):
    R, groups = correlation
    display = TaskRelationshipDisplay(R, np.arange(139)).plot()
    assert np.count_nonzero(np.diff(groups[display.order_])) == 2


def test_the_tree_has_a_join_for_all_tasks_but_one(correlation):
    display = TaskRelationshipDisplay(correlation[0], np.arange(139)).plot()
    assert len(display.tree_ax_.lines) == 138
    assert display.tree_ax_.get_xlim() == display.ax_.get_xlim()


@pytest.mark.parametrize(("lowest", "limits"), [(0.2, (0, 1)), (-0.3, (-0.5, 1)), (-1.0, (-1, 1))])
def test_the_colour_scale_reaches_below_zero_only_where_correlations_do(lowest, limits):
    display = TaskRelationshipDisplay([[1.0, lowest], [lowest, 1.0]], ["a", "b"]).plot()
    assert display.image_.get_clim() == limits


def test_darker_is_more_without_colour(model):
    display = TaskRelationshipDisplay.from_estimator(model)
    lightness = display.image_.cmap(np.linspace(0, 1, 256))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) < 1e-3).all()
    assert lightness[0] - lightness[-1] > 0.8


def test_graph_links_the_most_correlated_tasks(model):
    display = TaskRelationshipDisplay.from_estimator(model, kind="graph", ax=plt.subplots()[1])
    assert_allclose(display.points_.get_offsets(), display.positions_)
    assert [text.get_text() for text in display.texts_] == [str(task) for task in model.tasks_]
    R = model.task_correlation_
    assert_allclose(display.lines_.get_array(), R[tuple(display.edges_.T)])
    assert_allclose(np.stack(display.lines_.get_segments()), display.positions_[display.edges_])


def test_every_task_is_linked_to_its_three_best_and_to_none_that_is_hardly_correlated():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(20, 4))
    R = np.corrcoef(weights)
    edges = {tuple(edge) for edge in strongest_links(R).tolist()}
    for t in range(20):
        best = [s for s in np.argsort(-R[t]) if s != t][:3]
        assert all(((min(s, t), max(s, t)) in edges) == (R[s, t] >= 0.1) for s in best)
    assert all(R[edge] >= 0.1 for edge in edges)


def test_distances_in_the_graph_follow_the_correlations(correlation):
    R, groups = correlation
    distances = squareform(pdist(layout(R)))
    same = groups[:, np.newaxis] == groups
    assert distances[same].mean() < 0.7 * distances[~same].mean()


def test_layout_is_exact_where_it_can_be():
    positions = np.array([[0.0, 0.0], [1.2, 0.0], [0.3, 0.9]])
    wanted = squareform(pdist(positions)) + 0.0
    R = 1 - np.where(np.eye(3), 0, wanted - APART) ** 2 / 2
    assert_allclose(pdist(layout(R)), squareform(wanted), rtol=1e-6)


@pytest.mark.parametrize("kind", ["heatmap", "graph"])
def test_one_task_and_two_of_no_correlation(kind):
    TaskRelationshipDisplay([[1.0]], ["a"]).plot(kind=kind).figure_.canvas.draw()
    display = TaskRelationshipDisplay(np.eye(2), ["a", "b"]).plot(kind=kind)
    display.figure_.canvas.draw()
    assert kind == "heatmap" or len(display.edges_) == 0


def test_errors():
    with pytest.raises(ValueError, match=r"^the correlation of 3 tasks is square, not \(2, 2\)$"):
        TaskRelationshipDisplay(np.eye(2), ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"^kind is 'heatmap' or 'graph', not 'tree'$"):
        TaskRelationshipDisplay(np.eye(2), ["a", "b"]).plot(kind="tree")
