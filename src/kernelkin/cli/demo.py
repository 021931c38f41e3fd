"""The demo: sales of shops with few days each, predicted by KinRegressor and by what one would run otherwise."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets import make_shops
from ..files import Folder, open_whole
from .demo_models import OURS, POOLED, make_models

if TYPE_CHECKING:
    from .terminal import Terminal

# Held-out days of each shop.
TEST_DAYS = 200


@dataclass
class DemoResult:
    """Scores of every model on every draw, and the models and data of the first draw.

    Attributes
    ----------
    scores : R^2 on held-out days (n_shops,), for each draw, by model.
    seconds : what a model took on each draw.
    models, data : fitted to the first draw, and the draw itself.
    """

    scores: dict[str, list[np.ndarray]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    data: Any = None

    def add(self, name: str, model: Any, data: Any) -> None:
        """Fit a model to a draw and score it on the held-out days."""
        began = time.perf_counter()
        model.fit(data.data, data.target, tasks=data.tasks)
        values = model.predict(data.data_test, tasks=data.tasks_test)
        self.seconds.setdefault(name, []).append(time.perf_counter() - began)
        self.scores.setdefault(name, []).append(score_shops(data.target_test, values, data.tasks_test))
        self.models.setdefault(name, model)
        self.data = data if self.data is None else self.data

    def means(self) -> dict[str, float]:
        """Mean R^2 over shops and draws, by model."""
        return {name: float(np.mean(scores)) for name, scores in self.scores.items()}


def score_shops(y: np.ndarray, values: np.ndarray, shops: np.ndarray) -> np.ndarray:
    """Return R^2 of each shop, in the order of their names."""
    from sklearn.metrics import r2_score

    return np.array([r2_score(y[shops == shop], values[shops == shop]) for shop in np.unique(shops)])


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
    """A row for each model, the best first: score, standard error, what KinRegressor gains on it, time."""
    means, ours = result.means(), result.scores[OURS]
    rows = []
    for name in sorted(means, key=lambda name: -means[name]):
        gains = [our_score - their_score for our_score, their_score in zip(ours, result.scores[name], strict=True)]
        gain = "" if name == OURS else f"{np.mean(gains):+.3f} ± {_standard_error(gains):.3f}"
        seconds = f"{np.mean(result.seconds[name]):.1f}"
        rows.append([name, f"{means[name]:.3f}", f"{_standard_error(result.scores[name]):.3f}", gain, seconds])
    return rows


def _standard_error(scores: Sequence[np.ndarray]) -> float:
    """The standard error over draws or, of a single draw, over shops."""
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
    from .demo_figure import draw_demo

    stored = {
        **settings,
        "scores": {name: [float(np.mean(draw)) for draw in scores] for name, scores in result.scores.items()},
        "seconds": {name: float(np.mean(seconds)) for name, seconds in result.seconds.items()},
    }
    with open_whole(folder / "results.json") as file:
        file.write(json.dumps(stored, indent=1).encode())
    with open_whole(folder / "shops.png") as file:
        draw_demo(result, OURS, POOLED).savefig(file, format="png", dpi=120)
    terminal.say("", "Written:", f"  {folder / 'shops.png'}", f"  {folder / 'results.json'}")
