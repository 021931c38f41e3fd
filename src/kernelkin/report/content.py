"""The content of a report, as lists, numbers and texts for the HTML page.

Besides facts on the model, it shows how predictions change with each column, and how much groups differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.forms import Queries
from ..estimators import changed_parameters, relative_gap
from ..kin.effects import ColumnValues, effect_unit, grouping_names, many_classes, read_columns, task_effects
from ..kin.losses import LOSSES
from ..mixed.effects import term_kind
from ..paper.uncertainty import class_probabilities
from ..plots.fits import KernelWeightsDisplay, grouped_weights
from ..registry import all_models
from ..relations.analysis import TaskRelations
from ..relations.scores import COVERAGE, LEVEL, LOG_LOSS, R2
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel
from .evaluation import number, numbers, restored

# With more groups, a heatmap of all pairs is too large to read.
MOST_GROUPS = 60
# Maximum number of rows used to compute effects and of columns to draw; number of rows used to choose these columns.
MAX_ROWS, MAX_COLUMNS, SCREEN_ROWS = 200, 12, 10
# Ends of the range over rows that is shown around the mean effect, and of the values of a number or date.
TAILS = (0.05, 0.95)
# Curves of groups: maximum numbers of groups, of columns, and of rows to average over, in all groups together.
CURVE_GROUPS, CURVE_COLUMNS, CURVE_ROWS = 30, 6, 750
# The grid of predictions: maximum numbers of columns (one is a date), groups, values of a column, and predictions.
GRID_COLUMNS, GRID_GROUPS, GRID_VALUES, GRID_SIZE = 3, 60, 7, 12_000
EACH_CLASS = "probability of each class"


def model_content(
    saved: SavedModel, evaluations: list[dict[str, Any]], *, name: str, title: str | None, file: str
) -> dict[str, Any]:
    """Return everything that the page shows about one model; parts that do not apply are None.

    There is one evaluation on held-out rows for each question; the first is also shown task by task.
    """
    model, schema = saved.model, saved.schema
    tasks, counts = model.tasks_.tolist(), dict(map(tuple, saved.about.get("task_rows", ())))
    plain = f"{type(model).__name__}: {len(tasks)} tasks" if schema is None else schema.title
    groups, further = groups_content(saved), getattr(model, "groupings_", ())
    return {
        "name": name,
        "title": title or plain,
        "model": _model(saved),
        "data": _data(saved),
        "tasks": list(map(str, tasks)),
        "further": [[str(each.name), len(each.labels)] for each in further],
        "rows": [counts.get(task) for task in tasks] if counts else None,
        "evaluations": evaluations,
        "evaluation": evaluations[0] if evaluations else None,
        "comparisons": _comparisons(saved),
        "drivers": drivers_content(saved, None if groups is None else groups["level"]),
        "groups": groups,
        "kernels": _kernels(model),
        "relation": _relation(saved),
        "variance": _variance(saved),
        "fit": _fit(model),
        "load": {"file": file, "table": schema is not None},
    }


def _model(saved: SavedModel) -> dict[str, Any]:
    inner = getattr(saved.model, "best_estimator_", saved.model)
    found = [m for m in all_models() if any(isinstance(inner, estimator) for estimator in m.estimators)]
    return {
        "class": type(saved.model).__name__,
        "name": found[0].name if found else type(inner).__name__,
        "description": found[0].description if found else "",
        "reference": found[0].reference if found else "",
        "parameters": changed_parameters(saved.model),
        "version": saved.version,
        "command": saved.about.get("command"),
    }


def _data(saved: SavedModel) -> dict[str, Any] | None:
    if (schema := saved.schema) is None:
        return None
    return {
        "source": saved.about.get("data"),
        "rows": schema.n_rows,
        "task": "every target" if schema.task is None else ", ".join(schema.task_names),
        "target": schema.target,
        "columns": [[column.name, column.describe()] for column in schema.columns],
        "left_out": [[name, reason] for name, reason in schema.left_out.items()],
        "exposure": schema.exposure or schema.offset,
    }


def _comparisons(saved: SavedModel) -> list[dict[str, Any]]:
    """Return the comparisons of `sharing_report` by question: scores (larger is better) and the gains of the model."""
    if "sharing" not in saved.about:
        return []
    report: SharingReport = saved.about["sharing"]
    compared = []
    for (question, found), verdict in zip(report.comparisons.items(), report.verdicts, strict=True):
        gains = {name: {"gain": numbers([g.mean, g.low, g.high]), "sign": g.sign} for name, g in found.gains.items()}
        models = [
            {"title": name, "ours": name == report.name, "mean": number(found.goodness(name))}
            | {"scores": [[score, number(value)] for score, value in scores.items()]}
            | gains.get(name, {})
            for name, scores in found.scores.items()
        ]
        compared.append(
            {
                "question": question,
                "score": R2 if R2 in found.scores[report.name] else LOG_LOSS,
                "level": LEVEL,
                "constant": found.constant,
                "n_tasks": int((found.test_rows > 0).sum()),
                "n_rows": int(found.test_rows.sum()),
                "models": models,
                "how": found.how,
                "verdict": verdict,
                "left_out": list(report.left_out),
            }
        )
    return compared


def _variance(saved: SavedModel) -> list[list[Any]]:
    """Return the shares of variance in plain words, in the order of levels, common parts, own parts and noise."""
    shares = getattr(saved.model, "variance_components_", {})
    names = (saved.schema.task_names if saved.schema else None) or (grouping_names(saved.model) if shares else [])
    words = {"common": "columns, alike in all groups", "own": "columns, each group its own way", "noise": "noise"}
    kinds, found = ["levels", *words], dict[str, float]()
    for name in sorted(shares, key=lambda name: kinds.index(term_kind(name))):
        text = words.get(term_kind(name))
        if text is None:
            # "level" is of the first grouping, "level 2" of the second.
            which = names[int(name[5:] or 1) - 1]
            text = f"levels of {which}" if isinstance(which, str) else f"levels of grouping {which}"
        found[text] = found.get(text, 0.0) + shares[name]
    return [[text, number(share)] for text, share in found.items() if share >= 0.0005]


def _kernels(model: Any) -> dict[str, Any] | None:
    """Return the mean over tasks of the shares of the kernels, or of groups of kernels if there are many."""
    if not hasattr(model, "kernel_weights_"):
        return None
    weights, names = grouped_weights(model)
    shares = KernelWeightsDisplay(weights, model.tasks_, names).shares.mean(axis=0)
    return {"names": names, "count": len(model.kernel_names_), "shares": numbers(shares)}


def _relation(saved: SavedModel) -> dict[str, Any] | None:
    """Return the result of the test of task relations, or None if there was no test."""
    if "relations" not in saved.about:
        return None
    found: TaskRelations = saved.about["relations"]
    several = bool(found.structured) and found.n_groups > 1
    place = dict(zip(found.tasks.tolist(), found.groups.tolist(), strict=True))
    first = [int(np.flatnonzero(found.groups == g)[0]) for g in range(found.n_groups)]
    likeness = found.likeness[np.ix_(first, first)]
    return {
        "headline": found.headline(),
        "text": str(found),
        "groups": [place.get(task) for task in saved.model.tasks_.tolist()] if several else None,
        "matrix": np.round(likeness, 3).tolist() if several and found.n_groups <= MOST_GROUPS else None,
    }


def _fit(model: Any) -> dict[str, Any] | None:
    """Return details of the fit: certificates for models of the paper, members and explanation for Kin."""
    if hasattr(model, "members_"):
        members = [[member["name"], number(member["error"]), number(member["weight"])] for member in model.members_]
        return {"members": members, "explanation": model.explain()}
    if (relative := relative_gap(model)) is None:
        return None
    parameters = set(getattr(model, "best_estimator_", model).get_params())
    return {
        "objective": number(model.objective_),
        "gap": number(max(model.duality_gap_, 0.0)),
        "relative": number(relative),
        # Whether the gap is for a problem that also optimises the kernel weights.
        "weights": "mu" in parameters and not parameters.isdisjoint(["p", "evenness"]),
        "tol": number(getattr(model, "tol", np.nan)),
        "history": numbers(getattr(model, "history_", {}).get("relative_gap", [])),
    }


def drivers_content(saved: SavedModel, levels: Sequence[float] | None = None) -> dict[str, Any]:
    """Return shares of columns in the explained variance, effects of columns (or a reason), and a prediction grid."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    shares = list((getattr(saved.model, "column_shares_", None) or {}).items())[:20]
    found: dict[str, Any] = {"shares": [[name, number(share)] for name, share in shares], "effects": [], "grid": None}
    if (rows := effect_rows(model)) is None:
        return {**found, "reason": "the model keeps no rows with columns"}
    X, codes = rows
    encoder = saved.schema.encoder if saved.schema is not None else getattr(model, "encoder_", None)
    named = read_columns(model, encoder, X.shape[1]).values()
    columns = [ColumnValues.of(column, places, X, tail=TAILS[0]) for column, places in named]
    columns = [one for one in columns if len(one.values) > 1]
    quantity = _quantity(saved, model)
    outputs = list(map(str, model.classes_.tolist())) if quantity == EACH_CLASS else [quantity]
    effects = effects_content(saved, X, codes, columns, len(outputs), levels)
    if saved.schema is not None and (exposure := saved.schema.exposure or saved.schema.offset):
        typical = _log_exposure(model.functions_)
        value = np.exp(typical) if saved.schema.exposure else typical
        quantity += f" at {exposure} = {np.format_float_positional(value, precision=3, fractional=False, trim='-')}"
    found |= {"quantity": quantity, "outputs": outputs, "rows": len(X), "effects": [effect for _, effect in effects]}
    if effects:
        first = sorted(enumerate(effects), key=lambda each: each[0] > 1 and each[1][0].kind != "date")[:GRID_COLUMNS]
        others = [one for one, _ in effects if all(one is not own for _, (own, _) in first)]
        found["grid"] = grid_content(saved, X, [one for _, (one, _) in first], len(outputs), others)
        found["grid"] |= {"n_others": len(columns) - len(first)}
    return {**found, "is_probability": is_classifier(model), "reason": None if effects else "no column varies"}


