"""Predictions for rows that a model was not fitted to, from folds, tables or arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import as_array, listing, missing, plain
from ..data.checks import read_rows, split_task_columns
from ..kin.functions import spread_probabilities
from ..storage.model_files import SavedModel
from ..tables.schema import TableSchema

COVERAGE = 0.9


@dataclass(frozen=True)
class HeldOutRows:
    """Targets and predictions in their original units; on wide data each known target counts as a row.

    Attributes
    ----------
    tasks : (T,) labels.
    codes : (n,) the task of each row, in ascending order.
    y, predicted : (n,) numbers or classes.
    ends : (n, 2) intervals of coverage `COVERAGE`; None for classes.
    values : (n,) scores that rank two classes; None for numbers and for more classes.
    probabilities : (n, C), in the order of `classes`; None for numbers.
    classes : (C,) labels; None for numbers.
    source : description of where the rows come from.
    """

    tasks: np.ndarray
    codes: np.ndarray
    y: np.ndarray
    predicted: np.ndarray
    source: str
    ends: np.ndarray | None = None
    values: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    classes: np.ndarray | None = None

    @classmethod
    def of(cls, tasks: np.ndarray, codes: np.ndarray, source: str, classes: Any = None, **arrays: Any) -> Self:
        """Return the rows sorted by task."""
        order = np.argsort(codes, kind="stable")
        sorted_arrays: dict[str, Any] = {k: None if array is None else array[order] for k, array in arrays.items()}
        return cls(tasks=tasks, codes=codes[order], source=source, classes=classes, **sorted_arrays)


def out_of_sample_rows(model: Any, schema: TableSchema | None = None) -> HeldOutRows | None:
    """Return out-of-sample predictions of a fitted model for its training rows; None for a model from a file.

    With a schema, values are in the units of its table.
    """
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "held_out_"):
        codes, arrays = _rows_of_kin(model)
        source = "training rows, each predicted by a fit without it"
    else:
        found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
        if found is None:
            return None
        codes, arrays = _rows_of_folds(model, *found)
        source = "training rows, each predicted by a fit without it; parameters were chosen with all rows"
    if schema is not None and not is_classifier(model):
        means, scales = (
            np.broadcast_to(part, len(model.tasks_))[codes] for part in (schema.target_means, schema.target_scales)
        )
        arrays = {name: (means + scales * array.T).T for name, array in arrays.items()}
    return HeldOutRows.of(model.tasks_, codes, source, getattr(model, "classes_", None), **arrays)


def _rows_of_folds(model: Any, held: list[np.ndarray], data: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return tasks and arrays of the training rows of a model of the paper, from values (n_t, m_t) of each task."""
    known = [np.isfinite(values).all(axis=1) for values in held]
    codes = np.repeat(np.arange(len(held)), [k.sum() for k in known])
    y = np.concatenate([part[k] for part, k in zip(data.y, known, strict=True)])
    parts = [values[k] for values, k in zip(held, known, strict=True)]
    first = np.concatenate([values[:, 0] for values in parts])
    if not is_classifier(model):
        half = model.uncertainty_.compute().quantiles(COVERAGE)[codes]
        return codes, {"y": y, "predicted": first, "ends": np.stack([first - half, first + half], axis=1)}
    p, predicted = np.zeros((len(y), len(model.classes_))), np.empty(len(y), dtype=model.classes_.dtype)
    for t, (values, own) in enumerate(zip(parts, model.task_classes_, strict=True)):
        rows = codes == t
        p[np.ix_(rows, np.searchsorted(model.classes_, own))] = model.uncertainty_.compute().probabilities(values, t)
        best = (values[:, 0] > 0).astype(np.intp) if len(own) == 2 else values[:, : len(own)].argmax(axis=1)
        predicted[rows] = own[best]
    ranks = first if len(model.classes_) == 2 else None
    return codes, {"y": y, "predicted": predicted, "values": ranks, "probabilities": p}


