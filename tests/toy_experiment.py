"""A tiny experiment that needs no data files and no time."""

from __future__ import annotations

import numpy as np

from experiments.metrics import NMSE
from experiments.protocol import Goal, Model, Protocol, Setting, Split
from kernelkin import AverageRegressor, MKMTRLRegressor, linear_kernels
from kernelkin.paper import MeanRegressor

KERNELS = linear_kernels(per_feature=True)


def split(setting: Setting, run: int) -> Split:
    rng = np.random.default_rng([run, setting.size])
    X, X_test = rng.normal(size=(setting.size, 3)), rng.normal(size=(40, 3))
    W = np.array([[1.0, 0.8], [0.0, 0.1], [0.5, 0.6]])
    y, y_test = (part @ W + 0.1 * rng.normal(size=(len(part), 2)) for part in (X, X_test))
    return Split(X, y, X_test, y_test, task_names=["left", "right"])


def models(setting: Setting) -> list[Model]:
    return [
        Model("Mean", MeanRegressor()),
        Model("AVG", AverageRegressor(KERNELS), {"C": [0.1, 10.0]}, n_splits=3),
        Model("ours", MKMTRLRegressor(KERNELS), {"C": [0.1, 10.0]}, role="ours", n_splits=3),
    ]


PROTOCOL = Protocol(
    name="toy",
    title="A toy",
    metric=NMSE,
    settings=tuple(Setting(f"{size} rows", size) for size in (8, 12, 20)),
    split=split,
    models=models,
    runs=3,
    paper={("12 rows", "AVG"): "0.5 ± 0.1"},
    task_setting="12 rows",
    paper_tasks={("left", "AVG"): "0.4"},
    goals=(Goal("12 rows", 0.3, "the toy's maker"),),
    remarks="A remark.",
)
