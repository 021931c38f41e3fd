"""Score models on held-out rows and compare them with simpler models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ..data.arrays import missing
from ..data.folds import make_folds
from ..data.forms import TaskData
from ..progress import Progress
from ..relations.analysis import task_relations
from ..relations.baselines import Baseline
from ..relations.scores import LEAST_ROWS, MEAN_R2, WITHIN, WITHIN_MEANS, score_groups, score_rows
from ..relations.sharing import SharingReport, sharing_report
from ..storage.model_files import SavedModel
from ..tables.schema import TableSchema
from .terminal import Terminal
from .training import Recipe

if TYPE_CHECKING:
    from pandas import DataFrame

# Without --sharing-repeats: the maximum number of repetitions, and the time limit in seconds.
REPEATS, SECONDS = 2, 15.0
# Fewer folds if fits are slow: for more rows, and for models that search.
MANY_ROWS, FOLDS, FEWER_FOLDS = 1000, 5, 3
# With more tasks the test takes minutes.
MOST_TASKS = 400
PERMUTATIONS = 99


def hold_out(data: TaskData, share: float, seed: int, *, classification: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows: this share of each class of each task, but never all of its rows.

    Tasks with one class stay in training. On wide data, rows are held out for all tasks at once.
    """
    if data.form == "wide":
        fold = make_folds(data, max(2, round(1 / share)), classification=classification, random_state=seed)[0]
        return fold.rows(data)
    rng, held = check_random_state(seed), []
    for rows, y in zip(data.rows, data.y, strict=True):
        parts = [np.flatnonzero(y == label) for label in np.unique(y)] if classification else [np.arange(len(y))]
        # A fit needs two rows of a task, or one of each class.
        least = 1 if classification else 2
        share_of_task = 0.0 if classification and len(parts) == 1 else share
        for part in parts:
            count = max(min(int(share_of_task * len(part) + 0.5), len(part) - least), 0)
            held.append(rows[rng.permutation(part)[:count]])
    test = np.sort(np.concatenate(held))
    return np.setdiff1d(np.concatenate(data.rows), test), test


