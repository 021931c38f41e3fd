"""Predictions for rows that a model was not fitted to: where they come from, by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data import as_array, missing, plain, read_rows, split_task_columns
from ..kin.functions import spread_probabilities
from ..storage import SavedModel
from ..tables import TableSchema

COVERAGE = 0.9


@dataclass(frozen=True)
class HeldOutRows:
    """Targets and predictions of some rows of each task, in the units of the user.

    Attributes
    ----------
    tasks : (T,) labels.
    y : for each task (n_t,) targets.
    predicted : for each task (n_t,) numbers or classes.
    ends : for each task (n_t, 2) intervals of coverage `COVERAGE`; None for classes.
    values : for each task (n_t,) what ranks two classes; None for numbers, and where there are more classes.
    probabilities : for each task (n_t, C), in the order of `classes`; None for numbers.
    classes : (C,) labels; None for numbers.
    source : where the rows come from, as a sentence.
    """

    tasks: np.ndarray
    y: tuple[np.ndarray, ...]
    predicted: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...] | None
    values: tuple[np.ndarray, ...] | None
    probabilities: tuple[np.ndarray, ...] | None
    classes: np.ndarray | None
    source: str

    @property
    def classification(self) -> bool:
        return self.classes is not None

    def in_units_of(self, schema: TableSchema | None) -> HeldOutRows:
        """Return the rows of a model whose targets a schema has standardised in the units of the table."""
        if schema is None or self.ends is None:
            return self
        T = len(self.tasks)
        pairs = list(
            zip(np.broadcast_to(schema.target_means, T), np.broadcast_to(schema.target_scales, T), strict=True)
        )

        def restore(parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            return tuple(mean + scale * part for (mean, scale), part in zip(pairs, parts, strict=True))

        return replace(self, y=restore(self.y), predicted=restore(self.predicted), ends=restore(self.ends))


def out_of_sample_rows(model: Any) -> HeldOutRows | None:
    """Return a fitted model's values at its training rows as they are without them; None for a model from a file."""
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "held_out_"):
        return _rows_of_folds(model)
    found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
    if found is None:
        return None
    held, data = found
    known = [np.isfinite(values).all(axis=1) for values in held]
    y = tuple(part[k] for part, k in zip(data.y, known, strict=True))
    values = [part[k] for part, k in zip(held, known, strict=True)]
    source = "training rows, each predicted by a fit that had not seen it; parameters had"
    if not is_classifier(model):
        half = model.uncertainty_.residuals.quantiles(COVERAGE)[:-1]
        ends = tuple(np.stack([v[:, 0] - r, v[:, 0] + r], axis=1) for v, r in zip(values, half, strict=True))
        return HeldOutRows(data.labels, y, tuple(v[:, 0] for v in values), ends, None, None, None, source)
    of_task = model.task_classes_
    predicted = tuple(c[_best(v, len(c))] for v, c in zip(values, of_task, strict=True))
    spread = tuple(
        _on_all_classes(model.uncertainty_.link.probabilities(v, t), of_task[t], model.classes_)
        for t, v in enumerate(values)
    )
    ranks = tuple(v[:, 0] for v in values) if len(model.classes_) == 2 else None
    return HeldOutRows(data.labels, y, predicted, None, ranks, spread, model.classes_, source)


