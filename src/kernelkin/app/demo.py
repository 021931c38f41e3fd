"""The demo: ten digits as ten tasks, learned from few images, compared with the average and the best single kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.storage import Folder, open_whole
from ..kernels import Kernel, gaussian_kernels, view_kernels
from ..models import MKMTRLClassifier

if TYPE_CHECKING:
    from .terminal import Terminal

OURS, AVERAGE, SINGLE = "MK-MTRL", "average", "single"
N_FOLDS = 3


def load_views() -> tuple[np.ndarray, np.ndarray, list[Kernel]]:
    """Images (n, 80): pixels, sums of rows, sums of columns; digits (n,); Gaussians of three widths on seven views."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16
    pixel = np.arange(64).reshape(8, 8)
    views = {
        "whole": pixel.ravel(),
        "upper left": pixel[:4, :4].ravel(),
        "upper right": pixel[:4, 4:].ravel(),
        "lower left": pixel[4:, :4].ravel(),
        "lower right": pixel[4:, 4:].ravel(),
        "row sums": np.arange(64, 72),
        "column sums": np.arange(72, 80),
    }
    X = np.hstack([images.reshape(-1, 64), images.sum(axis=2), images.sum(axis=1)])
    return X, digits, view_kernels(views, gaussian_kernels((0.5, 1.0, 2.0)))


def candidates(kernels: Sequence[Kernel]) -> dict[str, tuple[Any, dict[str, list]]]:
    """The models to compare, each with the parameters that cross-validation on the training images chooses."""
    from ..models import AverageClassifier, STLClassifier

    costs = [0.1, 1.0, 10.0, 100.0]
    return {
        OURS: (MKMTRLClassifier(kernels, min_rank=2.0, class_weight="balanced"), {"mu": costs}),
        AVERAGE: (AverageClassifier(kernels, class_weight="balanced"), {"C": costs}),
        SINGLE: (STLClassifier(kernels, class_weight="balanced"), {"C": costs, "kernel": list(range(len(kernels)))}),
    }


@dataclass
class DemoResult:
    """Scores on the test images of each split, by task (T,) and for whole digits; the models of the first split."""

    accuracy: dict[str, list[np.ndarray]] = field(default_factory=dict)
    auc: dict[str, list[np.ndarray]] = field(default_factory=dict)
    digit: dict[str, list[float]] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, model: Any, X: np.ndarray, digits: np.ndarray) -> None:
        """Score a fitted model on images it has not seen."""
        from sklearn.metrics import roc_auc_score

        values, Y = model.decision_function(X), one_vs_rest(digits)
        self.accuracy.setdefault(name, []).append(((values > 0) == Y).mean(axis=0))
        self.auc.setdefault(name, []).append(roc_auc_score(Y, values, average=None))
        self.digit.setdefault(name, []).append(float((values.argmax(axis=1) == digits).mean()))
        self.models.setdefault(name, model)


def one_vs_rest(digits: np.ndarray) -> np.ndarray:
    """digits (n,) -> (n, 10) of 0 and 1: every column is a task on the same rows."""
    return (digits[:, np.newaxis] == np.arange(10)).astype(int)


def run_demo(terminal: Terminal, folder: str | Path = "demo", *, n_rows: int = 200, n_splits: int = 3) -> DemoResult:
    """Tune, fit and score all models on each split; print the results and draw figures."""
    began = time.perf_counter()
    Folder(folder).prepare()
    X, digits, kernels = load_views()
    models = candidates(kernels)
    terminal.say(
        f"Ten digits, ten tasks, {n_rows} training images, {len(kernels)} kernels: is the learned mix better",
        f"than their average, and than the best single kernel? {n_splits} random splits; parameters are chosen by",
        f"{N_FOLDS}-fold cross-validation on the training images alone.",
        "",
    )
    result = DemoResult()
    with terminal.progress(n_splits * len(models)) as progress:
        for split, (train, test) in enumerate(_splits(digits, n_rows, n_splits), 1):
            for name, (model, grid) in models.items():
                progress.begin(f"split {split}: {name}")
                result.add(name, _tune(model, grid, X[train], digits[train]), X[test], digits[test])
    terminal.table(["task", *_columns("accuracy"), *_columns("AUC")], _rows(result))
    _show_gains(terminal, result)
    _draw(terminal, result.models[OURS], Path(folder))
    terminal.say("", f"Done in {time.perf_counter() - began:.0f} s.")
    return result


