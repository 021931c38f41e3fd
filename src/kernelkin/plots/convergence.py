"""Plot of the convergence of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._axes import COLORS, Display, new_axes

# The scale of the objective is set by the iterations whose relative gap is below this.
NEAR = 0.5


class ConvergenceDisplay(Display):
    """The objective, its lower bound, and the relative gap between them, per iteration.

    Parameters
    ----------
    primal, bound, relative_gap : arrays (n_iter,)
        The lowest objective, the highest bound and the relative gap so far.
    tol : float, optional
        The relative gap to reach.

    Attributes
    ----------
    primal_line_, bound_line_, gap_line_ : the lines.
    objective_ax_, gap_ax_ : the axes of the objective (above) and of the gap (below).
    ax_, figure_ : the outer axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import ConvergenceDisplay
    >>> display = ConvergenceDisplay([3.0, 2.0, 1.9], [-5.0, 1.0, 1.8], [2.7, 0.5, 0.05], tol=0.1)
    """

    def __init__(self, primal: Any, bound: Any, relative_gap: Any, *, tol: float | None = None) -> None:
        self.primal, self.bound, self.relative_gap = (np.asarray(v, float) for v in (primal, bound, relative_gap))
        self.tol = tol

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the `history_` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `history_`
        ax : matplotlib axes, optional
        """
        check_is_fitted(estimator, "history_")
        history: Mapping[str, np.ndarray] = estimator.history_
        return cls(history["primal"], history["bound"], history["relative_gap"], tol=estimator.tol).plot(ax)

    def _draw(self, ax: Any) -> None:
        self.ax_ = new_axes(ax, 5.0, 4.0)
        self.ax_.axis("off")
        self.gap_ax_ = self.ax_.inset_axes((0.0, 0.0, 1.0, 0.46))
        self.objective_ax_ = self.ax_.inset_axes((0.0, 0.54, 1.0, 0.46), sharex=self.gap_ax_)
        iterations = np.arange(1, len(self.primal) + 1)
        self._draw_objective(iterations)
        self._draw_gap(iterations)
        for axes in (self.objective_ax_, self.gap_ax_):
            axes.spines[["top", "right"]].set_visible(False)

    def _draw_objective(self, iterations: np.ndarray) -> None:
        ax = self.objective_ax_
        (self.primal_line_,) = ax.plot(iterations, self.primal, color=COLORS[0], marker="o", markersize=3)
        (self.bound_line_,) = ax.plot(iterations, self.bound, color=COLORS[1], marker="D", markersize=3, linestyle="--")
        self.primal_line_.set_label("objective")
        self.bound_line_.set_label("lower bound")
        ax.fill_between(iterations, self.bound, self.primal, color="0.85", linewidth=0, label="where the optimum is")
        # The first iterates can be off by factors of thousands, which would hide all later ones.
        near = np.argmax(self.relative_gap <= NEAR)
        low, high = self.bound[near:].min(), self.primal[near:].max()
        ax.set(ylabel="objective", ylim=(low - 0.1 * (high - low), high + 0.1 * (high - low)) if high > low else None)
        ax.tick_params(labelbottom=False)
        ax.legend(frameon=False)

    def _draw_gap(self, iterations: np.ndarray) -> None:
        from matplotlib.ticker import MaxNLocator

        ax = self.gap_ax_
        # A logarithmic axis cannot show zero, so gaps are raised to the rounding error.
        gap = np.maximum(self.relative_gap, np.finfo(float).eps)
        (self.gap_line_,) = ax.semilogy(iterations, gap, color="black", marker="s", markersize=3)
        if self.tol is not None:
            ax.axhline(self.tol, color="0.5", linestyle=":")
            ax.text(0.01, self.tol, f"tol = {self.tol:g}", transform=ax.get_yaxis_transform(), va="bottom")
        ax.set(xlabel="iteration", ylabel="relative gap")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
