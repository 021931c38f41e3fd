"""For every model, data of three shapes on which a fit takes tens of MiB and less than a second; and its peak."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelkin import gaussian_kernels, polynomial_kernels

# Targets are mostly noise: support vector machines then have many support vectors, as they do on real data.
_SIGNAL = 0.5


def long(n_tasks: int, n: int, d: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`n_tasks` tasks of n rows each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_tasks * n, d))
    return X, _SIGNAL * X[:, 0] + rng.normal(size=len(X)), np.repeat(np.arange(n_tasks), n)


def wide(n: int, n_tasks: int, d: int = 4) -> tuple[np.ndarray, np.ndarray, None]:
    """n rows with a target for each task."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, _SIGNAL * X[:, :1] + rng.normal(size=(n, n_tasks)), None


def few_values(n_tasks: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns with a handful of values each."""
    X, y, tasks = long(n_tasks, n, 3)
    return np.round(X), y, tasks


@dataclass(frozen=True)
class Case:
    """Data by the name of a function and its arguments, and parameters of the estimator."""

    make: Any
    size: tuple[int, ...]
    params: dict[str, Any] = field(default_factory=dict)

    def data(self, estimator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        X, y, tasks = self.make(*self.size)
        return X, y > 0 if is_classifier(estimator) else y, tasks


def peak(model: Any, X: Any, y: Any, tasks: Any) -> int:
    """What a fit allocates, without what is imported and compiled once."""
    small = (Case(wide, (40, 3)) if y.ndim == 2 else Case(long, (3, 40))).data(getattr(model, "estimator", model))
    model.fit(small[0], small[1], tasks=small[2])
    tracemalloc.start()
    try:
        model.fit(X, y, tasks=tasks)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


_LINEAR = {"kernels": "linear"}
# Many small tasks, few large ones, and all tasks on the same rows.
_GRAMS = {"many": Case(long, (30, 140)), "few": Case(long, (2, 550)), "wide": Case(wide, (550, 4))}
_ONE_KERNEL = {
    "many": Case(long, (180, 60, 30), _LINEAR),
    "few": Case(long, (3, 400)),
    "wide": Case(wide, (240, 5)),
}
_TWO_STAGE = {
    "many": Case(long, (60, 3000), {"n_rounds": 500, "max_exact": 50, **_LINEAR}),
    "few": Case(long, (2, 900), {"n_rounds": 500}),
    "wide": Case(wide, (900, 3), {"n_rounds": 500}),
}
_EACH_TASK = {
    "many": Case(long, (40, 3, 32_000)),
    "few": Case(long, (2, 15_000, 60)),
    "wide": Case(wide, (20_000, 5, 40)),
}
CASES: dict[str, dict[str, Case]] = {
    "MK-MTRL": _GRAMS,
    "Two-stage MK-MTRL": _TWO_STAGE,
    "STL": {"many": Case(long, (60, 220)), "few": Case(long, (2, 1100)), "wide": Case(wide, (750, 5))},
    "AVG": _GRAMS,
    "IMKL": _GRAMS,
    "IKL": _GRAMS,
    "MK-MTFL": _GRAMS,
    "MKL-SA": _GRAMS,
    "MTFL": _ONE_KERNEL,
    "MTRL": _ONE_KERNEL,
    "MRCE": {
        "many": Case(wide, (1500, 25, 45), {"alpha": 1.0}),
        "few": Case(wide, (20_000, 3, 40), {"alpha": 1.0}),
        "wide": Case(wide, (300, 4, 280), {"alpha": 1.0}),
    },
    "FES": {
        "many": Case(wide, (1000, 800, 60), {"max_iter": 2}),
        "few": Case(wide, (20_000, 3, 50), {"alpha": 0.5}),
        "wide": Case(wide, (150, 600, 600), {"max_iter": 2}),
    },
    "Lasso": {name: replace(case, params={"alpha": 10.0}) for name, case in _EACH_TASK.items()},
    "OLS": _EACH_TASK,
    "Mean": {
        "many": Case(long, (400, 2, 8_000)),
        "few": Case(long, (2, 300_000, 1)),
        "wide": Case(wide, (75_000, 20, 1)),
    },
}
# What tasks share, by whole matrices and by factors of low rank.
COUPLED = {
    "dense": Case(long, (6, 110), {"couplings": "common"}),
    "wide": Case(wide, (250, 8), {"couplings": "common"}),
    "linear": Case(long, (3, 500, 10), {"couplings": "common", **_LINEAR}),
    "polynomial": Case(long, (16, 120), {"couplings": "common", "kernels": polynomial_kernels([1, 2, 3])}),
    "few values": Case(
        few_values, (16, 120), {"couplings": "common", "kernels": gaussian_kernels([1.0], per_feature=True)}
    ),
}
