"""Plots of effects of groups, shares of variance, and effects of columns, of a Kin model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from ..data.arrays import listing, shorten
from ..kin.effects import COVERAGE, column_effect, effect_unit, find_grouping, many_classes
from ..mixed.effects import term_kind
from ._axes import COLORS, MARKERS, Display, add_legend, extent, label_ticks, labels_extent, new_axes, task_axes

# Number of groups that are shown, and number of curves of groups.
SHOWN, CURVES = 30, 100
# Colours of named groups, dark enough among grey lines.
NAMED = (COLORS[2], COLORS[4], COLORS[5], COLORS[1])
# The colour of each kind of terms, and the kinds of `term_kind`.
KINDS = {
    "between groups": (COLORS[0], "levels", "own"),
    "common to all groups": (COLORS[1], "common"),
    "noise": ("white", "noise"),
}


class TaskEffectsDisplay(Display):
    """Effects of groups with their intervals, in order ("caterpillar plot"), and what pooling did to them.

    An arrow points from the level without pooling to the pooled level. With more than 30 groups, those with the largest
    and smallest effects are shown, and the named ones.

    Parameters
    ----------
    effects : DataFrame
        The result of `task_effects`.
    column : str, optional
        Show the slopes along this column instead of levels.
    groups : sequence of labels, optional
        Groups to show in any case; they are highlighted.
    unit : str, default "units of the target"

    Attributes
    ----------
    shown_ : list of the groups drawn, from the bottom.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelkin.plots import TaskEffectsDisplay
    >>> effects = pd.DataFrame(
    ...     {"level": [0.5, -0.5], "standard_error": [0.1, 0.2], "raw_level": [0.6, -0.7]}, index=["a", "b"]
    ... )
    >>> TaskEffectsDisplay(effects).shown_
    ['b', 'a']
    """

    def __init__(
        self, effects: Any, *, column: str | None = None, groups: Sequence[Any] = (), unit: str = "units of the target"
    ) -> None:
        self.effects, self.groups = effects, list(groups)
        self.unit = unit if column is None else f"{unit} per unit of {column}"
        self.name = "level" if column is None else f"slope of {column}"
        if self.name not in effects:
            known = [key.removeprefix("slope of ") for key in effects if key.startswith("slope of ")]
            raise ValueError(f"the effects have no slope of {column!r}; they have slopes of {listing(known) or 'none'}")
        if unknown := [group for group in self.groups if group not in effects.index]:
            raise ValueError(f"unknown groups {listing(unknown)}; the effects have {listing(effects.index.tolist())}")
        self.values = effects[self.name].to_numpy(dtype=float)
        error = "standard_error" if column is None else f"standard_error of {column}"
        self.half = norm.ppf(0.5 + 0.5 * COVERAGE) * effects[error].to_numpy(dtype=float)
        labels = effects.index[np.argsort(self.values, kind="stable")].tolist()
        shown = {*labels[: SHOWN // 2], *labels[-SHOWN // 2 :], *groups} if len(labels) > SHOWN else set(labels)
        self.shown_ = [label for label in labels if label in shown]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        grouping: Any = None,
        column: str | None = None,
        groups: Sequence[Any] = (),
        ax: Any = None,
    ) -> Self:
        """Draw the effects of the groups of a fitted Kin model.

        Parameters
        ----------
        estimator : fitted KinRegressor or KinClassifier
        grouping : as for `task_effects`, optional
        column, groups : see above
        ax : matplotlib axes, optional
        """
        check_is_fitted(estimator)
        effects = estimator.task_effects(grouping)
        return cls(effects, column=column, groups=groups, unit=effect_unit(estimator)).plot(ax)

    def _draw(self, ax: Any) -> None:
        label = f"{self.name}, relative to the average group ({self.unit})"
        self.ax_ = task_axes(ax, np.array(self.shown_, dtype=object), label, self.effects.index.name or "group")
        at = self.effects.index.get_indexer(self.shown_)
        values, half, y = self.values[at], self.half[at], np.arange(len(at))
        named = np.isin(at, self.effects.index.get_indexer(self.groups)) if self.groups else np.zeros(len(at), bool)
        with_raw = self.name == "level" and "raw_level" in self.effects
        self.ax_.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        text = f"{'pooled, ' if with_raw else ''}with a {COVERAGE:.0%} interval"
        for rows, label, kind in ((~named, text, 0), (named, "named", 1)):
            color, marker = COLORS[4 * kind], MARKERS[kind]
            if rows.any():
                ends = values[rows] - half[rows], values[rows] + half[rows]
                self.ax_.hlines(y[rows], *ends, color=color, linewidth=1.5, zorder=2)
                self.ax_.scatter(values[rows], y[rows], label=label, color=color, marker=marker, s=22, zorder=3)
        if with_raw:
            self._draw_raw(self.effects["raw_level"].to_numpy(dtype=float)[at], values, y)
        rank = np.argsort(np.argsort(self.values, kind="stable"), kind="stable")[at]
        for gap in np.flatnonzero(np.diff(rank) > 1).tolist():
            self.ax_.axhline(gap + 0.5, color="0.6", linewidth=0.8, linestyle=":")
            text, back = f"{rank[gap + 1] - rank[gap] - 1} more", self.ax_.get_facecolor()
            style: dict[str, Any] = {"ha": "right", "va": "center", "size": 8, "color": "0.5"}
            self.ax_.annotate(text, (1.0, gap + 0.5), xycoords=("axes fraction", "data"), backgroundcolor=back, **style)
        add_legend(self.ax_, 3)

    def _draw_raw(self, raw: np.ndarray, values: np.ndarray, y: np.ndarray) -> None:
        hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": "0.5", "linewidths": 1.0, "marker": "s"}
        self.ax_.scatter(raw, y - 0.25, label="without pooling", s=16, zorder=1.5, **hollow)
        far = np.abs(raw - values) > 0.02 * np.ptp(np.append(raw, values))
        arrow = {"arrowstyle": "->", "color": "0.45", "linewidth": 0.8, "shrinkA": 2, "shrinkB": 3}
        for start, end, row in zip(raw[far], values[far], y[far], strict=True):
            self.ax_.annotate("", (end, row), (start, row - 0.25), arrowprops=arrow, zorder=1)


class VarianceSharesDisplay(Display):
    """Shares of variance by term, as bars: what lies between groups, in columns, and in noise.

    Parameters
    ----------
    shares : dict from str to float
        `variance_components_` of a Kin model.

    Attributes
    ----------
    bars_ : dict from the name of a term to its bar.
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> from kernelkin.plots import VarianceSharesDisplay
    >>> display = VarianceSharesDisplay({"level": 0.6, "linear": 0.1, "noise": 0.3})
    """

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.shares = dict(shares)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the `variance_components_` of a fitted Kin model.

        Parameters
        ----------
        estimator : fitted KinRegressor or KinClassifier
        ax : matplotlib axes, optional
        """
        check_is_fitted(estimator)
        return cls(estimator.variance_components_).plot(ax)

    def _draw(self, ax: Any) -> None:
        names, values = list(self.shares), np.array(list(self.shares.values()))
        height = extent(len(names), 0.32, 1.0, 5.0)
        self.ax_ = new_axes(ax, 5.0, height, (0.3 + labels_extent(names, height), 0.8))
        self.bars_: dict[str, Any] = {}
        for label, (color, *kinds) in KINDS.items():
            at = np.flatnonzero([term_kind(name) in kinds for name in names])
            bars = self.ax_.barh(at, values[at], color=color, edgecolor="0.2", linewidth=0.6, label=label)
            self.ax_.bar_label(bars, [f"{value:.0%}" for value in values[at]], padding=3, size=9)
            self.bars_ |= dict(zip([names[i] for i in at], bars, strict=True))
        label_ticks(self.ax_.yaxis, names)
        self.ax_.set(
            xlabel="share of the variance of the target", ylim=(len(names) - 0.4, -0.6), xlim=(0.0, 1.15 * values.max())
        )
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        add_legend(self.ax_, 3)


