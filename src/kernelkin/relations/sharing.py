"""`sharing_report`: test whether sharing between groups helps, compared with simpler models."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import entropy
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from ..data.arrays import Table, as_array, as_table, check_lengths, listing, take_rows
from ..data.checks import read_groups
from ..data.forms import read_training
from ..kin.estimators import KinClassifier, KinRegressor
from ..kin.losses import LOSSES
from ..mixed.structures import MANY_ROWS
from ..progress import Progress
from ..tables.columns import ColumnReader, encode_columns
from .baselines import BOOSTING, KIN, LINEAR, ONE_FOR_ALL, SEPARATE, Baseline, make_baselines
from .scores import COVERAGE, LEVEL, LOG_LOSS, R2, RMSE, WITHIN, Gain, HeldOutRows, as_text, row_losses, score_rows

NEW_ROWS, NEW_GROUPS, LATER_ROWS = "new rows of known groups", "groups never seen", "later rows of known groups"
# The share of each group's rows that count as later rows.
LATER = 0.3
# A model that is behind by less than this, with an interval that includes zero, is still named first.
NEAR = 0.01
# With an interval wider than this, models that cannot be told apart may still differ much.
NARROW = 0.15
# Run time of a fit relative to that of Kin: a constant part, and a part for each group.
_WORK = {SEPARATE: (0.0, 0.004), ONE_FOR_ALL: (0.0, 0.003), LINEAR: (0.03, 0.0), BOOSTING: (0.4, 0.0)}
# Numbers of rows with which models are fitted in several processes.
PARALLEL_ROWS = range(250, MANY_ROWS)


class Comparison(NamedTuple):
    """A comparison of models on the same test rows."""

    how: str  # how rows were held out
    test_rows: np.ndarray  # (T,) the number of test rows of each group
    scores: dict[str, dict[str, float]]  # the scores of each model by name, that of the report first
    gains: dict[str, Gain]  # the `Gain` of the model of the report over each other model
    # The share of targets in the 90% intervals of the model of the report; None if it has no intervals of these rows:
    # for classes, and for groups never seen if it is not a mixed model.
    covered: float | None = None
    rows: HeldOutRows | None = None  # predictions of the model of the report; not saved
    # The goodness of the same prediction for all of these rows: their mean or, for classes, the shares of the classes.
    constant: float = 0.0

    def goodness(self, name: str) -> float:
        """Return R², or minus the log loss, of a model; larger is better."""
        scores = self.scores[name]
        return scores[R2] if R2 in scores else -scores[LOG_LOSS]


@dataclass(frozen=True)
class SharingReport:
    """A cross-validated comparison of a model with simpler ones.

    Parameters
    ----------
    name : str
        The name of the model.
    makers : dict
        The class or command that creates each model that was compared.
    tasks : array of shape (T,)
        The groups.
    comparisons : dict from questions to Comparison
        "new rows of known groups" and, if applicable, "groups never seen" and "later rows of known groups".
    left_out : tuple of str
        Questions that were not answered for lack of time.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import AverageRegressor, sharing_report
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(80, 2)), np.repeat(list("abcdefgh"), 10)
    >>> y = X[:, 0] + 0.3 * rng.normal(size=80)
    >>> linear = "a linear mixed model"
    >>> report = sharing_report(AverageRegressor(), X, y, tasks, baselines=[linear], random_state=0)
    >>> list(report.comparisons)
    ['new rows of known groups']
    >>> list(report.comparisons["new rows of known groups"].scores)
    ['AverageRegressor', 'a linear mixed model']
    """

    name: str
    makers: dict[str, str]
    tasks: np.ndarray
    comparisons: dict[str, Comparison]
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = []
        for (question, found), verdict in zip(self.comparisons.items(), self.verdicts, strict=True):
            used = int((found.test_rows > 0).sum())
            rest = f"; {len(self.tasks) - used} have too few rows" if used < len(self.tasks) else ""
            tested = f"{found.test_rows.sum()} test rows of {used} groups{rest}"
            lines.append(f"{question.capitalize()}: {tested} ({found.how})")
            shown = [score for score in found.scores[self.name] if score != WITHIN]
            rows = [["model", *shown, f"gain of {self.name}", f"{LEVEL:.0%} interval"]]
            order = sorted(found.scores, key=found.goodness, reverse=True)
            for name in order:
                gain = found.gains.get(name)
                ends = ["", ""] if gain is None else [f"{gain.mean:+.3f}", f"{gain.low:+.3f} to {gain.high:+.3f}"]
                rows.append([name, *(as_text(found.scores[name][score], name=score) for score in shown), *ends])
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines += ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
            if WITHIN in found.scores[self.name]:
                scores = ", ".join(f"{name} {as_text(found.scores[name][WITHIN])}" for name in order)
                lines.append(f"{WITHIN}, the predicted share of the variance around each group's own mean: {scores}.")
                if min(found.scores[name][WITHIN] for name in order) < 0:
                    lines.append("Below 0, errors are larger than this variance.")
            if found.covered is not None:
                lines.append(f"The {COVERAGE:.0%} intervals of {self.name} contain {found.covered:.0%} of these rows.")
            lines += [verdict, ""]
        units = R2 if self._is_regression else "the log loss: above zero, it is smaller"
        if self.left_out:
            lines.append(f"Not compared for lack of time: {', '.join(self.left_out)} (`sharing_report` has no limit).")
        return "\n".join([*lines, f"Gains are in {units}."])

    @property
    def _is_regression(self) -> bool:
        return R2 in next(iter(self.comparisons.values())).scores[self.name]

    @property
    def verdicts(self) -> list[str]:
        """Return for each question which model to use and how to create it."""
        starts = ["Recommendation", *(f"For {question}" for question in list(self.comparisons)[1:])]
        answers = map(self._answer, self.comparisons.values())
        return [f"{start}: {answer}." for start, answer in zip(starts, answers, strict=True)]

    @property
    def verdict(self) -> str:
        """Return which model to use and how to create it, with one sentence for each question."""
        return " ".join(self.verdicts)

    def _answer(self, found: Comparison) -> str:
        """Return a sentence on the best model and its closest competitor."""
        if not max(map(found.goodness, found.scores)) > found.constant:
            simple = "the mean (of counts: the mean rate)" if found.constant else "the mean"
            return f"{simple if self._is_regression else 'the shares of the classes'}; no model predicts better"
        if not found.gains:
            return f"{self.name} ({self.makers[self.name]}), which was compared with nothing"
        better = [name for name, gain in found.gains.items() if gain.sign < 0]
        if better:
            return self._naming(found, max(better, key=found.goodness), self.name)
        level = [name for name, gain in found.gains.items() if gain.sign == 0]
        pair = [self.name, max(level or found.gains, key=found.goodness)]
        text = self._naming(found, *(pair[::-1] if found.gains[pair[1]].mean < -NEAR else pair))
        narrow = found.gains[pair[1]].high - found.gains[pair[1]].low < NARROW
        return f"{text}; the difference is within chance{': either will do' if narrow else ''}" if level else text

    def _naming(self, found: Comparison, name: str, other: str) -> str:
        gain = found.gains[other if name == self.name else name]
        score = R2 if self._is_regression else LOG_LOSS
        first, second = (as_text(found.scores[each][score]) for each in (name, other))
        ends = f"{LEVEL:.0%} interval {gain.low:+.3f} to {gain.high:+.3f}"
        text = f"{score} {first}; {other} ({self.makers[other]}) has {second}"
        return f"{name} ({self.makers[name]}): {text} (gain of {self.name} {gain.mean:+.3f}, {ends})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and texts, without the held-out rows."""
        comparisons = {}
        for question, found in self.comparisons.items():
            gains = {name: gain._asdict() for name, gain in found.gains.items()}
            changed = {"test_rows": found.test_rows.tolist(), "gains": gains, "rows": None}
            comparisons[question] = found._asdict() | changed
        return vars(self) | {"tasks": self.tasks.tolist(), "comparisons": comparisons}

    def held_out(self) -> dict[str, HeldOutRows]:
        """Return the held-out rows by question; there are none in a saved report."""
        return {key: found.rows for key, found in self.comparisons.items() if found.rows is not None}

    def without_rows(self) -> SharingReport:
        """Return the report without the held-out rows, to save it."""
        return replace(self, comparisons={key: found._replace(rows=None) for key, found in self.comparisons.items()})


