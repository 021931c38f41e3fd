"""Responses of 124 cancer cell lines to 124 drugs: entries, cell lines or drugs held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from .drugs_baselines import LowRank, Means, Nearest
from .drugs_data import CELL_LINES, DRUGS, ENTRIES, INSIDE, MEASUREMENTS, RMSE, RUNS, SETTINGS, R, split
from .drugs_models import EVERY, Chosen, KernelModel
from .drugs_worth import EXPLANATION, worth_table
from .protocol import Goal, Model, Protocol, Setting, read_remarks
from .store import Result

# Folds whose test entries were seen while the model was made.
LOOKED_AT = 3
REFERENCE = "one kernel for each source"
WHOLE, STRUCTURE, COMMON = "everything", "MK-MTRL, common, structure", "MK-MTRL, common"
COSTS, SHARED_COSTS = [0.1, 0.3, 1.0, 3.0], [0.1, 0.05, 0.2]
NEIGHBOURS = [10, 3, 5, 20, 40]
# How many parts of the training entries a choice has, and how many of them are held out in turn.
PARTS = {ENTRIES: (10, 1), CELL_LINES: (5, 2), DRUGS: (5, 2)}


def models(setting: Setting) -> list[Model]:
    return [*_baselines(setting), *_kernel_models(setting), *_without_parts(setting)]


def _choose(name: str, model: Any, grid: dict[str, list], setting: Setting, **options: Any) -> Model:
    role = options.pop("role", "baseline")
    n_parts, tries = PARTS[setting.name]
    return Model(name, Chosen(model, grid, setting.name, tries=tries, **options), role=role, n_splits=n_parts)


def _baselines(setting: Setting) -> list[Model]:
    """What needs no kernel machine; of means, those that tell the held-out entries apart."""
    found = {
        "drug mean": Means(cell_line=False),
        "cell-line mean": Means(drug=False),
        "drug and cell-line means": Means(),
    }
    kept = {ENTRIES: list(found), CELL_LINES: ["drug mean"], DRUGS: ["cell-line mean"]}[setting.name]
    rows = [Model(name, found[name]) for name in kept]
    nearest = {
        ENTRIES: ("nearest drugs, by responses", "responses"),
        CELL_LINES: ("nearest cell lines, by measurements", "measurements"),
        DRUGS: ("nearest drugs, by structure", "structure"),
    }
    name, by = nearest[setting.name]
    rows.append(_choose(name, Nearest(by), {"k": NEIGHBOURS}, setting))
    if setting.name == ENTRIES:
        rows.append(_choose("matrix of low rank", LowRank(), {"strength": [13.0, 6.0, 9.0, 18.0, 25.0]}, setting))
    return rows


def whole_model(setting: Setting) -> KernelModel:
    """Everything that can be known of the held-out entries: a new cell line has no responses to compare."""
    return KernelModel(common=True, targets=True, profiles=setting.name == ENTRIES, structure="all")


def _kernel_models(setting: Setting) -> list[Model]:
    rows = []
    if setting.name != DRUGS:
        rows.append(_choose("AVG", KernelModel("AVG"), {"C": [1.0, 3.0, 10.0, 30.0]}, setting))
        rows += [_choose(name, KernelModel(name), {"C": COSTS}, setting) for name in ("IMKL", "MK-MTRL")]
    common = KernelModel(common=True, tol=1e-2)
    rows.append(_choose(COMMON, common, {"C": [0.3, 1.0], "sharing": [0.5, 1.0]}, setting))
    structure = KernelModel(common=True, structure="mean", tol=1e-2)
    rows.append(_choose(STRUCTURE, structure, {"C": [0.1, 0.3], "sharing": [0.5, 0.0]}, setting))
    return [*rows, _whole(WHOLE, whole_model(setting), setting, role="ours")]


def _whole(name: str, model: KernelModel, setting: Setting, role: str) -> Model:
    grid = {"C": SHARED_COSTS, "sharing": [0.5, 1.0]}
    return _choose(name, model, grid, setting, chooser=_quick(whole_model(setting)), role=role)


def _quick(model: KernelModel) -> KernelModel:
    """The same with one kernel for each measurement and one between drugs, the means of those there are."""
    return clone(model).set_params(widths="mean", structure="mean" if model.structure else None, tol=1e-2)


def changes(setting: Setting) -> dict[str, KernelModel]:
    """The whole model, with one kernel for each source, and without one of its parts, by the name of its row."""
    if setting.name == DRUGS:
        return {}
    found: dict[str, dict[str, Any]] = {REFERENCE: {}}
    for kind, name in MEASUREMENTS.items():
        found[f"without {name}"] = {"measurements": tuple(other for other in EVERY if other != kind)}
    for kind, name in MEASUREMENTS.items():
        found[f"of the measurements, {name} alone"] = {"measurements": (kind,)}
    found["without structure of drugs"] = {"structure": None}
    found["without a common part"] = {"common": False}
    found["without responses of other drugs"] = {"targets": False, "profiles": False}
    if setting.name == ENTRIES:
        found["without any measurement"] = {"measurements": ()}
    return {name: _quick(whole_model(setting)).set_params(**change) for name, change in found.items()}


def _without_parts(setting: Setting) -> list[Model]:
    return [_whole(name, model, setting, role="part") for name, model in changes(setting).items()]


def sections(results: Sequence[Result]) -> list[str]:
    """Folds that had no part in the making of the model, and the table of what each source is worth."""
    rows = dict.fromkeys(name for setting in SETTINGS for name in changes(setting) if name != REFERENCE)
    table = worth_table(results, REFERENCE, [*rows, WHOLE], (ENTRIES, CELL_LINES))
    kept = [result for result in results if result.setting == ENTRIES and result.run >= LOOKED_AT]
    shown = [(name, [result for result in kept if result.model == name]) for name in (WHOLE, "matrix of low rank")]
    figures = [
        f"{name} r {np.mean([result.score for result in found]):.4f}, RMSE "
        f"{np.mean([result.figures['RMSE'] for result in found]):.3f} ({len(found)} folds)"
        for name, found in shown
        if found
    ]
    return [
        f"Folds of entries that were not looked at: {'; '.join(figures)}.",
        "## What each source of data is worth",
        EXPLANATION,
        table.markdown(),
    ]


PROTOCOL = Protocol(
    name="drugs",
    title="Drug response of cancer cell lines",
    metric=R,
    settings=SETTINGS,
    split=split,
    models=models,
    runs=RUNS,
    goals=(Goal(ENTRIES, 0.858, "pairwiseMKL, Cichonska et al. 2018"), Goal(ENTRIES, 0.866, "ours")),
    remarks=read_remarks("drugs"),
    introduction=(
        "Correlation r of predicted and measured responses over the test entries of all drugs, then their RMSE, then "
        "the correlation inside a drug, mean over drugs; mean and standard error over folds. Bold: the best, and those "
        "that a paired t-test (5%) cannot distinguish from it."
    ),
    further=(RMSE, INSIDE),
    sections=sections,
)
