"""The demo: sales of shops with few days each, predicted by KinRegressor and by common alternatives."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..datasets._shops import make_shops
from ..files import Folder, open_whole
from ..kin.estimators import KinRegressor
from ..paper.model_selection.cv import MultiTaskCV
from ..paper.models.machines import AverageRegressor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .terminal import Terminal

# Held-out days of each shop.
TEST_DAYS = 200
OURS = "KinRegressor"
POOLED = "gradient boosting, all shops, shop as category"
BOOSTING_GRID = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 31], "min_samples_leaf": [5]}
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#9a9a9a"


class DemoResult:
    """Scores of every model on every draw, and the models and data of the first draw.

    Attributes
    ----------
    scores : R^2 on held-out days (n_shops,), for each draw, by model.
    seconds : the run time of each model on each draw.
    models, data : the models fitted to the first draw, and the first draw.
    """

    def __init__(self) -> None:
        self.scores: dict[str, list[np.ndarray]] = {}
        self.seconds: dict[str, list[float]] = {}
        self.models: dict[str, Any] = {}
        self.data: Any = None

    def add(self, name: str, model: Any, data: Any) -> None:
        """Fit a model to a draw and score it on the held-out days."""
        began = time.perf_counter()
        model.fit(data.data, data.target, tasks=data.tasks)
        values = model.predict(data.data_test, tasks=data.tasks_test)
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)
        y, shops = data.target_test, data.tasks_test
        scores = [r2_score(y[shops == shop], values[shops == shop]) for shop in np.unique(shops)]
        self.scores.setdefault(name, []).append(np.array(scores))
        self.models.setdefault(name, model)
        self.data = data if self.data is None else self.data

    def means(self) -> dict[str, float]:
        """Return the mean R^2 over shops and draws, by model."""
        return {name: float(np.mean(scores)) for name, scores in self.scores.items()}


def run_demo(
    terminal: Terminal, folder: str | Path = "demo", *, n_shops: int = 12, n_days: int = 15, n_draws: int = 1
) -> DemoResult:
    """Fit all models to each draw, print their scores on held-out days, and draw a figure."""
    began = time.perf_counter()
    Folder(folder).prepare()
    draws = [make_shops(n_shops, n_days, test_size=TEST_DAYS, random_state=seed) for seed in range(n_draws)]
    names = list(make_models())
    terminal.say(
        f"Sales of {n_shops} shops with {n_days} days each: seven columns, of which three matter; a part of the",
        "function is common to all shops, the rest is each shop's own. Which model predicts other days best?",
        "",
    )
    result = DemoResult()
    with terminal.progress(n_draws * len(names)) as progress:
        for draw, data in enumerate(draws, 1):
            for name, model in make_models(n_jobs=-1).items():
                progress.begin(name if n_draws == 1 else f"draw {draw}: {name}")
                result.add(name, model, data)
    terminal.table(["model", "R²", "± s.e.", f"gain of {OURS}", "seconds"], table_rows(result))
    _show_choice(terminal, result)
    _keep(terminal, result, Path(folder), {"n_shops": n_shops, "n_days": n_days, "n_draws": n_draws})
    terminal.say("", f"Done in {time.perf_counter() - began:.0f} s.")
    return result


def table_rows(result: DemoResult) -> list[list[str]]:
    """Return a row for each model, best first: score, standard error, gain of KinRegressor, time."""
    means, ours = result.means(), result.scores[OURS]
    rows = []
    for name in sorted(means, key=lambda name: -means[name]):
        gains = [our_score - their_score for our_score, their_score in zip(ours, result.scores[name], strict=True)]
        gain = "" if name == OURS else f"{np.mean(gains):+.3f} ± {_standard_error(gains):.3f}"
        seconds = f"{np.mean(result.seconds[name]):.1f}"
        rows.append([name, f"{means[name]:.3f}", f"{_standard_error(result.scores[name]):.3f}", gain, seconds])
    return rows


def _standard_error(scores: Sequence[np.ndarray]) -> float:
    """Return the standard error over draws or, for a single draw, over shops."""
    values = scores[0] if len(scores) == 1 else np.mean(scores, axis=1)
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _show_choice(terminal: Terminal, result: DemoResult) -> None:
    means, model = result.means(), result.models[OURS]
    other = max((name for name in means if name != OURS), key=lambda name: means[name])
    left, before = 1 - means[OURS], 1 - means[other]
    change = f"{1 - left / before:.0%} less" if left < before else f"{left / before - 1:.0%} more"
    terminal.say(
        "",
        f"± is the standard error over {'draws' if len(result.scores[OURS]) > 1 else 'shops'}.",
        f"{OURS} leaves {change} variance unexplained than the best other model here ({other}).",
        *model.explain().replace(". ", ".\n").split("\n"),
    )


def _keep(terminal: Terminal, result: DemoResult, folder: Path, settings: dict[str, int]) -> None:
    """Write the scores, and the figure of the first draw."""
    stored = {
        **settings,
        "scores": {name: [float(np.mean(draw)) for draw in scores] for name, scores in result.scores.items()},
        "seconds": {name: float(np.mean(seconds)) for name, seconds in result.seconds.items()},
    }
    with open_whole(folder / "results.json") as file:
        file.write(json.dumps(stored, indent=1).encode())
    with open_whole(folder / "shops.png") as file:
        _draw_demo(result, OURS, POOLED).savefig(file, format="png", dpi=120)
    terminal.say("", "Written:", f"  {folder / 'shops.png'}", f"  {folder / 'results.json'}")


def _draw_demo(result: DemoResult, ours: str, other: str) -> Figure:
    """Draw the mean scores, and for two shops the true sales over the year and those predicted by two models."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    bars, *seasons = figure.subplots(1, 3, gridspec_kw={"width_ratios": [1.2, 1, 1]})
    _draw_scores(bars, result, ours)
    gains = result.scores[ours][0] - result.scores[other][0]
    order = np.argsort(gains)
    # A typical shop, and the one with the smallest gain, which may be a loss.
    shops = {"median": int(order[len(order) // 2]), "smallest": int(order[0])}
    for axes, (which, shop) in zip(seasons, shops.items(), strict=True):
        _draw_season(axes, result, shop, ours, other, f"{which} gain in R²: {gains[shop]:+.2f}")
    seasons[0].set_ylabel("sales")
    figure.legend(*seasons[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_scores(axes: Axes, result: DemoResult, ours: str) -> None:
    means = result.means()
    names = sorted(means, key=lambda name: means[name])
    colors = [BLUE if name == ours else GREY for name in names]
    axes.barh([name.replace(", ", ",\n", 1) for name in names], [means[name] for name in names], color=colors)
    for i, name in enumerate(names):
        axes.text(max(means[name], 0) + 0.01, i, f"{means[name]:.2f}", va="center")
    axes.set(xlabel="mean R² of the shops, held-out days", title="How well sales are predicted")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_season(axes: Axes, result: DemoResult, shop: int, ours: str, other: str, note: str) -> None:
    """Draw sales over the year, other columns at their training means, and the training days of the shop."""
    data = result.data
    name = data.task_names[shop]
    own = data.tasks == name
    grid = np.repeat(data.data.mean(axis=0)[np.newaxis], 200, axis=0)
    grid[:, 0] = np.linspace(1, 365, 200)
    # Temperature follows the season, as in the data.
    slope = np.polyfit(np.cos(2 * np.pi * data.data[:, 0] / 365), data.data[:, 1], 1)
    grid[:, 1] = np.polyval(slope, np.cos(2 * np.pi * grid[:, 0] / 365))
    tasks = np.repeat(name, len(grid))
    axes.plot(grid[:, 0], data.functions(grid)[:, shop], color="black", linewidth=1.5, label="expected sales")
    axes.plot(grid[:, 0], result.models[ours].predict(grid, tasks), color=BLUE, linewidth=2.5, label=ours)
    axes.plot(grid[:, 0], result.models[other].predict(grid, tasks), color=ORANGE, linestyle="--", label=other)
    axes.plot(data.data[own, 0], data.target[own], "o", color=GREY, markersize=5, label="training days of the shop")
    axes.set(xlabel="day of the year", title=f"{name}\n{note}")
    axes.spines[["top", "right"]].set_visible(False)


def make_models(n_jobs: int | None = None) -> dict[str, Any]:
    """Return unfitted models by name, each with `fit(X, y, tasks)` and `predict(X, tasks)`.

    `n_jobs` applies to the models of this library. For the others, the data are too small to gain from processes.
    """
    folds = KFold(5, shuffle=True, random_state=0)
    forest = RandomForestRegressor(100, random_state=0)
    boosting = GridSearchCV(HistGradientBoostingRegressor(random_state=0), BOOSTING_GRID, cv=folds)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
    average = MultiTaskCV(AverageRegressor(), {"C": np.logspace(-2, 3, 11)}, random_state=0, n_jobs=n_jobs)
    return {
        OURS: KinRegressor(random_state=0, n_jobs=n_jobs),
        POOLED: StandardTargets(TaskAsCategory(boosting)),
        "random forest, one model per shop": OneModelPerTask(forest),
        "gradient boosting, one model per shop": OneModelPerTask(boosting),
        "ridge regression, one model per shop": OneModelPerTask(ridge),
        "average of kernels, C tuned": StandardTargets(average, columns=True),
    }


class OneModelPerTask(BaseEstimator):
    """A clone of a scikit-learn regressor for each task."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.models_ = {
            task: clone(self.estimator).fit(X[tasks == task], y[tasks == task]) for task in np.unique(tasks)
        }
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        values = np.empty(len(X))
        for task in np.unique(tasks):
            values[tasks == task] = self.models_[task].predict(X[tasks == task])
        return values


class TaskAsCategory(BaseEstimator):
    """One scikit-learn gradient boosting model on the rows of all tasks, with the task as a categorical column."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.tasks_ = np.unique(tasks)
        self.model_ = clone(self.estimator).set_params(estimator__categorical_features=[X.shape[1]])
        self.model_.fit(self._table(X, tasks), y)
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._table(X, tasks))

    def _table(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.searchsorted(self.tasks_, tasks)])


class StandardTargets(BaseEstimator):
    """A multi-task model on targets that are standardised within each task, because shops differ in size.

    Parameters
    ----------
    estimator : model with `fit(X, y, tasks)` and `predict(X, tasks)`
    columns : bool
        Whether to standardise the columns of X too.
    """

    def __init__(self, estimator: Any, columns: bool = False) -> None:
        self.estimator = estimator
        self.columns = columns

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.moments_ = {task: (y[tasks == task].mean(), y[tasks == task].std()) for task in np.unique(tasks)}
        self.scaler_ = StandardScaler(with_mean=self.columns, with_std=self.columns).fit(X)
        mean, spread = self._moments(tasks)
        self.model_ = clone(self.estimator).fit(self.scaler_.transform(X), (y - mean) / spread, tasks)
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        mean, spread = self._moments(tasks)
        return mean + spread * self.model_.predict(self.scaler_.transform(X), tasks)

    def _moments(self, tasks: np.ndarray) -> np.ndarray:
        return np.array([self.moments_[task] for task in tasks.tolist()]).T
