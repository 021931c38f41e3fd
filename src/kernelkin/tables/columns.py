"""One column of a table: its kind, whether it is of use, and the features it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Kind = Literal["number", "boolean", "text"]
# A column of text with more distinct values than this, or with one in every second row, identifies rows.
MOST_CATEGORIES = 50
# Squares of larger numbers overflow.
LARGEST = 1e150
BOOLEANS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Column:
    """A column of the training table and its encoding.

    Attributes
    ----------
    kind : "number" (standardised), "boolean" (0 and 1, standardised) or "text" (one-hot).
    dtype : its type in the training table.
    mean, scale : of the training rows; a missing number is encoded as the mean.
    categories : the texts of the training rows, one feature each. A missing text is none of them.
    """

    name: str
    kind: Kind
    dtype: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """The names of its features."""
        return [f"{self.name}={c}" for c in self.categories] if self.kind == "text" else [self.name]

    def unseen(self, values: Series) -> list[str]:
        """Texts that were not in the training rows."""
        return sorted(set(values.dropna().astype(str)) - set(self.categories)) if self.kind == "text" else []


def fit_columns(frame: DataFrame) -> tuple[list[Column], dict[str, str]]:
    """The columns of use, and the others with the reason why they are not.

    Numbers are read in one block for all columns: tables of gene data have tens of thousands of them.
    """
    kinds = column_kinds(frame)
    useless = _useless_numbers(frame[[name for name, kind in kinds.items() if kind == "number"]])
    for name, kind in kinds.items():
        reason = None if kind == "number" else why_useless(frame[name], kind)
        if reason is not None:
            useless[name] = reason
    numbers = [name for name, kind in kinds.items() if kind != "text" and name not in useless]
    means, scales = means_and_scales(read_numbers(frame[numbers], [kinds[name] for name in numbers]))
    # What rounding leaves of a constant is no scale.
    scales = np.where(scales > 1e-12 * np.abs(means), scales, 1.0)
    moments = dict(zip(numbers, zip(means.tolist(), scales.tolist(), strict=True), strict=True))
    dtypes = dict(zip(frame.columns, map(str, frame.dtypes), strict=True))
    columns = [
        Column(str(name), kind, dtypes[name], *moments[name])
        if name in moments
        else Column(str(name), kind, dtypes[name], categories=_categories(frame[name]))
        for name, kind in kinds.items()
        if name not in useless
    ]
    return columns, {str(name): useless[name] for name in frame.columns if name in useless}


def encode_columns(columns: Sequence[Column], frame: DataFrame) -> np.ndarray:
    """(n, features) of the rows of a table."""
    ends = np.cumsum([len(column.features) for column in columns])
    out = np.zeros((len(frame), int(ends[-1])))
    numbers = [c for c in columns if c.kind != "text"]
    if numbers:
        values = read_numbers(frame[[c.name for c in numbers]], [c.kind for c in numbers])
        values -= np.array([c.mean for c in numbers])
        values /= np.array([c.scale for c in numbers])
        out[:, [end - 1 for c, end in zip(columns, ends, strict=True) if c.kind != "text"]] = np.nan_to_num(values)
    for column, end in zip(columns, ends.tolist(), strict=True):
        if column.kind == "text":
            texts = frame[column.name].astype(object).astype(str).to_numpy()
            out[:, end - len(column.categories) : end] = texts[:, np.newaxis] == column.categories
    return out


def column_kinds(frame: DataFrame) -> dict[str, Kind]:
    """What each column holds."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    found: dict[str, Kind] = {}
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if is_bool_dtype(dtype):
            found[name] = "boolean"
        elif is_numeric_dtype(dtype):
            found[name] = "number"
        else:
            known = frame[name].dropna()
            found[name] = "boolean" if len(known) and all(isinstance(value, bool) for value in known) else "text"
    return found


