"""Interpretation of a fitted Kin model: effects of groups and columns with standard errors, and a summary in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import norm
from sklearn.base import is_classifier

from ..data.arrays import Table, listing
from ..engines.threads import SingleThreadedBLAS
from ..mixed.average import average
from ..mixed.effects import GroupPosterior, mean_and_slopes, training_rows, wide_contrasts
from ..tables.cells import need_pandas
from ..tables.columns import encode_columns
from .functions import KinFunctions
from .losses import LOSSES

# Functions are averaged over at most this many training rows.
REFERENCES = 200
# With more columns, slopes are left out.
SLOPE_COLUMNS = 30
COVERAGE = 0.9
# Numbers of training rows and values for the curve of a column.
CURVE_ROWS, CURVE_VALUES, CURVE_DATES = 50, 30, 80


def task_effects(model: Any, grouping: Any = None, encoder: Any = None) -> Any:
    """Return the DataFrame of `KinEstimator.task_effects`; `encoder` is the encoder of the rows, if not the model's."""
    functions, encoder = model.functions_, encoder or model.encoder_
    number, labels, name = find_grouping(model, grouping)
    if len(labels) < 2:
        raise ValueError("effects are differences between groups, but this model was fitted on one group")
    location, scale = _scales(functions, number, len(labels))
    at = reference_rows(functions, REFERENCES)
    members, weights = functions.without_means()
    names = _slope_names(functions, encoder)
    X = training_rows(members[0])[0][at]
    columns = np.array([j for j in names if np.ptp(X[:, j]) > 1e-9], dtype=np.intp)
    parts, raw = [], np.zeros(len(labels))
    with SingleThreadedBLAS():
        for member, weight in zip(members, weights.tolist(), strict=True):
            rows = training_rows(member)[0]
            A = mean_and_slopes(rows[at], member.model.parts[0].weight[at], columns)
            A[1:] /= np.array([names[j][1] * member.columns.scale[j] for j in columns.tolist()])[:, None]
            Q, A, places = rows[None, at], A[None], at[None]
            if functions.wide and not number:
                mean, variance, residual = wide_contrasts(member, Q, A, places, np.diag(scale) - scale / len(labels))
            else:
                posterior = GroupPosterior(member, number, Q, A, places)
                mean, variance = posterior.contrasts(sparse.diags_array(scale).tocsr(), scale / len(labels))
                residual = posterior.residuals(len(labels))
            parts.append((mean, variance))
            raw += weight * scale * residual
    means, variances = average(parts, weights.tolist())
    level, errors = means[:, 0] + location - location.mean(), np.sqrt(variances)
    half = norm.ppf(0.5 + 0.5 * COVERAGE) * errors[:, 0]
    found = {
        "rows": functions.group_rows[number],
        "level": level,
        "standard_error": errors[:, 0],
        "low": level - half,
        "high": level + half,
        "raw_level": level + raw - raw.mean(),
    }
    for i, column in enumerate(columns.tolist(), start=1):
        if errors[:, i].max() > 1e-9 * np.abs(means[:, i]).max(initial=1e-300):
            found[f"slope of {names[column][0]}"] = means[:, i]
            found[f"standard_error of {names[column][0]}"] = errors[:, i]
    pandas = need_pandas()
    return pandas.DataFrame(found, index=pandas.Index(labels, name=name))


def scale_name(model: Any, unit: str = "") -> str:
    """Return the name of the scale that effects are on, for targets with a name or unit, if that is known."""
    return "log odds" if is_classifier(model) else LOSSES[model.loss].scale_name(unit)


def find_grouping(model: Any, grouping: Any) -> tuple[int, np.ndarray, Any]:
    """Return the position, the labels (G,) and the name of a grouping."""
    column = model.task_column
    first = column[0] if isinstance(column, list | tuple) and len(column) else column
    names = ["task" if first is None else first, *(part.name for part in model.groupings_)]
    if grouping is None:
        number = 0
    elif grouping in names:
        number = names.index(grouping)
    elif isinstance(grouping, int | np.integer) and 0 <= grouping < len(names):
        number = int(grouping)
    else:
        raise ValueError(f"unknown grouping {grouping!r}; this model has {listing(names)}")
    return number, model.groupings_[number - 1].labels if number else model.tasks_, names[number]


