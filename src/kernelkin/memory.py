"""How much memory a fit may take, and the refusal of one that needs more; who fits says how much that is."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .data import TaskData
from .exceptions import GramMemoryError

# The environment variable that limits the memory of a fit, in GiB.
LIMIT = "KERNELKIN_MEMORY_GIB"


@dataclass(frozen=True)
class Need:
    """The memory that a fit takes at its peak, besides the data it is given.

    Attributes
    ----------
    peak : bytes in all.
    mostly : what most of them are for, in words.
    part : bytes for that alone.
    instead : what to do where there are not so many, in words.
    """

    peak: int
    mostly: str
    part: int
    instead: str


def check_memory(need: Need) -> None:
    """Refuse a fit that needs more memory than there is."""
    limit = memory_limit()
    if need.peak > limit:
        raise GramMemoryError(
            f"this fit needs {_gib(need.peak)} of memory, {_gib(need.part)} of them for {need.mostly}, and "
            f"{_gib(limit)} are {_whose()}: {need.instead}"
        )


def label_bytes(data: TaskData) -> int:
    """What reading holds beside X: rows, targets and weights."""
    return data.sample_weight.nbytes + sum(rows.nbytes + y.nbytes for rows, y in zip(data.rows, data.y, strict=True))


def reading_bytes(data: TaskData) -> int:
    """What reading takes at its peak: of long data, rows are sorted by task."""
    return label_bytes(data) if data.form == "wide" else 48 * len(data.X)


def memory_limit() -> int:
    """Bytes a fit may take: `KERNELKIN_MEMORY_GIB` GiB where that is set, else what is free."""
    text = os.environ.get(LIMIT, "")
    if not text:
        return available_memory()
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit > 0:
        raise ValueError(f"the environment variable {LIMIT} must be a number of GiB above zero, got {text!r}")
    return int(min(limit * 2**30, 2.0**62))


def available_memory() -> int:
    """Bytes of memory a process may still take; where the system does not say, all that the machine has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def _whose() -> str:
    return f"allowed ({LIMIT})" if os.environ.get(LIMIT) else "free"
