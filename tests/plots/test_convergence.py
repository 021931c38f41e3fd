import matplotlib.pyplot as plt
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from kernelkin.plots import ConvergenceDisplay


def test_draws_the_history(model):
    display = ConvergenceDisplay.from_estimator(model)
    iterations = np.arange(1, model.n_iter_ + 1)
    for line, name in (("primal_line_", "primal"), ("bound_line_", "bound"), ("gap_line_", "relative_gap")):
        assert_array_equal(getattr(display, line).get_xdata(), iterations)
        assert_array_equal(getattr(display, line).get_ydata(), model.history_[name])
    assert display.gap_ax_.get_yscale() == "log"
    assert display.gap_ax_.texts[0].get_text() == f"tol = {model.tol:g}"


def test_the_axis_shows_the_last_iterates_however_far_off_the_first_was():
    display = ConvergenceDisplay([3e5, 2.0, 1.9], [-1e9, 1.0, 1.8], [3e3, 0.5, 0.05]).plot(plt.subplots()[1])
    assert_allclose(display.objective_ax_.get_ylim(), (0.9, 2.1))


def test_a_gap_of_zero_after_one_iteration():
    display = ConvergenceDisplay([2.0], [2.0], [0.0]).plot()
    display.figure_.draw_without_rendering()
    assert display.gap_line_.get_ydata() == [np.finfo(float).eps]
