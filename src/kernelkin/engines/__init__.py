"""Where work runs: threads of this process, or the workers of a Dask cluster."""

from copy import copy
from typing import Any

from sklearn.base import BaseEstimator

from .dask import Dask, DaskHeld
from .threads import Each, Jobs, SingleThreadedBLAS, Threads, Workers, count_workers, read_engine, serially

Engine = Threads | Dask


def clone_with_engine(estimator: Any) -> Any:
    """Implement `__sklearn_clone__`: clones share a Dask client, because it cannot be copied."""
    engine = getattr(estimator, "engine", None)
    if isinstance(engine, str | None):
        return BaseEstimator.__sklearn_clone__(estimator)
    plain = copy(estimator)
    plain.engine = Threads.name
    return plain.__sklearn_clone__().set_params(engine=engine)


def state_without_engine(estimator: Any) -> dict[str, Any]:
    """Implement `__getstate__`: in a pickle, threads replace a Dask client."""
    state = BaseEstimator.__getstate__(estimator)
    return state if isinstance(state.get("engine"), str | None) else {**state, "engine": Threads.name}


__all__ = [
    "Dask",
    "DaskHeld",
    "Each",
    "Engine",
    "Jobs",
    "SingleThreadedBLAS",
    "Threads",
    "Workers",
    "clone_with_engine",
    "count_workers",
    "read_engine",
    "serially",
    "state_without_engine",
]
