from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelkin.plots import TaskRelationshipDisplay
from plots.plot_relations import relations


@pytest.mark.parametrize("n_tasks", [3, 19, 139])
def test_draws_the_likeness_in_the_order_of_its_labels_groups_as_blocks(n_tasks):
    found = relations(np.arange(n_tasks) % 3 if n_tasks > 3 else [0, 1, 0])
    display = TaskRelationshipDisplay(found).plot()
    order = display.order_
    assert sorted(order) == list(range(n_tasks))
    assert_allclose(display.image_.get_array(), found.likeness[np.ix_(order, order)])
    assert np.count_nonzero(np.diff(found.groups[order])) == found.n_groups - 1
    assert len(display.outlines_) == found.n_groups
    assert len(display.tree_ax_.lines) == n_tasks - 1


def test_names_of_139_tasks_do_not_overlap():
    display = TaskRelationshipDisplay(relations(np.arange(139) % 3)).plot()
    display.figure_.draw_without_rendering()
    boxes = [label.get_window_extent() for label in display.ax_.yaxis.get_ticklabels()]
    assert all(upper.y0 >= lower.y1 - 0.5 or lower.y0 >= upper.y1 - 0.5 for lower, upper in pairwise(boxes))


def test_colours_are_fixed_at_zero_whatever_the_values():
    for groups in ([0, 0, 1], [0, 1, 2]):
        image = TaskRelationshipDisplay(relations(groups)).plot().image_
        assert image.get_clim() == (-1.0, 1.0)
        red, green, blue, _ = image.cmap(image.norm(0.0))
        assert min(red, green, blue) > 0.95


def test_without_structure_nothing_is_outlined_and_the_title_says_so():
    found = relations([0, 0, 0, 0], p_value=0.46)
    display = TaskRelationshipDisplay(found).plot()
    assert display.title == "no structure found (p = 0.46)"
    assert display.tree_ax_.get_title() == display.title
    assert display.outlines_ == []
    assert np.ptp(display.image_.get_array()) == 0


def test_the_tree_has_a_colour_for_each_group():
    display = TaskRelationshipDisplay(relations([0, 0, 1, 1])).plot()
    colours = [line.get_color() for line in display.tree_ax_.lines]
    assert len(colours) == 3 and len(set(colours)) == 3 and "0.6" in colours


def test_from_estimator_tests_before_it_draws(model, data):
    display = TaskRelationshipDisplay.from_estimator(model, data.data, data.target, tasks=data.tasks, random_state=0)
    assert display.relations.tasks.tolist() == model.tasks_.tolist()
    assert display.image_.colorbar.ax.get_ylabel() == "likeness of functions"
