"""The demo: real data with few rows in each group, predicted by KinRegressor and by common alternatives.

`make demo` runs it on births per woman; `python -m examples.demo --help` shows how to run it on other data. The data
come with statsmodels, so nothing is downloaded.
"""

import json
import sys
import time
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.preprocessing import StandardScaler

from kernelkin import KinRegressor
from kernelkin.relations import GradientBoosting, LinearMixedModel, OneModel, SeparateModels

KIN = "Kin"
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

    def sample(self, rows, seed):
        """Return a mask of training rows: `rows` random rows of each group."""
        rng, train = np.random.default_rng(seed), np.zeros(len(self.y), dtype=bool)
        for group in np.unique(self.groups):
            train[rng.permutation(np.flatnonzero(self.groups == group))[:rows]] = True
        return train


def load_panel(name):
    """Return births in countries, investment of firms, or temperature of the sea."""
    table = import_module(f"statsmodels.datasets.{name}").load_pandas().data
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


class CubicMixedModel:
    """A linear mixed model with the squares and cubes of the columns."""

    def fit(self, X, y, tasks):
        self.scaler = StandardScaler().fit(X)
        self.model = LinearMixedModel().fit(self._powers(X), y, tasks)
        return self

    def predict(self, X, tasks):
        return self.model.predict(self._powers(X), tasks)

    def _powers(self, X):
        Z = self.scaler.transform(X)
        return np.hstack([Z, Z**2, Z**3])


def make_models():
    """Return unfitted models by name, each with `fit(X, y, tasks)` and `predict(X, tasks)`."""
    return {
        KIN: KinRegressor(random_state=0),
        "a mixed model, cubic": CubicMixedModel(),
        "a separate model for each group": SeparateModels(),
        "one model for all, group as a column": OneModel(),
        "a linear mixed model": LinearMixedModel(),
        "gradient boosting": GradientBoosting(),
    }


class DemoResult(NamedTuple):
    """Errors and times of each model in each draw, and predictions and intervals for all rows in the first draw."""

    panel: Panel
    train: np.ndarray
    errors: dict[str, list[float]]
    seconds: dict[str, list[float]]
    values: dict[str, np.ndarray]
    interval: np.ndarray

    def means(self):
        """Return the mean RMSE by model, in ascending order."""
        means = {name: float(np.mean(errors)) for name, errors in self.errors.items()}
        return dict(sorted(means.items(), key=lambda item: item[1]))

    def best_other(self):
        """Return the name of the best model other than Kin."""
        return next(name for name in self.means() if name != KIN)


def main(argv=None):
    """Fit all models to random rows of each group, print their errors on the other rows, and draw a figure."""
    parser = ArgumentParser(prog="python -m examples.demo", description=main.__doc__)
    parser.add_argument("-o", "--out", type=Path, default="demo", help="folder for the figure (default: demo)")
    parser.add_argument(
        "--data",
        choices=("fertility", "grunfeld", "elnino"),
        default="fertility",
        help="births in countries (default), investment of firms, or temperature of the sea",
    )
    parser.add_argument("--rows", type=int, default=4, help="training rows of each group (default: 4)")
    parser.add_argument("--draws", type=int, default=1, help="how often training rows are drawn (default: 1)")
    given = parser.parse_args(argv)
    if given.rows < 2 or given.draws < 1:
        parser.error(f"two rows of each group and one draw are needed at least, not {given.rows} and {given.draws}")
    began, panel = time.perf_counter(), load_panel(given.data)
    given.out.mkdir(parents=True, exist_ok=True)
    print(panel.question.format(rows=given.rows), end="\n\n", flush=True)
    result = compare(panel, given.rows, given.draws)
    show(result)
    settings = {"data": given.data, "rows": given.rows, "draws": given.draws, "groups": len(np.unique(panel.groups))}
    stored = {**settings, "unit": panel.unit, "rmse": result.errors, "seconds": result.seconds}
    (given.out / "results.json").write_text(json.dumps(stored, indent=1))
    draw_figure(result).savefig(given.out / "demo.png", dpi=120)
    print("", "Written:", f"  {given.out / 'demo.png'}", f"  {given.out / 'results.json'}", sep="\n")
    print(f"\nDone in {time.perf_counter() - began:.0f} s.")
    return result


