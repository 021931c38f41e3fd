"""What the two experiments on images have in common: the paper's models, one task for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelkin import AverageClassifier, MKMTRLClassifier, TwoStageMKMTRLClassifier
from kernelkin.paper import MKLSAClassifier, MKMTFLClassifier

from .images_models import OneVsRest
from .protocol import Model, Setting

AVG, MKLSA, MKMTFL, MKMTRL, TWO_STAGE = "AVG", "MKL-SA", "MK-MTFL", "MK-MTRL", "MK-MTRL, two-stage"
INTRODUCTION = (
    "Share of the test images of a class that are given their class, mean over classes, then over all images; mean and "
    "standard error over runs. Bold: the best, and those that a paired t-test (5%) cannot distinguish from it."
)


def rows(costs: Sequence[float], n_rounds: int, tol: float, **search: Any) -> list[Model]:
    """The models of the paper's figure with these values of C; `search` are options of `OneVsRest`.

    Two-stage models draw pairs evenly from a class and all others: drawn as they come, nearly all pairs would be two
    images of other classes, which count as alike. The weights of classes that do so also lower the cost of most images,
    so C is larger. With ``mu=1`` the steps of their first stage are too long on kernels whose values differ little, and
    weights depend on the last pairs; so it is chosen too.
    """
    common: dict[str, Any] = {"kernels": "precomputed", "tol": tol}
    models = {
        AVG: AverageClassifier(**common),
        MKLSA: MKLSAClassifier(**(common | {"tol": 1e-2}), max_iter=8, random_state=0),
        MKMTFL: MKMTFLClassifier(**common),
        MKMTRL: MKMTRLClassifier(**common),
        TWO_STAGE: TwoStageMKMTRLClassifier(
            **common, class_weight="balanced", n_rounds=n_rounds, max_exact=10_000, random_state=0
        ),
    }
    grids: dict[str, dict[str, list[float]]] = {name: {"C": list(costs)} for name in models}
    grids[TWO_STAGE] = {"C": [10.0, 100.0], "mu": [10.0, 100.0]}
    return [
        Model(name, OneVsRest(model, grids[name], **search), role="ours" if name == MKMTRL else "baseline")
        for name, model in models.items()
    ]


def settings(sizes: Sequence[int], runs: Sequence[int | None]) -> tuple[Setting, ...]:
    return tuple(Setting(f"{size} a class", size, runs=most) for size, most in zip(sizes, runs, strict=True))
