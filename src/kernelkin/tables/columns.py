"""Encode a column of a table: detect its kind, decide whether to use it, and convert it to features."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal as DecimalNumber
from functools import partial
from numbers import Number
from typing import Literal

import numpy as np

from ..data.arrays import Table, missing, no_numbers
from .cells import (
    BOOLEANS,
    CLOCKS,
    ISO,
    OTHER_DECIMAL,
    Decimal,
    as_days,
    as_texts,
    date_example,
    find_format,
    is_ambiguous,
    is_date,
    is_missing_mark,
    read_numbers,
    refuse_cells,
    split_number,
)

Kind = Literal["number", "boolean", "text", "date"]
RARE, MISSING = "(rare)", "missing"
EMPTY, CONSTANT = "empty", "the same in every row"
TOO_LONG = "its numbers differ only after the first 15 digits, which floats cannot represent: write codes with a letter"
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# The parts of dates: the names of their features, and a description.
PARTS = {
    "time": (("time",), "the time"),
    "season": (("season sin", "season cos"), "the season (sine and cosine)"),
    "weekday": (WEEKDAYS, "the day of the week"),
    "hour": (("hour sin", "hour cos"), "the time of day (sine and cosine)"),
}
# A season feature needs dates that span at least this many days; a weekday feature needs two weeks.
LEAST_YEAR, LEAST_WEEKS = 300.0, 14.0
# The error of a year of mean length is below a day.
YEAR = 365.2425
# The largest number of texts of a column with a feature of their own.
MOST_CATEGORIES = 30
# A text column counts as numbers if at least this share of its cells are numbers.
LEAST_NUMBERS = 0.5
_UNIT_IN_NAME = re.compile(r".+[\[(]\s*([^\[\]()]{1,12}?)\s*[\])]\s*")
_IDENTIFIER = re.compile(r"|unnamed: \d+|index|id|uuid|row|row[ _]?(id|nr|number)|.+[ _]id", re.IGNORECASE)


@dataclass(frozen=True)
class Column:
    """A column of the training table and its encoding."""

    name: str
    kind: Kind  # "number" (standardised), "boolean" (0 and 1, standardised), "text" (one-hot) or "date" (see `parts`)
    dtype: str  # its type in the training table
    # mean, scale: mean and standard deviation of the training rows; a missing number is encoded as the mean.
    mean: float = 0.0
    scale: float = 1.0
    unit: str = ""  # the unit of the numbers, from the name ("price (EUR)") or the cells ("30 EUR")
    categories: tuple[str, ...] = ()  # the texts of the training rows that have their own feature
    n_rare: int = 0  # number of other texts in the training rows, which share one feature
    n_missing: int = 0  # number of missing cells in the training rows; if there are any, a feature marks them
    date_format: str = ""  # the format of dates that are text
    ambiguous: bool = False  # whether all dates could also be read with day and month swapped
    parts: tuple[str, ...] = ()  # the parts of dates that become features: time, season, weekday, hour

    @property
    def parts_and_features(self) -> list[tuple[str, str]]:
        """The part of a date that each feature stands for ("" for other columns), and the name of the feature."""
        if self.kind == "date":
            found = [(part, f"{self.name}: {feature}") for part in self.parts for feature in PARTS[part][0]]
        elif self.kind == "text":
            found = [("", f"{self.name}={text}") for text in (*self.categories, *([RARE] if self.n_rare else []))]
        else:
            found = [("", self.name)]
        return [*found, (found[0][0], f"{self.name}: {MISSING}")] if self.n_missing else found

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [feature for _, feature in self.parts_and_features]

    def describe(self) -> str:
        """Return a description of the column and its encoding."""
        if self.kind == "number":
            unit = f" in {self.unit}" if self.unit else ""
            mean, sd = (np.format_float_positional(x, 4, fractional=False, trim="-") for x in (self.mean, self.scale))
            words = f"number{unit}, standardised (mean {mean}, standard deviation {sd})"
        elif self.kind == "boolean":
            words = "yes or no, standardised"
        elif self.kind == "text":
            rare = f"; {self.n_rare} rare ones share a feature" if self.n_rare else ""
            words = f"text with {len(self.categories) + self.n_rare} values, one feature each{rare}"
        else:
            written = f" written like {date_example(self.date_format)}" if self.date_format else ""
            written += " (or the day first: see day_first)" if self.ambiguous else ""
            *parts, last = [PARTS[part][1] for part in self.parts]
            kind = "time of day" if self.date_format in CLOCKS else "date"
            words = f"{kind}{written}, as {', '.join(parts) + ' and ' if parts else ''}{last}"
        return f"{words}; {self.n_missing} missing, marked by a feature" if self.n_missing else words


class ColumnReader:
    """Learn the encoding of columns from training rows.

    Parameters
    ----------
    decimal : the decimal separator in texts.
    day_first : whether 3/4/2024 is in April; None means no, and ambiguous columns are marked.
    """

    def __init__(self, decimal: Decimal, day_first: bool | None) -> None:
        self.decimal, self.day_first = decimal, day_first

    def read(self, name: str, values: np.ndarray, dtype: str) -> Column | str:
        """Return the encoding of a column (n,), or the reason why it is left out."""
        column = Column(name, "text", dtype)
        if values.ndim != 1 or values.dtype.kind in "cV":
            return f"holds {no_numbers(dtype) or dtype}, which are not read"
        if no_numbers(dtype) == "categories":
            return self._texts(column, values)
        if values.dtype.kind in "iufbm":
            unit = "days" if values.dtype.kind == "m" else ""
            return self._numbers(column, values, "boolean" if values.dtype.kind == "b" else "number", unit)
        if values.dtype.kind == "M":
            return self._dates(column, values)
        known = values[~missing(values)]
        types = set(map(type, known))
        if not types:
            return EMPTY
        if all(issubclass(t, bool | np.bool_) for t in types):
            return self._numbers(column, values, "boolean")
        if all(issubclass(t, Number | DecimalNumber) for t in types) and complex not in types:
            return self._numbers(column, values)
        if all(map(is_date, known)):
            return self._dates(column, values)
        if not all(issubclass(t, str | Number) for t in types):
            word = next(t for t in types if not issubclass(t, str | Number)).__name__
            return f"holds {no_numbers(dtype) or f'objects ({word})'}, which are not read"
        return self._parsed(column, values, [str(value).strip() for value in known])

    def _parsed(self, column: Column, values: np.ndarray, texts: list[str]) -> Column | str:
        """Return the encoding of a column of texts, which may be booleans, numbers or dates."""
        if all(text.lower() in BOOLEANS for text in texts):
            return self._numbers(column, values, "boolean")
        distinct = [text for text in dict.fromkeys(texts) if not is_missing_mark(text)]
        # Numbers with leading zeros are codes; dates may have leading zeros.
        if distinct and not any(re.match(r"[+-]?0\d", text) for text in distinct):
            found = [split_number(text, self.decimal) for text in distinct]
            is_number = np.isfinite([number for number, _ in found])
            units = {unit for (_, unit), good in zip(found, is_number, strict=True) if good}
            if is_number.all() and len(units) == 1:
                return self._numbers(column, values, "number", units.pop())
            if (reason := self._why_not_numbers(values, distinct, is_number)) is not None:
                return reason
        date_format, stray = find_format(distinct, self.day_first)
        if stray is not None:
            return f"dates mixed with {_where(stray, values)}"
        if date_format is not None:
            ambiguous = self.day_first is None and is_ambiguous(distinct, date_format)
            return self._dates(replace(column, date_format=date_format, ambiguous=ambiguous), values)
        return self._texts(column, values)

    def _why_not_numbers(self, values: np.ndarray, distinct: list[str], is_number: np.ndarray) -> str | None:
        """Return why a column of mostly numbers cannot be read as numbers; None if it is not mostly numbers."""
        if len(distinct) <= 2:
            return None
        other = OTHER_DECIMAL[self.decimal]
        if all(np.isfinite(split_number(text, other)[0]) for text in distinct):
            example = repr(distinct[0])[:40]
            return f"its numbers use the decimal separator {other!r}, as in {example}: set decimal to {other!r}"
        if is_number.all() or is_number.mean() < LEAST_NUMBERS or len(distinct) < 6:
            return None
        return f"numbers mixed with {_where(distinct[int(is_number.argmin())], values)}"

    def _numbers(self, column: Column, values: np.ndarray, kind: Kind = "number", unit: str = "") -> Column | str:
        numbers = read_numbers(column.name, values, self.decimal, unit, kind)
        known = numbers[~np.isnan(numbers)]
        n_missing = len(numbers) - len(known)
        if not len(known):
            return EMPTY
        if not n_missing and (known == known[0]).all():
            return TOO_LONG if len(set(values[~missing(values)].tolist())) > 1 else CONSTANT
        named_so = kind == "number" and len(numbers) > 2 and _IDENTIFIER.fullmatch(column.name.strip())
        if named_so and len(np.unique(known)) == len(numbers) and (known == np.round(known)).all():
            return "a different whole number in every row, and its name suggests row identifiers"
        mean, scale = mean_and_scale(known)
        named = _UNIT_IN_NAME.fullmatch(column.name)
        unit = unit or (named[1] if named else "")
        return replace(column, kind=kind, mean=mean, scale=scale, unit=unit, n_missing=n_missing)

    def _dates(self, column: Column, values: np.ndarray) -> Column | str:
        days = as_days(values, column.date_format)
        known = days[np.isfinite(days)]
        if not len(known):
            return EMPTY
        if len(known) == len(days) and (known == known[0]).all():
            return CONSTANT
        mean, scale = mean_and_scale(known)
        n_missing, parts = len(days) - len(known), _useful_parts(np.unique(known))
        return replace(column, kind="date", mean=mean, scale=scale, n_missing=n_missing, parts=parts)

    def _texts(self, column: Column, values: np.ndarray) -> Column | str:
        absent = missing(values)
        counts = Counter(map(str, values[~absent]))
        n_missing, n_known = int(absent.sum()), int((~absent).sum())
        if not counts:
            return EMPTY
        if len(counts) == 1 and not n_missing:
            return CONSTANT
        if len(counts) > max(n_known // 2, 2):
            rows = "every row" if n_known == len(values) else "every row that has one"
            what = f"a different text in {rows}" if len(counts) == n_known else f"{len(counts)} texts in {n_known} rows"
            return f"{what}: it identifies rows rather than describing them"
        kept = [text for text, count in counts.most_common() if count > 1][:MOST_CATEGORIES]
        # A single rare text gets its own feature.
        kept = kept if len(counts) - len(kept) > 1 or len(counts) > MOST_CATEGORIES else list(counts)
        return replace(column, categories=tuple(sorted(kept)), n_rare=len(counts) - len(kept), n_missing=n_missing)


def _where(stray: str, values: np.ndarray) -> str:
    row = next(i for i, value in enumerate(values) if str(value).strip() == stray)
    return f"text, such as {stray!r:.40} in row {row + 1}: correct these cells or empty them"


def mean_and_scale(known: np.ndarray) -> tuple[float, float]:
    """Return the mean and standard deviation of numbers (n,); the latter is 1 if it is only rounding error."""
    mean = float(known.mean())
    # Squares of tiny numbers underflow; dividing by a power of two is exact.
    unit = float(np.ldexp(1.0, max(int(np.frexp(np.abs(known).max())[1]), -1000)))
    scale = float(np.sqrt(np.mean((known / unit - mean / unit) ** 2)) * unit)
    return mean, scale if scale > 1e-12 * abs(mean) else 1.0


def _useful_parts(days: np.ndarray) -> tuple[str, ...]:
    """Return the parts to use for these distinct dates (n,): the time, and others if the dates span enough of them."""
    span = float(np.ptp(days))
    dates = np.floor(days).astype(np.int64).astype("datetime64[D]")
    of_month = dates - dates.astype("datetime64[M]")
    varies = [len(np.unique(values)) > 1 for values in (_weekday(days), of_month, np.round(days % 1.0, 6))]
    useful = (True, span >= LEAST_YEAR, span >= LEAST_WEEKS <= len(days) and varies[0] and varies[1], varies[2])
    return tuple(part for part, is_useful in zip(PARTS, useful, strict=True) if is_useful)


def _weekday(days: np.ndarray) -> np.ndarray:
    """Return 0 for Monday to 6 for Sunday; 1 January 1970 was a Thursday."""
    return (np.floor(days).astype(np.int64) + 3) % 7


def encode_columns(columns: Sequence[Column], table: Table, decimal: Decimal) -> np.ndarray:
    """Return the features (n, d) of the rows of a table with these columns."""
    cells = dict(zip(table.names, table.columns, strict=True))
    encoders = {"text": _one_hot, "date": _date_features}
    parts = []
    for column in columns:
        encode = encoders.get(column.kind, partial(_standardised, decimal=decimal))
        parts.append(encode(column, cells[column.name]))
    return np.hstack(parts)


def _standardised(column: Column, values: np.ndarray, decimal: Decimal) -> np.ndarray:
    """Return (n, k): numbers in standard units, zero for missing ones, and a feature that marks missing ones."""
    numbers = read_numbers(column.name, values, decimal, column.unit, column.kind)
    gone = np.isnan(numbers)
    features = np.where(gone, 0.0, (numbers - column.mean) / column.scale)
    return np.column_stack([features, gone]) if column.n_missing else features[:, np.newaxis]


def _one_hot(column: Column, values: np.ndarray) -> np.ndarray:
    """Return (n, k): a feature for each category, then one for rare texts, then one for missing cells."""
    place = {text: k for k, text in enumerate(column.categories)}
    n_features, other = len(column.features), len(place) if column.n_rare else -1
    codes = np.array([place.get(text, other) for text in as_texts(values, place)], dtype=np.intp)
    codes[missing(values)] = n_features - 1 if column.n_missing else -1
    return (codes[:, np.newaxis] == np.arange(n_features)).astype(np.float64)


def _date_features(column: Column, values: np.ndarray) -> np.ndarray:
    """Return (n, k): the parts of dates, zeros for missing dates, and a feature that marks missing dates."""
    days = as_days(values, column.date_format)
    example = date_example(column.date_format or ISO)
    refuse_cells(column.name, values, np.isinf(days), f"not a date written like {example}")
    known = np.isfinite(days)[:, np.newaxis]
    days = np.where(known[:, 0], days, column.mean)
    season, hour = 2 * np.pi * (days % YEAR) / YEAR, 2 * np.pi * (days % 1.0)
    features = {
        "time": ((days - column.mean) / column.scale)[:, np.newaxis],
        "season": np.column_stack([np.sin(season), np.cos(season)]),
        "weekday": _weekday(days)[:, np.newaxis] == np.arange(7),
        "hour": np.column_stack([np.sin(hour), np.cos(hour)]),
    }
    parts = [np.where(known, features[part], 0.0) for part in column.parts]
    return np.hstack([*parts, *([~known] if column.n_missing else [])])