def _rows_of_kin(model: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return tasks and arrays of the training rows of a mixed model."""
    held, functions = model.held_out_, model.functions_
    known = np.isfinite(held.values).reshape(len(held.y), -1).all(axis=1)
    y, values = held.y[known], held.values[known]
    if is_classifier(model):
        codes = held.codes[known]
        p = spread_probabilities(functions.classes, values, codes)
        ranks = values[:, 0] if len(model.classes_) == 2 else None
        predicted = model.classes_[p.argmax(axis=1)]
        return codes, {"y": y, "predicted": predicted, "values": ranks, "probabilities": p}
    deviations = held.deviations[known] / functions.scores.scale
    codes = held.codes[known] if y.ndim == 1 else np.tile(np.arange(y.shape[1]), len(y))
    ends = functions.ends(values.ravel(), deviations.ravel(), COVERAGE)
    return codes, {"y": y.ravel(), "predicted": values.ravel(), "ends": ends}


def rows_of_table(saved: SavedModel, frame: Any, source: str) -> HeldOutRows:
    """Predict the rows of a labelled table with a model that has a table schema."""
    schema = saved.schema
    assert schema is not None
    y, tasks = schema.restore(np.asarray(schema.targets(frame))), schema.tasks(frame)
    return _predicted(saved, frame, y, tasks, source, {}, schema.encode(frame))


def rows_of_arrays(model: Any, X: Any, y: Any, tasks: Any, source: str) -> HeldOutRows:
    """Predict labelled rows; X, y and tasks are as for `score`."""
    column = getattr(getattr(model, "best_estimator_", model), "task_column", None)
    labels: np.ndarray | None
    if tasks is None and column is not None:
        labels = next(iter(split_task_columns(read_rows(X), column)[1].values()))
    else:
        labels = None if tasks is None else as_array(tasks, "tasks")
    target = as_array(y, "y")
    if len(target) != len(np.asarray(X) if isinstance(X, list) else X):
        raise ValueError(f"X has {len(X)} rows and y has {len(target)}")
    return _predicted(SavedModel(model), X, target, labels, source, {} if tasks is None else {"tasks": tasks}, X)


def _predicted(
    saved: SavedModel, given: Any, y: np.ndarray, tasks: Any, source: str, options: dict[str, Any], X: Any
) -> HeldOutRows:
    """Predict rows: `given` is the input of the saved model, X that of its estimator."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    wide = model.data_form_ == "wide"
    rows, codes = _entries(model, y[:, np.newaxis] if wide and y.ndim == 1 else y, tasks)
    if not len(rows):
        raise ValueError(f"no row belongs to a task of the model: {listing(model.tasks_)}")
    at = (rows, codes) if wide else rows
    arrays = {"y": plain(y.reshape(len(y), -1)[rows, codes] if wide else y[rows])}
    arrays["predicted"] = saved.predict(given, **options)[at]
    if not is_classifier(model):
        arrays["ends"] = saved.predict_interval(given, COVERAGE, **options)[at]
        return HeldOutRows.of(model.tasks_, codes, source, **arrays)
    unknown = np.setdiff1d(arrays["y"], model.classes_)
    if len(unknown):
        raise ValueError(f"the model does not know these classes: {listing(unknown)}")
    arrays["probabilities"] = saved.predict_proba(given, **options)[at]
    if len(model.classes_) == 2:
        named = options if saved.schema is None or tasks is None else {"tasks": tasks}
        arrays["values"] = model.decision_function(X, **named)[at]
    return HeldOutRows.of(model.tasks_, codes, source, model.classes_, **arrays)


def _entries(model: Any, y: np.ndarray, tasks: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the labelled rows and the task of each; on wide data, the known targets (n, T)."""
    if model.data_form_ == "wide":
        if y.shape[1] != len(model.tasks_):
            raise ValueError(f"y has {y.shape[1]} columns, but the model has {len(model.tasks_)} tasks")
        rows, codes = np.nonzero(~missing(y))
        return rows, codes
    if tasks is None:
        return np.arange(len(y)), np.zeros(len(y), dtype=np.intp)
    place = {label: t for t, label in enumerate(model.tasks_.tolist())}
    known = np.array([place.get(label, -1) for label in tasks.tolist()], dtype=np.intp)
    return np.flatnonzero(known >= 0), known[known >= 0]
