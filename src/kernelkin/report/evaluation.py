"""Predictions for rows that a model was not fitted to, their scores, and the rows that the page plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import as_array, listing, missing, plain, take_rows
from ..data.checks import read_groupings, read_rows, split_task_columns
from ..kin.functions import spread_probabilities
from ..relations.scores import ACCURACY, LEAST_ROWS, LEVEL, R2, RMSE, WITHIN, WITHIN_MEANS, score_groups, score_rows
from ..relations.sharing import COVERAGE, NEW_GROUPS, NEW_ROWS, SharingReport
from ..storage.model_files import SavedModel
from ..tables.schema import TableSchema

N_BINS = 10
# Rows that the page plots: if there are more than `MAX_ROWS`, a sample with at least `MIN_ROWS` rows of each task.
MAX_ROWS, MIN_ROWS = 4000, 8
BOOTSTRAP = 200
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


@dataclass(frozen=True)
class HeldOutRows:
    """Targets and predictions in the original units. On wide data, each known target counts as a row."""

    tasks: np.ndarray  # (T,) labels
    codes: np.ndarray  # (n,) the task of each row, in ascending order
    y: np.ndarray  # (n,) numbers or classes
    values: np.ndarray  # (n,) predicted means, or probabilities (n, C) in the order of `classes`
    source: str  # description of where the rows come from
    # (n, 2) intervals of coverage `COVERAGE`; None for classes, and for new groups of the paper's models.
    ends: np.ndarray | None = None
    classes: np.ndarray | None = None  # (C,) labels; None for numbers
    wide: bool = False  # whether tasks are columns of y, which may have different units

    @classmethod
    def of(cls, tasks: np.ndarray, codes: np.ndarray, source: str, classes: Any, wide: bool, **arrays: Any) -> Self:
        """Return the rows sorted by task, from arrays `y`, `values` and `ends`."""
        order = np.argsort(codes, kind="stable")
        found = {name: array[order] for name, array in arrays.items() if array is not None}
        return cls(tasks=tasks, codes=codes[order], source=source, classes=classes, wide=wide, **found)

    def scores(self, *, within: bool = True, draw: Any = slice(None)) -> dict[str, float]:
        """Return the scores over all rows, or over the rows `draw`; wide targets are standardised.

        `within` is False for new groups: their levels are unknown, so scores within groups are not informative.
        """
        y, values, codes = self.y[draw], self.values[draw], self.codes[draw]
        if self.wide and self.classes is None:
            spread = np.array([self.y[self.codes == t].std() or 1.0 for t in range(len(self.tasks))])[codes]
            means = np.array([self.y[self.codes == t].mean() for t in range(len(self.tasks))])[codes]
            y, values = (y - means) / spread, (values - means) / spread
        found = score_rows(y, values, codes, self.classes)
        return {name: score for name, score in found.items() if name != WITHIN or (within and not self.wide)}

    def group_scores(self) -> np.ndarray:
        """Return the RMSE, the accuracy or, for wide targets, R² of each task (T,).

        It is NaN for tasks with fewer than five test rows.
        """
        T = len(self.tasks)
        if self.classes is not None or self.wide:
            return score_groups(self.y, self.values, self.codes, T, self.classes)
        counts = np.bincount(self.codes, minlength=T)
        squares = np.bincount(self.codes, (self.y - self.values) ** 2, T)
        return np.where(counts >= LEAST_ROWS, np.sqrt(squares / np.maximum(counts, 1)), np.nan)

    @property
    def group_score(self) -> str:
        """The name of the scores of groups."""
        return ACCURACY if self.classes is not None else R2 if self.wide else RMSE

    @property
    def covered(self) -> float | None:
        """The share of targets in their intervals; None without intervals."""
        return None if self.ends is None else float(np.mean((self.ends[:, 0] <= self.y) & (self.y <= self.ends[:, 1])))

    @property
    def predicted(self) -> np.ndarray:
        """The predicted number or class of each row (n,)."""
        return self.values if self.classes is None else self.classes[self.values.argmax(axis=1)]


def out_of_sample_rows(model: Any, schema: TableSchema | None = None) -> HeldOutRows | None:
    """Return out-of-sample predictions of a fitted model for its training rows.

    None for a model of the paper that was copied or loaded from a file. With a schema, values are in the units of its
    table.
    """
    model = getattr(model, "best_estimator_", model)
    source = "training rows, each predicted by a fit without it"
    if hasattr(model, "held_out_"):
        codes, arrays = _rows_of_kin(model)
    else:
        found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
        if found is None:
            return None
        codes, arrays = _rows_of_folds(model, *found)
        source += "; parameters were chosen with all rows"
    if schema is not None and not is_classifier(model):
        arrays = _in_units(schema, codes, arrays)
    return HeldOutRows.of(
        model.tasks_, codes, source, getattr(model, "classes_", None), model.data_form_ == "wide", **arrays
    )


def _rows_of_folds(model: Any, held: list[np.ndarray], data: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return tasks and arrays of the training rows of a model of the paper, from values (n_t, m_t) of each task."""
    known = [np.isfinite(values).all(axis=1) for values in held]
    codes = np.repeat(np.arange(len(held)), [k.sum() for k in known])
    y = np.concatenate([part[k] for part, k in zip(data.y, known, strict=True)])
    parts = [values[k] for values, k in zip(held, known, strict=True)]
    if not is_classifier(model):
        values = np.concatenate([part[:, 0] for part in parts])
        half = (model.uncertainty_.scales * model.uncertainty_.scores.quantile(COVERAGE))[codes]
        return codes, {"y": y, "values": values, "ends": np.stack([values - half, values + half], axis=1)}
    p = np.zeros((len(y), len(model.classes_)))
    for t, (part, own) in enumerate(zip(parts, model.task_classes_, strict=True)):
        place = np.ix_(codes == t, np.searchsorted(model.classes_, own))
        p[place] = model.uncertainty_.link.probabilities(part)
    return codes, {"y": y, "values": p}