def _quantity(saved: SavedModel, model: Any) -> str:
    """Return the name of the predicted quantity."""
    if is_classifier(model):
        return f"probability of {model.classes_[1]}" if len(model.classes_) == 2 else EACH_CLASS
    return saved.schema.target if saved.schema is not None and saved.schema.task else "prediction"


def effects_content(
    saved: SavedModel, X: np.ndarray, codes: np.ndarray, columns: list[ColumnValues], n_outputs: int, levels: Any
) -> list[tuple[ColumnValues, dict[str, Any]]]:
    """Return the columns with the largest effects on predictions for rows X (n, d) of tasks (n,), and these effects."""
    loss = LOSSES.get(getattr(saved.model, "loss", ""))
    bounds = (0.0, 1.0) if is_classifier(saved.model) else (-np.inf if loss is None else loss.least, np.inf)
    # The columns are chosen by their effects on a few rows.
    for n in (SCREEN_ROWS, len(X)) if len(columns) > MAX_COLUMNS else (len(X),):
        found = [(one, _effect(one, _curves(saved, one, X[:n], codes[:n]), bounds)) for one in columns]
        found = sorted(found, key=lambda pair: -pair[1]["change"][0])[:MAX_COLUMNS]
        columns = [one for one, _ in found]
    groups = _some_groups(len(saved.model.tasks_), CURVE_GROUPS, levels)
    if len(groups) > 1 and n_outputs == 1:
        few = X[: CURVE_ROWS // len(groups)]
        for one, effect in found[:CURVE_COLUMNS]:
            (drawn,) = _curves(saved, one, np.tile(few, (len(groups), 1)), np.repeat(groups, len(few)))
            # The curve of one group over all rows corrects for what the few rows differ by.
            (whole,) = _curves(saved, one, X, np.full(len(X), groups[0]))
            shift = whole.mean(axis=0) - whole[: len(few)].mean(axis=0)
            means = np.clip(drawn.reshape(len(groups), -1, len(shift)).mean(axis=1) + shift, *bounds)
            effect["groups"], effect["curves"] = groups.tolist(), numbers(means)
    return found


def _some_groups(n: int, most: int, levels: Sequence[float] | None = None) -> np.ndarray:
    """Return the positions of all groups or, of more than `most`, of a sample: at random, or evenly by their levels."""
    if n <= most:
        return np.arange(n)
    order = np.random.default_rng(0).permutation(n) if levels is None else np.argsort(np.array(levels, dtype=float))
    return np.sort(order[np.linspace(0, n - 1, most).round().astype(int)])


def _curves(saved: SavedModel, one: ColumnValues, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return predictions (K, n, V) for rows of these tasks with the column at each of its values."""
    curve, V = one.along_a_curve(), len(one.values)
    stacked = np.concatenate([curve.set(X, v) for v in range(V)])
    return _predicted(saved, stacked, np.tile(codes, V))[0].reshape(-1, V, len(X)).swapaxes(1, 2)


def _described(one: ColumnValues, at: Sequence[int]) -> dict[str, Any]:
    """Return what the page needs to know of a column and of its values at these positions."""
    values = np.datetime_as_string(one.values) if one.kind == "date" else one.values
    shown = numbers(values[at]) if one.kind == "number" else values[at].tolist()
    return {"name": one.column.name, "unit": one.column.unit, "kind": one.kind, "values": shown}


def _effect(one: ColumnValues, curves: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return means of curves (K, n, V) over rows, the range of most curves around them, and the change along curves.

    The range is that of the curves minus their own means, so it shows differences in shape and not in level.
    """
    mean = curves.mean(axis=1)
    level = curves.mean(axis=2, keepdims=True)
    low, high = np.clip(mean.mean(axis=1, keepdims=True) + np.quantile(curves - level, TAILS, axis=1), *bounds)
    # Of the classes, the one that changes most counts.
    change = np.ptp(curves, axis=2).max(axis=0)
    return _described(one, range(len(one.values))) | {
        "mean": numbers(mean),
        "low": numbers(low),
        "high": numbers(high),
        "change": [number(change.mean()), *numbers(np.quantile(change, TAILS))],
    }


def grid_content(
    saved: SavedModel, X: np.ndarray, columns: list[ColumnValues], n_outputs: int, others: Sequence[ColumnValues] = ()
) -> dict[str, Any]:
    """Return predictions on a grid of values of some columns for each group, with the other columns as in one row.

    The row is the one closest to the mean of all rows; `typical` are the values of `others` in it. Mixed models also
    have intervals, and values for a new group.
    """
    model = getattr(saved.model, "best_estimator_", saved.model)
    groups = _some_groups(len(model.tasks_), GRID_GROUPS)
    has_new = getattr(model, "unknown_tasks", "error") == "common" and model.data_form_ != "wide"
    codes = np.append(groups, -1) if has_new else groups
    each = int((GRID_SIZE / len(codes) / n_outputs) ** (1 / len(columns)))
    most = max(min(each, GRID_VALUES if len(columns) > 1 else 3 * GRID_VALUES), 3)
    # Evenly spaced numbers or dates, or the first texts.
    counts = [(len(one.values), one.kind == "text") for one in columns]
    every = [np.arange(n) if text else np.linspace(0, n - 1, min(n, most)).round() for n, text in counts]
    steps = [np.unique(at[: max(most, 4)]).astype(int).tolist() for at in every]
    row = X[np.square(X - X.mean(axis=0)).sum(axis=1).argmin()]
    points = np.meshgrid(*steps, indexing="ij")
    rows = np.tile(row, (points[0].size, 1))
    for one, at in zip(columns, points, strict=True):
        rows[:, one.places] = one.features[at.ravel()]
    means, ends = _predicted(saved, np.tile(rows, (len(codes), 1)), np.repeat(codes, len(rows)), intervals=True)
    near = [np.square(one.features - row[one.places]).sum(axis=1).argmin() for one in others]
    typical = [[one.column.name, *_described(one, [at])["values"]] for one, at in zip(others, near, strict=True)]
    for pair, one in zip(typical, others, strict=True):
        if one.kind == "number":
            pair[1] = number(row[one.places[0]] * one.column.scale + one.column.mean)
    return {
        "typical": typical,
        "columns": [_described(one, own) for one, own in zip(columns, steps, strict=True)],
        "groups": codes.tolist(),
        "mean": numbers(means.reshape(len(means), len(codes), -1)),
        "low": None if ends is None else numbers(ends[:, 0].reshape(len(codes), -1)),
        "high": None if ends is None else numbers(ends[:, 1].reshape(len(codes), -1)),
        "coverage": COVERAGE,
    }


def _predicted(
    saved: SavedModel, X: np.ndarray, codes: np.ndarray, intervals: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return predictions (1, q) for encoded rows in the units of the table, or probabilities (K, q) of classes.

    Two classes have one probability, that of the second. With `intervals`, also the intervals (q, 2) of mixed models of
    numbers, otherwise None. Counts are predicted at the median exposure of the training rows.
    """
    model, queries = getattr(saved.model, "best_estimator_", saved.model), Queries(X, codes)
    functions = model.functions_
    if is_classifier(model):
        of_paper = hasattr(model, "uncertainty_")
        p = class_probabilities(model, queries) if of_paper else functions.probabilities(queries)
        return p.T[1:] if p.shape[1] == 2 else p.T, None
    if not hasattr(functions, "units"):
        return restored(functions.values(X, codes)[:, 0], codes, saved.schema)[None], None
    moments = functions.moments(queries, np.full(len(X), _log_exposure(functions)))
    intervals = intervals and functions.scores is not None and model.data_form_ != "wide"
    ends = restored(functions.ends(*moments, COVERAGE), codes, saved.schema) if intervals else None
    return restored(moments[0], codes, saved.schema)[None], ends


def _log_exposure(functions: Any) -> float:
    """Return the median logarithm of the exposure of the training rows; zero for models without exposures."""
    if not functions.loss.takes_offset:
        return 0.0
    return float(np.median(functions.members[0].model.parts[0].offset) - functions.units.new_location)


def groups_content(saved: SavedModel) -> dict[str, Any] | None:
    """Return levels of groups with intervals, and levels without pooling; None for models without effects."""
    model = saved.model
    if not hasattr(model, "task_effects") or len(model.tasks_) < 2 or many_classes(model.functions_):
        return None
    table, unit = effects_in_units(saved)
    ends = {name: numbers(table[name]) for name in ("level", "low", "high", "raw_level")}
    return {"unit": unit, "coverage": COVERAGE} | ends


def effects_in_units(saved: SavedModel, grouping: int = 0) -> tuple[Any, str]:
    """Return the effects of the groups of a grouping in the units of the table, and the name of this unit."""
    model, schema = saved.model, saved.schema
    # Slopes are per unit of a number and per day of a date; targets were standardised before the fit.
    table = task_effects(model, grouping, None if schema is None else schema.encoder)
    if schema is not None and schema.regression:
        effects = table.columns.drop("rows")
        table[effects] = table[effects].mul(np.broadcast_to(schema.target_scales, len(table)), axis=0)
    return table, effect_unit(model, _quantity(saved, model))


def effect_rows(model: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return at most `MAX_ROWS` encoded rows (n, d), and a task (n,) for each: each task in turn.

    They are training rows if the model knows them, otherwise rows that its stored functions keep. Tasks are in random
    order, since there may be more of them than rows.
    """
    T, found = len(model.tasks_), model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
    rows = model.functions_.rows() if found is None else found[1].X[np.unique(np.concatenate(found[1].rows))]
    if rows is None or rows.ndim != 2 or not len(rows):
        return None
    rng = np.random.default_rng(0)
    kept = rng.permutation(max(len(rows), min(T, MAX_ROWS)))[:MAX_ROWS]
    return rows[kept % len(rows)], rng.permutation(T)[np.arange(len(kept)) % T]
