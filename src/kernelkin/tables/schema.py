"""The schema of a training table: how such tables become the arrays that a model works with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import listing
from .columns import Column, are_whole, class_labels, encode_columns, fit_columns, means_and_scales, read_numbers, whole
from .labels import CANONICAL

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table in the long form: features, the task of each row, the target.

    Parameters
    ----------
    columns : tuple of Column
        Those that became features, in the order of the features.
    task, target : str
        The names of the other two.
    whole_tasks : bool
        Whether task labels are whole numbers rather than text.
    regression : bool
        Whether the target is a real number; the model then learns (target - target_mean) / target_scale.
    target_mean, target_scale : float
        The units of the target.
    n_rows : int
        Number of training rows.
    left_out : dict
        Columns that are no features, and why.

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
        """Learn the schema of a training table whose tasks and targets are all there.

        Parameters
        ----------
        frame : DataFrame
            The table.
        task, target : str
            The columns with the task of each row and with what to predict.
        drop : sequence of str
            Columns to leave out.
        regression : bool
            Whether the target is a number rather than a class.
        """
        check_columns(frame, [task, target, *drop])
        excluded = {task, target, *drop}
        columns, useless = fit_columns(frame[[name for name in frame.columns if name not in excluded]])
        if not columns:
            raise ValueError("no column is left to predict from: all are the task, the target, constant or dropped")
        mean, scale = _mean_and_scale(frame[target]) if regression else (0.0, 0.0)
        return cls(
            columns=tuple(columns),
            task=task,
            target=target,
            whole_tasks=are_whole(frame[task]),
            regression=regression,
            target_mean=mean,
            target_scale=scale or 1.0,
            n_rows=len(frame),
            left_out={**dict.fromkeys(drop, "dropped on request"), **useless},
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
        """Return the features (n, d) of a table.

        Parameters
        ----------
        frame : DataFrame
            Its columns in any order; columns that training did not have are ignored.
        """
        check_columns(frame, [column.name for column in self.columns])
        return encode_columns(self.columns, frame)

    def tasks(self, frame: DataFrame) -> np.ndarray:
        """Return the task of each row.

        Parameters
        ----------
        frame : DataFrame
            The table.
        """
        check_columns(frame, [self.task])
        values = frame[self.task]
        if values.isna().any():
            raise ValueError(f"column {self.task!r} has no task in row {int(values.isna().to_numpy().argmax()) + 1}")
        return _whole_tasks(values) if self.whole_tasks else values.astype(object).astype(str).to_numpy(dtype=str)

    def targets(self, frame: DataFrame) -> np.ndarray:
        """Return the target as the model is given it: standardised numbers, or class labels.

        Parameters
        ----------
        frame : DataFrame
            The table.
        """
        values = frame[self.target]
        if self.regression:
            return (read_numbers(values.to_frame(), ["number"])[:, 0] - self.target_mean) / self.target_scale
        return values.to_numpy() if values.dtype.kind in "biu" else class_labels(values)

    def restore(self, prediction: np.ndarray) -> np.ndarray:
        """Predictions of the model in the units of the table."""
        return prediction * self.target_scale + self.target_mean if self.regression else prediction

    def unseen(self, frame: DataFrame) -> dict[str, list[str]]:
        """Column -> texts that training did not have, which are encoded as none of the known ones."""
        found = {c.name: c.unseen(frame[c.name]) for c in self.columns if c.kind == "text"}
        return {name: texts for name, texts in found.items() if texts}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableSchema:
        """The schema from the fields that `to_json` gave; a ValueError for anything else."""
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
    """Refuse values of the wrong type, which would cause errors much later."""
    for name, value in vars(part).items():
        expected = _FIELDS[name]
        if not expected(value):
            raise ValueError(f"{name} of a schema cannot be {value!r:.80}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    # Integers in JSON are unbounded; floats are not.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": _is_text,
    "kind": lambda value: value in ("number", "boolean", "text"),
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
    """Refuse a table without one of these columns, naming all that are missing, or with one of them twice."""
    present = set(frame.columns)
    absent = [name for name in names if name not in present]
    if absent:
        are = "column is" if len(absent) == 1 else "columns are"
        raise ValueError(f"{are} missing: {listing(absent)}; the data has {listing(list(map(str, frame.columns)), 20)}")
    twice = set(frame.columns[frame.columns.duplicated()]).intersection(names)
    if twice:
        raise ValueError(f"column {sorted(twice)[0]!r} occurs twice")


def _mean_and_scale(values: Series) -> tuple[float, float]:
    means, scales = means_and_scales(read_numbers(values.to_frame(), ["number"]))
    return float(means[0]), float(scales[0])


def _whole_tasks(values: Series) -> np.ndarray:
    """Task labels (n,) as integers. A text must be written as an integer is: "01" is not the task 1."""
    numbers = read_numbers(values.to_frame(), ["number"])[:, 0]
    good = whole(numbers) & np.array([not isinstance(v, str) or bool(CANONICAL.fullmatch(v)) for v in values])
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"column {values.name!r} has {str(values.iloc[row])!r:.80} in row {row + 1}; tasks are whole numbers"
        )
    return numbers.astype(np.int64)
