"""Dates from cells, and the features they become: time, season, day of the week, time of day."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from numbers import Number
from typing import Any

import numpy as np

from ..data import missing
from .numbers import is_missing_mark

PARTS = ("time", "season", "weekday", "hour")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# The names of the features of each part.
PART_FEATURES = {
    "time": ("time",),
    "season": ("season sin", "season cos"),
    "weekday": WEEKDAYS,
    "hour": ("hour sin", "hour cos"),
}
ISO = "ISO"
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
# Where both may be meant, the month is first, unless `find_format` is told otherwise.
_DAYS = (
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
    "%Y-%m",
)
# Whole numbers such as 20240131.
COMPACT = "%Y%m%d"
FORMATS = (ISO, *(f"{day} {clock}".rstrip() for day in _DAYS for clock in ("", *CLOCKS)), *CLOCKS, COMPACT)
_LOOKS_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?")
_MAYBE_DATE = re.compile(r"[\w .,:/+\-]{4,40}")
# Seasons are not told apart from the passing of time by fewer days than this, days of the week by fewer than two weeks.
LEAST_YEAR, LEAST_WEEKS = 300.0, 14.0
YEAR = 365.2425
# Whole numbers with so many different values, all of which are dates of these years, are dates.
LEAST_COMPACT, COMPACT_YEARS = 3, (1900, 2100)
# A column is meant as dates where so many texts, and this share of them, are dates.
LEAST_DATES, MOST_DATES = 3, 0.5
_EPOCH = datetime(1970, 1, 1)
_FORMAT_WORDS = {
    "%d": "day", "%m": "month", "%Y": "year", "%y": "year", "%b": "month", "%B": "month",
    "%H": "hour", "%I": "hour", "%M": "minute", "%S": "second", "%p": "am/pm",
}  # fmt: skip


def swapped(date_format: str) -> str | None:
    """The format in which the month and the day change places; None for those whose order is plain.

    >>> swapped("%m/%d/%Y %H:%M"), swapped("%d.%m.%Y")
    ('%d/%m/%Y %H:%M', None)
    """
    pairs = (("%m/%d/", "%d/%m/"), ("%d/%m/", "%m/%d/"))
    return next((date_format.replace(*pair) for pair in pairs if date_format.startswith(pair[0])), None)


def is_ambiguous(texts: Sequence[str], date_format: str) -> bool:
    """Whether texts of this format could all be read with the month and the day in each other's place."""
    other = swapped(date_format)
    return other is not None and all(_days(text, other) is not None for text in texts)


def find_format(texts: Sequence[str], day_first: bool | None = None) -> tuple[str | None, str | None]:
    """The format that all texts have, the first in the order of `FORMATS`, or None; and a text that is no date.

    A text is given only where most of the others are dates of one format. With `day_first`, 3/4/2024 is in April.
    """
    formats = [(swapped(name) or name) if day_first else name for name in FORMATS]
    shaped = [text for text in texts[:20] if _MAYBE_DATE.fullmatch(text) and re.search(r"\d", text)]
    if len(shaped) * 2 <= len(texts[:20]):
        return None, None
    best, most, stray = None, 0.0, None
    for name in formats:
        # Most columns are not of most formats: a few texts show that.
        if sum(_days(text, name) is not None for text in shaped) <= len(shaped) / 2:
            continue
        good = [_days(text, name) is not None for text in texts]
        if all(good):
            return name, None
        if sum(good) > max(most, MOST_DATES * len(texts)):
            best, most, stray = name, sum(good), texts[good.index(False)]
    return None, stray if best is not None and len(texts) >= LEAST_DATES else None


def date_order(date_format: str) -> str:
    """
    >>> date_order("%d.%m.%Y %H:%M"), date_order("ISO"), date_order("%I:%M %p")
    ('day.month.year', 'year-month-day', 'hour:minute am/pm')
    """
    if date_format in (ISO, COMPACT):
        return "year-month-day" if date_format == ISO else "yyyymmdd"
    words = date_format
    if date_format not in CLOCKS:
        words = date_format.partition(" %H")[0].partition(" %I")[0]
    for code, word in _FORMAT_WORDS.items():
        words = words.replace(code, word)
    return words


def as_days(values: np.ndarray, date_format: str = "") -> np.ndarray:
    """Dates (n,) as days since 1970: NaN where they are missing, infinite where they are no dates.

    Parameters
    ----------
    values : array of shape (n,)
        Dates of NumPy, pandas or Python, or texts.
    date_format : str
        The format of texts, one of `FORMATS`; any of them where it is empty.
    """
    if values.dtype.kind == "M":
        micros = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(values), np.nan, micros / 86_400e6)
    if values.dtype.kind in "iuf":
        return _compact_days(values.astype(np.float64))
    absent = missing(values)
    return np.array([np.nan if gone else _as_day(v, date_format) for v, gone in zip(values, absent, strict=True)])


