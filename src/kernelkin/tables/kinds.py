"""What the columns of a training table hold, which of them are of use, and how each becomes features."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal as DecimalNumber
from numbers import Number

import numpy as np

from ..data import Table, missing, no_numbers
from .columns import BOOLEANS, Column, Kind, read_numbers
from .dates import COMPACT, are_compact_dates, as_days, find_format, is_ambiguous, is_date, useful_parts
from .numbers import Decimal, is_missing_mark, split_number

EMPTY, CONSTANT = "empty", "the same in every row"
TOO_LONG = "its numbers differ only after the first 15 digits, and are not told apart: write codes with a letter"
_UNIT_IN_NAME = re.compile(r".*[\[(]\s*([^\[\]()]{1,12}?)\s*[\])]\s*")
_IDENTIFIER = re.compile(r"|unnamed: \d+|index|id|uuid|row|row[ _]?(id|nr|number)|.+[ _]id", re.IGNORECASE)
# A text column most of whose cells are numbers is meant as numbers.
MOST_NUMBERS = 0.5


@dataclass(frozen=True)
class Unused:
    """A column that is no feature, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Reading:
    """How columns are read.

    Attributes
    ----------
    decimal : what separates fractions in texts.
    max_categories : texts that have a feature of their own at most.
    min_frequency : rows that a text must have for a feature of its own.
    day_first : whether 3/4/2024 is in April; None: no, and columns for which that matters say so.
    """

    decimal: Decimal = "."
    max_categories: int = 30
    min_frequency: int = 2
    day_first: bool | None = None

    def fit(self, table: Table) -> list[Column | Unused]:
        """Learn the encoding of each column from the training rows."""
        return [self._fit(*column) for column in zip(map(str, table.names), table.columns, table.types, strict=True)]

    def _fit(self, name: str, values: np.ndarray, dtype: str) -> Column | Unused:
        if values.ndim != 1 or values.dtype.kind in "cV":
            return Unused(name, f"holds {no_numbers(dtype) or dtype}, which are not read")
        if no_numbers(dtype) == "categories":
            return self._texts(Column(name, "text", dtype), values)
        if values.dtype.kind in "iufbm":
            kind: Kind = "boolean" if values.dtype.kind == "b" else "number"
            return self._numbers(Column(name, kind, dtype, unit="days" if values.dtype.kind == "m" else ""), values)
        if values.dtype.kind == "M":
            return self._dates(Column(name, "date", dtype), values)
        known = values[~missing(values)]
        if not len(known):
            return Unused(name, EMPTY)
        return self._objects(Column(name, "text", dtype), values, known)

    def _objects(self, column: Column, values: np.ndarray, known: np.ndarray) -> Column | Unused:
        """A column of objects of Python: truth values, numbers, dates or texts."""
        types = set(map(type, known))
        if all(issubclass(t, bool | np.bool_) for t in types):
            return self._numbers(replace(column, kind="boolean"), values)
        if all(issubclass(t, Number | DecimalNumber) for t in types) and complex not in types:
            return self._numbers(replace(column, kind="number"), values)
        if all(map(is_date, known)):
            return self._dates(replace(column, kind="date"), values)
        if not all(issubclass(t, str | Number) for t in types):
            word = next(t for t in types if not issubclass(t, str | Number)).__name__
            return Unused(column.name, f"holds {no_numbers(column.dtype) or f'objects ({word})'}, which are not read")
        return self._from_texts(column, values, [str(value).strip() for value in known])

    def _from_texts(self, column: Column, values: np.ndarray, texts: list[str]) -> Column | Unused:
        """Texts that are truth values, numbers or dates, or else categories."""
        if all(text.lower() in BOOLEANS for text in texts):
            return self._numbers(replace(column, kind="boolean"), values)
        distinct = [text for text in dict.fromkeys(texts) if not is_missing_mark(text)]
        if any(re.match(r"[+-]?0\d", text) for text in distinct):
            pass  # numbers with leading zeros are codes; dates may begin with them
        elif distinct:
            found = [split_number(text, self.decimal) for text in distinct]
            is_number = np.isfinite([number for number, _ in found])
            units = {unit for (_, unit), good in zip(found, is_number, strict=True) if good}
            if is_number.all() and len(units) == 1:
                return self._numbers(replace(column, kind="number", unit=units.pop()), values)
            if (reason := self._why_not_numbers(values, distinct, is_number)) is not None:
                return Unused(column.name, reason)
        date_format, stray = find_format(distinct, self.day_first)
        if stray is not None:
            return Unused(column.name, f"dates mixed with {_where(stray, values)}")
        if date_format is not None:
            ambiguous = self.day_first is None and is_ambiguous(distinct, date_format)
            return self._dates(replace(column, kind="date", date_format=date_format, ambiguous=ambiguous), values)
        return self._texts(column, values)

    def _why_not_numbers(self, values: np.ndarray, distinct: list[str], is_number: np.ndarray) -> str | None:
        """Why a column that is meant as numbers cannot be read as such; None where it is not meant so."""
        if len(distinct) <= 2:
            return None
        other: Decimal = "," if self.decimal == "." else "."
        if all(np.isfinite(split_number(text, other)[0]) for text in distinct):
            example = repr(distinct[0])[:40]
            return f"its numbers have the decimal sign {other!r}, as in {example}: set the decimal sign to {other!r}"
        if is_number.all() or is_number.mean() < MOST_NUMBERS or len(distinct) < 6:
            return None
        return f"numbers mixed with {_where(distinct[int(is_number.argmin())], values)}"

    def _numbers(self, column: Column, values: np.ndarray) -> Column | Unused:
        numbers = read_numbers(column.name, values, column.kind, self.decimal, column.unit)
        known = numbers[~np.isnan(numbers)]
        n_missing = len(numbers) - len(known)
        if not len(known):
            return Unused(column.name, EMPTY)
        if not n_missing and (known == known[0]).all():
            return Unused(column.name, TOO_LONG if len(set(values[~missing(values)].tolist())) > 1 else CONSTANT)
        if column.kind == "number" and not column.unit and are_compact_dates(numbers):
            return self._dates(replace(column, kind="date", date_format=COMPACT), values)
        if column.kind == "number" and _numbers_rows(column.name, known, len(numbers)):
            return Unused(column.name, "a different whole number in every row, and by its name it identifies rows")
        mean, scale = mean_and_scale(known)
        unit = column.unit or unit_in_name(column.name)
        return replace(column, mean=mean, scale=scale, unit=unit, n_missing=n_missing)

    def _dates(self, column: Column, values: np.ndarray) -> Column | Unused:
        days = as_days(values, column.date_format)
        known = days[np.isfinite(days)]
        if not len(known):
            return Unused(column.name, EMPTY)
        if len(known) == len(days) and (known == known[0]).all():
            return Unused(column.name, CONSTANT)
        mean, scale = mean_and_scale(known)
        return replace(column, mean=mean, scale=scale, n_missing=len(days) - len(known), parts=useful_parts(days))

    def _texts(self, column: Column, values: np.ndarray) -> Column | Unused:
        absent = missing(values)
        counts = Counter(map(str, values[~absent]))
        n_missing, n_known = int(absent.sum()), int((~absent).sum())
        if not counts:
            return Unused(column.name, EMPTY)
        if len(counts) == 1 and not n_missing:
            return Unused(column.name, CONSTANT)
        if len(counts) > max(n_known // 2, 2):
            rows = "every row" if n_known == len(values) else "every row that has one"
            what = f"a different text in {rows}" if len(counts) == n_known else f"{len(counts)} texts in {n_known} rows"
            return Unused(column.name, f"{what}: it identifies rows rather than describing them")
        kept = [text for text, count in counts.most_common() if count >= self.min_frequency][: self.max_categories]
        # A single rare text is a category like the others.
        kept = kept if len(counts) - len(kept) > 1 or len(counts) > self.max_categories else list(counts)
        n_rare = len(counts) - len(kept)
        return replace(column, categories=tuple(sorted(kept)), n_rare=n_rare, n_missing=n_missing)


def _where(stray: str, values: np.ndarray) -> str:
    row = next(i for i, value in enumerate(values) if str(value).strip() == stray)
    return f"text, such as {stray!r:.40} in row {row + 1}: correct these cells or empty them"


def unit_in_name(name: str) -> str:
    """
    >>> unit_in_name("price (EUR)"), unit_in_name("speed [m/s]"), unit_in_name("price")
    ('EUR', 'm/s', '')
    """
    match = _UNIT_IN_NAME.fullmatch(name)
    return match[1] if match else ""


def _numbers_rows(name: str, known: np.ndarray, n_rows: int) -> bool:
    if n_rows < 3 or _IDENTIFIER.fullmatch(name.strip()) is None:
        return False
    return len(np.unique(known)) == n_rows and bool((known == np.round(known)).all())


def mean_and_scale(known: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation of numbers (n,); 1 where what deviates is rounding."""
    mean = float(known.mean())
    # Squares of tiny numbers underflow; dividing by a power of two is exact.
    unit = float(np.ldexp(1.0, max(int(np.frexp(np.abs(known).max())[1]), -1000)))
    scale = float(np.sqrt(np.mean((known / unit - mean / unit) ** 2)) * unit)
    return mean, scale if scale > 1e-12 * abs(mean) else 1.0
