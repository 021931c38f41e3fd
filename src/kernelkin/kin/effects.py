"""Interpretation of a fitted Kin model: effects of groups and columns with standard errors, and a summary in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.stats import norm
from sklearn.base import is_classifier

from ..data.arrays import Table, listing
from ..data.forms import Queries
from ..engines.threads import SingleThreadedBLAS
from ..mixed.average import average
from ..mixed.effects import GroupPosterior, mean_and_slopes, term_kind, training_rows, wide_contrasts
from ..mixed.likelihoods import LabelRegression
from ..mixed.terms import Linear
from ..tables.cells import CLOCKS, need_pandas
from ..tables.columns import MISSING, RARE, Column, encode_columns
from .functions import KinFunctions
from .losses import LOSSES

# Functions are averaged over at most `REFERENCES` training rows; slopes are left out with more than `SLOPE_COLUMNS`.
REFERENCES, SLOPE_COLUMNS, COVERAGE = 200, 30, 0.9
# Numbers of training rows and values for the curve of a column.
CURVE_ROWS, CURVE_VALUES, CURVE_DATES = 50, 30, 80
# All values of a column are used if it has at most this many.
FEW_VALUES = 11


def task_effects(model: Any, grouping: Any = None, encoder: Any = None) -> Any:
    """Return the DataFrame of `KinEstimator.task_effects`; `encoder` is the encoder of the rows, if not the model's."""
    functions, encoder = model.functions_, encoder or model.encoder_
    number, labels, name = find_grouping(model, grouping)
    if len(labels) < 2:
        raise ValueError("effects are differences between groups, but this model was fitted on one group")
    location, scale = _scales(functions, number, len(labels))
    at = reference_rows(functions, REFERENCES)
    members, weights = functions.without_means()
    names = _slope_names(model, encoder)
    X, codes = training_rows(members[0])
    # A column that does not vary within groups has no slopes of groups.
    _, first, place = np.unique(codes[number], return_index=True, return_inverse=True)
    within = np.ptp(X if functions.wide else X - X[first[place]], axis=0)
    columns = np.array([j for j in names if min(np.ptp(X[at, j]), within[j]) > 1e-9], dtype=np.intp)
    parts, raw = [], np.zeros(len(labels))
    with SingleThreadedBLAS():
        for member, weight in zip(members, weights.tolist(), strict=True):
            rows = training_rows(member)[0]
            A = mean_and_slopes(rows, member.model.parts[0].weight, at, columns)
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
    # Structures without slopes answer that slopes are nearly equal, whatever the rows say.
    sloping = np.array([any(isinstance(t, Linear) and t.grouping == number for t in m.model.terms) for m in members])
    # Those that may vanish have no errors.
    honest = sloping * np.array([m.model.sparsity == 0 for m in members])
    of_slopes = next(each for each in (weights * honest, honest, weights * sloping, sloping, weights) if each.any())
    each = np.column_stack([weights, np.tile(of_slopes[:, None] / of_slopes.sum(), len(columns))])
    means, variances = average(parts, list(each))
    if np.ptp(location):  # own locations are means of rows, with the error of their noise
        noise = scale**2 * (weights @ np.array([member.model.noise_ for member in members]))
        variances[:, 0] = np.maximum(variances[:, 0], noise / functions.group_rows[number])
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


def effect_unit(model: Any, target: str = "") -> str:
    """Return the unit of effects, for targets with a name or unit, if that is known."""
    if not is_classifier(model):
        return LOSSES[model.loss].scale_name(target)
    second = model.classes_[1] if len(model.classes_) == 2 else "the second class"
    return "probability" if many_classes(model.functions_) else f"log odds of {second}"


def many_classes(functions: KinFunctions) -> bool:
    """Whether there is a function for each of more than two classes."""
    return not functions.wide and isinstance(functions.members[0].likelihood, LabelRegression)


def grouping_names(model: Any) -> list[Any]:
    """Return the names of the groupings of a fitted Kin model; "task" for the first if it has none."""
    return ["task" if model.task_name_ is None else model.task_name_, *(part.name for part in model.groupings_)]


def find_grouping(model: Any, grouping: Any) -> tuple[int, np.ndarray, Any]:
    """Return the position, the labels (G,) and the name of a grouping."""
    names = grouping_names(model)
    if grouping is None or grouping in names:
        number = 0 if grouping is None else names.index(grouping)
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
    if (units := functions.units) is not None:
        return (zero, units.new_spread * one) if grouping else (units.location, units.spread)
    likelihood = functions.members[0].likelihood
    if not isinstance(likelihood, LabelRegression):
        return zero, one
    if many_classes(functions):
        raise ValueError("effects of groups are for regression and for two classes; this model has more classes")
    assert functions.link is not None
    # The slope of the log odds of a normal distribution function at its centre.
    return zero, functions.link.slope * np.sqrt(8.0 / np.pi / likelihood.softness) * one


