"""Predictions for rows that a model was not fitted to, their scores, and the rows that the page plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import check_lengths, listing, missing, plain, take_rows
from ..data.checks import first_labels, read_rows
from ..kin.functions import spread_probabilities
from ..relations.scores import COVERAGE, LEAST_ROWS, LEVEL, WITHIN_MEANS, HeldOutRows
from ..relations.sharing import NEW_GROUPS, NEW_ROWS
from ..storage.model_files import SavedModel
from ..tables.schema import TableSchema

N_BINS = 10
# Rows that the page plots: if there are more than `MAX_ROWS`, a sample with at least `MIN_ROWS` rows of each task.
MAX_ROWS, MIN_ROWS = 4000, 8
BOOTSTRAP = 200
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def out_of_sample_rows(model: Any, schema: TableSchema | None = None) -> dict[str, HeldOutRows]:
    """Return out-of-sample predictions of a fitted model for its training rows, as the answer to one question.

    Empty for a model of the paper that was copied or loaded from a file. With a schema, values have its table's units.
    """
    model = getattr(model, "best_estimator_", model)
    source = "training rows, each predicted by a fit without it"
    if hasattr(model, "held_out_"):
        codes, arrays = _rows_of_kin(model)
    else:
        found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
        if found is None:
            return {}
        codes, arrays = _rows_of_folds(model, *found)
        source += "; parameters were chosen with all rows"
    classes, wide = getattr(model, "classes_", None), model.data_form_ == "wide"
    rows = HeldOutRows(model.tasks_, codes, source=source, classes=classes, wide=wide, **arrays)
    return {NEW_ROWS: in_units(rows, schema)}


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
        p[place] = model.uncertainty_.link.probabilities(part + model.uncertainty_.shifts[t])
    return codes, {"y": y, "values": p}


def _rows_of_kin(model: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """Return tasks and arrays of the training rows of a mixed model."""
    held, functions = model.held_out_, model.functions_
    known = np.isfinite(held.values).reshape(len(held.y), -1).all(axis=1)
    y, values = held.y[known], held.values[known]
    if is_classifier(model):
        return held.codes[known], {"y": y, "values": spread_probabilities(functions.classes, values, held.codes[known])}
    deviations = held.deviations[known] / functions.scores.scale
    codes = held.codes[known] if y.ndim == 1 else np.tile(np.arange(y.shape[1]), len(y))
    ends = functions.ends(values.ravel(), deviations.ravel(), COVERAGE)
    return codes, {"y": y.ravel(), "values": values.ravel(), "ends": ends}


def in_units(rows: HeldOutRows, schema: TableSchema | None) -> HeldOutRows:
    """Return standardised targets, predictions and intervals in the units of the table of the schema."""
    if schema is None or rows.classes is not None:
        return rows
    y, values, ends = (restored(part, rows.codes, schema) for part in (rows.y, rows.values, rows.ends))
    return replace(rows, y=y, values=values, ends=ends)


def restored(values: Any, codes: np.ndarray, schema: TableSchema | None) -> np.ndarray:
    """Return standardised values (n, ...) of rows of these tasks in the units of the table of the schema."""
    if schema is None or values is None:
        return values
    of_task = codes if schema.task is None else np.zeros(len(codes), dtype=np.intp)
    means, scales = (np.array(part)[of_task] for part in (schema.target_means, schema.target_scales))
    return (means + scales * values.T).T


def rows_of_table(saved: SavedModel, frame: Any, source: str) -> dict[str, HeldOutRows]:
    """Predict the rows of a labelled table with a model that has a schema; known and new groups are separate."""
    schema: Any = saved.schema
    y, tasks = schema.restore(np.asarray(schema.targets(frame))), schema.first_tasks(frame)
    return _predicted(saved, frame, y, tasks, source, {})


def rows_of_arrays(model: Any, X: Any, y: Any, tasks: Any, source: str) -> dict[str, HeldOutRows]:
    """Predict labelled rows; X, y and tasks are as for `score`. Known and new groups are separate."""
    own = (getattr(getattr(model, "best_estimator_", model), name, None) for name in ("task_column", "task_name_"))
    labels = first_labels(X, tasks, *own)
    wide = model.data_form_ == "wide" and labels is None
    y = getattr(model, "best_estimator_", model).read_labels(y, wide)
    return _predicted(SavedModel(model), X, y, labels, source, {} if tasks is None else {"tasks": tasks})


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
    check_lengths(values, y=y)
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
            held = None if ends is None or np.isnan(ends[rows]).any() else ends[rows]
            found[question] = HeldOutRows(own, codes[rows] - start, y[rows], values[rows], source, held, classes, wide)
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
    if rows.classes is None:
        errors = np.abs(rows.y - rows.values)
        own: dict[str, Any] = {"coverage": COVERAGE, "covered": number(rows.covered), "error": number(errors.mean())}
    else:
        own, errors = _classification(rows)
    task_error = [number(errors[k].mean()) if len(k) >= LEAST_ROWS else None for k in rows.of_tasks()]
    return found | own | {"task_error": task_error}


def _overall(rows: HeldOutRows, within: bool) -> list[list[Any]]:
    """Return name, value and the ends of a bootstrap interval of each score over all rows."""
    rng, order = np.random.default_rng(0), np.concatenate(rows.of_tasks())
    draws = (order[rng.integers(len(order), size=len(order))] for _ in range(BOOTSTRAP))
    drawn = [rows.scores(within=within, draw=draw) for draw in draws]
    found = []
    for name, value in rows.scores(within=within).items():
        known = [draw[name] for draw in drawn if np.isfinite(draw[name])]
        found.append([name, number(value), *(numbers(np.quantile(known, TAILS)) if known else (None, None))])
    return found


def _sample(rows: HeldOutRows) -> dict[str, Any]:
    """Return a sample of the rows of each task, or all rows if there are few."""
    parts = rows.of_tasks()
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


def _classification(rows: HeldOutRows) -> tuple[dict[str, Any], np.ndarray]:
    """Return classes, confusion and reliability, and the predicted probability of the wrong classes of each row."""
    assert rows.classes is not None
    C = len(rows.classes)
    actual, predicted = (np.searchsorted(rows.classes, part) for part in (rows.y, rows.predicted))
    # For two classes, the bins are for the second class.
    used = slice(1, None) if C == 2 else slice(None)
    happened = (actual[:, np.newaxis] == np.arange(C))[:, used].ravel()
    stated = rows.values[:, used].ravel()
    bins = [b for b in np.array_split(np.argsort(stated, kind="stable"), N_BINS) if len(b)]
    found = {
        "classes": [str(label) for label in rows.classes.tolist()],
        "confusion": np.bincount(C * actual + predicted, minlength=C * C).reshape(C, C).tolist(),
        "reliability": [[float(stated[b].mean()), float(happened[b].mean()), len(b)] for b in bins],
    }
    return found, 1.0 - rows.values[np.arange(len(actual)), actual]


def number(value: Any) -> float | None:
    """Return a number rounded to six significant digits, or None if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    (0.333333, None)
    """
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Iterable[Any]) -> list[Any]:
    """Return numbers rounded to six significant digits, in nested lists; None for those that are not finite."""
    return [numbers(value) if np.ndim(value) else number(value) for value in values]
