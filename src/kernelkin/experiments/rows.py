"""The rows that the tables share: the paper's model in its three forms, and its baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import baselines, estimators
from .protocol import Model

PUBLISHED, OPTIMUM, OURS = "MK-MTRL (paper)", "MK-MTRL (optimum)", "kernelkin"

# With mu it makes one parameter (see model_selection.grid), so the paper's grid of C and mu is a line.
COSTS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
POWERS = (2.0, 8.67)


def paper_rows(
    kind: str,
    kernels: Any,
    costs: Sequence[float] = COSTS,
    powers: Sequence[float] = POWERS,
    published_costs: Sequence[float] | None = None,
    **options: Any,
) -> list[Model]:
    """The models of the paper on one list of kernels; `kind` is "Classifier" or "Regressor".

    `published_costs` are those of Algorithm 1, which is slow, where they are fewer.
    """

    def make(name: str, **parameters: Any) -> Any:
        room = estimators if name == "MKMTRL" else baselines
        return getattr(room, name + kind)(kernels=kernels, **{"tol": 1e-3, **options, **parameters})

    free = {"shrinkage": 0.0, "min_rank": 1.0}
    line = {"C": list(costs)}
    slow = {"C": list(published_costs or costs)}
    return [
        Model("AVG", make("Average"), line),
        Model("IMKL", make("IMKL"), {"p": list(powers), **line}),
        Model("IKL", make("IKL"), line),
        Model("MK-MTFL", make("MKMTFL"), line),
        Model(PUBLISHED, make("MKMTRL", **free, solver="alternating", max_iter=50), slow, role="paper"),
        Model(OPTIMUM, make("MKMTRL", **free, max_iter=300), line, role="paper"),
    ]