def _slope_names(model: Any, encoder: Any) -> dict[int, tuple[str, float]]:
    """Return the features that have slopes, with the name and the scale of their column: numbers, and dates in days."""
    functions = model.functions_
    columns = functions.members[0].columns
    if functions.kernels is not None or columns.axes is not None:
        return {}
    named = read_columns(model, encoder, columns.n_columns).values()
    found = {places[0]: (column.name, column.scale) for column, places in named if column.kind != "text"}
    return found if len(found) <= SLOPE_COLUMNS else {}


def read_columns(model: Any, encoder: Any, n_features: int) -> dict[str, tuple[Column, list[int]]]:
    """Return the columns of X by name, with the positions of their features; without names they are x0, x1, ..."""
    if encoder is not None:
        return {own.name: (own, encoder.groups_[own.name]) for own in encoder.columns_}
    task, names = getattr(model, "task_column", None), getattr(model, "feature_names_in_", ())
    names = [str(name) for k, name in enumerate(names) if task is None or task not in (k, name)]
    names = getattr(model.functions_, "column_names", names)
    if len(names) != n_features:
        names = [f"x{k}" for k in range(n_features)]
    return {name: (Column(name, "number", "float64"), [k]) for k, name in enumerate(names)}


class ColumnValues(NamedTuple):
    """A column whose value can be changed in rows: the V values that it is set to, and its features at each."""

    column: Column
    places: list[int]  # the positions of its features
    values: np.ndarray  # (V,) numbers, dates or texts
    features: np.ndarray  # (V, len(places))

    @classmethod
    def of(
        cls, column: Column, places: list[int], rows: np.ndarray, count: int = FEW_VALUES, tail: float = 0.0
    ) -> Self:
        """Return the values of a column in encoded rows (n, d): all of them if they are few, or if it is a text.

        Otherwise, they are `count` evenly spaced values between its quantiles `tail` and ``1 - tail``, more of dates;
        whole numbers if the column has only these.
        """
        if column.kind == "text":
            more = [text for text, n in ((RARE, column.n_rare), (MISSING, column.n_missing)) if n]
            texts = np.array([*column.categories, *more], dtype=object)
            return cls(column, places, texts, np.eye(len(texts)))
        x = rows[:, places[0]]
        steps, (low, high) = np.unique(x), np.quantile(x, (tail, 1.0 - tail))
        if column.kind == "boolean":
            steps = (np.array([0.0, 1.0]) - column.mean) / column.scale
        elif len(steps) > FEW_VALUES and low < high:
            # Missing numbers are encoded as zeros.
            numbers = steps[steps != 0] * column.scale + column.mean
            steps = np.linspace(low, high, CURVE_DATES if column.kind == "date" else count)
            if column.kind == "number" and np.allclose(numbers, numbers.round(), rtol=1e-9, atol=1e-6):
                steps = (np.unique((steps * column.scale + column.mean).round()) - column.mean) / column.scale
        values = steps * column.scale + column.mean
        if column.kind == "date":
            unit = "s" if column.date_format in CLOCKS or "hour" in column.parts else "D"
            values = np.unique(np.round(values * 86_400).astype("datetime64[s]").astype(f"datetime64[{unit}]"))
            features = encode_columns([column], Table((column.name,), (values,), ("date",)), ".")
            return cls(column, places, values, features)
        features = np.zeros((len(steps), len(places)))
        features[:, 0] = steps
        words = np.array(["no", "yes"], dtype=object)
        return cls(column, places, words if column.kind == "boolean" else values, features)

    @property
    def kind(self) -> str:
        """ "text", or "number" or "date" if there are values in between."""
        return "text" if self.values.dtype.kind == "O" else self.column.kind

    def along_a_curve(self) -> Self:
        """Return the column for curves of trend and season: rows keep weekdays and times, unless it has only times."""
        parts, fixed = self.column.parts_and_features, () if self.column.date_format in CLOCKS else ("weekday", "hour")
        kept = [i for i, (part, _) in enumerate(parts) if part not in fixed]
        return self._replace(places=[self.places[i] for i in kept], features=self.features[:, kept])

    def set(self, X: np.ndarray, value: int) -> np.ndarray:
        """Return rows (n, d) with this column set to the value at this position."""
        out = X.copy()
        out[:, self.places] = self.features[value]
        return out


class ColumnEffect(NamedTuple):
    """The effect of a column: curves averaged over training rows, in which the other columns do not change."""

    values: np.ndarray  # (v,) values of the column: numbers, dates or texts
    # mean, standard_error: (v,) average curve of all groups, and its standard error; None for more than two classes.
    mean: np.ndarray | None
    standard_error: np.ndarray | None
    curves: np.ndarray  # (g, v) curves of the requested groups, or of more than two classes
    groups: np.ndarray  # (g,) the labels of these groups or classes