def _rows_of_folds(model: Any) -> HeldOutRows:
    """The training rows of a mixed model as the folds predicted them that had not seen them."""
    held, functions, T = model.held_out_, model.functions_, len(model.tasks_)
    source = "training rows, each predicted by a fit that had not seen it"
    known = np.isfinite(held.values).reshape(len(held.y), -1).all(axis=1)
    wide = held.y.ndim == 2

    def split(values: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(values[known, t] if wide else values[known & (held.codes == t)] for t in range(T))

    y = split(held.y)
    if not is_classifier(model):
        half = held.deviations * (functions.scores.quantile(COVERAGE) / functions.scores.scale)
        low, high = split(held.values - half), split(held.values + half)
        ends = tuple(np.stack(pair, axis=1) for pair in zip(low, high, strict=True))
        return HeldOutRows(model.tasks_, y, split(held.values), ends, None, None, None, source)
    p = spread_probabilities(functions.classes, held.values, held.codes)
    ranks = split(held.values[:, 0]) if len(model.classes_) == 2 else None
    predicted = split(model.classes_[p.argmax(axis=1)])
    return HeldOutRows(model.tasks_, y, predicted, None, ranks, split(p), model.classes_, source)


def _best(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Decision values (n, m) -> the position of the class of each row."""
    return (values[:, 0] > 0).astype(np.intp) if n_classes == 2 else values[:, :n_classes].argmax(axis=1)


def _on_all_classes(probabilities: np.ndarray, own: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Probabilities (n, c) of the classes of a task -> (n, C) of all classes."""
    out = np.zeros((len(probabilities), len(classes)))
    out[:, np.searchsorted(classes, own)] = probabilities
    return out


def rows_of_table(saved: SavedModel, frame: Any, source: str) -> HeldOutRows:
    """Predict the rows of a labelled table, by a model that knows the schema of such tables."""
    schema = saved.schema
    assert schema is not None
    y, tasks = schema.restore(np.asarray(schema.targets(frame))), schema.tasks(frame)
    return _predicted(saved, schema.encode(frame), y, tasks, frame, source)


def rows_of_arrays(model: Any, X: Any, y: Any, tasks: Any, source: str) -> HeldOutRows:
    """Predict labelled rows; X, y and tasks are those of `score`."""
    column = getattr(getattr(model, "best_estimator_", model), "task_column", None)
    labels: np.ndarray | None
    if tasks is None and column is not None:
        labels = next(iter(split_task_columns(read_rows(X), column)[1].values()))
    else:
        labels = None if tasks is None else as_array(tasks, "tasks")
    target = as_array(y, "y")
    if len(target) != len(np.asarray(X) if isinstance(X, list) else X):
        raise ValueError(f"X has {len(X)} rows and y has {len(target)}")
    return _predicted(SavedModel(model), X, target, labels, X, source, {} if tasks is None else {"tasks": tasks})


def _predicted(
    saved: SavedModel,
    X: Any,
    y: np.ndarray,
    tasks: np.ndarray | None,
    given: Any,
    source: str,
    options: dict[str, Any] | None = None,
) -> HeldOutRows:
    """Predict rows; X is encoded, `given` is what the saved model takes."""
    options = options or {}
    model = getattr(saved.model, "best_estimator_", saved.model)
    where = _places(model, y, tasks)

    def split(values: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(values[rows] if column is None else values[rows, column] for rows, column in where)

    targets = tuple(plain(part) for part in split(y))
    predicted = split(saved.predict(given, **options))
    if not is_classifier(model):
        ends = split(saved.predict_interval(given, COVERAGE, **options))
        return HeldOutRows(model.tasks_, targets, predicted, ends, None, None, None, source)
    probabilities = split(saved.predict_proba(given, **options))
    ranks = None
    if len(model.classes_) == 2:
        named = options if saved.schema is None or tasks is None else {"tasks": tasks}
        ranks = split(model.decision_function(X, **named))
    return HeldOutRows(model.tasks_, targets, predicted, None, ranks, probabilities, model.classes_, source)


def _places(model: Any, y: np.ndarray, tasks: np.ndarray | None) -> Sequence[tuple[np.ndarray, int | None]]:
    """The rows of each task, and where every target is a task, the column of its target."""
    if model.data_form_ == "wide":
        y = y[:, np.newaxis] if y.ndim == 1 else y
        if y.shape[1] != len(model.tasks_):
            raise ValueError(f"y has {y.shape[1]} columns, and the model has {len(model.tasks_)} tasks")
        return [(np.flatnonzero(~missing(y[:, t])), t) for t in range(y.shape[1])]
    if tasks is None:
        return [(np.arange(len(y)), None)]
    return [(np.flatnonzero(tasks == task), None) for task in model.tasks_]
