"""What a table of training data looked like, and how such a table becomes the arrays a model works with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .data import listing

if TYPE_CHECKING:
    from pandas import DataFrame, Series

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
        kind, name, dtype = _kind(values), str(values.name), str(values.dtype)
        if kind == "text":
            return cls(name, kind, dtype, categories=tuple(sorted(set(values.dropna().astype(str)))))
        mean, scale = _moments(_numbers(values, kind))
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
        numbers = (_numbers(values, self.kind) - self.mean) / self.scale
        return np.nan_to_num(numbers, nan=0.0)[:, np.newaxis]

    def unseen(self, values: Series) -> list[str]:
        """Texts that training did not have."""
        return sorted(set(values.dropna().astype(str)) - set(self.categories)) if self.kind == "text" else []


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table in the long form: features, the task of each row, the target.

    Attributes
    ----------
    columns : those that became features, in the order of the features.
    task, target : the names of the other two.
    whole_tasks : whether task labels are whole numbers rather than text.
    regression : whether the target is a real number; the model then learns (target - target_mean) / target_scale.
    n_rows : training rows.
    left_out : columns that are no features, and why.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelkin import TableSchema
    >>> table = pd.DataFrame({"day": ["Mon", "Sat"] * 3, "size": range(6), "shop": list("aaabbb"), "sales": range(6)})
    >>> schema = TableSchema.fit(table, task="shop", target="sales", regression=True)
    >>> schema.features
    ['day=Mon', 'day=Sat', 'size']
    >>> schema.encode(table).shape, schema.tasks(table).tolist()
    ((6, 3), ['a', 'a', 'a', 'b', 'b', 'b'])
    """

    columns: tuple[Column, ...]
    task: str
    target: str
    whole_tasks: bool
    regression: bool
    target_mean: float
    target_scale: float
    n_rows: int
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, frame: DataFrame, task: str, target: str, drop: Sequence[str] = (), *, regression: bool
    ) -> TableSchema:
        """Learn the schema of a training table whose tasks and targets are all there."""
        check_columns(frame, [task, target, *drop])
        columns, left_out = [], dict.fromkeys(drop, "dropped as asked")
        for name in frame.columns:
            if name in (task, target) or name in left_out:
                continue
            reason = _useless(frame[name])
            if reason:
                left_out[str(name)] = reason
            else:
                columns.append(Column.fit(frame[name]))
        if not columns:
            raise ValueError("no column is left to predict from: all are the task, the target, constant or dropped")
        mean, scale = _moments(_numbers(frame[target], "number")) if regression else (0.0, 0.0)
        return cls(
            columns=tuple(columns),
            task=task,
            target=target,
            whole_tasks=_are_whole(frame[task]),
            regression=regression,
            target_mean=mean,
            target_scale=scale or 1.0,
            n_rows=len(frame),
            left_out=left_out,
        )

    @property
    def features(self) -> list[str]:
        return [feature for column in self.columns for feature in column.features]

    @property
    def positions(self) -> dict[str, list[int]]:
        """Column -> the positions of its features."""
        ends = np.cumsum([len(column.features) for column in self.columns]).tolist()
        return {c.name: list(range(end - len(c.features), end)) for c, end in zip(self.columns, ends, strict=True)}

    def encode(self, frame: DataFrame) -> np.ndarray:
        """Features (n, d) of a table, whatever the order of its columns; columns that training had not are ignored."""
        check_columns(frame, [column.name for column in self.columns])
        return np.hstack([column.encode(frame[column.name]) for column in self.columns])

    def tasks(self, frame: DataFrame) -> np.ndarray:
        """The task of each row."""
        check_columns(frame, [self.task])
        values = frame[self.task]
        if values.isna().any():
            raise ValueError(f"column {self.task!r} has no task in row {int(values.isna().to_numpy().argmax()) + 1}")
        if self.whole_tasks:
            return _numbers(values, "number").astype(np.int64)
        return values.astype(object).astype(str).to_numpy(dtype=str)

    def targets(self, frame: DataFrame) -> np.ndarray:
        """The target as the model learns it: standardised, or class labels."""
        values = frame[self.target]
        if self.regression:
            return (_numbers(values, "number") - self.target_mean) / self.target_scale
        return values.to_numpy() if values.dtype.kind in "biu" else class_labels(values)

    def restore(self, prediction: np.ndarray) -> np.ndarray:
        """What the model predicts, in the units of the table."""
        return prediction * self.target_scale + self.target_mean if self.regression else prediction

    def unseen(self, frame: DataFrame) -> dict[str, list[str]]:
        """Column -> texts that training did not have; they are taken as none of the known ones."""
        found = {column.name: column.unseen(frame[column.name]) for column in self.columns}
        return {name: texts for name, texts in found.items() if texts}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableSchema:
        """The schema of which `to_json` made these fields; a ValueError where they are not those of one."""
        try:
            columns = tuple(Column(**{**c, "categories": tuple(c["categories"])}) for c in fields["columns"])
            schema = cls(**{**fields, "columns": columns})
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are not the fields of a schema: {error}") from None
        _check_fields(schema)
        for column in columns:
            _check_fields(column)
        return schema


