"""Caltech-101: 102 classes, 38 kernels, 5 to 30 training images of each class."""

from __future__ import annotations

from .images_data import ACCURACY, OF_IMAGES, distances, split
from .images_figure import draw_accuracy_and_time
from .images_protocol import INTRODUCTION, rows, settings
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks

SIZES = (5, 10, 15, 20, 25, 30)
# Three runs where a run takes long.
RUNS = (None, None, None, 3, 3, 3)
COSTS = (1.0, 10.0)
# Images of a class that C is chosen on: the search would take several times as long as the fit otherwise.
SEARCHED = 10


def models(setting: Setting) -> list[Model]:
    return rows(COSTS, n_rounds=200_000, tol=1e-2, tries=1, most=SEARCHED)


def split_caltech(setting: Setting, run: int) -> Split:
    return split("caltech", setting, run)


PROTOCOL = Protocol(
    name="caltech",
    title="Caltech-101",
    metric=ACCURACY,
    settings=settings(SIZES, RUNS),
    split=split_caltech,
    models=models,
    goals=(Goal("30 a class", 0.55, "set before the descriptors were made; 0.70 to 0.77 is published"),),
    further=(OF_IMAGES,),
    prepare=lambda: distances("caltech"),
    least=SIZES[0],
    draw=draw_accuracy_and_time,
    introduction=INTRODUCTION,
    remarks=read_remarks("caltech", "images"),
)
