"""One job of the comparison, as a worker runs it."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from kernelkin import KinClassifier, KinRegressor

from .predict_case import Case, make_case, scores
from .predict_models import contenders
from .predict_sets import data_sets


def warm_up() -> None:
    """Compile, or load from the cache on disk, what fits need, so that no job is timed with it."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 2)), np.repeat([0, 1], 20)
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    KinRegressor(cv=2, random_state=0, tol=0.1).fit(X, y, tasks=tasks)
    KinClassifier(cv=2, random_state=0, tol=0.1).fit(X, y > 0, tasks=tasks)


@cache
def _case(data_set: str, split: int) -> Case:
    found = data_sets()[data_set]
    return make_case(found.make(split), found.classification, split)


def run_job(data_set: str, split: int, contender: str) -> dict[str, Any]:
    """Return seconds of processor time and scores; `missed` says why there are none."""
    case, model = _case(data_set, split), contenders()[contender]
    if not model.fits(case):
        return {"s": 0.0, "missed": "does not apply"}
    began = time.process_time()
    values = model.run(case, split)
    seconds = round(time.process_time() - began, 3)
    return {"s": seconds, **{name: round(value, 5) for name, value in scores(case, values).items()}}