def column_effect(model: Any, column: Any, groups: Sequence[Any], encoder: Any = None) -> ColumnEffect:
    """Return the effect of a column of X, given by name or position, for all groups together and for some groups.

    Values are in the units of the target; log odds of two classes, probabilities of more, and logarithms of counts.
    """
    functions = model.functions_
    if functions.kernels is not None:
        raise ValueError("the effect of a column needs a model of columns; this one was fitted with kernels")
    at, labels = reference_rows(functions, CURVE_ROWS), list(model.tasks_.tolist())
    if unknown := [group for group in groups if group not in labels]:
        raise ValueError(f"unknown groups {listing(unknown)}; this model has {listing(labels)}")
    members, weights = functions.without_means()
    rows, groupings = training_rows(members[0])
    X = members[0].columns.restore(rows)
    known = read_columns(model, encoder or model.encoder_, X.shape[1])
    name = list(known)[column] if isinstance(column, int) and 0 <= column < len(known) else column
    if name not in known:
        raise ValueError(f"unknown column {column!r}; this model has {listing(list(known))}")
    one = ColumnValues.of(*known[name], X, CURVE_VALUES).along_a_curve()
    if many_classes(functions):
        if groups:
            raise ValueError("curves of groups are for regression and for two classes; this model has more classes")
        # Probabilities are not linear in the functions: they are averaged over the rows, each in its own group.
        each = [functions.probabilities(Queries(one.set(X[at], v), groupings[0][at])) for v in range(len(one.values))]
        curves = np.average(each, axis=1, weights=members[0].model.parts[0].weight[at]).T
        return ColumnEffect(one.values, None, None, curves, model.classes_)
    T, chosen = len(labels), [labels.index(group) for group in groups]
    location, scale = _scales(functions, 0, T)
    M = sparse.csr_array(np.vstack([np.eye(T)[chosen].reshape(-1, T) * scale, scale[None] / T]))
    parts = []
    with SingleThreadedBLAS():
        for member in members:
            X, weight = training_rows(member)[0], member.model.parts[0].weight
            rows = np.tile(member.columns.restore(X[at]), (len(one.values), 1, 1))
            rows[:, :, one.places] = one.features[:, None]
            Q = member.columns(rows.reshape(-1, rows.shape[2])).reshape(*rows.shape[:2], -1)
            A = np.tile(mean_and_slopes(X, weight, at, []), (len(one.values), 1, 1))
            if functions.wide:
                parts.append(wide_contrasts(member, Q, A, at[None], M.toarray())[:2])
            else:
                parts.append(GroupPosterior(member, 0, Q, A).contrasts(M, np.zeros(T)))
    means, variances = average(parts, weights.tolist())
    means = means + np.append(location[chosen], location.mean())[:, None]
    return ColumnEffect(one.values, means[-1], np.sqrt(variances[-1]), means[:-1], np.asarray(groups))


def explain(model: Any) -> str:
    """Return sentences on shares of variance, the averaged structures, and the most important columns."""
    shares, table = model.variance_components_, model.search_results_
    T, lines = len(model.tasks_), list[str]()
    if "level" in shares:
        lines.append(f"{shares['level']:.0%} of the variation is between the levels of the {T} groups.")
    for k, part in enumerate(model.groupings_, start=2):
        lines.append(f"{shares.get(f'level {k}', 0.0):.0%} is between the levels of grouping {part.name!r}.")
    of_kind = Counter[str]()
    for name, share in shares.items():
        of_kind[term_kind(name)] += share
    common, own = f"{of_kind['common']:.0%}", f"{of_kind['own']:.0%}"
    alike = f"What columns do in all groups alike explains {common}, what they do in each group {own}."
    lines.append(alike if T > 1 else f"Columns explain {common}.")
    lines.append(f"{shares['noise']:.0%} is noise.")
    best = int(np.nanargmin(table["error"]))
    counted = "1 structure was" if len(table["error"]) == 1 else f"{len(table['error'])} structures were"
    lines.append(
        f"{counted} compared by the mean loss of held-out rows; the best, '{table['structure'][best]}', has "
        f"{table['error'][best]:.3f} ± {table['standard_error'][best]:.3f}."
    )
    if len(model.members_) > 1:
        parts = ", ".join(f"{member['name']} {member['weight']:.0%}" for member in model.members_)
        lines.append(f"Predictions are their average: {parts}.")
    if (quality := model.features_) is not None:
        text = f"The smooth function common to all groups is approximated by {quality['count']} features"
        if "error" in quality:
            change = round(quality["error_with_half"] / quality["error"] - 1.0, 3)
            text += f"; with half as many, the error of held-out rows changes by {change + 0.0:+.1%}"
        missed = f"; a priori they miss {quality['missed_variance']:.0%} of the variance"
        lines.append(f"{text}. n_features sets their number{missed if quality['missed_variance'] >= 0.005 else ''}.")
    if not model.is_complete_:
        lines.append("The search was not complete.")
    if top := [f"{name} {share:.0%}" for name, share in list(model.column_shares_.items())[:5] if share >= 0.01]:
        lines.append(f"Columns by what they explain: {', '.join(top)}.")
    return " ".join(lines)
