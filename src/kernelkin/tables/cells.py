"""Parse numbers and dates in cells: thousands separators, decimal commas, units, date formats."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time
from functools import cache
from typing import Any, Literal

import numpy as np

from ..data.arrays import missing
from ..data.checks import LARGEST

Decimal = Literal[".", ","]
OTHER_DECIMAL: dict[Decimal, Decimal] = {".": ",", ",": "."}
# Texts that stand for a missing number or date, in upper or lower case.
MISSING_MARKS = frozenset(
    ["", "-", "--", "?", ".", "..", "na", "n.a.", "n/a", "nan", "none", "null", "missing", "unknown"]
)
BOOLEANS = {"true": 1.0, "false": 0.0}
_CURRENCY = r"[€$£¥]|[A-Z]{3}(?= )"
_UNIT = r"[^\d\s+\-.,;:][^\d]{0,15}"

ISO = "ISO"
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
# If the order is ambiguous, the month comes first, unless `find_format` is called with `day_first`.
_DAYS = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y",
    "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%Y-%m",
)  # fmt: skip
FORMATS = (ISO, *(f"{day} {clock}".rstrip() for day in _DAYS for clock in ("", *CLOCKS)), *CLOCKS)
# Checked because pandas would also accept missing digits and other separators in ISO dates.
_LOOKS_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:?\d{2}(:?\d{2}(\.\d+)?)?)? ?(Z|[+-]\d{2}(:?\d{2})?)?")
_OFFSET = re.compile(r" ?(Z|(?<=[\d:.]{5})[+-]\d{2}(:?\d{2})?)$")
_MAYBE_DATE = re.compile(r"[\w .,:/+\-]{4,40}")
# A text column counts as dates if at least this many of its texts, and more than this share of them, are dates.
LEAST_DATES, DATE_SHARE = 3, 0.5


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables of texts and dates need pandas: install kernelkin[cli]") from error
    return pandas


def header(X: Any) -> Any:
    """Return a table, but for a dict an empty data frame of its columns, from which scikit-learn reads their names."""
    return need_pandas().DataFrame(columns=list(X)) if isinstance(X, Mapping) else X


class CellError(ValueError):
    """A cell that cannot be read: its column, its row (from 1), and the message text before and after the row."""

    def __init__(self, column: str, row: int, words: tuple[str, str]) -> None:
        super().__init__(f"column {column!r} has {words[0]} in row {row}{words[1]}")
        self.column, self.row, self.words = column, row, words

    def after(self, rows: int) -> CellError:
        """Return this error with the row number increased by `rows`."""
        return CellError(self.column, self.row + rows, self.words)


def refuse_cells(name: str, values: np.ndarray, bad: np.ndarray, reason: str) -> None:
    """Raise if any cell is bad; the error names the first such cell and its row."""
    if bad.any():
        row = int(bad.argmax())
        raise CellError(name, row + 1, (f"{str(values[row])!r:.80}", f", {reason}: correct this cell or empty it"))


def is_missing_mark(text: str) -> bool:
    """Return whether a text stands for a missing number or date."""
    return text.strip().casefold() in MISSING_MARKS


def read_numbers(
    name: str, values: np.ndarray, decimal: Decimal = ".", unit: str = "", kind: str = "number"
) -> np.ndarray:
    """Return floats (n,), NaN for missing cells; raise if a cell is not a number or is too large."""
    if kind == "boolean" and values.dtype.kind in "OUS":
        values = np.array([BOOLEANS.get(str(value).strip().lower(), value) for value in values], dtype=object)
    numbers = as_numbers(values, decimal, unit)
    with np.errstate(invalid="ignore"):
        large = np.abs(numbers) > LARGEST
    bad, other, reason = large & np.isinf(numbers), OTHER_DECIMAL[decimal], "not a number"
    if bad.any() and np.isfinite(as_numbers(values[bad], other, unit)).all():
        reason += f" with the decimal separator {decimal!r} (set decimal={other!r}, or use --decimal {other})"
    refuse_cells(name, values, bad, reason)
    refuse_cells(name, values, large, "too large a number")
    return numbers


def as_numbers(values: np.ndarray, decimal: Decimal = ".", unit: str = "") -> np.ndarray:
    """Convert numbers, booleans, durations (to days) or texts (n,) to floats: NaN if missing, infinite if not a number.

    `unit` may stand before or after the number in a text, as in "30 EUR".
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
            pass  # some texts are not plain numbers
    return np.array([np.nan if gone else _as_number(v, decimal, unit) for v, gone in zip(values, absent, strict=True)])


def _as_number(value: Any, decimal: Decimal, unit: str) -> float:
    if isinstance(value, str):
        if is_missing_mark(value):
            return np.nan
        number, found = split_number(value, decimal)
        return number if found in ("", unit) else np.inf
    try:
        return float(value) if hasattr(value, "__float__") else np.inf
    except (TypeError, ValueError, OverflowError):
        return np.inf


def as_texts(values: np.ndarray, known: Collection[str]) -> list[str]:
    """Return texts (n,); a float such as 1.0 is "1" unless "1.0" is known: pandas reads codes with gaps as floats."""
    return [str(v).removesuffix(".0") if isinstance(v, float) and str(v) not in known else str(v) for v in values]


