"""What the two experiments on images have in common: the paper's models, one task for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelkin import (
    AverageClassifier,
    MKLSAClassifier,
    MKMTFLClassifier,
    MKMTRLClassifier,
    TwoStageMKMTRLClassifier,
)

from .images_models import OneVsRest
from .protocol import Model, Setting

AVG, MKLSA, MKMTFL, MKMTRL, TWO_STAGE = "AVG", "MKL-SA", "MK-MTFL", "MK-MTRL", "MK-MTRL, two-stage"


def rows(costs: dict[str, Sequence[float]], n_rounds: int, tol: float = 1e-2) -> list[Model]:
    """The models of the paper's figure; `costs` are the values of C that each may choose."""
    common: dict[str, Any] = {"kernels": "precomputed", "tol": tol}
    models = {
        AVG: AverageClassifier(**common),
        MKLSA: MKLSAClassifier(**common, max_iter=16, random_state=0),
        MKMTFL: MKMTFLClassifier(**common),
        MKMTRL: MKMTRLClassifier(**common),
        TWO_STAGE: TwoStageMKMTRLClassifier(**common, n_rounds=n_rounds, max_exact=10_000, random_state=0),
    }
    return [
        Model(name, OneVsRest(model, {"C": list(costs[name])}), role="ours" if name == MKMTRL else "baseline")
        for name, model in models.items()
    ]


def settings(sizes: Sequence[int]) -> tuple[Setting, ...]:
    return tuple(Setting(f"{size} a class", size) for size in sizes)
