"""Cells of a text file that are names rather than measurements: tasks and classes keep the text they were given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import Series

# The cells that stand for a missing value, in features and targets.
MISSING = frozenset(
    [
        "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null",
    ]
)  # fmt: skip
# An integer written in the one usual way: "01", "+1" and "1.0" are other texts, and other names.
CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")


def read_tasks(cells: Series) -> Series:
    """Task names from text cells: integers if all are written as integers are, else the texts; only "" is missing."""
    known = cells != ""
    if known.any() and all(map(_is_integer, cells[known])):
        return cells.where(known, None).astype("Int64") if not known.all() else cells.astype(np.int64)
    return cells.astype(object).where(known, None)


def read_targets(cells: Series) -> Series:
    """Targets from text cells: numbers if all are, else the texts, so that classes "01", "1", "TRUE" and "true" differ.

    Numbers with leading zeros are codes, and stay text.
    """
    import pandas as pd

    known = ~cells.isin(MISSING)
    numbers = pd.to_numeric(cells.where(known, None), errors="coerce")
    if (numbers.isna() & known).any() or any(_LEADING_ZERO.match(cell) for cell in cells[known]):
        return cells.astype(object).where(known, None)
    return numbers


def _is_integer(cell: str) -> bool:
    """Whether a cell is an integer that floats represent exactly."""
    return len(cell) <= 17 and CANONICAL.fullmatch(cell) is not None and abs(int(cell)) < 2**53
