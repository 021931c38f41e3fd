"""Where work runs: threads of this process, joblib's current backend, or a Dask cluster."""

from collections.abc import Callable
from copy import copy
from typing import Any

from .base import Engine, Held
from .blas import SingleThreadedBLAS
from .dask import Dask, DaskHeld
from .local import Joblib, Threads
from .threads import Each, Workers, count_workers, serially

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (Threads, Joblib, Dask)}


def read_engine(engine: Any, n_jobs: int | None = None) -> Engine:
    """Return the engine that a user means: "threads", "joblib", a Dask client, or an engine."""
    if engine is None or (isinstance(engine, str) and engine == Threads.name):
        return Threads(n_jobs)
    if isinstance(engine, str) and engine == Joblib.name:
        return Joblib(n_jobs)
    if isinstance(engine, Threads | Joblib | Dask):
        return engine
    if hasattr(engine, "submit") and hasattr(engine, "scatter"):
        return Dask(engine)
    raise ValueError(f'engine must be "threads", "joblib", a Dask client or an engine, got {engine!r}')


def clone_sharing_engine(estimator: Any, clone: Callable[[], Any]) -> Any:
    """Return a clone of an estimator, by `clone` or as scikit-learn makes it.

    A Dask client is a connection and cannot be copied: a clone has the same one.
    """
    engine = getattr(estimator, "engine", None)
    if engine is None or isinstance(engine, str):
        return clone()
    plain = copy(estimator)
    plain.engine = Threads.name
    return plain.__sklearn_clone__().set_params(engine=engine)


def storable_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an estimator for a pickle: a client is a connection, and threads take its place."""
    plain = isinstance(state.get("engine"), str | None)
    return state if plain else {**state, "engine": Threads.name}


__all__ = [
    "ENGINES",
    "Dask",
    "DaskHeld",
    "Each",
    "Engine",
    "Held",
    "Joblib",
    "SingleThreadedBLAS",
    "Threads",
    "Workers",
    "clone_sharing_engine",
    "count_workers",
    "read_engine",
    "serially",
    "storable_state",
]
