"""Caltech-101: 102 classes, 38 kernels, 5 to 30 training images of each class."""

from __future__ import annotations

from .images_data import ACCURACY, OF_IMAGES, split
from .images_protocol import AVG, MKLSA, MKMTFL, MKMTRL, TWO_STAGE, rows, settings
from .protocol import Goal, Model, Protocol, Setting, Split

SIZES = (5, 10, 15, 20, 25, 30)
COSTS = {
    AVG: (1.0, 10.0, 100.0),
    MKLSA: (10.0,),
    MKMTFL: (10.0,),
    MKMTRL: (0.1, 1.0, 10.0),
    TWO_STAGE: (10.0,),
}


def models(setting: Setting) -> list[Model]:
    return rows(COSTS, n_rounds=200_000)


def split_caltech(setting: Setting, run: int) -> Split:
    return split("caltech", setting, run)


PROTOCOL = Protocol(
    name="caltech",
    title="Caltech-101",
    metric=ACCURACY,
    settings=settings(SIZES),
    split=split_caltech,
    models=models,
    goals=(Goal("30 a class", 0.55, "set before the descriptors were made; 0.70 to 0.77 is published"),),
    further=(OF_IMAGES,),
)
