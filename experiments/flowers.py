"""Oxford flowers: 17 classes of 80 images, seven kernels, 10 to 60 training images of each class."""

from __future__ import annotations

from .images_data import ACCURACY, OF_IMAGES, distances, split
from .images_figure import draw_accuracy_and_time
from .images_protocol import INTRODUCTION, rows, settings
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks

SIZES = (10, 20, 30, 40, 50, 60)
COSTS = (1.0, 10.0, 100.0)


def models(setting: Setting) -> list[Model]:
    return rows(COSTS, n_rounds=100_000, tol=1e-3)


def split_flowers(setting: Setting, run: int) -> Split:
    return split("flowers", setting, run)


PROTOCOL = Protocol(
    name="flowers",
    title="Oxford flowers",
    metric=ACCURACY,
    settings=settings(SIZES, [None] * len(SIZES)),
    split=split_flowers,
    models=models,
    goals=(Goal("60 a class", 0.80, "set before the descriptors were made; about 0.85 is published"),),
    further=(OF_IMAGES,),
    prepare=lambda: distances("flowers"),
    least=SIZES[0],
    draw=draw_accuracy_and_time,
    introduction=INTRODUCTION,
    remarks=read_remarks("flowers", "images"),
)
