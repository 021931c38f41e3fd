"""How good is a fit without tuning? Settings that differ from the defaults in one thing, then in several.

Each setting is cross-validated on three runs of the data sets of `small_sets`. Its loss is 1 - R^2, or 2 - 2 AUC, so
that 1 is no skill; its regret is how much larger that is than the loss of the best setting, as a share of it: 0.3 is
30% more. Data sets of one source count as one. A setting would be better than the defaults if its regret were smaller
by more than runs differ, whichever source is left out, and no larger where it is worst.

    python -m benchmarks defaults [-- 3]      so many runs; needs the data sets; three minutes of processor time
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    IMKLClassifier,
    IMKLRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    STLClassifier,
    STLRegressor,
    gaussian_kernels,
    linear_kernels,
)
from kernelkin.kernels.families import default_kernels
from kernelkin.paper.model_selection import MultiTaskCV

from .small_sets import Data, data_sets

LADDER, LINEAR = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), linear_kernels()
KERNELS = {
    "0.25 to 4, linear": [*gaussian_kernels(LADDER[:5]), *LINEAR],
    "0.5 to 4, linear": [*gaussian_kernels(LADDER[1:5]), *LINEAR],
    "0.5 to 8, linear": [*gaussian_kernels(LADDER[1:]), *LINEAR],
    "1 to 4, linear": [*gaussian_kernels(LADDER[2:5]), *LINEAR],
    "1 to 8, linear": [*gaussian_kernels(LADDER[2:]), *LINEAR],
    "0.25 to 4": gaussian_kernels(LADDER[:5]),
    "1 to 8": gaussian_kernels(LADDER[2:]),
    "0.25 to 4, linear, each column": [
        *gaussian_kernels(LADDER[:5]), *LINEAR, *gaussian_kernels(1.0, per_feature=True)
    ],
}  # fmt: skip
PARAMETERS = ("C", "evenness", "min_rank", "shrinkage", "couplings", "normalize")
DEFAULTS = {
    "kernels": next(name for name, kernels in KERNELS.items() if kernels == default_kernels()),
    **{name: MKMTRLRegressor().get_params()[name] for name in PARAMETERS},
}
# With mu="scale" C is all there is to choose: a factor f of mu is a factor f^(-1/3) of C.
ONE_CHANGE: dict[str, list] = {
    "kernels": list(KERNELS),
    "C": [0.1, 0.3, 0.5, 2.0, 3.0, 10.0, 100.0],
    "evenness": [0.5, 0.9],
    "min_rank": [2.0],
    "shrinkage": [0.0, 0.3, 1.0],
    "couplings": ["common"],
    "normalize": ["center", "cosine"],
}
# Around the best of the first round.
SEVERAL: list[dict[str, list]] = [
    {"kernels": list(KERNELS)[:2], "C": [1.0, 2.0, 3.0], "evenness": [0.0, 0.5], "min_rank": [1.0, 2.0]},
    {"kernels": list(KERNELS)[:2], "C": [0.5, 1.0, 2.0], "normalize": ["center"]},
]
OURS, AVERAGE = (MKMTRLClassifier, MKMTRLRegressor), (AverageClassifier, AverageRegressor)
COSTS: dict[str, list] = {"C": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}
# A classifier, a regressor, and a grid, of which the best counts: what tuning C could give at most.
REFERENCES: dict[str, tuple[tuple[type, type], dict[str, list]]] = {
    "AVG": (AVERAGE, {"C": [1.0]}),
    "IMKL": ((IMKLClassifier, IMKLRegressor), {"C": [1.0]}),
    "STL": ((STLClassifier, STLRegressor), {"C": [1.0]}),
    "MK-MTRL, the best C": (OURS, COSTS),
    "MK-MTRL, centred, the best C": (OURS, {"normalize": ["center"], **COSTS}),
    "AVG, the best C": (AVERAGE, COSTS),
    "AVG, centred, the best C": (AVERAGE, {"normalize": ["center"], **COSTS}),
}


def settings() -> list[dict[str, Any]]:
    """The defaults first, then those with one change, then those with several."""
    changes: list[dict[str, Any]] = [{name: value} for name, values in ONE_CHANGE.items() for value in values]
    changes += [dict(zip(grid, values, strict=True)) for grid in SEVERAL for values in product(*grid.values())]
    found = [{**DEFAULTS, **change} for change in [{}, *changes]]
    return [setting for i, setting in enumerate(found) if setting not in found[:i]]


def describe(setting: dict[str, Any]) -> str:
    """What is not as by default."""
    changed = [f"{name}={value}" for name, value in setting.items() if value != DEFAULTS[name]]
    return ", ".join(changed) or "the defaults"


def losses(kinds: tuple[type, type], grid: Any, classification: bool, data: Data, run: int) -> np.ndarray:
    """The cross-validated loss of each candidate; `kinds` are a classifier and a regressor."""
    X, y, tasks = data
    model = kinds[0](class_weight="balanced") if classification else kinds[1]()
    scoring = "roc_auc" if classification else "r2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = MultiTaskCV(model, grid, cv=5, scoring=scoring, random_state=run)
        search.fit(X, y, **({} if tasks is None else {"tasks": tasks}))
    return (1 + classification) * (1 - search.cv_results_["mean_test_score"])


def measure(runs: int) -> tuple[list[str], np.ndarray]:
    """Names of the data sets, and losses (runs, settings and references, data sets)."""
    grid = [{name: [KERNELS[value] if name == "kernels" else value] for name, value in s.items()} for s in settings()]
    table, names = [], []
    for run in range(runs):
        columns = {}
        for name, classification, data in data_sets(run):
            columns[name] = [*losses(OURS, grid, classification, data, run)]
            columns[name] += [losses(*other, classification, data, run).min() for other in REFERENCES.values()]
        names = list(columns)
        table.append(np.array(list(columns.values())).T)
    return names, np.array(table)


def by_source(sets: Sequence[str], values: np.ndarray) -> dict[str, np.ndarray]:
    """values (..., data sets) -> source -> (...), the mean over its data sets."""
    sources = np.array([name.split(",")[0] for name in sets])
    return {source: values[..., sources == source].mean(axis=-1) for source in dict.fromkeys(sources)}


def mean_without(left_out: str, parts: dict[str, np.ndarray]) -> np.ndarray:
    """The mean over all sources but one."""
    return np.mean([values for source, values in parts.items() if source != left_out], axis=0)


def show_settings(names: Sequence[str], sets: Sequence[str], loss: np.ndarray, best: np.ndarray) -> None:
    """The regret of each; how far it is above the defaults' at most, when one source is left out."""
    regret = loss.mean(axis=0) / best - 1
    parts = by_source(sets, regret)
    mean = mean_without("", parts)
    above = np.max([(others := mean_without(source, parts)) - others[0] for source in parts], axis=0)
    by_run = mean_without("", by_source(sets, loss / best))
    error = (by_run - by_run[:, :1]).std(axis=0, ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else np.zeros(len(names))
    mean_loss = mean_without("", by_source(sets, loss.mean(axis=0)))
    columns = ("setting", "mean regret", "worst", "above the defaults", "one left out", "mean loss", *sets)
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    print("| loss of the best | | | | | |", " | ".join(f"{value:.3f}" for value in best), "|")
    for i in np.argsort(mean):
        print(
            f"| {names[i]} | {mean[i]:.3f} | {regret[i].max():.2f} | {mean[i] - mean[0]:+.3f} ± {error[i]:.3f}", end=""
        )
        print(f" | {above[i]:+.3f} | {mean_loss[i]:.3f} |", " | ".join(f"{value:.2f}" for value in regret[i]), "|")


def show_left_out(names: Sequence[str], sets: Sequence[str], regret: np.ndarray) -> None:
    """What one would choose without a source, and how it does there; in brackets how the defaults do."""
    print(
        "\n| left out | the best on the others | its mean regret on them | its regret on the one |\n|---|---|---|---|"
    )
    parts = by_source(sets, regret)
    for source, here in parts.items():
        others = mean_without(source, parts)
        i = int(others.argmin())
        print(f"| {source} | {names[i]} | {others[i]:.3f} ({others[0]:.3f}) | {here[i]:.3f} ({here[0]:.3f}) |")


def show_references(sets: Sequence[str], loss: np.ndarray) -> None:
    """The losses of the defaults, and of what they are to be compared with."""
    print("\n| loss |", " | ".join(sets), "|\n|---|" + "---|" * len(sets))
    for name, i in zip(["the defaults", *REFERENCES], [0, *range(-len(REFERENCES), 0)], strict=True):
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in loss[i]), "|")


def main(arguments: Sequence[str] = ()) -> None:
    names = [describe(setting) for setting in settings()]
    sets, loss = measure(int(arguments[0]) if arguments else 3)
    mean = loss.mean(axis=0)
    best = mean[: len(names)].min(axis=0)
    show_settings([*names, *REFERENCES], sets, loss, best)
    show_left_out(names, sets, mean[: len(names)] / best - 1)
    show_references(sets, mean)


if __name__ == "__main__":
    main()