def reference_rows(functions: KinFunctions, count: int) -> np.ndarray:
    """Return the positions of the training rows over which functions are averaged, in ascending order."""
    n = functions.members[0].model.parts[0].layout.n_rows
    return np.arange(n) if n <= count else np.sort(np.random.RandomState(0).permutation(n)[:count])


def _scales(functions: KinFunctions, grouping: int, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the location and scale (G,) that convert functions from standard units."""
    zero, one = np.zeros(n_groups), np.ones(n_groups)
    if functions.units is not None:
        units = functions.units
        return (zero, units.new_spread * one) if grouping else (units.location, units.spread)
    if not hasattr(functions.likelihood, "softness"):
        return zero, one
    if not functions.wide:
        raise ValueError("effects of groups are for regression and for two classes; this model has more classes")
    assert functions.link is not None
    # The slope of the log odds of a normal distribution function at its centre.
    return zero, functions.link.slope * np.sqrt(8.0 / np.pi / functions.likelihood.softness) * one


def _slope_names(functions: KinFunctions, encoder: Any) -> dict[int, tuple[str, float]]:
    """Return the features that have slopes, with the name and the scale of their column: numbers, and dates in days."""
    member = functions.members[0]
    if functions.kernels is not None or member.columns.axes is not None:
        return {}
    if encoder is None:
        found = {j: (name, 1.0) for j, name in enumerate(functions.column_names)}
    else:
        columns = [(encoder.groups_[own.name][0], own) for own in encoder.columns_ if own.kind != "text"]
        found = {first: (own.name, own.scale) for first, own in columns}
    return found if len(found) <= SLOPE_COLUMNS else {}


class ColumnEffect(NamedTuple):
    """The effect of a column: curves averaged over training rows, in which the other columns do not change."""

    values: np.ndarray  # (v,) values of the column: numbers, dates or texts
    # mean, standard_error: (v,) average curve of all groups, and its standard error.
    mean: np.ndarray
    standard_error: np.ndarray
    curves: np.ndarray  # (g, v) curves of the requested groups
    groups: np.ndarray  # (g,) the labels of these groups


def column_effect(model: Any, column: Any, groups: Sequence[Any], encoder: Any = None) -> ColumnEffect:
    """Return the effect of a column of X, given by name or position, for all groups together and for some groups.

    Values are in the units of the target; log odds for classes, and logarithms for counts.
    """
    functions = model.functions_
    if functions.kernels is not None:
        raise ValueError("the effect of a column needs a model of columns; this one was fitted with kernels")
    at, labels = reference_rows(functions, CURVE_ROWS), list(model.tasks_.tolist())
    if unknown := [group for group in groups if group not in labels]:
        raise ValueError(f"unknown groups {listing(unknown)}; this model has {listing(labels)}")
    members, weights = functions.without_means()
    X = members[0].columns.restore(training_rows(members[0])[0])
    values, places, features = _grid(functions, encoder or model.encoder_, column, X)
    T, chosen = len(labels), [labels.index(group) for group in groups]
    location, scale = _scales(functions, 0, T)
    M = sparse.csr_array(np.vstack([np.eye(T)[chosen].reshape(-1, T) * scale, scale[None] / T]))
    parts = []
    with SingleThreadedBLAS():
        for member in members:
            rows = np.tile(member.columns.restore(training_rows(member)[0][at]), (len(values), 1, 1))
            rows[:, :, places] = features[:, None]
            Q = member.columns(rows.reshape(-1, rows.shape[2])).reshape(*rows.shape[:2], -1)
            weight = member.model.parts[0].weight[at]
            A = np.tile(weight / weight.sum(), (len(values), 1, 1))
            if functions.wide:
                parts.append(wide_contrasts(member, Q, A, at[None], M.toarray())[:2])
            else:
                parts.append(GroupPosterior(member, 0, Q, A).contrasts(M, np.zeros(T)))
    means, variances = average(parts, weights.tolist())
    means = means + np.append(location[chosen], location.mean())[:, None]
    return ColumnEffect(values, means[-1], np.sqrt(variances[-1]), means[:-1], np.asarray(groups))


def _grid(functions: KinFunctions, encoder: Any, column: Any, X: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return values (v,) of a column, the positions of its features, and the features (v, m) at these values."""
    if encoder is None:
        names = functions.column_names
        if column not in names and not (isinstance(column, int) and 0 <= column < len(names)):
            raise ValueError(f"unknown column {column!r}; this model has {listing(names)}")
        place = names.index(column) if column in names else column
        values = _spaced(X[:, place])
        return values, [place], values[:, None]
    found = {own.name: own for own in encoder.columns_}
    if column not in found:
        raise ValueError(f"unknown column {column!r}; this model has {listing(list(found))}")
    own, places = found[column], encoder.groups_[column]
    if own.kind == "text":
        values = np.array(own.categories, dtype=object)
    else:
        count = CURVE_DATES if own.kind == "date" else CURVE_VALUES
        values = _spaced(own.mean + own.scale * X[:, places[0]], count)
    if own.kind == "date":
        values = (values * 86_400e6).astype(np.int64).astype("datetime64[us]")
    features = encode_columns((own,), Table((own.name,), (values,), (own.dtype,)), encoder.decimal)
    # Curves over dates show trend and season; the day of the week and the time of day stay as they are in the rows.
    varied = [i for i, (part, _) in enumerate(own.parts_and_features) if part not in ("weekday", "hour")]
    return values, [places[i] for i in varied], features[:, varied]


def _spaced(x: np.ndarray, count: int = CURVE_VALUES) -> np.ndarray:
    """Return all distinct values if there are at most ten, else `count` evenly spaced values."""
    distinct = np.unique(np.round(x, 9))
    return distinct if len(distinct) <= 10 else np.linspace(distinct[0], distinct[-1], count)


def explain(model: Any) -> str:
    """Return sentences on shares of variance, the averaged structures, and the most important columns."""
    shares, table = model.variance_components_, model.search_results_
    T = len(model.tasks_)
    lines = []
    if "level" in shares:
        lines.append(f"{shares['level']:.0%} of the variation is between the levels of the {T} groups.")
    own = sum(share for name, share in shares.items() if name == "slopes" or name.startswith("own "))
    common = sum(share for name, share in shares.items() if name in ("linear", "additive") or name[:7] == "common ")
    if T > 1:
        lines.append(
            f"What columns do in all groups alike explains {common:.0%}, what they do in each group {own:.0%}."
        )
    else:
        lines.append(f"Columns explain {common:.0%}.")
    lines.append(f"{shares['noise']:.0%} is noise.")
    best = int(np.nanargmin(table["error"]))
    counted = "1 structure was" if len(table["error"]) == 1 else f"{len(table['error'])} structures were"
    lines.append(
        f"{counted} compared by the errors of held-out rows; the best is {table['structure'][best]}: "
        f"{table['error'][best]:.4g} ± {table['standard_error'][best]:.2g}."
    )
    if len(model.members_) > 1:
        parts = ", ".join(f"{member['name']} {member['weight']:.0%}" for member in model.members_)
        lines.append(f"Predictions are their average: {parts}.")
    quality = model.features_
    if quality is not None:
        lines.append(_on_features(quality))
    if not model.is_complete_:
        lines.append("The search was not complete.")
    top = [f"{name} {share:.0%}" for name, share in list(model.column_shares_.items())[:5] if share >= 0.01]
    if top:
        lines.append(f"Columns by what they explain: {', '.join(top)}.")
    return " ".join(lines)


def _on_features(quality: dict[str, float]) -> str:
    """Return sentences on how well features represent the smooth function common to all groups."""
    text = f"The smooth function common to all groups is approximated by {quality['count']} features"
    if "error" in quality:
        change = quality["error_with_half"] / quality["error"] - 1.0
        word = "larger" if change > 0 else "smaller"
        text += f"; with half as many, the error of held-out rows is {abs(change):.1%} {word}"
    return f"{text}. They miss {quality['missed_variance']:.0%} of the variance a priori; n_features sets their number."
