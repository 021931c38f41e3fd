"""One column of a table: what kind it is, whether it can help, and the features it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from pandas import Series

# A column of text with more different values than this, or with one in every second row, names rows.
MOST_CATEGORIES = 50
# Squares of larger numbers are none.
LARGEST = 1e150
TRUTHS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Column:
    """A column of the table and what became of it.

    Attributes
    ----------
    kind : "number" (standardised), "truth" (as 0 and 1, standardised) or "text" (one-hot).
    dtype : what it was in the training table.
    mean, scale : of the training rows; a missing number is taken as the mean.
    categories : the texts of the training rows, one feature each. A missing text is none of them.
    """

    name: str
    kind: Literal["number", "truth", "text"]
    dtype: str
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()

    @classmethod
    def fit(cls, values: Series) -> Column:
        kind, name, dtype = kind_of(values), str(values.name), str(values.dtype)
        if kind == "text":
            return cls(name, kind, dtype, categories=tuple(sorted(set(values.dropna().astype(str)))))
        mean, scale = mean_and_scale(read_numbers(values, kind))
        # What is left of a constant after rounding is no scale.
        return cls(name, kind, dtype, mean, scale if scale > 1e-12 * abs(mean) else 1.0)

    @property
    def features(self) -> list[str]:
        """The names of what it becomes."""
        return [f"{self.name}={c}" for c in self.categories] if self.kind == "text" else [self.name]

    def encode(self, values: Series) -> np.ndarray:
        """(n,) values -> (n, features)."""
        if self.kind == "text":
            return (values.astype(object).astype(str).to_numpy()[:, np.newaxis] == self.categories).astype(float)
        numbers = (read_numbers(values, self.kind) - self.mean) / self.scale
        return np.nan_to_num(numbers, nan=0.0)[:, np.newaxis]

    def unseen(self, values: Series) -> list[str]:
        """Texts that training did not have."""
        return sorted(set(values.dropna().astype(str)) - set(self.categories)) if self.kind == "text" else []


def class_labels(values: Series) -> np.ndarray:
    """Labels of classes: whole numbers where all are, else text."""
    if values.dtype.kind == "f" and are_whole(values):
        return values.to_numpy().astype(np.int64)
    return values.astype(object).astype(str).to_numpy(dtype=str)


def kind_of(values: Series) -> Literal["number", "truth", "text"]:
    """What a column holds."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(values) or (len(values.dropna()) and all(isinstance(v, bool) for v in values.dropna())):
        return "truth"
    return "number" if is_numeric_dtype(values) else "text"


def why_useless(values: Series) -> str | None:
    """Why a column cannot help, if so."""
    different = values.dropna().nunique()
    if different == 0:
        return "empty"
    if different == 1 and not values.isna().any():
        return "the same in every row"
    if kind_of(values) == "text" and different > min(MOST_CATEGORIES, max(len(values) // 2, 2)):
        return f"{different} different texts in {len(values)} rows: it names rows rather than describing them"
    return None


def read_numbers(values: Series, kind: str) -> np.ndarray:
    """(n,) floats, NaN where missing; refuses anything that is not a number, infinity, and what is close to it."""
    import pandas as pd

    if kind == "truth":
        given = values.astype(object).where(values.notna(), None)
        numbers = given.map(lambda v: None if v is None else TRUTHS.get(str(v).lower(), v))
        numbers = pd.to_numeric(numbers, errors="coerce")
    else:
        numbers = pd.to_numeric(values, errors="coerce")
    out = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = (np.isnan(out) & values.notna().to_numpy()) | (np.abs(out) > LARGEST)
    if bad.any():
        row = int(bad.argmax())
        what = "too large a number" if np.isfinite(out[row]) else "not a number"
        raise ValueError(f"column {values.name!r} has {str(values.iloc[row])!r:.80} in row {row + 1}, {what}")
    return out


def mean_and_scale(numbers: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of numbers (n,), of which some may be missing; zeros where all are."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return 0.0, 0.0
    # Squares of tiny numbers vanish; a power of two takes nothing from any digit.
    unit = 2.0 ** max(int(np.frexp(np.abs(known).max())[1]), -1000)
    return float(known.mean()), float((known / unit).std() * unit)


def are_whole(values: Series) -> bool:
    """Whether all values are whole numbers, of a size at which floats still tell them apart."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not is_numeric_dtype(values) or is_bool_dtype(values):
        return False
    return bool(whole(values.to_numpy(dtype=np.float64, na_value=np.nan)).all())


def whole(numbers: np.ndarray) -> np.ndarray:
    """Which numbers (n,) are whole, and not so large that a float stands for several whole numbers."""
    return (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
