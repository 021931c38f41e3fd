"""Numbers from cells: thousands separators, decimal commas, units."""

from __future__ import annotations

import re
from functools import cache
from numbers import Number
from typing import Any, Literal

import numpy as np

from ..data import missing

Decimal = Literal[".", ","]
# Squares of larger numbers overflow.
LARGEST = 1e150
# Texts that stand for a missing number, in any case of letters.
MISSING_MARKS = frozenset(
    ["", "-", "--", "?", ".", "..", "na", "n.a.", "n/a", "nan", "none", "null", "missing", "unknown"]
)
_CURRENCY = r"[€$£¥]|[A-Z]{3}(?= )"
_UNIT = r"[^\d\s+\-.,;:][^\d]{0,15}"
_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")


def as_numbers(values: np.ndarray, decimal: Decimal = ".", unit: str = "") -> np.ndarray:
    """Values (n,) of any type as floats: NaN where they are missing, infinite where they are no numbers.

    Parameters
    ----------
    values : array of shape (n,)
        Numbers, truth values, durations (become days) or texts.
    decimal : {".", ","}
        What separates the fraction of a number in a text.
    unit : str
        What texts may have before or after the number, such as "EUR".
    """
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind == "m":
        days = values.astype("timedelta64[us]").astype(np.float64) / _DAY
        return np.where(np.isnat(values), np.nan, days)
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


def is_missing_mark(text: str) -> bool:
    """Whether a text stands for a missing number or date."""
    return text.strip().casefold() in MISSING_MARKS


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
