"""Activity of molecules in assays: the rows of the tables of Tox21 and ToxCast, and sections of their pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from .assay_baselines import ActiveShare, FingerprintSVM, Trees, some_assays
from .assay_data import AUC, CALIBRATION, LOG_LOSS, SETTINGS, split
from .assay_models import KernelModel
from .protocol import Goal, Model, Protocol, Setting, read_remarks
from .store import Result
from .summary import summarise
from .tables import main_table

AVERAGE, EQUAL = "average kernel", "average kernel, equal shared parts"
SHARED, LEARNED = "average kernel, shared parts", "learned kernel, shared parts"
N_ASSAYS = {"tox21": 12, "toxcast": 617}
COSTS = (0.1, 0.3, 1.0)
SHARED_COSTS = (0.01, 0.03, 0.1)
# Trees of a forest.
TREES = 100


@dataclass(frozen=True)
class Extent:
    """How much of an experiment is run.

    Attributes
    ----------
    runs : number of runs.
    extra : number of runs of the trees on bits and descriptors, which are beside the comparison; 0: none.
    assays : number of assays of models that are fitted to each; None: all.
    equal : values of C that equal shared parts choose from.
    learned : whether weights of shared parts, and of kernels, are learned too.
    """

    runs: int = 5
    extra: int = 3
    assays: int | None = None
    equal: Sequence[float] = (0.03, 0.1)
    learned: bool = True


def kernel_rows(name: str, setting: Setting, extent: Extent) -> list[Model]:
    """Models of this library."""
    make = partial(KernelModel, name, setting.name)
    equal = Model(EQUAL, make(extent.equal, parts="equal"))
    if not extent.learned:
        return [Model(AVERAGE, make(COSTS)), replace(equal, role="ours")]
    shared = partial(make, SHARED_COSTS, parts="learned")
    return [
        Model(AVERAGE, make(COSTS)),
        equal,
        Model(SHARED, shared(), role="ours"),
        Model(LEARNED, shared(weights="learned")),
    ]


def baseline_rows(name: str, setting: Setting, extent: Extent) -> list[Model]:
    """What would be run otherwise."""
    options = {"data": name, "kind": setting.name, "assays": extent.assays}
    forest = partial(Trees, grid=(TREES,), method="forest", **options)
    boosting = partial(Trees, method="boosting", **options)
    rows = [
        Model("share of actives", ActiveShare(name, extent.assays)),
        Model("random forest, Morgan", forest()),
        Model("gradient boosting, Morgan", boosting()),
    ]
    if extent.extra:
        rows.append(Model("random forest, bits and descriptors", forest(features="all"), runs=extent.extra))
        rows.append(Model("gradient boosting, bits and descriptors", boosting(features="all"), runs=extent.extra))
    return [*rows, Model("SVM, Morgan", FingerprintSVM(**options))]


def protocol(name: str, title: str, extent: Extent, goals: tuple[Goal, ...] = ()) -> Protocol:
    """The experiment of one data set."""
    judged = tuple(some_assays(N_ASSAYS[name], extent.assays)) if extent.assays else ()
    whole = Protocol(
        name=name,
        title=title,
        metric=AUC,
        settings=SETTINGS,
        split=partial(split, name),
        models=lambda setting: [*baseline_rows(name, setting, extent), *kernel_rows(name, setting, extent)],
        runs=extent.runs,
        goals=goals,
        remarks=read_remarks(name),
        introduction=(
            "Area under the ROC curve, mean over assays, of test molecules (a fifth of all); then log loss and "
            "calibration error of probabilities over all test labels; mean and standard error over runs. Bold: the "
            "best, and those that a paired t-test (5%) cannot distinguish from it, over the runs that both have."
        ),
        further=(replace(LOG_LOSS, columns=judged), replace(CALIBRATION, columns=judged)),
        task_setting=None if extent.assays else SETTINGS[0].name,
    )
    return replace(whole, sections=partial(all_assays, whole))


def all_assays(whole: Protocol, results: Sequence[Result]) -> list[str]:
    """The table of models that have scores of all assays, where others are compared with them on some of the assays."""
    count = max((len(result.scores) for result in results), default=0)
    kept = [result for result in results if 2 * len(result.scores) > count]
    if len(kept) == len(results):
        return []
    fewest = min(len(result.scores) for result in kept)
    text = f"Mean over the assays with actives and inactives among the test molecules: {fewest} to {count} of them."
    return ["## All assays", text, main_table(whole, summarise(whole, kept)).markdown()]