def sharing_report(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any = None,
    *,
    baselines: Sequence[str] | Mapping[str, Any] | None = None,
    new_groups: bool = True,
    time_column: Any = None,
    offset: Any = None,
    cv: int = 5,
    name: str | None = None,
    target_scale: float = 1.0,
    random_state: Any = None,
    time_limit: float | None = None,
    verbose: int = 0,
    callback: Callable[[float, str], None] | None = None,
) -> SharingReport:
    """Compare a model with simpler ones by cross-validation, and recommend one of them.

    Models are compared on up to three questions: new rows of known groups (folds within groups); groups never seen
    (whole groups left out, if the model can predict them); and, with `time_column`, later rows of known groups. The
    recommendation is based on R² over all test rows, or on the log loss; differences are paired.

    Parameters
    ----------
    model : unfitted estimator of this library
        It is refitted in every fold. Models with precomputed kernels cannot be compared.
    X, y, tasks : as for `fit`
    baselines : list of str, or dict from names to unfitted estimators, optional
        Some of "a separate model for each group", "one model for all, group as a column", "a linear mixed model",
        "gradient boosting" and "Kin", all by default; or any models of this library.
    new_groups : bool, default True
        Whether to also leave out whole groups.
    time_column : name or position of a column of X, or array of shape (n,), optional
        The time of each row: numbers or dates. The last 30% of the rows of each group are held out once.
    offset : array of shape (n,), optional
        Logarithm of the exposure of each count; models that do not take it have it as a column.
    cv : int, default 5
        Number of folds.
    name : str, optional
        Name of the model; by default the name of its class, or "Kin".
    target_scale : float, default 1.0
        Factor by which the RMSE is multiplied, if targets were divided by it before.
    random_state : int, RandomState or None
        Seed of folds and models.
    time_limit : float, optional
        Limit in seconds: groups never seen are left out if they are not expected to finish in time.
    verbose : int, default 0
        1 shows progress on standard error.
    callback : callable, optional
        Called after each fit with the finished share of the work and a text.

    Returns
    -------
    report : SharingReport
    """
    if cv < 2:
        raise ValueError(f"cv must be 2 or more, got {cv!r}")
    rows, rng = _Rows(model, X, y, tasks, offset), check_random_state(random_state)
    name, models = _models(model, name, baselines, int(rng.randint(2**31 - 1)))
    if not all(isinstance(each, KinRegressor | KinClassifier | Baseline) for each in models.values()):
        rows.least, rows.keeps_classes = 1 + (not rows.classification), rows.classification
    parts = {NEW_ROWS: rows.folds_inside(cv, rng)}
    if time_column is not None:
        parts[LATER_ROWS] = rows.later(_times(X, time_column))
    for question, folds in parts.items():
        if (folds < 0).all():
            where = "" if question == NEW_ROWS else ": the rows of each group have too few different times"
            raise ValueError(f"no group has enough rows to hold one out{where}")
    # Whether the model predicts groups that it was not fitted to.
    predicts_new = getattr(_inner(model), "unknown_tasks", "error") == "common" and not rows.wide
    if new_groups and rows.n_groups > 2 and predicts_new:
        parts[NEW_GROUPS] = rng.permutation(rows.n_groups)[rows.codes] % min(cv, rows.n_groups)
    with Progress(1, shown=verbose > 0) as display:
        display.begin("does sharing help")
        found = _held_out(rows, models, parts, time_limit, callback or display.share)
    how = {NEW_ROWS: f"{cv} folds inside groups", LATER_ROWS: f"the last {LATER:.0%} of each group"}
    how[NEW_GROUPS] = f"whole groups left out, {min(cv, rows.n_groups)} folds"
    comparisons = {each: rows.compare(each, how[each], *found[each], target_scale) for each in found}
    makers = {each: _maker(made) for each, made in models.items()}
    return SharingReport(name, makers, rows.labels, comparisons, tuple(each for each in parts if each not in found))


