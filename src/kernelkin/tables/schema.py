"""The schema of a training table: how tables are converted to the arrays that a model uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import Table, as_table, listing, missing
from ..data.checks import check_labels
from .cells import CellError, Decimal, is_missing_mark, read_numbers, split_number
from .columns import Column, mean_and_scale
from .encoder import TableEncoder, check_names

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# A plain integer; "01", "+1" and "1.0" are different names.
CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table: features, the task of each row, and the target; or several targets, each a task.

    Parameters
    ----------
    encoder : the transformer that encodes the features.
    task_columns : the column with the task of each row, and those of further groupings, each with whether its labels
        are whole numbers rather than text; empty if every target is a task.
    target_names : the columns to predict.
    regression : whether targets are real numbers; the model then learns (target - target_mean) / target_scale.
    target_means, target_scales : mean and standard deviation of the targets.
    n_rows : number of training rows.
    target_units : the units that may follow the numbers in the target cells, such as "EUR".
    offset, exposure : the column with the logarithm of the exposure of counts, or with the exposure itself; or None.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelkin.tables import TableSchema
    >>> table = pd.DataFrame({"day": ["Mon", "Sat"] * 3, "size": range(6), "shop": list("aaabbb"), "sales": range(6)})
    >>> schema = TableSchema.fit(table, task="shop", target="sales", regression=True)
    >>> schema.features
    ['day=Mon', 'day=Sat', 'size']
    >>> schema.encode(table).shape, schema.tasks(table).tolist()
    ((6, 3), ['a', 'a', 'a', 'b', 'b', 'b'])
    """

    encoder: TableEncoder
    task_columns: dict[str, bool]
    target_names: tuple[str, ...]
    regression: bool
    target_means: tuple[float, ...]
    target_scales: tuple[float, ...]
    n_rows: int
    target_units: tuple[str, ...]
    offset: str | None = None
    exposure: str | None = None

    @classmethod
    def fit(
        cls,
        frame: DataFrame,
        task: str | Sequence[str] | None,
        target: str | Sequence[str],
        drop: Sequence[str] = (),
        *,
        regression: bool,
        standardise: bool = True,
        offset: str | None = None,
        exposure: str | None = None,
        decimal: Decimal = ".",
        units: Sequence[str] = (),
        day_first: bool | None = None,
    ) -> TableSchema:
        """Learn the schema of a training table without missing tasks or targets.

        Parameters
        ----------
        frame : DataFrame
        task, target : the column or columns of tasks (None if every target is a task), and of targets
        drop : as for `TableEncoder`
        regression : as for the schema
        standardise : whether the model learns standardised numbers; False for counts
        offset, exposure : as for the schema
        decimal : as for `TableEncoder`
        units : the units of the targets
        day_first : as for `TableEncoder`
        """
        targets = (target,) if isinstance(target, str) else tuple(target)
        tasks = [] if task is None else [task] if isinstance(task, str) else list(task)
        special = [*targets, *tasks, *(name for name in (offset, exposure) if name is not None)]
        check_names(frame.columns, [*special, *drop])
        encoder = TableEncoder(decimal=decimal, drop=list(drop), day_first=day_first).fit(frame.drop(columns=special))
        units = tuple(units) or ("",) * len(targets)
        moments = [(0.0, 1.0)] * len(targets)
        if regression and standardise:
            cells = [(name, frame[name].to_numpy()) for name in targets]
            numbers = [read_numbers(*cell, decimal, unit) for cell, unit in zip(cells, units, strict=True)]
            moments = [mean_and_scale(y[~np.isnan(y)]) if np.isfinite(y).any() else (0.0, 1.0) for y in numbers]
        return cls(
            encoder=encoder,
            task_columns={name: are_whole(frame[name]) for name in tasks},
            target_names=targets,
            regression=regression,
            target_means=tuple(mean for mean, _ in moments),
            target_scales=tuple(scale for _, scale in moments),
            n_rows=len(frame),
            target_units=units,
            offset=offset,
            exposure=exposure,
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that became features."""
        return self.encoder.columns_

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that are not features, each with the reason."""
        return self.encoder.left_out_

    @property
    def task_names(self) -> list[str]:
        """The columns of tasks: none if every target is a task."""
        return list(self.task_columns)

    @property
    def task(self) -> str | None:
        """The column with the task of each row; None if every target is a task."""
        return next(iter(self.task_columns), None)

    @property
    def target(self) -> str:
        """The names of the targets, as text."""
        return ", ".join(self.target_names)

    @property
    def title(self) -> str:
        """What is predicted, for headlines: "sales by shop"."""
        return self.target if self.task is None else f"{self.target} by {self.task}"

    @property
    def features(self) -> list[str]:
        return self.encoder.get_feature_names_out().tolist()

    def encode(self, frame: Any) -> np.ndarray:
        """Return the features (n, d) of a table.

        Parameters
        ----------
        frame : DataFrame of pandas, polars or Arrow, or dict of columns
            The columns may be in any order; columns that were not in the training table are ignored.
        """
        return self.encoder.transform(self._features(frame))

    def encode_table(self, frame: Any) -> Table:
        """Return the features as a table that records which of them belong together, for fitting models."""
        return self.encoder.encode(self._features(frame))

    def _features(self, frame: Any) -> Table:
        return select_columns(frame, [column.name for column in self.columns])

    def tasks(self, frame: Any) -> Any:
        """Return the task of each row, or None if every target is a task; a dict of columns for several groupings.

        Parameters
        ----------
        frame : as for `encode`
        """
        found = {name: read_labels(frame, name, whole) for name, whole in self.task_columns.items()}
        return found if len(found) > 1 else next(iter(found.values()), None)

    def first_tasks(self, frame: Any) -> np.ndarray | None:
        """Return the task of each row in the first grouping, or None if every target is a task."""
        return None if self.task is None else read_labels(frame, self.task, self.task_columns[self.task])

    def options(self, frame: Any) -> dict[str, np.ndarray]:
        """Return the further arguments of `fit` and `predict`: the `offset` of counts, if there is a column for it."""
        name = self.offset or self.exposure
        if name is None:
            return {}
        values = read_numbers(name, select_columns(frame, [name]).columns[0], self.encoder.decimal)
        bad = ~np.isfinite(values) | ((values <= 0.0) & (self.exposure is not None))
        if bad.any():
            row, wanted = int(bad.argmax()), "a positive number" if self.exposure else "a number"
            found = "no exposure" if np.isnan(values[row]) else f"the exposure {values[row]:g}"
            raise CellError(name, row + 1, (found, f"; {wanted} is needed"))
        return {"offset": np.log(values) if self.exposure else values}

    def targets(self, frame: DataFrame) -> Any:
        """Return the target as the model expects it, standardised numbers or class labels: (n,), or a frame (n, T).

        Parameters
        ----------
        frame : as for `encode`
        """
        check_names(frame.columns, self.target_names)
        found = {}
        for k, name in enumerate(self.target_names):
            if self.regression:
                numbers = read_numbers(name, frame[name].to_numpy(), self.encoder.decimal, self.target_units[k])
                found[name] = (numbers - self.target_means[k]) / self.target_scales[k]
            else:
                found[name] = class_labels(frame[name])
        return type(frame)(found, index=frame.index) if self.task is None else found[self.target_names[0]]

    def restore(self, prediction: np.ndarray) -> np.ndarray:
        """Return predictions of the model in the units of the table."""
        scales, means = np.array(self.target_scales), np.array(self.target_means)
        return prediction * scales + means if self.regression else prediction


def read_labels(frame: Any, name: str, whole: bool) -> np.ndarray:
    """Return the labels (n,) of a task column as models read them: text, or whole numbers."""
    values = select_columns(frame, [name]).columns[0]
    absent = missing(values)
    if absent.any():
        raise CellError(name, int(absent.argmax()) + 1, ("no task", ""))
    if not whole:
        texts = np.datetime_as_string(values, unit="auto") if values.dtype.kind == "M" else values.tolist()
        return check_labels(np.array(list(map(str, texts))))
    numbers = read_numbers(name, values)
    # A text must be a plain integer: "01" is not the task 1.
    good = _whole(numbers) & np.array([not isinstance(v, str) or bool(CANONICAL.fullmatch(v)) for v in values])
    if not good.all():
        row = int(np.argmin(good))
        raise CellError(name, row + 1, (f"{str(values[row])!r:.80}", "; groups are whole numbers, such as 1"))
    return check_labels(numbers.astype(np.int64))


def select_columns(frame: Any, names: Sequence[str]) -> Table:
    """Return the named columns of a data frame of any library, or of a dict of columns."""
    if hasattr(frame, "iloc"):
        check_names(frame.columns, names)
        frame = frame[list(names)]
    table = as_table(frame, "X")
    if table is None:
        raise TypeError(
            "this model was fitted on a table: pass a data frame of pandas, polars or Arrow, or dict of columns, with "
            f"the columns {listing(list(names))}; got {type(frame).__name__} (arrays of features: use `.model`)"
        )
    check_names(table.names, names)
    positions = {str(name): k for k, name in enumerate(table.names)}
    return table.select([positions[name] for name in names])


def class_labels(values: Series) -> np.ndarray:
    """Return class labels: booleans, integers if all are whole numbers, else text; None if missing."""
    if values.dtype.kind in "biu":
        return values.to_numpy()
    if values.dtype.kind == "f" and are_whole(values):
        return values.to_numpy().astype(np.int64)
    texts = values.astype(object).map(str, na_action="ignore")
    return texts.where(values.notna(), None).to_numpy() if values.isna().any() else texts.to_numpy(dtype=str)


def are_whole(values: Series) -> bool:
    """Return whether all values are whole numbers that floats represent exactly."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    is_number = is_numeric_dtype(values) and not is_bool_dtype(values)
    return is_number and bool(_whole(values.to_numpy(dtype=np.float64, na_value=np.nan)).all())


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Return which numbers (n,) are whole and below 2**53, so that floats represent them exactly."""
    return (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)


def common_unit(values: Series, decimal: Decimal = ".") -> str:
    """Return the unit of a target if all its cells are numbers, some with that unit ("30 EUR"); else an empty text."""
    if values.dtype.kind in "biufmM":
        return ""
    found = [split_number(text, decimal) for text in map(str, values.unique()) if not is_missing_mark(text)]
    units = {unit for _, unit in found if unit}
    return units.pop() if len(units) == 1 and all(np.isfinite(number) for number, _ in found) else ""
