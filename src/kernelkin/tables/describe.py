"""What was done to each column of a table, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .columns import Column
from .dates import CLOCKS, date_order

_PART_WORDS = {
    "time": "the time",
    "season": "the season (sine and cosine)",
    "weekday": "the day of the week",
    "hour": "the time of day (sine and cosine)",
}


def describe_columns(columns: Sequence[Column], left_out: Mapping[str, str]) -> list[str]:
    """A line for each column."""
    lines = [f"{column.name}: {describe_column(column)}" for column in columns]
    return lines + [f"{name}: left out: {reason}" for name, reason in left_out.items()]


def describe_column(column: Column) -> str:
    """What a column is, and how it is encoded."""
    words = _WORDS[column.kind](column)
    return f"{words}; {column.n_missing} missing, marked by a feature" if column.n_missing else words


def _number(column: Column) -> str:
    unit = f" in {column.unit}" if column.unit else ""
    return f"number{unit}, standardised (mean {column.mean:.4g}, standard deviation {column.scale:.4g})"


def _text(column: Column) -> str:
    n = len(column.categories) + column.n_rare
    rare = f"; {column.n_rare} rare ones share a feature" if column.n_rare else ""
    return f"text with {n} values, one feature each{rare}"


def _date(column: Column) -> str:
    written = f" written as {date_order(column.date_format)}" if column.date_format else ""
    written += " (or the day first: see day_first)" if column.ambiguous else ""
    parts = [_PART_WORDS[part] for part in column.parts]
    kind = "time of day" if column.date_format in CLOCKS else "date"
    return f"{kind}{written}, as {', '.join(parts[:-1]) + ' and ' if len(parts) > 1 else ''}{parts[-1]}"


_WORDS = {"number": _number, "boolean": lambda column: "yes or no, standardised", "text": _text, "date": _date}
