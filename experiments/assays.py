"""Activity of molecules in assays: the rows of the tables of Tox21 and ToxCast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from .assay_baselines import ActiveShare, FingerprintSVM, Trees, some_assays
from .assay_data import AUC, CALIBRATION, LOG_LOSS, RUNS, SETTINGS, split
from .assay_models import KernelModel
from .protocol import Goal, Model, Protocol, Setting, read_remarks

AVERAGE, SHARED, LEARNED = "average kernel", "average kernel, shared parts", "learned kernel, shared parts"
N_ASSAYS = {"tox21": 12, "toxcast": 617}
COSTS = (0.1, 0.3, 1.0)
SHARED_COSTS = (0.01, 0.03, 0.1)
# Runs of models that take long and are beside the comparison that was asked for.
FEW_RUNS = 3


def kernel_rows(name: str, setting: Setting, costs: Sequence[float], learned: bool) -> list[Model]:
    """Models of this library; `costs` are the values of C that models with shared parts choose from."""
    make = partial(KernelModel, name, setting.name)
    rows = [Model(AVERAGE, make(COSTS)), Model(SHARED, make(costs, shared=True), role="ours")]
    if learned:
        rows.append(Model(LEARNED, make(costs, shared=True, weights="learned")))
    return rows


def baseline_rows(name: str, setting: Setting, trees: int, runs: int | None, assays: int | None) -> list[Model]:
    """What would be run otherwise; with `assays`, predictions of so many alone."""
    options = {"data": name, "kind": setting.name, "assays": assays}
    forest = partial(Trees, grid=(trees,), method="forest", **options)
    boosting = partial(Trees, method="boosting", **options)
    rows = [
        Model("share of actives", ActiveShare(name)),
        Model("random forest, Morgan", forest(), runs=runs),
        Model("gradient boosting, Morgan", boosting(), runs=runs),
    ]
    if assays is None:
        few = min(runs or FEW_RUNS, FEW_RUNS)
        rows.append(Model("random forest, bits and descriptors", forest(features="all"), runs=few))
        rows.append(Model("gradient boosting, bits and descriptors", boosting(features="all"), runs=few))
    return [*rows, Model("SVM, Morgan", FingerprintSVM(**options), runs=runs)]


@dataclass(frozen=True)
class Extent:
    """How much of an experiment is run.

    Attributes
    ----------
    trees : number of trees of a forest.
    runs : runs of models that take long; None: as many as of others.
    assays : number of assays of models that are fitted to each; None: all.
    costs : values of C that models with shared parts choose from.
    learned : whether weights of kernels are learned too.
    """

    trees: int = 100
    runs: int | None = None
    assays: int | None = None
    costs: Sequence[float] = SHARED_COSTS
    learned: bool = True


def protocol(name: str, title: str, extent: Extent, goals: tuple[Goal, ...]) -> Protocol:
    """The experiment of one data set."""
    judged = tuple(some_assays(N_ASSAYS[name], extent.assays)) if extent.assays else ()
    return Protocol(
        name=name,
        title=title,
        metric=AUC,
        settings=SETTINGS,
        split=partial(split, name),
        models=lambda setting: [
            *baseline_rows(name, setting, extent.trees, extent.runs, extent.assays),
            *kernel_rows(name, setting, extent.costs, extent.learned),
        ],
        runs=RUNS,
        goals=goals,
        remarks=read_remarks(name),
        introduction=(
            "Area under the ROC curve, mean over assays, of test molecules (a fifth of all); then log loss and "
            "calibration error of probabilities over all test labels; mean and standard error over runs. Bold: the "
            "best, and those that a paired t-test (5%) cannot distinguish from it."
        ),
        further=(replace(LOG_LOSS, columns=judged), replace(CALIBRATION, columns=judged)),
    )
