"""The rows that the tables share: the paper's model in its two forms, its baselines, and what we recommend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelkin import KinClassifier, KinRegressor
from kernelkin.registry import find_model

from .protocol import Model

PUBLISHED, OPTIMUM = "MK-MTRL (paper)", "MK-MTRL (optimum)"

# With mu it makes one parameter (see model_selection.grid), so the paper's grid of C and mu is a line.
COSTS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
POWERS = (2.0, 8.67)


def paper_rows(
    kind: str, kernels: Any, costs: Sequence[float] = COSTS, powers: Sequence[float] = POWERS, **options: Any
) -> list[Model]:
    """The models of the paper on one list of kernels; `kind` is "Classifier" or "Regressor".

    Algorithm 1 takes minutes where the joint solver takes a second, on the same objective: it gets the C that
    cross-validation chooses for the optimum.
    """

    def make(name: str, **parameters: Any) -> Any:
        entry = find_model(name)
        estimator = entry.classifier if kind == "Classifier" else entry.regressor
        assert estimator is not None
        return estimator(kernels=kernels, **{"tol": 1e-3, **options, **parameters})

    free = {"shrinkage": 0.0, "min_rank": 1.0}
    line = {"C": list(costs)}
    optimum = make("MK-MTRL", **free, max_iter=300)
    alternating = make("MK-MTRL", **free, solver="alternating", max_iter=50)
    return [
        Model("AVG", make("AVG"), line),
        Model("IMKL", make("IMKL"), {"p": list(powers), **line}),
        Model("IKL", make("IKL"), line),
        Model("MK-MTFL", make("MK-MTFL"), line),
        Model(PUBLISHED, alternating, line, role="paper", chooser=optimum),
        Model(OPTIMUM, optimum, line, role="paper"),
    ]


def our_row(kind: str) -> Model:
    """What we recommend, the same in all tables: `kind` is "Classifier" or "Regressor"."""
    estimator = KinClassifier() if kind == "Classifier" else KinRegressor()
    return Model(type(estimator).__name__, estimator, role="ours")
