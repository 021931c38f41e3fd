"""Numbers and tables in a form that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def number(value: Any) -> float | None:
    """A number to six digits; None if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    (0.333333, None)
    """
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Iterable[Any]) -> list[float | None]:
    """The same for each of them."""
    return [number(value) for value in values]


def table(values: np.ndarray) -> list[list[float]]:
    """Values (n, m) to three decimals."""
    return [[float(value) for value in row] for row in np.round(values, 3) + 0.0]