def compare(panel, rows, draws):
    masks = [panel.sample(rows, seed) for seed in range(draws)]
    errors, seconds = ({name: [] for name in make_models()} for _ in range(2))
    result = DemoResult(panel, masks[0], errors, seconds, {}, np.empty((len(panel.y), 2)))
    for draw, train in enumerate(masks):
        for name, model in make_models().items():
            print(f"[draw {draw + 1} of {draws}] {name}", file=sys.stderr, flush=True)
            began = time.perf_counter()
            model.fit(panel.X[train], panel.y[train], panel.groups[train])
            values = model.predict(panel.X, panel.groups)
            seconds[name].append(time.perf_counter() - began)
            errors[name].append(float(np.sqrt(np.mean((values - panel.y)[~train] ** 2))))
            result.values.setdefault(name, values)
            if name == KIN and draw == 0:
                result.interval[:] = model.predict_interval(panel.X, panel.groups)
    return result


def show(result):
    """Print the table of errors, and two sentences on Kin."""
    panel, means, other, held = result.panel, result.means(), result.best_other(), ~result.train
    spread, title, width = panel.y[held].std(), f"RMSE ({panel.unit})", max(map(len, result.errors))
    head = f"{'model':<{width}}  {title}      R²  seconds"
    print(head, "-" * len(head), sep="\n")
    for name, error in means.items():
        explained, seconds = 1 - (error / spread) ** 2, np.mean(result.seconds[name])
        print(f"{name:<{width}}  {error:>{len(title)}.3g}  {explained:>6.3f}  {seconds:>7.1f}")
    change, (low, high) = means[KIN] / means[other] - 1, result.interval.T
    covered = np.mean((low <= panel.y) & (panel.y <= high), where=held)
    side = "below" if change < 0 else "above"
    print(f"\nThe error of Kin is {abs(change):.0%} {side} that of the best other: {other}.")
    print(f"{covered:.0%} of the rows that were held out are in Kin's 90% intervals.")


def draw_figure(result):
    """Draw the errors of all models, and two models with the data of three groups: large, median and small gain."""
    panel, other = result.panel, result.best_other()
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    bars, *axes = figure.subplots(1, 4, gridspec_kw={"width_ratios": [1.15, 1, 1, 1]})
    draw_errors(bars, result)
    names, codes = np.unique(panel.groups, return_inverse=True)
    held = np.bincount(codes, ~result.train)
    errors = {
        name: np.sqrt(np.bincount(codes, np.where(result.train, 0.0, values - panel.y) ** 2) / np.maximum(held, 1))
        for name, values in result.values.items()
    }
    gains = errors[other] - errors[KIN]
    order = np.argsort(-gains)
    for which, share, axis in zip(("top 5%", "median", "bottom 5%"), (0.05, 0.5, 0.95), axes, strict=True):
        k = order[int(share * (len(order) - 1))]
        note = f"{which}: RMSE {abs(gains[k]):.2g} {'lower' if gains[k] >= 0 else 'higher'}"
        draw_group(axis, result, names[k], other, note)
    axes[0].set_ylabel(panel.unit)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def draw_errors(axes, result):
    means = result.means()
    names = list(means)[::-1]
    axes.barh(names, [means[name] for name in names], color=[BLUE if name == KIN else GREY for name in names])
    for i, name in enumerate(names):
        axes.text(means[name], i, f" {means[name]:.3g}", va="center")
    axes.set(xlabel=f"RMSE on rows held out\n({result.panel.unit})", xlim=(0, 1.2 * max(means.values())))
    axes.set_yticks(
        range(len(names)), [name.replace(", ", ",\n").replace("model for each", "model\nfor each") for name in names]
    )
    axes.spines[["top", "right"]].set_visible(False)


def draw_group(axes, result, group, other, note):
    panel = result.panel
    rows = np.flatnonzero(panel.groups == group)
    rows = rows[np.argsort(panel.X[rows, 0])]
    x, known = panel.X[rows, 0], result.train[rows]
    axes.fill_between(x, *result.interval[rows].T, color=BLUE, alpha=0.15, linewidth=0, label="Kin, 90% interval")
    axes.plot(x, result.values[other][rows], color=ORANGE, linestyle="--", linewidth=1.5, label=other)
    axes.plot(x, result.values[KIN][rows], color=BLUE, linewidth=2.2, label=KIN)
    axes.plot(x[~known], panel.y[rows][~known], ".", color=GREY, markersize=4, label="held out")
    axes.plot(x[known], panel.y[rows][known], "o", color="black", markersize=6, label="known")
    axes.set_title(group, pad=18)
    axes.text(0.5, 1.01, note, transform=axes.transAxes, ha="center", fontsize=9, color="0.3")
    axes.set_xlabel(panel.axis)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
