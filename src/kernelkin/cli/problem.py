"""Build a learning problem from a table and command line arguments: rows, tasks and targets."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import listing
from ..kin.losses import LOSSES, SquaredLoss
from ..storage.model_files import load_model
from ..tables.cells import OTHER_DECIMAL, CellError, as_numbers, read_numbers, refuse_cells
from ..tables.encoder import TableEncoder, check_names
from ..tables.files import TextFormat, display_name, read_table
from ..tables.schema import TableSchema, are_whole, common_unit, read_labels

if TYPE_CHECKING:
    from pandas import DataFrame, Series

# Whole numbers with at most this many distinct values are treated as classes.
MOST_CLASSES = 10


def text_format(arguments: Namespace) -> TextFormat:
    """Return the format of text files given by the arguments."""
    separator = {"tab": "\t", "\\t": "\t"}.get(arguments.sep, arguments.sep)
    return TextFormat(separator, arguments.encoding, arguments.decimal)


@dataclass(frozen=True)
class TableProblem:
    """A table whose rows all have a task and a target, and how to learn from it."""

    frame: DataFrame
    tasks: tuple[str, ...]  # the columns with groups; reports use the first. Empty if every target is a task.
    targets: tuple[str, ...]  # the columns to predict; a single one if there is a task column
    regression: bool
    options: dict[str, Any]  # further arguments of `TableSchema.fit`
    notes: tuple[str, ...]  # messages about how the table was read
    tiny_tasks: tuple[Any, ...] = ()  # the tasks with one row, or one class

    def settle_tiny_tasks(self, *, shares_functions: bool) -> TableProblem:
        """Leave out the tiny tasks, unless tasks share parts of their functions, and add a note."""
        if not self.tiny_tasks:
            return self
        count = "1 group" if len(self.tiny_tasks) == 1 else f"{len(self.tiny_tasks)} groups"
        found = f"{count} with only one {'row' if self.regression else 'class'}: {listing(self.tiny_tasks)}"
        if shares_functions:
            return replace(self, notes=(*self.notes, f"{found}, learned from the shared part."))
        frame = self.frame[~self.frame[self.tasks[0]].isin(self.tiny_tasks)]
        return replace(self, frame=frame, notes=(*self.notes, f"Left out {found}."), tiny_tasks=())

    @cached_property
    def schema(self) -> TableSchema:
        """The schema of the table."""
        return TableSchema.fit(self.frame, self.tasks or None, self.targets, regression=self.regression, **self.options)


def load_problem(arguments: Namespace) -> TableProblem:
    """Read the table given by the arguments; errors name the file."""
    if arguments.loss is not None and arguments.loss not in LOSSES:
        raise ValueError(f"--loss {arguments.loss}: unknown loss; the losses are {listing(list(LOSSES))}")
    arguments.regression |= arguments.loss is not None
    arguments.loss = None if arguments.loss == SquaredLoss.name else arguments.loss
    targets, tasks = list(dict.fromkeys(arguments.target)), list(dict.fromkeys(arguments.task))
    if not tasks and len(targets) == 1:
        raise ValueError("--task is missing: name the column with the group of each row, or several --target columns")
    if tasks and len(targets) > 1:
        raise ValueError("with several --target columns, each is a task: leave out --task, or name one target")
    if tasks and targets[0] in tasks:
        raise ValueError(f"--task and --target are the same column, {targets[0]!r}")
    if both := set(arguments.drop).intersection([*targets, *tasks]):
        raise ValueError(f"--drop {min(both)}: this column is needed, since --target or --task names it too")
    frame = read_table(arguments.data, tasks, targets, text_format(arguments))
    exposures = [name for name in (arguments.offset, arguments.exposure) if name is not None]
    if exposures and not _loss(arguments).takes_offset:
        takers = " or ".join(loss.name for loss in LOSSES.values() if loss.takes_offset)
        raise ValueError(f"--offset and --exposure need --loss {takers}")
    special = [*targets, *tasks, *exposures, *arguments.drop]
    encoder = TableEncoder(decimal=arguments.decimal, day_first=arguments.day_first)
    with in_file(arguments.data):
        check_names(frame.columns, special)
        # Raises for cells that cannot be encoded, while row numbers are still those of the file.
        encoder.fit(frame.drop(columns=special))
        problem = read_problem(frame, arguments)
    # Whether the day comes first in dates is decided on all rows, before some are left out.
    if arguments.day_first is None:
        problem.options["day_first"] = any(column.date_format.startswith("%d/") for column in encoder.columns_)
    with in_file(arguments.data, problem.frame):
        problem.schema.options(problem.frame)
        for name in targets if problem.regression else ():
            values, loss = problem.frame[name].to_numpy(dtype=np.float64), _loss(arguments)
            refuse_cells(name, values, loss.faults(values), f"not a {loss.target}")
    return problem


def _loss(arguments: Namespace) -> SquaredLoss:
    return LOSSES[arguments.loss or SquaredLoss.name]


def load_with_schema(path: str, arguments: Namespace) -> Any:
    """Return a saved model that was fitted to a table, for tables of the format given by the arguments."""
    saved: Any = load_model(path)
    if saved.schema is None:
        raise ValueError(f"{path} was saved without the schema of a table: use it from Python")
    if arguments.decimal != ".":
        saved.schema.encoder.set_params(decimal=arguments.decimal)
    return saved


@contextmanager
def in_file(path: str, rows: DataFrame | None = None) -> Iterator[None]:
    """Make errors name the file and, if `rows` are some rows of its table, the number of a row in the file."""
    try:
        yield
    except ValueError as error:
        if rows is not None and isinstance(error, CellError):
            error = error.after(int(rows.index[error.row - 1]) + 1 - error.row)
        raise ValueError(f"{display_name(path)}: {error}") from error


def read_problem(frame: DataFrame, arguments: Namespace) -> TableProblem:
    """Choose the rows to use, and classification or regression."""
    tasks, targets = tuple(dict.fromkeys(arguments.task)), tuple(dict.fromkeys(arguments.target))
    frame, notes = with_labels(frame, tasks, targets)
    frame = frame.assign(**{name: read_labels(frame, name, are_whole(frame[name])) for name in tasks})
    frame, units = _without_units(frame, targets, arguments)
    notes += [f"Unit of {name!r}: {unit}." for name, unit in zip(targets, units, strict=True) if unit]
    regression, why = _guess_all(frame, targets, arguments)
    kind = _loss(arguments).kind if regression else "classification"
    exposure = arguments.exposure or arguments.offset
    notes.append(f"{kind.capitalize()}: {why}{f'; exposure: {exposure!r}' if exposure else ''}.")
    tiny = _tiny_tasks(frame, tasks[0], targets[0], regression) if tasks else ()
    with suppress(TypeError):  # lists in cells cannot be compared
        if n := int(frame.duplicated().sum()):
            notes.append(f"{n} of {len(frame)} rows equal an earlier row: if copied, held-out scores are too good.")
    for name in (*tasks, *(() if regression else targets)):
        labels = frame[name].dropna().drop_duplicates().astype(str)
        plain = labels.str.strip().str.casefold()
        if alike := labels[plain[plain.duplicated(keep=False)].sort_values(kind="stable").index].tolist():
            notes.append(f"Values of {name!r} that differ only in capital letters or blanks: {listing(alike, 6)}.")
    options = {name: getattr(arguments, name) for name in ("drop", "decimal", "day_first", "offset", "exposure")}
    options |= {"units": units, "standardise": _loss(arguments).is_linear}
    return TableProblem(frame, tasks, targets, regression, options, tuple(notes), tiny)


def _tiny_tasks(train: DataFrame, task: str, target: str, regression: bool) -> tuple[Any, ...]:
    """Return the tasks with one row, or one class; raise if there are no other tasks."""
    groups = train.groupby(task, observed=True)[target]
    useful = groups.size() > 1 if regression else groups.nunique() > 1
    if not useful.any():
        fault = "only one row" if regression else f"only one class of {target!r}"
        raise ValueError(f"every group has {fault}: is {task!r} the right --task column?")
    return tuple(useful.index[~useful].tolist())


def with_labels(frame: DataFrame, tasks: Sequence[str], targets: Sequence[str]) -> tuple[DataFrame, list[str]]:
    """Return the rows that have their groups and at least one target, and a note on the others."""
    gone = frame[list(targets)].isna().all(axis=1) | frame[list(tasks)].isna().any(axis=1)
    names = " or ".join(map(repr, [*tasks, *targets] if tasks else targets[:3]))
    if gone.all():
        raise ValueError(f"no row has {'both ' + names.replace(' or ', ' and ') if tasks else names}")
    if not gone.any():
        return frame, []
    rows = f"row{'s' if gone.sum() > 1 else ''} {listing((frame.index[gone] + 1).tolist(), 5)}"
    return frame[~gone], [f"Left out {gone.sum()} of {len(frame)} rows, without {names}: {rows}."]


def _without_units(frame: DataFrame, targets: Sequence[str], arguments: Namespace) -> tuple[DataFrame, tuple[str, ...]]:
    """Convert targets such as "30 EUR" to numbers; return the table and the units. Class names stay unchanged."""
    units = []
    for name in targets:
        values = frame[name].dropna()
        is_class = arguments.classification or (values.nunique() <= MOST_CLASSES and not arguments.regression)
        units.append("" if is_class else common_unit(values, arguments.decimal))
        if units[-1]:
            frame = frame.assign(**{name: read_numbers(name, frame[name].to_numpy(), arguments.decimal, units[-1])})
    return frame, tuple(units)


def _guess_all(frame: DataFrame, targets: Sequence[str], arguments: Namespace) -> tuple[bool, str]:
    """Return whether this is a regression problem, and why; raise if several targets differ."""
    found = {name: _guess(frame[name].dropna(), name, arguments) for name in targets}
    kinds = {regression: name for name, (regression, _) in found.items()}
    if len(kinds) > 1:
        raise ValueError(
            f"{kinds[True]!r} is a number and {kinds[False]!r} a class: fit them separately, or use --regression or "
            "--classification"
        )
    regression, why = found[targets[0]]
    others = f", and so {'is' if len(targets) == 2 else 'are'} {listing(targets[1:], 5)}" if len(targets) > 1 else ""
    return regression, why + others


def _guess(values: Series, name: str, arguments: Namespace) -> tuple[bool, str]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    distinct = values.nunique()
    numeric = is_numeric_dtype(values) and not is_bool_dtype(values)
    if not numeric and not arguments.classification:
        _refuse_stray_text(values, name, arguments)
    if distinct <= 1 and not arguments.regression:
        found = f"{str(values.iloc[0])!r:.80} in every row" if distinct else "empty"
        raise ValueError(f"{name!r} is {found}: nothing can be learned")
    if (arguments.classification or not (numeric or arguments.regression)) and distinct > max(len(values) // 2, 2):
        raise ValueError(
            f"column {name!r} has {distinct} different values in {len(values)} rows, such as "
            f"{str(values.iloc[0])!r:.80}: classes must repeat, and numbers must be plain or have one unit"
        )
    if arguments.regression or arguments.classification:
        return arguments.regression, f"{name!r}, as the options say"
    if not numeric:
        labels = listing(sorted(map(str, values.unique())), 6)
        return False, f"{name!r} is text with {distinct} distinct values: {labels}"
    whole = bool((values == values.round()).all())
    if distinct == 2 or (whole and distinct <= MOST_CLASSES):
        known = ", ".join(f"{value:.6g}" for value in sorted(values.unique()))
        return False, f"{name!r} has {distinct} distinct values, {known} (--regression to predict a number)"
    ends = f"from {values.min():.6g} to {values.max():.6g}"
    return True, f"{name!r} is a number with {distinct} distinct values {ends}" + (
        " (--classification to predict a class)" if whole and distinct <= 3 * MOST_CLASSES else ""
    )


def _refuse_stray_text(values: Series, name: str, arguments: Namespace) -> None:
    """Raise if a text target is used with --regression, or if most of its values are numbers."""
    cells, other = values.to_numpy(dtype=object), OTHER_DECIMAL[arguments.decimal]
    stray = np.isinf(as_numbers(cells, arguments.decimal))
    if stray.any() and not np.isinf(as_numbers(cells, other)).any():
        raise ValueError(f"column {name!r} has numbers with the decimal separator {other!r}: use --decimal {other}")
    if stray.any() and (arguments.regression or (values.nunique() > MOST_CLASSES and stray.mean() < 0.5)):
        at = int(stray.argmax())
        cell, row = f"{str(values.iloc[at])!r:.80}", int(values.index[at]) + 1
        advice = "correct or empty this cell, or use --classification"
        raise ValueError(f"column {name!r} has {cell} in row {row}, not a number: {advice}")
