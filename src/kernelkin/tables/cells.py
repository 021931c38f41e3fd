"""Numbers and dates from cells: thousands separators, decimal commas, units; formats of dates, parsed by pandas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time
from functools import cache
from numbers import Number
from typing import Any, Literal

import numpy as np

from ..data.arrays import missing

Decimal = Literal[".", ","]
# Squares of larger numbers overflow.
LARGEST = 1e150
# Texts that stand for a missing number or date, in any case of letters.
MISSING_MARKS = frozenset(
    ["", "-", "--", "?", ".", "..", "na", "n.a.", "n/a", "nan", "none", "null", "missing", "unknown"]
)
BOOLEANS = {"true": 1.0, "false": 0.0}
_CURRENCY = r"[€$£¥]|[A-Z]{3}(?= )"
_UNIT = r"[^\d\s+\-.,;:][^\d]{0,15}"

ISO = "ISO"
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
# Where both may be meant, the month is first, unless `find_format` is told otherwise.
_DAYS = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y",
    "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%Y-%m",
)  # fmt: skip
FORMATS = (ISO, *(f"{day} {clock}".rstrip() for day in _DAYS for clock in ("", *CLOCKS)), *CLOCKS)
# What pandas would also accept under a format: digits that are missing, or other separators in ISO dates.
_LOOKS_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:?\d{2}(:?\d{2}(\.\d+)?)?)? ?(Z|[+-]\d{2}(:?\d{2})?)?")
_OFFSET = re.compile(r" ?(Z|(?<=[\d:.]{5})[+-]\d{2}(:?\d{2})?)$")
_MAYBE_DATE = re.compile(r"[\w .,:/+\-]{4,40}")
# A column is meant as dates where so many texts, and this share of them, are dates.
LEAST_DATES, MOST_DATES = 3, 0.5
_FORMAT_WORDS = {
    "%d": "day", "%m": "month", "%Y": "year", "%y": "year", "%b": "month", "%B": "month",
    "%H": "hour", "%I": "hour", "%M": "minute", "%S": "second", "%p": "am/pm",
}  # fmt: skip


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables of texts and dates need pandas: install kernelkin[cli]") from error
    return pandas


class CellError(ValueError):
    """A cell that cannot be read: its column, its row from 1, and the words of the message before and after the row."""

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


def is_missing_mark(text: str) -> bool:
    """Whether a text stands for a missing number or date."""
    return text.strip().casefold() in MISSING_MARKS


def read_numbers(
    name: str, values: np.ndarray, kind: str = "number", decimal: Decimal = ".", unit: str = ""
) -> np.ndarray:
    """(n,) floats, NaN where missing; refuses what is not a number, infinity, and numbers close to it."""
    if kind == "boolean" and values.dtype.kind in "OUS":
        values = np.array([BOOLEANS.get(str(value).strip().lower(), value) for value in values], dtype=object)
    numbers = as_numbers(values, decimal, unit)
    with np.errstate(invalid="ignore"):
        large = np.abs(numbers) > LARGEST
    refuse_cells(name, values, large & np.isinf(numbers), "not a number")
    refuse_cells(name, values, large, "too large a number")
    return numbers


def as_numbers(values: np.ndarray, decimal: Decimal = ".", unit: str = "") -> np.ndarray:
    """Numbers, truth values, durations (in days) or texts (n,) as floats: NaN where missing, infinite for no numbers.

    `unit` is what texts may have before or after the number, such as "EUR".
    """
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind == "m":
        return np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
    absent = missing(values)
    if decimal == ".":
        try:
            return np.where(absent, np.nan, values).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass  # some texts are no plain numbers
    return np.array([np.nan if gone else _as_number(v, decimal, unit) for v, gone in zip(values, absent, strict=True)])


def _as_number(value: Any, decimal: Decimal, unit: str) -> float:
    if isinstance(value, str):
        if is_missing_mark(value):
            return np.nan
        number, found = split_number(value, decimal)
        return number if found in ("", unit) else np.inf
    try:
        # Fractions, decimal numbers, numbers of NumPy, truth values.
        return float(value) if isinstance(value, Number) or hasattr(value, "__float__") else np.inf
    except (TypeError, ValueError, OverflowError):
        return np.inf


def split_number(text: str, decimal: Decimal = ".") -> tuple[float, str]:
    """The number in a text, and its unit; infinity where it has none.

    >>> split_number("25,397"), split_number("1.234,5 EUR", ","), split_number("12,5")[0]
    ((25397.0, ''), (1234.5, 'EUR'), inf)
    """
    match = _pattern(decimal).fullmatch(text.strip())
    if match is None:
        return np.inf, ""
    whole = match["whole"].replace(match["sep"], "") if match["sep"] else match["whole"] or ""
    fraction = match["fraction"] or ""
    digits = f"{match['sign'] or ''}{whole}{'.' + fraction if fraction else ''}{match['power'] or ''}"
    return float(digits.replace("\u2212", "-")), (match["before"] or match["after"] or "").strip()


@cache
def _pattern(decimal: Decimal) -> re.Pattern[str]:
    point, comma = (r"\.", ",") if decimal == "." else (",", r"\.")
    # A comma, a space, a narrow space or an apostrophe between groups of three digits, the same in all places.
    grouped = rf"\d{{1,3}}(?P<sep>[{comma} '\u2019\u00a0\u202f])\d{{3}}(?:(?P=sep)\d{{3}})*"
    return re.compile(
        rf"(?P<before>{_CURRENCY})?\s*(?P<sign>[-+\u2212])?(?={point}?\d)"
        rf"(?P<whole>{grouped}|\d*)(?:{point}(?P<fraction>\d*))?(?P<power>[eE][-+]?\d{{1,3}})?\s*(?P<after>{_UNIT})?"
    )


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
    return other is not None and bool(np.isfinite(text_days(texts, other)).all())


def find_format(texts: Sequence[str], day_first: bool | None = None) -> tuple[str | None, str | None]:
    """The format that all texts have, the first in the order of `FORMATS`, or None; and a text that is no date.

    A text is given only where most of the others are dates of one format. With `day_first`, 3/4/2024 is in April.
    """
    shaped = [text for text in texts[:20] if _MAYBE_DATE.fullmatch(text) and re.search(r"\d", text)]
    if len(shaped) * 2 <= len(texts[:20]):
        return None, None
    most, stray = MOST_DATES * len(texts), None
    for name in FORMATS:
        name = (swapped(name) or name) if day_first else name
        # Most columns are not of most formats: a few texts show that.
        if np.isfinite(text_days(shaped, name)).mean() <= 0.5:
            continue
        good = np.isfinite(text_days(texts, name))
        if good.all():
            return name, None
        if good.sum() > most:
            most, stray = good.sum(), texts[int(good.argmin())]
    return None, stray if len(texts) >= LEAST_DATES else None


def date_order(date_format: str) -> str:
    """
    >>> date_order("%d.%m.%Y %H:%M"), date_order("ISO"), date_order("%I:%M %p")
    ('day.month.year', 'year-month-day', 'hour:minute am/pm')
    """
    if date_format == ISO:
        return "year-month-day"
    words = date_format
    if date_format not in CLOCKS:
        words = date_format.partition(" %H")[0].partition(" %I")[0]
    for code, word in _FORMAT_WORDS.items():
        words = words.replace(code, word)
    return words


def text_days(texts: Sequence[str], date_format: str) -> np.ndarray:
    """Texts (n,) as days since 1970; infinite where they are no dates of this format."""
    if date_format == ISO:
        # Seasons, weeks and days are those of the place: what follows about the zone is left out.
        texts = [_OFFSET.sub("", text) if _LOOKS_ISO.fullmatch(text) else "" for text in texts]
    # pandas takes "today" and "now" for dates, whatever the format.
    texts = [text if re.search(r"\d", text) else "" for text in texts]
    found = need_pandas().to_datetime(texts, format="ISO8601" if date_format == ISO else date_format, errors="coerce")
    days = as_days(found.to_numpy())
    return np.where(np.isnan(days), np.inf, days)


def as_days(values: np.ndarray, date_format: str = "") -> np.ndarray:
    """Dates or texts (n,) as days since 1970: NaN where they are missing, infinite where they are no dates.

    Texts are of one of `FORMATS`, or of any of them where `date_format` is empty.
    """
    if values.dtype.kind == "M":
        micros = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(values), np.nan, micros / 86_400e6)
    days = np.array([np.nan if gone else _object_day(v) for v, gone in zip(values, missing(values), strict=True)])
    is_text = np.array([isinstance(value, str) for value in values], dtype=bool)
    for name in (date_format,) if date_format else FORMATS:
        left = np.flatnonzero(is_text & np.isinf(days))
        if len(left):
            days[left] = text_days([value.strip() for value in values[left]], name)
    return days


def _object_day(value: Any) -> float:
    """A date of Python or pandas as days; NaN for a mark of a missing date, infinite for anything else."""
    if isinstance(value, str):
        return np.nan if is_missing_mark(value) else np.inf
    if hasattr(value, "to_timestamp"):  # a period of pandas
        value = value.to_timestamp()
    if isinstance(value, time):
        value = datetime.combine(datetime(1970, 1, 1), value)
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    if not isinstance(value, date | np.datetime64):
        return np.inf
    return float(as_days(np.array([value], dtype="datetime64[us]"))[0])


def is_date(value: Any) -> bool:
    return isinstance(value, date | time | np.datetime64) or hasattr(value, "to_timestamp")
