"""The demo: real data with few rows in each group, predicted by KinRegressor and by common alternatives.

The data come with statsmodels, so nothing is downloaded.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..files import check_writable, open_whole, write_whole
from ..kin.estimators import KinRegressor
from ..progress import Progress
from ..relations.baselines import BOOSTING, KIN, ONE_FOR_ALL, SEPARATE, LinearMixedModel, make_baselines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .terminal import Terminal

CUBIC = "a mixed model, cubic"
# Seconds that models take on the data of the default.
WORK = {KIN: 6.0, SEPARATE: 2.0, ONE_FOR_ALL: 1.0, BOOSTING: 4.0}
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#9a9a9a"


class Panel(NamedTuple):
    """A data set with groups: columns X (n, d), targets y (n,) and groups (n,).

    `question` is that of the demo; `unit` and `axis` are names of the target and of the first column, for figures.
    """

    question: str
    unit: str
    axis: str
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray

    def draw(self, rows: int, seed: int) -> np.ndarray:
        """Return a mask of training rows: `rows` random rows of each group."""
        rng, train = np.random.default_rng(seed), np.zeros(len(self.y), dtype=bool)
        for group in np.unique(self.groups):
            train[rng.permutation(np.flatnonzero(self.groups == group))[:rows]] = True
        return train


def load_panel(name: str) -> Panel:
    """Return births in countries, investment of firms, or temperature of the sea; all come with statsmodels."""
    try:
        table = import_module(f"statsmodels.datasets.{name}").load_pandas().data
    except ImportError as error:
        raise ImportError("the data of the demo come with statsmodels: install kernelkin[demo]") from error
    if name == "fertility":
        years = [column for column in table.columns if column.isdigit()]
        table = table.melt("Country Name", years, "year", "births").dropna()
        about, unit = "Births per woman in 210 countries: {rows} years", "births per woman"
        group, target, columns = "Country Name", "births", ["year"]
    elif name == "grunfeld":
        about, unit = "Investment of 11 firms: {rows} years", "investment, million dollars"
        group, target, columns = "firm", "invest", ["year", "value", "capital"]
    else:
        table = table.set_axis(["year", *range(1, 13)], axis="columns").astype({"year": int})
        table = table.melt("year", var_name="month", value_name="heat").sort_values(["year", "month"])
        about, unit = "Temperature of the sea in 61 years: {rows} months", "°C"
        group, target, columns = "year", "heat", ["month"]
    question = f"{about} of each are known. Which model predicts the others?"
    X, y, groups = table[columns].to_numpy(float), table[target].to_numpy(float), table[group].to_numpy(str)
    return Panel(question, unit, columns[0], X, y, groups)


class Cubic(LinearMixedModel):
    """A linear mixed model with the squares and cubes of the columns."""

    def _columns(self, X: Any) -> np.ndarray:
        X = super()._columns(X)
        if not hasattr(self, "range_"):
            self.range_ = X.mean(axis=0), X.std(axis=0)
        Z = (X - self.range_[0]) / self.range_[1]
        return np.hstack([Z, Z**2, Z**3])


def make_models() -> dict[str, Any]:
    """Return unfitted models by name, each with `fit(X, y, tasks)` and `predict(X, tasks)`."""
    return {KIN: KinRegressor(random_state=0), CUBIC: Cubic(), **make_baselines(classification=False)}


class DemoResult(NamedTuple):
    """Errors and times of each model in each draw, and predictions and intervals for all rows in the first draw."""

    panel: Panel
    train: np.ndarray
    errors: dict[str, list[float]]
    seconds: dict[str, list[float]]
    values: dict[str, np.ndarray]
    interval: np.ndarray

    def means(self) -> dict[str, float]:
        """Return the mean RMSE by model, in ascending order."""
        means = {name: float(np.mean(errors)) for name, errors in self.errors.items()}
        return dict(sorted(means.items(), key=lambda item: item[1]))

    def best_other(self) -> str:
        """Return the name of the best model other than Kin."""
        return next(name for name in self.means() if name != KIN)


def run(arguments: Namespace, terminal: Terminal) -> DemoResult:
    """Fit all models to random rows of each group, print their errors on the other rows, and draw a figure."""
    began, folder, rows, draws = time.perf_counter(), Path(arguments.out), arguments.rows, arguments.draws
    if rows < 2 or draws < 1:
        raise ValueError(f"the demo needs two rows of each group and one draw at least, not {rows} and {draws}")
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder / "results.json")
    panel = load_panel(arguments.data)
    terminal.say(panel.question.format(rows=rows), "")
    outcome = _compare(terminal, panel, rows, draws)
    _show(terminal, outcome)
    settings = {"data": arguments.data, "rows": rows, "draws": draws, "groups": len(np.unique(panel.groups))}
    stored = {**settings, "unit": panel.unit, "rmse": outcome.errors, "seconds": outcome.seconds}
    write_whole(folder / "results.json", json.dumps(stored, indent=1))
    with open_whole(folder / "demo.png") as file:
        _draw(outcome).savefig(file, format="png", dpi=120)
    terminal.say("", "Written:", f"  {folder / 'demo.png'}", f"  {folder / 'results.json'}")
    terminal.say("", f"Done in {time.perf_counter() - began:.0f} s.")
    return outcome


def _compare(terminal: Terminal, panel: Panel, rows: int, draws: int) -> DemoResult:
    masks = [panel.draw(rows, seed) for seed in range(draws)]
    errors, seconds = ({name: list[float]() for name in make_models()} for _ in range(2))
    outcome = DemoResult(panel, masks[0], errors, seconds, {}, np.empty((len(panel.y), 2)))
    with Progress(draws * len(errors), weights=[WORK.get(name, 0.2) for name in errors] * draws) as progress:
        for draw, train in enumerate(masks):
            for name, model in make_models().items():
                progress.begin(name if draws == 1 else f"draw {draw + 1}: {name}")
                began = time.perf_counter()
                model.fit(panel.X[train], panel.y[train], panel.groups[train])
                values = model.predict(panel.X, panel.groups)
                seconds[name].append(time.perf_counter() - began)
                errors[name].append(float(np.sqrt(np.mean((values - panel.y)[~train] ** 2))))
                outcome.values.setdefault(name, values)
                if name == KIN and draw == 0:
                    outcome.interval[:] = model.predict_interval(panel.X, panel.groups)
    return outcome


def _show(terminal: Terminal, outcome: DemoResult) -> None:
    panel, means, other = outcome.panel, outcome.means(), outcome.best_other()
    spread = panel.y[~outcome.train].std()
    rows = [
        [name, f"{error:.3g}", f"{1 - (error / spread) ** 2:.3f}", f"{np.mean(outcome.seconds[name]):.1f}"]
        for name, error in means.items()
    ]
    terminal.table(["model", f"RMSE ({panel.unit})", "R²", "seconds"], rows)
    change = means[KIN] / means[other] - 1
    held, (low, high) = ~outcome.train, outcome.interval.T
    covered = np.mean((low <= panel.y) & (panel.y <= high), where=held)
    terminal.say(
        "",
        f"The error of Kin is {abs(change):.0%} {'below' if change < 0 else 'above'} that of the best other: {other}.",
        f"{covered:.0%} of the rows that were held out are in Kin's 90% intervals.",
    )


def _draw(outcome: DemoResult) -> Figure:
    """Draw the errors of all models, and two models with the data of three groups: large, median and small gain."""
    from matplotlib.figure import Figure

    panel, other = outcome.panel, outcome.best_other()
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    bars, *axes = figure.subplots(1, 4, gridspec_kw={"width_ratios": [1.15, 1, 1, 1]})
    _draw_errors(bars, outcome)
    names, codes = np.unique(panel.groups, return_inverse=True)
    held = np.bincount(codes, ~outcome.train)
    errors = {
        name: np.sqrt(np.bincount(codes, np.where(outcome.train, 0.0, values - panel.y) ** 2) / np.maximum(held, 1))
        for name, values in outcome.values.items()
    }
    gains = errors[other] - errors[KIN]
    order = np.argsort(-gains)
    for which, share, axis in zip(("top 5%", "median", "bottom 5%"), (0.05, 0.5, 0.95), axes, strict=True):
        k = order[int(share * (len(order) - 1))]
        note = f"{which}: RMSE {abs(gains[k]):.2g} {'lower' if gains[k] >= 0 else 'higher'}"
        _draw_group(axis, outcome, names[k], other, note)
    axes[0].set_ylabel(panel.unit)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_errors(axes: Axes, outcome: DemoResult) -> None:
    means = outcome.means()
    names = list(means)[::-1]
    axes.barh(names, [means[name] for name in names], color=[BLUE if name == KIN else GREY for name in names])
    for i, name in enumerate(names):
        axes.text(means[name], i, f" {means[name]:.3g}", va="center")
    axes.set(xlabel=f"RMSE on rows held out\n({outcome.panel.unit})", xlim=(0, 1.2 * max(means.values())))
    axes.set_yticks(
        range(len(names)), [name.replace(", ", ",\n").replace("model for each", "model\nfor each") for name in names]
    )
    axes.spines[["top", "right"]].set_visible(False)


def _draw_group(axes: Axes, outcome: DemoResult, group: str, other: str, note: str) -> None:
    panel = outcome.panel
    rows = np.flatnonzero(panel.groups == group)
    rows = rows[np.argsort(panel.X[rows, 0])]
    x, known = panel.X[rows, 0], outcome.train[rows]
    axes.fill_between(x, *outcome.interval[rows].T, color=BLUE, alpha=0.15, linewidth=0, label="Kin, 90% interval")
    axes.plot(x, outcome.values[other][rows], color=ORANGE, linestyle="--", linewidth=1.5, label=other)
    axes.plot(x, outcome.values[KIN][rows], color=BLUE, linewidth=2.2, label=KIN)
    axes.plot(x[~known], panel.y[rows][~known], ".", color=GREY, markersize=4, label="held out")
    axes.plot(x[known], panel.y[rows][known], "o", color="black", markersize=6, label="known")
    axes.set_title(group, pad=18)
    axes.text(0.5, 1.01, note, transform=axes.transAxes, ha="center", fontsize=9, color="0.3")
    axes.set_xlabel(panel.axis)
    axes.spines[["top", "right"]].set_visible(False)