class ColumnEffectDisplay(Display):
    """The effect of a column: the curve of the average group with its band, and the curves of groups in thin lines.

    A point of a curve is the mean prediction if all training rows (50 with the same means) had this value of the
    column. For more than two classes, there is a curve of the mean probability of each class.

    Parameters
    ----------
    effect : ColumnEffect
        The result of `kernelkin.kin.effects.column_effect`.
    column : str
    groups : sequence of labels, optional
        Groups whose curves are highlighted.
    unit : str, default "units of the target"

    Attributes
    ----------
    ax_, figure_ : the axes and the figure.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.kin.effects import ColumnEffect
    >>> from kernelkin.plots import ColumnEffectDisplay
    >>> effect = ColumnEffect(np.arange(3.0), np.zeros(3), np.ones(3), np.ones((1, 3)), np.array(["a"]))
    >>> display = ColumnEffectDisplay(effect, "size", groups=["a"])
    """

    def __init__(
        self, effect: Any, column: Any, *, groups: Sequence[Any] = (), unit: str = "units of the target"
    ) -> None:
        self.effect, self.column, self.unit = effect, column, unit
        self.groups = list(effect.groups if effect.mean is None else groups)

    @classmethod
    def from_estimator(cls, estimator: Any, column: Any, *, groups: Sequence[Any] = (), ax: Any = None) -> Self:
        """Draw the effect of a column on the target of a fitted Kin model.

        Parameters
        ----------
        estimator : fitted KinRegressor or KinClassifier
        column : str or int
            The name of the column, or its position if X was an array.
        groups : sequence of labels, optional
            Groups whose curves are highlighted. Others are drawn thin, at most 100 of them.
        ax : matplotlib axes, optional
        """
        check_is_fitted(estimator)
        labels = [] if many_classes(estimator.functions_) else find_grouping(estimator, None)[1].tolist()
        drawn = labels[:: max(1, -(-len(labels) // CURVES))] if len(labels) > 1 else []
        effect = column_effect(estimator, column, [*drawn, *(label for label in groups if label not in drawn)])
        return cls(effect, column, groups=groups, unit=effect_unit(estimator)).plot(ax)

    def _draw(self, ax: Any) -> None:
        effect = self.effect
        is_text = effect.values.dtype.kind in "OU"
        x = np.arange(len(effect.values)) if is_text else effect.values
        self.ax_ = new_axes(ax, 5.5, 3.8, (1.0, 1.0 + (labels_extent(effect.values, 5.5) if is_text else 0.0)))
        named = np.array([group in self.groups for group in effect.groups.tolist()], dtype=bool)
        if not named.all():
            thin: dict[str, Any] = {"linewidth": 0.9 if (~named).sum() <= 10 else 0.4, "marker": "." if is_text else ""}
            lines = self.ax_.plot(x, effect.curves[~named].T, color="0.65", zorder=1, **thin)
            lines[0].set_label("groups")
        for i, at in enumerate(np.flatnonzero(named).tolist()):
            color, marker = NAMED[i % len(NAMED)], MARKERS[(i + 1) % len(MARKERS)]
            style: dict[str, Any] = {"color": color, "marker": marker, "markersize": 4, "linewidth": 1.2, "zorder": 3}
            label = shorten(effect.groups)[at]
            self.ax_.plot(x, effect.curves[at], markevery=max(1, len(x) // 10), label=label, **style)
        if is_text:
            label_ticks(self.ax_.xaxis, effect.values)
        half = None if effect.mean is None else norm.ppf(0.5 + 0.5 * COVERAGE) * effect.standard_error
        if half is not None and is_text:
            self.ax_.errorbar(x, effect.mean, half, fmt="o", color=COLORS[0], zorder=4, label="average group")
        elif half is not None:
            band: dict[str, Any] = {"color": COLORS[0], "alpha": 0.25, "linewidth": 0, "label": f"{COVERAGE:.0%} band"}
            self.ax_.fill_between(x, effect.mean - half, effect.mean + half, zorder=2, **band)
            self.ax_.plot(x, effect.mean, color=COLORS[0], linewidth=2.2, zorder=4, label="average group")
        if effect.values.dtype.kind == "M":
            from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

            locator = AutoDateLocator()
            self.ax_.xaxis.set_major_locator(locator)
            self.ax_.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        name = f"column {self.column}" if isinstance(self.column, int) else str(self.column)
        self.ax_.set(xlabel=name, ylabel=f"mean prediction ({self.unit})")
        add_legend(self.ax_, 3)