def why_useless(values: Series, kind: Kind) -> str | None:
    """Why a column cannot help, if so."""
    distinct = values.dropna().nunique()
    if distinct == 0:
        return "empty"
    if distinct == 1 and not values.isna().any():
        return "the same in every row"
    if kind == "text" and distinct > min(MOST_CATEGORIES, max(len(values) // 2, 2)):
        return f"{distinct} distinct texts in {len(values)} rows: it identifies rows rather than describing them"
    return None


def _useless_numbers(frame: DataFrame) -> dict[str, str]:
    """As `why_useless`, for columns of numbers."""
    block = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    missing = np.isnan(block)
    constant = ~missing.any(axis=0) & (block == block[:1]).all(axis=0)
    reasons = np.where(missing.all(axis=0), "empty", np.where(constant, "the same in every row", ""))
    return {name: reason for name, reason in zip(frame.columns, reasons.tolist(), strict=True) if reason}


def _categories(values: Series) -> tuple[str, ...]:
    return tuple(sorted(set(values.dropna().astype(str))))


def read_numbers(frame: DataFrame, kinds: Sequence[Kind]) -> np.ndarray:
    """(n, d) floats, NaN where missing; refuses what is not a number, infinity, and numbers close to it."""
    from pandas.api.types import is_numeric_dtype

    out = np.empty(frame.shape)
    typed = np.array([is_numeric_dtype(dtype) for dtype in frame.dtypes], dtype=bool)
    out[:, typed] = frame.loc[:, typed].to_numpy(dtype=np.float64, na_value=np.nan)
    text = frame.loc[:, ~typed].to_numpy(dtype=object, copy=True)
    missing = frame.loc[:, ~typed].isna().to_numpy(dtype=bool)
    boolean = np.array([kind == "boolean" for kind in kinds], dtype=bool)[~typed]
    text[:, boolean] = _booleans_as_numbers(text[:, boolean])
    out[:, ~typed] = _parse(text, missing)
    bad = np.abs(out) > LARGEST
    bad[:, ~typed] |= np.isnan(out[:, ~typed]) & ~missing
    if bad.any():
        _refuse(frame, out, bad)
    return out


def _parse(text: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """(n, d) texts -> floats, NaN where a text is missing or not a number."""
    import pandas as pd

    flat = text.ravel()
    flat[missing.ravel()] = None
    return np.asarray(pd.to_numeric(flat, errors="coerce"), dtype=np.float64).reshape(text.shape)


def _booleans_as_numbers(values: np.ndarray) -> np.ndarray:
    if not values.size:
        return values
    return np.frompyfunc(lambda value: BOOLEANS.get(str(value).lower(), value), 1, 1)(values)


def _refuse(frame: DataFrame, numbers: np.ndarray, bad: np.ndarray) -> None:
    column = int(bad.any(axis=0).argmax())
    row = int(bad[:, column].argmax())
    reason = "too large a number" if np.isfinite(numbers[row, column]) else "not a number"
    value = str(frame.iloc[row, column])
    raise ValueError(f"column {frame.columns[column]!r} has {value!r:.80} in row {row + 1}, {reason}")


def means_and_scales(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (d,) of numbers (n, d), of which some may be missing; zeros where all are."""
    known = ~np.isnan(numbers)
    count = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, numbers, 0.0)
    means = filled.sum(axis=0) / count
    # Squares of tiny numbers underflow; dividing by a power of two is exact.
    largest = np.abs(filled).max(axis=0, initial=0.0)
    unit = np.ldexp(1.0, np.maximum(np.frexp(largest)[1], -1000))
    deviations = np.where(known, filled / unit - means / unit, 0.0)
    return means, np.sqrt((deviations**2).sum(axis=0) / count) * unit


def class_labels(values: Series) -> np.ndarray:
    """Labels of classes: whole numbers if all are, else text."""
    if values.dtype.kind == "f" and are_whole(values):
        return values.to_numpy().astype(np.int64)
    return values.astype(object).astype(str).to_numpy(dtype=str)


def are_whole(values: Series) -> bool:
    """Whether all values are whole numbers that floats represent exactly."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not is_numeric_dtype(values) or is_bool_dtype(values):
        return False
    return bool(whole(values.to_numpy(dtype=np.float64, na_value=np.nan)).all())


def whole(numbers: np.ndarray) -> np.ndarray:
    """Which numbers (n,) are whole and below 2**53, so that no two whole numbers become one float."""
    return (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
