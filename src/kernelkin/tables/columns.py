"""One column of a table: its kind, and the features it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..data import Table, missing
from .dates import PART_FEATURES, as_days, date_order, part_values
from .numbers import LARGEST, Decimal, as_numbers

Kind = Literal["number", "boolean", "text", "date"]
BOOLEANS = {"true": 1.0, "false": 0.0}
RARE, MISSING = "(rare)", "missing"


@dataclass(frozen=True)
class Column:
    """A column of the training table and its encoding.

    Attributes
    ----------
    kind : "number" (standardised), "boolean" (0 and 1, standardised), "text" (one-hot) or "date" (see `parts`).
    dtype : its type in the training table.
    mean, scale : of the training rows; a missing number is encoded as the mean.
    unit : of its numbers, from the name ("price (EUR)") or the cells ("30 EUR").
    categories : texts of the training rows, one feature each.
    n_rare : number of other texts of the training rows, which have one feature together.
    n_missing : number of missing cells in the training rows; if there are any, they are a feature too.
    date_format : of dates that are text.
    ambiguous : whether all of them could be read with the day and the month in each other's place.
    parts : of dates: time, season, weekday, hour.
    """

    name: str
    kind: Kind
    dtype: str
    mean: float = 0.0
    scale: float = 1.0
    unit: str = ""
    categories: tuple[str, ...] = ()
    n_rare: int = 0
    n_missing: int = 0
    date_format: str = ""
    ambiguous: bool = False
    parts: tuple[str, ...] = ()

    @property
    def origins(self) -> list[tuple[str, str]]:
        """The column and the part of it that each feature comes from: features of the same origin belong together."""
        if self.kind != "date":
            return [(self.name, "")] * len(self.features)
        parts = [part for part in self.parts for _ in PART_FEATURES[part]]
        return [(self.name, part) for part in (*parts, *(self.parts[:1] if self.n_missing else ()))]

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        if self.kind == "text":
            found = [f"{self.name}={c}" for c in (*self.categories, *([RARE] if self.n_rare else []))]
        elif self.kind == "date":
            found = [f"{self.name}: {feature}" for part in self.parts for feature in PART_FEATURES[part]]
        else:
            found = [self.name]
        return [*found, f"{self.name}: {MISSING}"] if self.n_missing else found

    def unseen(self, values: np.ndarray) -> list[str]:
        """Texts that were not in the training rows; none where rare texts have a feature of their own."""
        if self.kind != "text" or self.n_rare:
            return []
        return sorted(set(map(str, values[~missing(values)])) - set(self.categories))


def encode_columns(columns: Sequence[Column], table: Table, decimal: Decimal) -> np.ndarray:
    """(n, features) of the rows of a table that has these columns.

    Numbers are standardised in one block: tables of gene data have tens of thousands of columns.
    """
    cells = dict(zip(table.names, table.columns, strict=True))
    ends = np.cumsum([len(column.features) for column in columns]).tolist()
    out = np.zeros((table.n_rows, ends[-1]))
    starts = [end - len(column.features) for column, end in zip(columns, ends, strict=True)]
    numbers = [(c, start) for c, start in zip(columns, starts, strict=True) if c.kind in ("number", "boolean")]
    if numbers:
        values = np.stack([read_numbers(c.name, cells[c.name], c.kind, decimal, c.unit) for c, _ in numbers], axis=1)
        gone = np.isnan(values)
        values -= np.array([c.mean for c, _ in numbers])
        values /= np.array([c.scale for c, _ in numbers])
        out[:, [start for _, start in numbers]] = np.where(gone, 0.0, values)
        flags = [(k, start + 1) for k, (c, start) in enumerate(numbers) if c.n_missing]
        out[:, [place for _, place in flags]] = gone[:, [k for k, _ in flags]]
    for column, start, end in zip(columns, starts, ends, strict=True):
        if column.kind == "text":
            out[:, start:end] = _one_hot(column, cells[column.name])
        elif column.kind == "date":
            out[:, start:end] = _date_features(column, cells[column.name])
    return out


def _one_hot(column: Column, values: np.ndarray) -> np.ndarray:
    """(n, k): a feature for each category, then one for rare texts, then one for missing ones."""
    place = {text: k for k, text in enumerate(column.categories)}
    n_features, absent = len(column.features), missing(values)
    other = len(place) if column.n_rare else -1
    codes = np.array([place.get(str(value), other) for value in values], dtype=np.intp)
    codes[absent] = n_features - 1 if column.n_missing else -1
    return (codes[:, np.newaxis] == np.arange(n_features)).astype(np.float64)


def _date_features(column: Column, values: np.ndarray) -> np.ndarray:
    days = as_days(values, column.date_format)
    refuse_cells(column.name, values, np.isinf(days), "not a date" + _written_as(column.date_format))
    parts = [part_values(part, days, column.mean, column.scale) for part in column.parts]
    return np.hstack([*parts, *([np.isnan(days)[:, np.newaxis]] if column.n_missing else [])])


def _written_as(date_format: str) -> str:
    return f" written as {date_order(date_format)}" if date_format else ""


def read_numbers(
    name: str, values: np.ndarray, kind: Kind = "number", decimal: Decimal = ".", unit: str = ""
) -> np.ndarray:
    """(n,) floats, NaN where missing; refuses what is not a number, infinity, and numbers close to it."""
    numbers = _as_booleans(values) if kind == "boolean" else as_numbers(values, decimal, unit)
    with np.errstate(invalid="ignore"):
        large = np.abs(numbers) > LARGEST
    if large.any():
        finite = np.isfinite(numbers)
        refuse_cells(name, values, large & ~finite, "not a number")
        refuse_cells(name, values, large, "too large a number")
    return numbers


def _as_booleans(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "OUS":
        cells = [BOOLEANS.get(str(value).strip().lower(), value) for value in values]
        values = np.array(cells, dtype=object)
    return as_numbers(values)


class CellError(ValueError):
    """A cell that cannot be read: where it is, and what to do.

    Parameters
    ----------
    column : its column.
    row : its row, from 1.
    words : of the message, before and after the row.
    """

    def __init__(self, column: str, row: int, words: tuple[str, str]) -> None:
        super().__init__(f"column {column!r} has {words[0]} in row {row}{words[1]}")
        self.column, self.row, self.words = column, row, words

    def after(self, rows: int) -> CellError:
        """The same in a table that has so many rows before these."""
        return CellError(self.column, self.row + rows, self.words)


def refuse_cells(name: str, values: np.ndarray, bad: np.ndarray, reason: str) -> None:
    """Refuse a column of which some cells are bad, naming the first with its row."""
    if bad.any():
        row = int(bad.argmax())
        raise CellError(name, row + 1, (f"{str(values[row])!r:.80}", f", {reason}: correct this cell or empty it"))
