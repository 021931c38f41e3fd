"""Where work runs: threads of this process, or the workers of a Dask cluster."""

from copy import copy
from typing import Any

from .dask import Dask, DaskHeld
from .jobs import Jobs
from .threads import Each, SingleThreadedBLAS, Threads, Workers, count_workers, read_engine, serially

Engine = Threads | Dask

ENGINES: dict[str, type[Threads] | type[Dask]] = {engine.name: engine for engine in (Threads, Dask)}


def clone_with_engine(estimator: Any) -> Any:
    """Implement `__sklearn_clone__`: clones share a Dask client, because it cannot be copied."""
    from sklearn.base import BaseEstimator

    engine = getattr(estimator, "engine", None)
    if isinstance(engine, str | None):
        return BaseEstimator.__sklearn_clone__(estimator)
    plain = copy(estimator)
    plain.engine = Threads.name
    return plain.__sklearn_clone__().set_params(engine=engine)


def state_without_engine(estimator: Any) -> dict[str, Any]:
    """Implement `__getstate__`: in a pickle, threads replace a Dask client."""
    from sklearn.base import BaseEstimator

    state = BaseEstimator.__getstate__(estimator)
    return state if isinstance(state.get("engine"), str | None) else {**state, "engine": Threads.name}


__all__ = [
    "ENGINES",
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
