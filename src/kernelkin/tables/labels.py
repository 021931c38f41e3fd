"""Columns that name tasks or hold targets. Cells that are names keep the text they were given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from .columns import CellError, read_numbers
from .kinds import mean_and_scale
from .numbers import Decimal, as_numbers, is_missing_mark, split_number

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


def read_targets(cells: Series, decimal: Decimal = ".") -> Series:
    """Targets from text cells: numbers if all are, else the texts, so that classes "01", "1", "TRUE" and "true" differ.

    Numbers with leading zeros are codes, and stay text.
    """
    known = ~cells.isin(MISSING)
    numbers = as_numbers(cells.where(known, None).to_numpy(), decimal)
    if np.isinf(numbers).any() or any(_LEADING_ZERO.match(cell) for cell in cells[known]):
        return cells.astype(object).where(known, None)
    return type(cells)(numbers, index=cells.index, name=cells.name)


def _is_integer(cell: str) -> bool:
    """Whether a cell is an integer that floats represent exactly."""
    return len(cell) <= 17 and CANONICAL.fullmatch(cell) is not None and abs(int(cell)) < 2**53


def class_labels(values: Series) -> np.ndarray:
    """Labels of classes: whole numbers if all are, else text; None where missing."""
    if values.dtype.kind == "f" and are_whole(values):
        return values.to_numpy().astype(np.int64)
    texts = values.astype(object).map(str, na_action="ignore")
    return texts.where(values.notna(), None).to_numpy() if values.isna().any() else texts.to_numpy(dtype=str)


def are_whole(values: Series) -> bool:
    """Whether all values are whole numbers that floats represent exactly."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not is_numeric_dtype(values) or is_bool_dtype(values):
        return False
    return bool(_whole(values.to_numpy(dtype=np.float64, na_value=np.nan)).all())


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Which numbers (n,) are whole and below 2**53, so that no two whole numbers become one float."""
    return (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)


def text_labels(values: np.ndarray) -> np.ndarray:
    """Task labels (n,) as text."""
    if values.dtype.kind == "M":
        return np.datetime_as_string(values, unit="auto")
    return np.array([str(value) for value in values.tolist()], dtype=str)


def whole_labels(name: str, values: np.ndarray) -> np.ndarray:
    """Task labels (n,) as integers. A text must be written as an integer is: "01" is not the task 1."""
    numbers = read_numbers(name, values)
    good = _whole(numbers) & np.array([not isinstance(v, str) or bool(CANONICAL.fullmatch(v)) for v in values])
    if not good.all():
        row = int(np.argmin(good))
        raise CellError(name, row + 1, (f"{str(values[row])!r:.80}", "; tasks are whole numbers"))
    return numbers.astype(np.int64)


def common_unit(values: Series, decimal: Decimal = ".") -> str:
    """The unit of a target whose cells are all numbers, some with this unit: "EUR" of "30 EUR"; empty for others."""
    if values.dtype.kind in "biufmM":
        return ""
    found = [split_number(text, decimal) for text in map(str, values.unique()) if not is_missing_mark(text)]
    units = {unit for _, unit in found if unit}
    return units.pop() if len(units) == 1 and all(np.isfinite(number) for number, _ in found) else ""


def read_target(values: Series, decimal: Decimal = ".", unit: str = "") -> np.ndarray:
    """A target (n,) as numbers, NaN where it is missing."""
    return read_numbers(str(values.name), values.to_numpy(), "number", decimal, unit)


def target_moments(values: Series, decimal: Decimal = ".", unit: str = "") -> tuple[float, float]:
    """The mean and the standard deviation of a target."""
    numbers = read_target(values, decimal, unit)
    known = numbers[~np.isnan(numbers)]
    return mean_and_scale(known) if len(known) else (0.0, 1.0)