def _held_out(
    rows: _Rows,
    models: dict[str, Any],
    parts: dict[str, np.ndarray],
    time_limit: float | None,
    report: Callable[[float, str], None],
) -> dict[str, tuple[dict[str, np.ndarray], np.ndarray | None]]:
    """Return values (N,) or (N, C) of every model, and intervals (N, 2) of the first, by question.

    They are NaN for rows never held out. There are no intervals for classes, nor for new groups of the paper's models.
    """
    found = {}
    cost = dict.fromkeys(models, 1.0) | {name: fixed + own * rows.n_groups for name, (fixed, own) in _WORK.items()}
    # Separate models cannot predict a new group, and some other models refuse it.
    known = {SEPARATE, *(k for k, made in models.items() if getattr(_inner(made), "unknown_tasks", "") == "error")}
    asked = {question: [k for k in models if question != NEW_GROUPS or k not in known] for question in parts}
    work = {q: sum(cost[k] for k in asked[q]) * len(np.unique(folds[folds >= 0])) for q, folds in parts.items()}
    began, done = time.monotonic(), 0.0
    # Fits of few rows are too short for processes, and fits of many use all threads.
    ours, model = next(iter(models.items()))
    n_jobs = getattr(_inner(model), "n_jobs", None) if len(rows.y) in PARALLEL_ROWS else 1
    parallel = Parallel(n_jobs=-1 if n_jobs is None else n_jobs, return_as="generator_unordered")
    for question, folds in parts.items():
        numbers = np.unique(folds[folds >= 0]).tolist()
        spent = time.monotonic() - began
        if question == NEW_GROUPS and time_limit and spent * (done + work[question]) / done > time_limit:
            continue
        shape = len(rows.y) if rows.classes is None else (len(rows.y), len(rows.classes))
        values = {name: np.full(shape, np.nan) for name in asked[question]}
        has_ends = not rows.classification and (question != NEW_GROUPS or isinstance(_inner(model), KinRegressor))
        has_ends = has_ends and hasattr(model, "predict_interval")
        ends = np.full((len(rows.y), 2), np.nan) if has_ends else None
        # The longest fits first, so that all processes end at about the same time.
        jobs, first = sorted(product(numbers, values), key=lambda job: -cost[job[1]]), ours if has_ends else None
        results = parallel(delayed(rows.predict)(job, models[job[1]], folds != job[0], job[1] == first) for job in jobs)
        report(done / sum(work.values()), question)
        for (k, name), mean, own in results:
            values[name][folds == k] = mean
            if own is not None and ends is not None:
                ends[folds == k] = own
            done += cost[name]
            report(done / sum(work.values()), f"{question}, fold {numbers.index(k) + 1} of {len(numbers)}, {name}")
        found[question] = values, ends
    return found