def _rows_of_kin(model: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return tasks and arrays of the training rows of a mixed model."""
    held, functions = model.held_out_, model.functions_
    known = np.isfinite(held.values).reshape(len(held.y), -1).all(axis=1)
    y, values = held.y[known], held.values[known]
    if is_classifier(model):
        codes = held.codes[known]
        return codes, {"y": y, "values": spread_probabilities(functions.classes, values, codes)}
    deviations = held.deviations[known] / functions.scores.scale
    codes = held.codes[known] if y.ndim == 1 else np.tile(np.arange(y.shape[1]), len(y))
    ends = functions.ends(values.ravel(), deviations.ravel(), COVERAGE)
    return codes, {"y": y.ravel(), "values": values.ravel(), "ends": ends}


def rows_of_comparison(report: SharingReport, model: Any, schema: TableSchema | None = None) -> dict[str, HeldOutRows]:
    """Return the held-out rows of a sharing report by question; with a schema, in the units of its table."""
    found = {}
    for question, part in report.comparisons.items():
        if not part.rows:
            continue
        arrays = {key: part.rows[key] for key in ("y", "values", "ends") if part.rows[key] is not None}
        classes = None
        if is_classifier(model):
            classes = np.unique(np.concatenate([model.classes_, arrays["y"]]))
        elif schema is not None:
            arrays = _in_units(schema, part.rows["codes"], arrays)
        wide = getattr(model, "best_estimator_", model).data_form_ == "wide"
        found[question] = HeldOutRows.of(report.tasks, part.rows["codes"], part.how, classes, wide, **arrays)
    return found


def _in_units(schema: TableSchema, codes: np.ndarray, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return standardised targets, predictions and intervals of rows of these tasks in the units of the table."""
    of_task = codes if schema.task is None else np.zeros(len(codes), dtype=np.intp)
    means, scales = (np.array(part)[of_task] for part in (schema.target_means, schema.target_scales))
    return {name: (means + scales * array.T).T for name, array in arrays.items()}


def rows_of_table(saved: SavedModel, frame: Any, source: str) -> dict[str, HeldOutRows]:
    """Predict the rows of a labelled table with a model that has a schema; known and new groups are separate."""
    schema = saved.schema
    assert schema is not None
    y, tasks = schema.restore(np.asarray(schema.targets(frame))), schema.first_tasks(frame)
    return _predicted(saved, frame, y, tasks, source, {})


def rows_of_arrays(model: Any, X: Any, y: Any, tasks: Any, source: str) -> dict[str, HeldOutRows]:
    """Predict labelled rows; X, y and tasks are as for `score`. Known and new groups are separate."""
    column = getattr(getattr(model, "best_estimator_", model), "task_column", None)
    labels: np.ndarray | None = None
    if tasks is None and column is not None:
        labels = next(iter(split_task_columns(read_rows(X), column)[1].values()))
    elif tasks is not None:
        labels = next(iter(read_groupings(tasks).values()))
    target = as_array(y, "y")
    if len(target) != len(np.asarray(X) if isinstance(X, list) else X):
        raise ValueError(f"X has {len(X)} rows and y has {len(target)}")
    return _predicted(SavedModel(model), X, target, labels, source, {} if tasks is None else {"tasks": tasks})


def _predicted(
    saved: SavedModel, given: Any, y: np.ndarray, tasks: Any, source: str, options: dict[str, Any]
) -> dict[str, HeldOutRows]:
    """Predict rows in the form that the saved model takes."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    wide, classes = model.data_form_ == "wide", getattr(model, "classes_", None)
    predicts_new = getattr(model, "unknown_tasks", "error") == "common"
    if tasks is not None and not predicts_new and not np.isin(tasks, model.tasks_).any():
        raise ValueError(f"no row belongs to a task of the model: {listing(model.tasks_)}")
    if classes is None:
        values, ends = saved.predict(given, **options), _intervals(saved, given, tasks, options)
    else:
        values, ends = saved.predict_proba(given, **options), None
    if wide:
        y = y.reshape(len(y), -1)
        if y.shape[1] != len(model.tasks_):
            raise ValueError(f"y has {y.shape[1]} columns, but the model has {len(model.tasks_)} tasks")
        at = np.nonzero(~missing(y))
        codes, labels = at[1], model.tasks_
        y, values, ends = y[at], values[at], None if ends is None else ends[at]
    elif tasks is None:
        codes, labels = np.zeros(len(y), dtype=np.intp), model.tasks_
    else:
        new = sorted(set(tasks.tolist()) - set(model.tasks_.tolist()))
        labels = np.array([*model.tasks_.tolist(), *new])
        place = {label: t for t, label in enumerate(labels.tolist())}
        codes = np.array([place[label] for label in tasks.tolist()], dtype=np.intp)
    y, T, found = plain(y), len(model.tasks_), {}
    if classes is not None and len(unknown := np.setdiff1d(y, classes)):
        raise ValueError(f"the model does not know these classes: {listing(unknown)}")
    for question, rows, own, start in ((NEW_ROWS, codes < T, model.tasks_, 0), (NEW_GROUPS, codes >= T, labels[T:], T)):
        if rows.any():
            arrays = {"y": y[rows], "values": values[rows]}
            if ends is not None and not np.isnan(ends[rows]).any():
                arrays["ends"] = ends[rows]
            found[question] = HeldOutRows.of(own, codes[rows] - start, source, classes, wide, **arrays)
    return found


def _intervals(saved: SavedModel, given: Any, tasks: np.ndarray | None, options: dict[str, Any]) -> np.ndarray:
    """Return intervals of rows; NaN for new groups of a model of the paper, which has none."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    if tasks is None or hasattr(model, "held_out_") or (known := np.isin(tasks, model.tasks_)).all():
        return saved.predict_interval(given, COVERAGE, **options)
    ends = np.full((len(tasks), 2), np.nan)
    if known.any():
        options = {"tasks": tasks[known]} if options else {}
        ends[known] = saved.predict_interval(take_rows(read_rows(given), known), COVERAGE, **options)
    return ends


def evaluation_content(question: str, rows: HeldOutRows) -> dict[str, Any]:
    """Return the scores of all rows and of each task, and the data for the plots of predictions."""
    T = len(rows.tasks)
    found = {
        "question": question,
        "source": rows.source,
        "kind": "regression" if rows.classes is None else "classification",
        "tasks": [str(task) for task in rows.tasks.tolist()],
        "n_rows": len(rows.y),
        "level": LEVEL,
        "overall": _overall(rows, question == NEW_ROWS),
        "within_means": WITHIN_MEANS,
        "score": rows.group_score,
        "min_rows": LEAST_ROWS,
        "test_rows": np.bincount(rows.codes, minlength=T).tolist(),
        "task_score": numbers(rows.group_scores()),
        "sample": _sample(rows),
    }
    return found | (_regression(rows) if rows.classes is None else _classification(rows))


def _overall(rows: HeldOutRows, within: bool) -> list[list[Any]]:
    """Return name, value and the ends of a bootstrap interval of each score over all rows."""
    rng, n = np.random.default_rng(0), len(rows.y)
    drawn = [rows.scores(within=within, draw=rng.integers(n, size=n)) for _ in range(BOOTSTRAP)]
    found = []
    for name, value in rows.scores(within=within).items():
        known = [draw[name] for draw in drawn if np.isfinite(draw[name])]
        found.append([name, number(value), *(numbers(np.quantile(known, TAILS)) if known else (None, None))])
    return found


def _sample(rows: HeldOutRows) -> dict[str, Any]:
    """Return a sample of the rows of each task, or all rows if there are few."""
    parts = _of_tasks(rows)
    quota = max(MIN_ROWS, MAX_ROWS // max(len(parts), 1)) if len(rows.y) > MAX_ROWS else len(rows.y)
    rng = np.random.default_rng(0)
    kept = np.concatenate([part[np.sort(rng.permutation(len(part))[:quota])] for part in parts])
    found: dict[str, Any] = {"task": rows.codes[kept].tolist()}
    if rows.classes is not None:
        for name, labels in (("actual", rows.y), ("predicted", rows.predicted)):
            found[name] = np.searchsorted(rows.classes, labels[kept]).tolist()
        p = rows.values[kept]
        return found | {"probability": numbers(p[:, 1] if p.shape[1] == 2 else p.max(axis=1))}
    columns = {"actual": rows.y, "predicted": rows.values}
    if rows.ends is not None:
        columns |= {"low": rows.ends[:, 0], "high": rows.ends[:, 1]}
    return found | {name: numbers(column[kept]) for name, column in columns.items()}


def _of_tasks(rows: HeldOutRows) -> list[np.ndarray]:
    """Return the positions of the rows of each task; rows are sorted by task."""
    counts = np.bincount(rows.codes, minlength=len(rows.tasks))
    return np.split(np.arange(len(rows.y)), np.cumsum(counts)[:-1])


def _regression(rows: HeldOutRows) -> dict[str, Any]:
    """Return errors in the units of the target, and the coverage of intervals."""
    errors = np.abs(rows.y - rows.values)
    return {
        "coverage": COVERAGE,
        "covered": number(rows.covered),
        "error": number(errors.mean()),
        "task_error": [number(errors[part].mean()) if len(part) else None for part in _of_tasks(rows)],
    }


def _classification(rows: HeldOutRows) -> dict[str, Any]:
    assert rows.classes is not None
    actual, predicted = (np.searchsorted(rows.classes, part) for part in (rows.y, rows.predicted))
    confusion = np.zeros((len(rows.classes),) * 2, dtype=np.intp)
    np.add.at(confusion, (actual, predicted), 1)
    # For two classes, the bins are for the second class.
    used = slice(1, None) if len(rows.classes) == 2 else slice(None)
    happened = (actual[:, np.newaxis] == np.arange(len(rows.classes)))[:, used].ravel()
    stated = rows.values[:, used].ravel()
    bins = [b for b in np.array_split(np.argsort(stated, kind="stable"), N_BINS) if len(b)]
    # The error of a task is the mean predicted probability of the wrong classes.
    errors = 1.0 - rows.values[np.arange(len(actual)), actual]
    return {
        "classes": [str(label) for label in rows.classes.tolist()],
        "confusion": confusion.tolist(),
        "reliability": [[float(stated[b].mean()), float(happened[b].mean()), len(b)] for b in bins],
        "task_error": [number(errors[part].mean()) if len(part) else None for part in _of_tasks(rows)],
    }


def number(value: Any) -> float | None:
    """Return a number rounded to six significant digits, or None if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    (0.333333, None)
    """
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Return numbers rounded to six significant digits; None for those that are not finite."""
    return [number(value) for value in values]
