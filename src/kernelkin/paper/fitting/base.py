"""The steps that every fit consists of, whatever the model: specification, plan, run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...data import TaskData
from ...engines import Engine, Threads
from ...memory import Need


@dataclass(frozen=True)
class RunOptions:
    """How a fit is run; the result does not depend on it, unless the callback returns True, which stops the solver."""

    n_jobs: int | None = None
    verbose: int = 0
    callback: Callable[..., object] | None = None
    engine: Engine = field(default_factory=Threads)


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind.

    Attributes
    ----------
    attributes : fitted attributes of the estimator, by name; `functions_` predicts.
    warnings : messages with their categories.
    """

    attributes: dict[str, Any]
    warnings: tuple[tuple[str, type[Warning]], ...] = field(default=())


class Plan(Protocol):
    """A fit of which nothing large exists yet. Making it refuses parameters that do not fit the data."""

    def memory(self, n_jobs: int = 1) -> Need:
        """Return an upper bound on the memory that `run` takes."""
        ...

    def run(self, options: RunOptions) -> Fitted:
        """Fit."""
        ...


class Specification(Protocol):
    """Everything about a model but its data."""

    def plan(self, data: TaskData) -> Plan:
        """Apply the specification to data."""
        ...