def _times(X: Any, column: Any) -> np.ndarray:
    """Return the time of each row (n,) as a number, from a column of X or an array of numbers or dates."""
    table = as_table(X, "X")
    names, columns = (range(np.shape(X)[1]), np.asarray(X).T) if table is None else (table.names, table.columns)
    place = column if np.ndim(column) or column not in names else names.index(column)
    if np.ndim(column):
        values = as_array(column, "time_column")
    elif isinstance(place, int) and -len(names) <= place < len(names):
        values = columns[place]
    else:
        raise ValueError(f"time_column={column!r} is not a column of X, which has {listing(list(names))}")
    check_lengths(np.zeros(len(X) if table is None else table.n_rows), time_column=values)
    found = ColumnReader(".", None).read("time_column", values, str(values.dtype))
    if isinstance(found, str) or found.kind not in ("number", "date"):
        raise ValueError(f"time_column has no numbers or dates: {found if isinstance(found, str) else 'it is text'}")
    if found.n_missing:
        raise ValueError(f"time_column has {found.n_missing} missing values: leave out these rows")
    # The first feature of a number or a date is its standardised value.
    return encode_columns([found], Table(("time_column",), (values,), ("",)), ".")[:, 0]


def _inner(model: Any) -> Any:
    return getattr(model, "estimator", model)


def _maker(model: Any) -> str:
    """Return the class that creates a model, and the command if there is one."""
    from .. import __all__ as public
    from ..registry import all_models

    made_by = type(_inner(model))
    if isinstance(model, Baseline):
        loss = "" if model.loss == "squared" else f"(loss={model.loss!r})"
        options = "(classification=True)" if model.classification else loss
        return f"kernelkin.relations.{made_by.__name__}{options}"
    place = f"kernelkin.{'' if made_by.__name__ in public else 'paper.'}{made_by.__name__}"
    name = next((each.name for each in all_models() if made_by in each.estimators), None)
    if name is None:
        return place
    options = ("" if name == KIN else f" --model {shlex.quote(name)}") + (" --cv" if _inner(model) is not model else "")
    return f"`kernelkin fit{options}`, or {place}"