def split_number(text: str, decimal: Decimal = ".") -> tuple[float, str]:
    """Return the number in a text, or infinity if it has none, and its unit.

    >>> split_number("25,397"), split_number("1.234,5 EUR", ","), split_number("$3K"), split_number("12,5")[0]
    ((25397.0, ''), (1234.5, 'EUR'), (3.0, '$ K'), inf)
    """
    match = _pattern(decimal).fullmatch(text.strip())
    if match is None:
        return np.inf, ""
    whole = match["whole"].replace(match["sep"], "") if match["sep"] else match["whole"] or ""
    fraction = match["fraction"] or ""
    digits = f"{match['sign'] or ''}{whole}{'.' + fraction if fraction else ''}{match['power'] or ''}"
    return float(digits.replace("\u2212", "-")), f"{match['before'] or ''} {match['after'] or ''}".strip()


@cache
def _pattern(decimal: Decimal) -> re.Pattern[str]:
    point, comma = (r"\.", ",") if decimal == "." else (",", r"\.")
    # Groups of three digits have one separator. The first does not begin with a zero: "0,250" is a quarter.
    grouped = rf"[1-9]\d{{0,2}}(?P<sep>[{comma} '\u2019\u00a0\u202f])\d{{3}}(?:(?P=sep)\d{{3}})*"
    return re.compile(
        rf"(?P<before>{_CURRENCY})?\s*(?P<sign>[-+\u2212])?(?={point}?\d)"
        rf"(?P<whole>{grouped}|\d*)(?:{point}(?P<fraction>\d*))?(?P<power>[eE][-+]?\d{{1,3}})?\s*(?P<after>{_UNIT})?"
    )


def swapped(date_format: str) -> str | None:
    """Return the format with month and day swapped, or None if the format is not ambiguous.

    >>> swapped("%m/%d/%Y %H:%M"), swapped("%d.%m.%Y")
    ('%d/%m/%Y %H:%M', None)
    """
    pairs = (("%m/%d/", "%d/%m/"), ("%d/%m/", "%m/%d/"))
    return next((date_format.replace(*pair) for pair in pairs if date_format.startswith(pair[0])), None)


def is_ambiguous(texts: Sequence[str], date_format: str) -> bool:
    """Return whether all texts could also be read with month and day swapped."""
    other = swapped(date_format)
    return other is not None and bool(np.isfinite(text_days(texts, other)).all())


def find_format(texts: Sequence[str], day_first: bool | None = None) -> tuple[str | None, str | None]:
    """Return the first of `FORMATS` that fits all texts, or None; and a text that is not a date, or None.

    The second is given only if most of the other texts are dates of one format. With `day_first`, 3/4/2024 is in April.
    """
    shaped = [text for text in texts[:20] if _MAYBE_DATE.fullmatch(text) and re.search(r"\d", text)]
    if len(shaped) * 2 <= len(texts[:20]):
        return None, None
    most, stray = DATE_SHARE * len(texts), None
    for name in FORMATS:
        name = (swapped(name) or name) if day_first else name
        # A few texts are enough to rule out most formats.
        if np.isfinite(text_days(shaped, name)).mean() <= 0.5:
            continue
        good = np.isfinite(text_days(texts, name))
        if good.all():
            return name, None
        if good.sum() > most:
            most, stray = good.sum(), texts[int(good.argmin())]
    return None, stray if len(texts) >= LEAST_DATES else None


def date_example(date_format: str) -> str:
    """
    >>> date_example("%d.%m.%Y"), date_example("ISO"), date_example("%I:%M %p")
    ('31.12.2024', '2024-12-31', '05:45 PM')
    """
    return datetime(2024, 12, 31, 17, 45).strftime("%Y-%m-%d" if date_format == ISO else date_format)


def text_days(texts: Sequence[str], date_format: str) -> np.ndarray:
    """Convert texts (n,) to days since 1970; infinite if not a date of this format."""
    if date_format == ISO:
        # Season, weekday and hour are in local time, so the time zone is dropped.
        texts = [_OFFSET.sub("", text) if _LOOKS_ISO.fullmatch(text) else "" for text in texts]
    # pandas accepts "today" and "now" as dates in any format.
    texts = [text if re.search(r"\d", text) else "" for text in texts]
    found = need_pandas().to_datetime(texts, format="ISO8601" if date_format == ISO else date_format, errors="coerce")
    days = as_days(found.to_numpy())
    return np.where(np.isnan(days), np.inf, days)


def as_days(values: np.ndarray, date_format: str = "") -> np.ndarray:
    """Convert dates or texts (n,) to days since 1970: NaN if missing, infinite if not a date.

    Texts must have the format `date_format` or, if it is empty, any of `FORMATS` in which the month has a fixed place.
    """
    if values.dtype.kind == "M":
        micros = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
        return np.where(np.isnat(values), np.nan, micros / 86_400e6)
    days = np.array([np.nan if gone else _object_day(v) for v, gone in zip(values, missing(values), strict=True)])
    is_text = np.array([isinstance(value, str) for value in values], dtype=bool)
    for name in (date_format,) if date_format else (name for name in FORMATS if swapped(name) is None):
        left = np.flatnonzero(is_text & np.isinf(days))
        if len(left):
            days[left] = text_days([value.strip() for value in values[left]], name)
    return days


def _object_day(value: Any) -> float:
    """Return a Python or pandas date in days; NaN for a missing date, infinite for anything else."""
    if isinstance(value, str):
        return np.nan if is_missing_mark(value) else np.inf
    if hasattr(value, "to_timestamp"):  # pandas.Period
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