def _splits(digits: np.ndarray, n_rows: int, n_splits: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedShuffleSplit

    return StratifiedShuffleSplit(n_splits, train_size=n_rows, random_state=0).split(digits, digits)


def _tune(model: Any, grid: Mapping[str, list], X: np.ndarray, digits: np.ndarray) -> Any:
    """The model refitted on all of X with the parameters of the best cross-validated mean AUC."""
    from sklearn.model_selection import StratifiedKFold

    from ..model_selection import MultiTaskCV

    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, digits))
    return MultiTaskCV(model, grid, cv=folds, scoring="roc_auc").fit(X, one_vs_rest(digits)).best_estimator_


def _columns(score: str) -> list[str]:
    return [f"{score}: {OURS}", AVERAGE, SINGLE]


def _rows(result: DemoResult) -> list[list[str]]:
    """The ten tasks, then their mean with its standard error over splits."""
    tables = [{name: np.array(runs) for name, runs in scores.items()} for scores in (result.accuracy, result.auc)]
    tasks = [
        [str(t), *(cell for table in tables for cell in _starred([runs[:, t].mean() for runs in table.values()]))]
        for t in range(10)
    ]
    mean = [cell for table in tables for cell in _starred([runs.mean() for runs in table.values()])]
    rows = [*tasks, [], ["mean", *mean]]
    if len(result.auc[OURS]) > 1:
        error = [f"±{standard_error(runs.mean(axis=1)):.4f}" for table in tables for runs in table.values()]
        rows.append(["", *error])
    return rows


def _starred(values: Sequence[float]) -> list[str]:
    """Numbers as text, with a star before the largest as shown."""
    best = max(round(value, 4) for value in values)
    return [f"{'*' if round(value, 4) == best else ''}{value:.4f}" for value in values]


def standard_error(values: np.ndarray) -> float:
    """The standard error of the mean of values (n,)."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def describe_gain(gains: np.ndarray) -> str:
    """The mean of the gains (n_splits,), its standard error, and whether it differs from 0 in a t-test at 5 %.

    >>> describe_gain(np.array([0.02, 0.03, 0.02])), describe_gain(np.array([0.01, 0.02, 0.03]))
    ('+0.0233 ± 0.0033, better', '+0.0200 ± 0.0058, within the noise')
    """
    from scipy.stats import t

    if len(gains) == 1:
        return f"{gains[0]:+.4f}, on one split"
    mean, error = gains.mean(), standard_error(gains)
    least = t.ppf(0.975, len(gains) - 1) * error
    verdict = "better" if mean > least else "worse" if mean < -least else "within the noise"
    return f"{mean:+.4f} ± {error:.4f}, {verdict}"


def _show_gains(terminal: Terminal, result: DemoResult) -> None:
    terminal.say("", "* best of the three on test images; ± standard error over splits", "")
    for other in (AVERAGE, SINGLE):
        gain = np.mean(result.auc[OURS], axis=1) - np.mean(result.auc[other], axis=1)
        terminal.say(f"{OURS} against the {other} kernel, mean AUC: {describe_gain(gain)}")
    digit = ", ".join(f"{np.mean(share):.1%} by {name}" for name, share in result.digit.items())
    terminal.say(f"Digits recognised by the largest of ten values: {digit}")
    model, single = result.models[OURS], result.models[SINGLE]
    terminal.say(
        f"First split: after {model.n_iter_} iterations the objective {model.objective_:.5g} is certified to be within "
        f"{model.duality_gap_:.2g} of the optimum",
        f"(relative duality gap {model.duality_gap_ / model.objective_:.1e}); "
        f"effective rank of the kernel weights {model.effective_rank_:.2f}; single kernel: {single.kernel_names_[0]}",
    )


def _draw(terminal: Terminal, model: MKMTRLClassifier, folder: Path) -> None:
    from ..plots import ConvergenceDisplay, KernelWeightsDisplay, TaskRelationshipDisplay

    figures: dict[str, Any] = {
        "kernel_weights": KernelWeightsDisplay,
        "task_relationship": TaskRelationshipDisplay,
        "convergence": ConvergenceDisplay,
    }
    terminal.say("", "Figures of the first split:")
    for name, display in figures.items():
        path = folder / f"{name}.png"
        figure = display.from_estimator(model).figure_
        with open_whole(path) as file:
            figure.savefig(file, format="png", dpi=120)
        terminal.say(f"  {path}")