def _models(model: Any, name: str | None, baselines: Any, seed: int) -> tuple[str, dict[str, Any]]:
    """Return the name of the model, and all models to compare, this one first."""
    classification, is_kin = is_classifier(model), isinstance(model, KinRegressor | KinClassifier)
    name = KIN if is_kin else name or type(_inner(model)).__name__
    plain = clone(model)
    columns = [key for key in ("task_column", "estimator__task_column") if key in plain.get_params()]
    made: dict[str, Any] = {name: plain.set_params(**dict.fromkeys(columns))}
    if isinstance(baselines, Mapping):
        return name, made | dict(baselines)
    if (baselines is None or KIN in baselines) and not is_kin:
        made[KIN] = (KinClassifier if classification else KinRegressor)(random_state=seed)
    others = None if baselines is None else [each for each in baselines if each != KIN]
    loss = plain.loss if isinstance(plain, KinRegressor) else "squared"
    return name, made | make_baselines(classification, others, seed, loss)


class _Rows:
    """Targets with their groups: one entry for each label, so wide data has several for each row of X.

    `rows`, `codes` and `y` (N,) are the row of X, the group and the target of each entry; wide numbers are divided by
    the spread of their column. `labels` (T,) are the groups, `classes` (C,) those of all entries, None for numbers.
    """

    def __init__(self, model: Any, X: Any, y: Any, tasks: Any, offset: Any = None) -> None:
        self.X, groups = read_groups(X, tasks, getattr(_inner(model), "task_column", None))
        if not isinstance(self.X, Table) and self.X.ndim != 2:
            raise ValueError("sharing_report needs the columns of X and cannot compare precomputed kernels")
        self.classification, self.Y = is_classifier(model), as_table(y, "y") or np.asarray(y)
        data = read_training(np.zeros((self.X.shape[0], 1)), y, groups or None, classification=self.classification)
        check_lengths(data.X, offset=offset)
        if data.n_tasks < 2:
            raise ValueError("sharing_report needs two groups or more: pass tasks")
        self.labels, self.n_groups, self.wide = data.labels, data.n_tasks, data.form == "wide"
        self.groupings, self.offset = data.groupings, None if offset is None else np.asarray(offset, dtype=np.float64)
        self.rows, self.y = np.concatenate(data.rows), np.concatenate(data.y)
        self.codes = np.repeat(np.arange(data.n_tasks), [len(part) for part in data.rows])
        self.unit = np.ones(data.n_tasks)
        if self.wide and not self.classification:
            self.unit = np.array([part.std() or 1.0 for part in data.y])
            self.y = self.y / self.unit[self.codes]
        self.classes = np.unique(self.y) if self.classification else None
        # Number of entries that fits need in a group, and whether they need all of its classes.
        self.least, self.keeps_classes = 1, False

    def folds_inside(self, cv: int, rng: np.random.RandomState) -> np.ndarray:
        """Return the fold (N,) in which each entry is held out, or -1."""
        if self.wide:
            return rng.permutation(self.X.shape[0])[self.rows] % cv
        folds, classes = np.full(len(self.y), -1), np.zeros(len(self.y), dtype=np.intp)
        if self.classes is not None:
            classes = np.searchsorted(self.classes, self.y)
        for code in range(self.n_groups):
            own = rng.permutation(np.flatnonzero(self.codes == code))
            own = own[np.argsort(classes[own], kind="stable")]
            if len(own) > self.least:
                folds[own] = (rng.randint(cv) + np.arange(len(own))) % cv
            if self.keeps_classes:
                folds[own[np.bincount(classes[own])[classes[own]] == 1]] = -1
        return folds

    def later(self, times: np.ndarray) -> np.ndarray:
        """Return 0 for entries later than all others of their group, and -1 for these, at least two in each group."""
        folds, when = np.full(len(self.y), -1), times[self.rows]
        for t in range(self.n_groups):
            own = np.flatnonzero(self.codes == t)
            own = own[np.argsort(when[own], kind="stable")]
            last = when[own[: max(int(np.ceil((1 - LATER) * len(own))), 2)][-1]]
            folds[own[when[own] > last]] = 0
        return folds

    def predict(self, job: Any, model: Any, kept: np.ndarray, intervals: bool) -> tuple[Any, np.ndarray, Any]:
        """Fit a model to some entries; return the job, and means of the others or probabilities, and intervals (h, 2).

        On wide data, rows are held out for all tasks at once; models of this library get the tasks as columns.
        """
        model, codes, held = clone(model), self.codes[~kept], self.rows[~kept]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if wide := self.wide and not isinstance(model, Baseline):
                train, asked = np.setdiff1d(self.rows[kept], held), self._columns(model, held)
                model.fit(y=take_rows(self.Y, train), **self._columns(model, train))
            else:
                model.fit(y=self.y[kept], **self._given(model, kept))
                asked = self._given(model, ~kept)
            found = model.predict(**asked) if self.classes is None else model.predict_proba(**asked)
            own = model.predict_interval(**asked, coverage=COVERAGE) if intervals else None
        if wide:
            at, unit = (np.arange(len(held)), codes), self.unit[codes]
            found, own = found[at] / unit, None if own is None else own[at] / unit[:, None]
        if self.classes is None:
            return job, found, own
        if found.ndim == 1:
            # For two classes on wide data, only the probability of the second is given.
            found = np.column_stack([1.0 - found, found])
        p = np.zeros((len(found), len(self.classes)))
        p[:, np.searchsorted(self.classes, model.classes_)] = found
        return job, p, None

    def _given(self, model: Any, part: np.ndarray) -> dict[str, Any]:
        """Return the arguments X, tasks and offset for some entries."""
        rows = self.rows[part]
        groups = [self.labels[self.codes[part]], *(each.labels[each.codes[rows]] for each in self.groupings)]
        return self._columns(model, rows) | {"tasks": dict(enumerate(groups)) if len(groups) > 1 else groups[0]}

    def _columns(self, model: Any, rows: np.ndarray) -> dict[str, Any]:
        """Return the argument X for some rows, and their offsets: as an argument if the model takes it, or a column."""
        X = take_rows(self.X, rows)
        if self.offset is None:
            return {"X": X}
        offset, name = self.offset[rows], "offset of counts"
        if isinstance(model, Baseline | KinRegressor) and LOSSES[model.loss].takes_offset:
            return {"X": X, "offset": offset}
        if not isinstance(X, Table):
            return {"X": np.column_stack([X, offset])}
        return {"X": Table((*X.names, name), (*X.columns, offset), (*X.types, "float64"))}

    def compare(self, question: str, how: str, values: dict[str, np.ndarray], ends: Any, scale: float) -> Comparison:
        """Return the scores of all models, and the gain of the first over the others."""
        ours, by_group = next(iter(values)), question == NEW_GROUPS
        tested = ~np.isnan(values[ours]).reshape(len(self.y), -1)[:, 0]
        y, codes = self.y[tested], self.codes[tested]
        variance = float(y.var()) or 1.0 if self.classes is None else 1.0
        scores, losses = {}, {}
        for name, found in values.items():
            scores[name] = score_rows(y, found[tested], codes, self.classes)
            losses[name] = row_losses(y, found[tested], self.classes) / variance
            if self.classes is None:
                scores[name][RMSE] *= scale
                # The level of a new group is unknown, and there are few later rows, so that their mean is mostly noise.
                if question != NEW_ROWS:
                    del scores[name][WITHIN]
        others = [name for name in losses if name != ours]
        gains = {name: Gain.of(losses[name] - losses[ours], codes, by_group) for name in others}
        predicted, unit = values[ours][tested], self.unit[codes]
        if ends is not None:
            ends = ends[tested] * unit[:, None]
        if self.classes is None:
            y, predicted = y * unit, predicted * unit
        rows = HeldOutRows(self.labels, codes, y, predicted, how, ends, self.classes, self.wide)
        constant = 0.0 if self.classes is None else -float(entropy(np.unique(y, return_counts=True)[1]))
        if self.offset is not None:
            # The mean rate, times the exposure of each row.
            y, exposure = self.y[tested], np.exp(self.offset[self.rows[tested]])
            constant = 1.0 - float(((y - exposure * y.sum() / exposure.sum()) ** 2).mean()) / variance
        return Comparison(how, np.bincount(codes, minlength=self.n_groups), scores, gains, rows.covered, rows, constant)
