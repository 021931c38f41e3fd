"""The syntax of kernels on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..data import listing
from ..kernels import Kernel, gaussian_kernels, linear_kernels, polynomial_kernels, resolve_kernels, view_kernels
from ..kernels.families import default_kernels

HELP = """\
kernels:
  a list of NAME[:NUMBERS][@COLUMNS], for example  gaussian:0.5,1,2  linear@age,income  gaussian@each
  NAME     gaussian (NUMBERS: bandwidths, times the median distance), polynomial (NUMBERS: degrees), linear, default,
           or a kernel of scikit-learn such as laplacian
  COLUMNS  columns of the table, or "each": one kernel for each column; all columns together if omitted"""
_PATTERN = re.compile(r"(?P<name>[A-Za-z0-9_]+)(:(?P<numbers>[^@]*))?(@(?P<columns>.+))?")


def read_kernels(items: Sequence[str] | None, positions: Mapping[str, list[int]]) -> list[Kernel] | None:
    """What follows --kernels -> kernels; `positions` are the features of each column of the table.

    >>> [kernel.name for kernel in read_kernels(["gaussian:0.5,2", "linear@age"], {"age": [0], "town": [1, 2]})]
    ['rbf(0.5 x median)', 'rbf(2 x median)', 'age: linear']
    >>> [kernel.name for kernel in read_kernels(["linear@each"], {"age": [0], "town": [1, 2]})]
    ['age: linear', 'town: linear']
    """
    if not items:
        return None
    return resolve_kernels([_read(item, positions) for item in items])


def _read(item: str, positions: Mapping[str, list[int]]) -> Any:
    match = _PATTERN.fullmatch(item)
    if match is None:
        raise ValueError(f"--kernels {item!r} is not of the form NAME[:NUMBERS][@COLUMNS]")
    family = _family(item, match["name"].lower(), match["numbers"])
    if match["columns"] is None:
        return family
    names = list(positions) if match["columns"] == "each" else [match["columns"]]
    return view_kernels({name: _columns(item, name, positions) for name in names}, family)


def _columns(item: str, names: str, positions: Mapping[str, list[int]]) -> list[int]:
    wanted = [names] if names in positions else names.split(",")
    for name in wanted:
        if name not in positions:
            raise ValueError(
                f"--kernels {item!r}: no feature column is named {name!r}; there are {listing([*positions])}"
            )
    return [position for name in wanted for position in positions[name]]


def _family(item: str, name: str, numbers: str | None) -> Any:
    try:
        values = [float(number) for number in numbers.split(",")] if numbers else None
    except ValueError:
        raise ValueError(f"--kernels {item!r}: {numbers!r} are not numbers separated by commas") from None
    if name in ("gaussian", "rbf"):
        return gaussian_kernels(values)
    if name in ("polynomial", "poly"):
        # The family refuses degrees that are not whole numbers.
        degrees: list[Any] = [int(value) if value.is_integer() else value for value in values or (1.0, 2.0, 3.0)]
        return polynomial_kernels(degrees)
    if values is not None:
        raise ValueError(f"--kernels {item!r}: only gaussian and polynomial take numbers")
    if name == "default":
        return default_kernels()
    return linear_kernels() if name == "linear" else name