def _compact_days(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers (n,) such as 20240131 as days since 1970: NaN where missing, infinite where they are no dates."""
    texts = {number: f"{number:.0f}" for number in np.unique(numbers[np.isfinite(numbers)]).tolist()}
    days = {number: _compact_day(number, text) for number, text in texts.items()}
    return np.array([np.nan if np.isnan(number) else days.get(number, np.inf) for number in numbers.tolist()])


def _compact_day(number: float, text: str) -> float:
    first, last = COMPACT_YEARS
    whole = len(text) == 8 and number == float(text) and first <= int(text[:4]) <= last
    day = _days(text, COMPACT) if whole else None
    return np.inf if day is None else day


def are_compact_dates(numbers: np.ndarray) -> bool:
    """Whether numbers (n,), NaN where missing, are dates such as 20240131."""
    known = np.unique(numbers[~np.isnan(numbers)])
    # Most columns are settled by a look at their ends.
    if len(known) < LEAST_COMPACT or np.isinf(_compact_days(known[[0, -1]])).any():
        return False
    return bool(np.isfinite(_compact_days(known)).all())


def is_date(value: Any) -> bool:
    return isinstance(value, date | time | np.datetime64) or hasattr(value, "to_timestamp")


def _as_day(value: Any, date_format: str) -> float:
    if isinstance(value, str):
        if is_missing_mark(value):
            return np.nan
        formats = (date_format,) if date_format else FORMATS
        return next((day for name in formats if (day := _days(value.strip(), name)) is not None), np.inf)
    if hasattr(value, "to_timestamp"):  # a period of pandas
        value = value.to_timestamp()
    if isinstance(value, np.datetime64):
        return float(as_days(np.array([value]))[0])
    if isinstance(value, time):
        value = datetime.combine(_EPOCH, value)
    if date_format == COMPACT and isinstance(value, Number):
        return float(_compact_days(np.array([value], dtype=np.float64))[0])
    if not isinstance(value, date):
        return np.inf
    return _since_epoch(value if isinstance(value, datetime) else datetime(value.year, value.month, value.day))


def _days(text: str, name: str) -> float | None:
    try:
        if name != ISO:
            return _since_epoch(datetime.strptime(text, name))
        return _since_epoch(datetime.fromisoformat(text)) if _LOOKS_ISO.fullmatch(text) else None
    except (ValueError, OverflowError):
        return None


def _since_epoch(moment: datetime) -> float:
    # Seasons, weeks and days are those of the place.
    return (moment.replace(tzinfo=None) - _EPOCH).total_seconds() / 86_400


def useful_parts(days: np.ndarray) -> tuple[str, ...]:
    """The parts of these dates (n,) that can be told apart: always the time, others where the dates span enough."""
    known = np.unique(days[np.isfinite(days)])
    span = float(np.ptp(known)) if len(known) else 0.0
    clock = np.round(known % 1.0, 6)
    useful = {
        "time": True,
        "season": span >= LEAST_YEAR,
        "weekday": span >= LEAST_WEEKS <= len(known) and _varies(weekday(known)) and _varies(_day_of_month(known)),
        "hour": _varies(clock),
    }
    return tuple(part for part in PARTS if useful[part])


def _varies(values: np.ndarray) -> bool:
    return len(np.unique(values)) > 1


def _day_of_month(days: np.ndarray) -> np.ndarray:
    dates = np.floor(days).astype(np.int64).astype("datetime64[D]")
    return (dates - dates.astype("datetime64[M]")).astype(np.int64)


def weekday(days: np.ndarray) -> np.ndarray:
    """0 for Monday to 6 for Sunday; the first of January 1970 was a Thursday."""
    return (np.floor(np.nan_to_num(days)).astype(np.int64) + 3) % 7


def part_values(part: str, days: np.ndarray, mean: float, scale: float) -> np.ndarray:
    """The features (n, k) of a part of dates (n,); zeros where the date is missing."""
    known = np.isfinite(days)
    filled = np.where(known, days, mean)
    return np.where(known[:, np.newaxis], _PARTS[part](filled, mean, scale), 0.0)


def _circle(phase: np.ndarray) -> np.ndarray:
    return np.column_stack([np.sin(2 * np.pi * phase), np.cos(2 * np.pi * phase)])


_PARTS: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "time": lambda days, mean, scale: ((days - mean) / scale)[:, np.newaxis],
    # The error of a year of mean length is below a day.
    "season": lambda days, mean, scale: _circle(days % YEAR / YEAR),
    "weekday": lambda days, mean, scale: (weekday(days)[:, np.newaxis] == np.arange(7)).astype(np.float64),
    "hour": lambda days, mean, scale: _circle(days % 1.0),
}
