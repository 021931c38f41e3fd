"""What an engine is: where the work of fits, searches and tests runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol


class Held(Protocol):
    """Objects that stay where an engine works on them. A lost one is made anew from what it was made from."""

    def __len__(self) -> int: ...

    def derive(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Held:
        """Return the objects `function(object, *argument)`, which stay where they are made."""
        ...

    def pick(self, objects: Sequence[int]) -> Held:
        """Return some of the objects, by position; one may be there several times."""
        ...

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return `function(object, *argument)` of each object, in order."""
        ...

    def total(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """Return the sum of `function(object, *argument)` over all objects, added up where these are."""
        ...


class Engine(Protocol):
    """Where work runs. The result does not depend on it.

    Attributes
    ----------
    name : its key in `ENGINES`.
    splits : whether a fit is split into blocks of tasks, which the engine holds. Otherwise it runs on threads of this
        process.
    block_bytes : Gram matrices of a block, in bytes.
    keep_grams : whether blocks keep their Gram matrices; None: where they fit into the memory of the workers.
    """

    name: ClassVar[str]
    splits: ClassVar[bool]
    block_bytes: int
    keep_grams: bool | None

    @property
    def n_workers(self) -> int:
        """How many pieces of work run at one time."""
        ...

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        """Return `function(shared, item)` of each item, in order. Functions and items must be picklable."""
        ...

    def hold(self, items: Sequence[Any]) -> Held:
        """Send objects to where they are to stay."""
        ...

    def share(self, value: Any) -> Any:
        """Return what stands for a large argument of many calls, so that it is sent once."""
        ...

    def worker_memory(self) -> list[int]:
        """Return the memory limit of each worker in bytes; empty where none is known."""
        ...
