"""How much of each task's function is its own, and how much is shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._axes import LONGEST, extent, label_ticks, labels_extent, new_axes

OWN = "own"
# Neighbours differ in lightness, so that they can be distinguished in grey too; the own part comes last, the lightest.
SHADES = ("#08306b", "#E69F00", "#009E73", "#56B4E9", "#D55E00")
OWN_SHADE = "0.85"


class PartSharesDisplay:
    """How much of each task's function comes from each coupling and from its own part, as stacked bars.

    Parameters
    ----------
    shares : array (T, 1 + n_couplings)
        Of each task, the share of its own part, then of each coupling's; rows sum to one, and a share is negative where
        a part takes back some of what the others give.
    tasks : sequence of T labels
    couplings : sequence of names of the couplings

    Attributes
    ----------
    order_ : array (T,), the task drawn in each row, from the bottom: those first that are most on their own.
    bars_ : dict of str to the bars of each part.
    ax_, figure_ : where it is drawn.

    Examples
    --------
    >>> from kernelkin.plots import PartSharesDisplay
    >>> display = PartSharesDisplay([[0.2, 0.8], [0.7, 0.3], [0.4, 0.6]], ["a", "b", "c"], ["common"])
    >>> display.order.tolist()
    [1, 2, 0]
    """

    def __init__(self, shares: Any, tasks: Sequence[Any], couplings: Sequence[str]) -> None:
        self.shares = np.asarray(shares, dtype=np.float64)
        self.tasks, self.couplings = np.asarray(tasks), [str(name) for name in couplings]
        if self.shares.shape != (len(self.tasks), 1 + len(self.couplings)):
            raise ValueError(
                f"shares of {len(self.tasks)} tasks, their own and of {len(self.couplings)} couplings, have shape "
                f"{(len(self.tasks), 1 + len(self.couplings))}, not {self.shares.shape}"
            )

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PartSharesDisplay:
        """Draw the `part_shares_` of an estimator that was fitted with couplings.

        Parameters
        ----------
        estimator : fitted estimator with `part_shares_`
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        check_is_fitted(estimator)
        if not getattr(estimator, "couplings_", ()) or not hasattr(estimator, "part_shares_"):
            raise ValueError(
                f"this {type(estimator).__name__} has no shares of parts: fit MK-MTRL with couplings, such as 'common'"
            )
        names = [coupling.name for coupling in estimator.couplings_]
        return cls(estimator.part_shares_, estimator.tasks_, names).plot(ax)

    @property
    def order(self) -> np.ndarray:
        """The tasks from the one most on its own to the one that shares most, (T,)."""
        return np.argsort(-self.shares[:, 0], kind="stable")

    def plot(self, ax: Any = None) -> PartSharesDisplay:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        ax : matplotlib axes, optional
            None: those of a new figure.
        """
        T = len(self.tasks)
        height = extent(T, 0.32, 1.2, LONGEST)
        self.ax_ = new_axes(ax, 5.5, height, (0.5 + labels_extent(self.tasks, height), 1.0))
        self.figure_, self.order_ = self.ax_.figure, self.order
        shades = [SHADES[i % len(SHADES)] for i in range(len(self.couplings))]
        # What is shared first, so that it starts at zero and can be compared; what is a task's own fills up to one.
        parts = np.roll(self.shares[self.order_], -1, axis=1).T
        # A part that takes back from the others has a negative share, and goes to the left of zero.
        up, down = (np.cumsum(part, axis=0) for part in (np.maximum(parts, 0.0), np.minimum(parts, 0.0)))
        starts = np.where(parts < 0, down, up) - parts
        self.bars_ = {
            name: self._draw_part(name, values, start, shade)
            for name, values, start, shade in zip(
                [*self.couplings, OWN], parts, starts, [*shades, OWN_SHADE], strict=True
            )
        }
        label_ticks(self.ax_.yaxis, self.tasks[self.order_])
        self.ax_.set(xlabel="share of the variance of each task's function", ylabel="task")
        self.ax_.set(xlim=(min(0.0, down[-1].min()), max(1.0, up[-1].max())), ylim=(-0.6, T - 0.4))
        self.ax_.spines[["top", "right"]].set_visible(False)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        return self

    def _draw_part(self, name: str, values: np.ndarray, left: np.ndarray, shade: str) -> Any:
        T = len(values)
        return self.ax_.barh(
            np.arange(T),
            values,
            left=left,
            height=0.8 if T <= 40 else 1.0,
            color=shade,
            edgecolor="white",
            linewidth=0.5 if T <= 40 else 0.0,
            label=f"{name} (mean {values.mean():.0%})",
        )
