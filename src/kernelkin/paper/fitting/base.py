"""The steps that every fit consists of, whatever the model: specification, plan, run."""

from __future__ import annotations

from typing import Protocol

from ...data import TaskData
from ...estimators import Fitted, RunOptions
from ...memory import Need


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