def read_entries(
    schema: TableSchema, frame: DataFrame, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return targets (m,) in the units of the table, the positions (m,) of their tasks, and their rows (m,).

    On wide data, each known target of a row is an entry.
    """
    y, tasks = schema.restore(np.asarray(schema.targets(frame))), schema.tasks(frame)
    if tasks is not None:
        place = {label: t for t, label in enumerate(labels.tolist())}
        return y, np.array([place[task] for task in tasks.tolist()], dtype=np.intp), np.arange(len(y))
    codes, rows = np.nonzero(~missing(y).T)
    return y[rows, codes], codes, rows


def predict_entries(
    model: Any, schema: TableSchema, frame: DataFrame, labels: np.ndarray, classes: np.ndarray | None
) -> np.ndarray:
    """Return the predictions (m,) of a kernelkin model in the units of the table, or probabilities (m, C)."""
    saved, (_, codes, rows) = SavedModel(model, schema), read_entries(schema, frame, labels)
    values = saved.predict(frame) if classes is None else saved.predict_proba(frame)
    values = values[rows] if schema.task is not None else values[rows, codes]
    return values if classes is None else _on_classes(values, model.classes_, classes)


def predict_baseline(
    baseline: Baseline,
    schema: TableSchema,
    train: DataFrame,
    test: DataFrame,
    labels: np.ndarray,
    classes: np.ndarray | None,
) -> np.ndarray:
    """Fit a baseline to one table and return its predictions for another, as `predict_entries` does."""
    means, scales = (np.broadcast_to(part, len(labels)) for part in (schema.target_means, schema.target_scales))
    y, codes, rows = read_entries(schema, train, labels)
    y = y if classes is not None else (y - means[codes]) / scales[codes]
    baseline.fit(schema.encode(train)[rows], y, labels[codes])
    _, codes, rows = read_entries(schema, test, labels)
    X, tasks = schema.encode(test)[rows], labels[codes]
    if classes is None:
        return baseline.predict(X, tasks) * scales[codes] + means[codes]
    return _on_classes(baseline.predict_proba(X, tasks), baseline.classes_, classes)


def _on_classes(p: np.ndarray, own: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Extend probabilities (m, c) of some classes to all classes (m, C)."""
    out = np.zeros((len(p), len(classes)))
    out[:, np.searchsorted(classes, own)] = p
    return out


def score_models(
    y: np.ndarray, codes: np.ndarray, n_tasks: int, values: Mapping[str, np.ndarray], classes: Any, *, wide: bool
) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
    """Return the scores of each model over all rows, and its R² or accuracy in each task."""
    tasks = {name: score_groups(y, p, codes, n_tasks, classes) for name, p in values.items()}
    if wide and classes is None:
        # Each target has its own units.
        overall = {name: {MEAN_R2: mean(of_task)} for name, of_task in tasks.items()}
    else:
        overall = {name: score_rows(y, p, codes, classes) for name, p in values.items()}
    return overall, {name: of_task.tolist() for name, of_task in tasks.items()}


def show_scores(terminal: Terminal, evaluation: dict[str, Any]) -> None:
    """Print the scores of the models over all held-out rows, and for each task with enough of them."""
    overall, scores = evaluation["overall"], evaluation["scores"]
    how = "chosen by cross-validation" if evaluation["tuned"] else "at their defaults or as given"
    rows = f"{evaluation['test_rows']} held-out rows of all tasks"
    terminal.say("", f"{rows} (trained on {evaluation['train_rows']}; parameters {how}):")
    ours, *others = overall
    terminal.table(
        ["model", *overall[ours]], [[name, *map(as_text, of_model.values())] for name, of_model in overall.items()]
    )
    if WITHIN in overall[ours]:
        terminal.say(f"{WITHIN_MEANS}.")
    if np.median(evaluation["task_test_rows"]) < LEAST_ROWS:
        return
    means = {name: mean(of_task) for name, of_task in scores.items()}
    best = max(others, key=lambda name: np.nan_to_num(means[name], nan=-np.inf))
    columns = np.array([scores[ours], scores[best]])
    order = np.argsort(-np.nan_to_num(columns[0], nan=-np.inf), kind="stable")
    body = [[str(evaluation["tasks"][t]), *map(as_text, columns[:, t])] for t in order]
    terminal.say("", f"{evaluation['score']} inside each task, best first:")
    terminal.table(["task", ours, best], [*shorten(body), [], ["mean", as_text(means[ours]), as_text(means[best])]])


def mean(scores: Sequence[float] | np.ndarray) -> float:
    """Return the mean over the tasks whose score is defined."""
    values = np.asarray(scores, dtype=np.float64)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def as_text(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"


def shorten(rows: Sequence[list[str]], most: int = 20) -> Iterator[list[str]]:
    """Yield the first and last rows of a long table, and between them a row with the number of omitted rows."""
    if len(rows) <= most:
        yield from rows
        return
    half = most // 2
    yield from rows[:half]
    yield [f"... {len(rows) - most} more ...", *[""] * (len(rows[0]) - 1)]
    yield from rows[-half:]


def verdict_on_sharing(
    recipe: Recipe, schema: TableSchema, frame: DataFrame, progress: Progress
) -> SharingReport | str:
    """Return the sharing report of a model on these training rows, or the reason why there is none."""
    given = recipe.arguments.sharing_repeats
    model = recipe.unfitted(schema, progress)
    if "callback" in model.get_params(deep=False):
        # The step counts fits, not the candidates of each search.
        model.set_params(callback=None)
    progress.begin(f"does sharing help: cross-validation in {len(frame)} training rows")
    try:
        return sharing_report(
            model,
            schema.encode_table(frame),
            schema.targets(frame),
            schema.tasks(frame),
            cv=FEWER_FOLDS if len(frame) > MANY_ROWS or "cv" in model.get_params(deep=False) else FOLDS,
            n_repeats=REPEATS if given is None else given,
            name=recipe.name,
            target_scale=schema.target_scales[0] if schema.regression and schema.task is not None else 1.0,
            random_state=recipe.arguments.seed,
            time_limit=SECONDS if given is None else None,
            callback=progress.part,
        )
    except ValueError as error:
        return f"Whether sharing helps could not be tested: {error}."


def tested_relations(model: Any, X: np.ndarray, y: Any, tasks: np.ndarray | None, seed: int) -> dict[str, Any] | None:
    """Return the test of the task relations, for the model file; None with too many tasks, or too few with two rows."""
    sizes = None if tasks is None else np.unique(tasks, return_counts=True)[1]
    if not 2 <= len(model.tasks_) <= MOST_TASKS or (sizes is not None and (sizes > 1).sum() < 2):
        return None
    rng = check_random_state(seed)
    return task_relations(model, X, y, tasks, n_permutations=PERMUTATIONS, random_state=rng).to_dict()