def _check_fields(part: TableSchema | Column) -> None:
    """Refuse values of the wrong type, which would do harm much later."""
    for name, value in vars(part).items():
        expected = _FIELDS[name]
        if not expected(value):
            raise ValueError(f"{name} of a schema cannot be {value!r:.80}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    # Whole numbers of JSON have no end, floats have.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "kind": lambda value: value in ("number", "truth", "text"),
    "dtype": _is_text,
    "mean": _is_number,
    "scale": lambda value: _is_number(value) and value != 0,
    "categories": lambda value: all(map(_is_text, value)),
    "columns": bool,
    "task": _is_text,
    "target": _is_text,
    "whole_tasks": lambda value: isinstance(value, bool),
    "regression": lambda value: isinstance(value, bool),
    "target_mean": _is_number,
    "target_scale": lambda value: _is_number(value) and value != 0,
    "n_rows": lambda value: type(value) is int and value > 0,
    "left_out": lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
}


def check_columns(frame: DataFrame, names: Sequence[str]) -> None:
    """Refuse a table without one of these columns, naming all that are missing."""
    absent = [name for name in names if name not in frame.columns]
    if absent:
        are = "column is" if len(absent) == 1 else "columns are"
        raise ValueError(f"{are} missing: {listing(absent)}; the data has {listing(list(map(str, frame.columns)), 20)}")
    twice = [name for name in names if list(frame.columns).count(name) > 1]
    if twice:
        raise ValueError(f"column {twice[0]!r} is there twice")


def class_labels(values: Series) -> np.ndarray:
    """Labels of classes: whole numbers where all are, else text."""
    if values.dtype.kind == "f" and _are_whole(values):
        return values.to_numpy().astype(np.int64)
    return values.astype(object).astype(str).to_numpy(dtype=str)


def _kind(values: Series) -> Literal["number", "truth", "text"]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(values) or (len(values.dropna()) and all(isinstance(v, bool) for v in values.dropna())):
        return "truth"
    return "number" if is_numeric_dtype(values) else "text"


def _useless(values: Series) -> str | None:
    """Why a column cannot help, if so."""
    different = values.dropna().nunique()
    if different == 0:
        return "empty"
    if different == 1 and not values.isna().any():
        return "the same in every row"
    if _kind(values) == "text" and different > min(MOST_CATEGORIES, max(len(values) // 2, 2)):
        return f"{different} different texts in {len(values)} rows: it names rows rather than describing them"
    return None


def _numbers(values: Series, kind: str) -> np.ndarray:
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


def _moments(numbers: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of numbers (n,), of which some may be missing; zeros where all are."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return 0.0, 0.0
    # Squares of tiny numbers vanish; a power of two takes nothing from any digit.
    unit = 2.0 ** np.frexp(np.abs(known).max())[1]
    return float(known.mean()), float((known / unit).std() * unit)


def _are_whole(values: Series) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not is_numeric_dtype(values) or is_bool_dtype(values):
        return False
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return bool((numbers == np.round(numbers)).all())
