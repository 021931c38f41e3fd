"""The fit of KinRegressor and KinClassifier: rows, structures, their average, and held-out errors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..calibration import Scores
from ..data.forms import TaskData
from ..estimators import Fitted, RunOptions
from ..memory import Need
from ..mixed.average import Member, Search
from ..mixed.columns import GroupMeans
from ..mixed.covariance import HERE, KEPT_BYTES, Place
from ..mixed.effects import column_shares, missed_variance, variance_shares
from ..mixed.likelihoods import Bernoulli, LabelRegression, Likelihood
from ..mixed.structures import (
    FEW_STRUCTURES,
    FURTHER_CURVES,
    FURTHER_STRUCTURES,
    MANY_ROWS,
    MORE_ROWS,
    MOST_EXACT_ROWS,
    NOT_SPARSE,
    STRUCTURES,
    MixedData,
    Structure,
    columns_with_curves,
    count_features,
    landmark_count,
)
from ..mixed.terms import SINES
from ..paper.grams.operator import arrays_on
from ..progress import Progress
from .data import (
    ClassCodes,
    GivenKernels,
    LabelledRows,
    class_weights,
    column_families,
    in_order_of_content,
    join_cells,
    merge_copies,
    row_folds,
    row_keys,
)
from .functions import KinFunctions, fit_link, log_odds
from .losses import LOSSES
from .task_features import read_task_kernels

# Members with less weight than this are left out of the average.
LEAST_WEIGHT = 0.01
# Additive terms need a matrix for each column. They are left out with more columns than this; those of groups are also
# left out if their matrices have more entries than this.
ADDITIVE_COLUMNS, ADDITIVE_ENTRIES = 30, 10_000_000
# With more than `MANY_ROWS` rows, only the rows of this many folds are held out.
FEW_FOLDS = 2
# With fewer groups, the weights for new groups are those for known groups.
LEAST_GROUPS = 5
# Further groupings have slopes if a median group of one of them has this many rows, and all slopes together are at most
# this many features. They have curves if a median group has more rows, there are at most `MANY_ROWS` rows, and all
# curves together are at most this many features.
ROWS_OF_SLOPES, MOST_SLOPES = 3, 2_000
ROWS_OF_CURVES, MOST_CURVES = 10, 600
_GIVEN = Structure("given kernels", slopes=False)
GIVEN = (_GIVEN, replace(_GIVEN, name="given kernels, loose", rho=0.02, clip=False))


@dataclass(frozen=True, kw_only=True)
class KinFit:
    """Specification of a fit; the parameters are those of `KinRegressor`."""

    classification: bool
    loss: str = "squared"
    class_weight: Any = None
    kernels: Any = None
    task_features: Any = None
    cv: Any = 5
    time_limit: float | None = None
    n_features: int | None = None
    device: str | None = None
    random_state: Any = None
    began: float = field(default_factory=time.monotonic)

    def plan(self, data: TaskData) -> KinPlan:
        """Return the plan of this fit on data."""
        return KinPlan(self, data)


class KinPlan:
    """A prepared fit: rows, folds, units and user-supplied kernels, before any model is fitted.

    Attributes
    ----------
    labelled, rows, folds : rows with their targets, and the fold of each; copies of a row in one fold are merged.
    place : (N,) the position of each labelled training row in `rows`.
    units : the units of the targets, for a regressor.
    classes : the classes, for a classifier.
    given : user-supplied kernels.
    new_tasks : labels of tasks without rows but with features.
    """

    def __init__(self, fit: KinFit, data: TaskData) -> None:
        self.fit, self.data = fit, data
        self.classes = classes = ClassCodes.of(data) if fit.classification else None
        self.loss = LOSSES[fit.loss]
        # Columns of y stay together if weights, folds and terms do not differ between them.
        columns = classes is None or (fit.class_weight is None and all(len(own) == 2 for own in classes.of_task))
        columns = columns and fit.task_features is None and not isinstance(fit.cv, str) and self.loss.is_linear
        labelled = LabelledRows.of(data, columns)
        keys = row_keys(labelled, data)
        order = in_order_of_content(labelled, keys)
        labelled = labelled.take(order)
        folds = row_folds(labelled, data, fit.cv, fit.classification, fit.random_state)
        weight = data.sample_weight[labelled.rows].astype(np.float64)
        if fit.classification and (weight != 1.0).any() and isinstance(fit.cv, int | np.integer):
            folds = join_cells(labelled, data, folds)
        kept, weight, place = merge_copies(labelled, keys[order], folds, weight)
        self.labelled, self.folds, self.place = labelled.take(kept), folds[kept], place[np.argsort(order)]
        if len(kept) > MANY_ROWS and isinstance(fit.cv, int | np.integer):
            self.folds = np.where(self.folds < FEW_FOLDS, self.folds, -1)
        task_kernels, self.new_tasks = read_task_kernels(fit.task_features, data.labels)
        self.given, values = None, tuple[np.ndarray, ...]()
        if fit.kernels is not None:
            self.given, values = GivenKernels.fit(fit.kernels, data, self.labelled.rows, weight)
        self.units, z, offset = None, np.empty(0), None
        if classes is not None:
            z = classes.encode(self.labelled.y, self.labelled.codes)
            weight = class_weights(fit.class_weight, classes, self.labelled, weight)
            self.likelihood: Likelihood = Bernoulli()
            if self.labelled.wide or not classes.is_binary:
                # Many classes, or tasks on the same rows, share one factorisation.
                z, self.likelihood = 2.0 * z - 1.0, LabelRegression()
        else:
            self.units, z, offset = self.loss.prepare(self.labelled, data, weight, bool(task_kernels))
            self.likelihood = self.loss.likelihood()
        rows, wide = self.labelled.rows, self.labelled.wide
        # With kernels of the user, columns are not used.
        X = np.empty((len(rows), 0)) if self.given else np.asarray(data.X[rows], dtype=np.float64)
        self.rows = MixedData(
            X=X,
            groups=(self.labelled.codes, *(grouping.codes[rows] for grouping in data.groupings)),
            n_groups=(1 if wide else data.n_tasks, *(len(grouping.labels) for grouping in data.groupings)),
            z=z,
            weight=weight,
            of_column=np.empty(0, dtype=np.intp) if self.given else column_families(data, X),
            wide=wide,
            offset=offset,
            kernels=values,
            task_kernels=task_kernels,
        )

    def memory(self, n_jobs: int = 1) -> Need:
        """Return an upper bound on memory: a few matrices of all rows, or features and blocks of groups."""
        N, d = self.rows.X.shape
        if self.rows.wide or self.rows.kernels or N <= MOST_EXACT_ROWS:
            peak = 8 * N * (N * (12 + 2 * min(d, ADDITIVE_COLUMNS) + len(self.rows.kernels)) + 16 * d)
        else:
            f = 2 * d + (count_features(N) if self.fit.n_features is None else self.fit.n_features)
            kept = min(8 * N * (4 * f + 12 * self._entries() / N), KEPT_BYTES)
            at_once = min(n_jobs, len(self.structures) * max(int(self.folds.max()) + 1, 1))
            peak = at_once * (kept + 40 * (f + sum(self.rows.n_groups[1:])) ** 2)
            peak += 8 * (6 * self._entries() + N * 24 * d + 2 * ADDITIVE_ENTRIES)
        return Need(int(peak), "fit fewer rows, or use a two-stage model, which stores no matrix of all rows")

    def _entries(self) -> float:
        """Return the number of pairs of rows in the same block."""
        return float((np.bincount(self.rows.blocks).astype(float) ** 2).sum())

    @cached_property
    def structures(self) -> Sequence[Structure]:
        """The structures to fit."""
        if self.given is not None:
            return GIVEN
        d, grouped = self.rows.X.shape[1], self.rows.wide or self.rows.n_groups[0] > 1
        found = list(FEW_STRUCTURES if self.rows.n_rows > MANY_ROWS else STRUCTURES)
        found += [*self._further(), *([NOT_SPARSE] if self.likelihood.sparsity else [])]
        if d > ADDITIVE_COLUMNS:
            found = [s for s in found if not (s.additive or s.own_additive)]
        if self.rows.n_rows > MORE_ROWS or d * self._entries() > ADDITIVE_ENTRIES:
            found = [s for s in found if not s.own_additive]
        if any(s.means for s in found) and not self._has_means():
            found = [s for s in found if not s.means]
        if grouped:
            return found
        # Without groups, structures that differ only in group terms are the same.
        return [s for s in found if s.common or s.additive]

    def _further(self) -> Sequence[Structure]:
        """Return structures with slopes and curves of further groupings, if their groups have enough rows."""
        data = self.rows
        rows = [float(np.median(np.bincount(codes))) for codes in data.groups]
        n_slopes = 0 if data.wide else data.X.shape[1] * sum(data.n_groups[1:])
        if not 0 < n_slopes <= MOST_SLOPES or max(rows[1:]) < ROWS_OF_SLOPES:
            return ()
        curves = tuple(g for g in range(1, len(rows)) if rows[g] >= ROWS_OF_CURVES)
        count = SINES * len(columns_with_curves(data.X)) * sum(data.n_groups[g] for g in curves)
        if data.n_rows > MANY_ROWS or not 0 < count <= MOST_CURVES:
            return FURTHER_STRUCTURES
        return (*FURTHER_STRUCTURES, replace(FURTHER_CURVES, curves=curves))

    def _has_means(self) -> bool:
        """Return whether a column varies both within and between groups."""
        rows = self.rows
        if rows.wide or not rows.X.shape[1]:
            return False
        centred = rows.X - np.average(rows.X, axis=0, weights=rows.weight)
        return GroupMeans.fit(centred, rows.groups[0], rows.n_groups[0], rows.of_column, rows.weight).is_useful

    def _weighs_new_groups(self) -> bool:
        """Return whether there are enough groups to hold out whole groups, and few enough rows to do it quickly."""
        rows, by_rows = self.rows, isinstance(self.fit.cv, int | np.integer) and not self.rows.wide
        # The terms of task features, and so their parameters, differ between exact fits and fits with features.
        return by_rows and not rows.task_kernels and rows.n_groups[0] >= LEAST_GROUPS and rows.n_rows <= MANY_ROWS

    def run(self, options: RunOptions) -> Fitted:
        """Fit and weight all structures, and return the attributes of the estimator."""
        limit = self.fit.time_limit
        deadline = np.inf if limit is None else self.fit.began + limit
        with Progress(1) if options.verbose else nullcontext() as display:
            if display is not None:
                display.begin("fitting")

            def report(done: int, total: int, text: str) -> None:
                if display is not None:
                    display.share(done / total, text)
                if options.callback is not None:
                    spent = time.monotonic() - self.fit.began
                    options.callback(spent, spent * total / done)

            search = Search(
                self.rows,
                self.folds,
                self.likelihood,
                self.structures,
                began=self.fit.began,
                deadline=deadline,
                n_jobs=options.n_jobs,
                report=report,
                n_features=self.fit.n_features,
                place=self._place(options),
            )
            tried = search.run()
            if self._weighs_new_groups() and time.monotonic() < deadline:
                search.weigh_by_groups(row_folds(self.labelled, self.data, "groups", False, self.fit.random_state))
        # Effects of groups need a structure without means of groups, and one with slopes, whatever their weights.
        plain = [member for member in tried if member.fitted.means is None]
        sloping = [member for member in plain if member.structure.slopes] or plain
        # Slopes that may vanish have no errors.
        needed = plain[0], min(sloping, key=lambda member: member.fitted.model.sparsity)
        members = [m for m in tried if max(m.weight, m.new_weight) >= LEAST_WEIGHT or any(m is each for each in needed)]
        total = sum(member.weight for member in tried if member.weight >= LEAST_WEIGHT)
        for member in tried:
            member.weight = member.weight / total if member.weight >= LEAST_WEIGHT else 0.0
        weights = np.array([member.weight for member in members])
        text = f"time_limit={limit} reached before all structures were compared; the fit uses the results so far"
        warnings = () if search.is_complete else ((text, UserWarning),)
        columns = ("structure", "error", "standard_error", "weight", "evidence", "seconds")
        table = [
            (m.structure.name, m.error, m.standard_error, m.weight, -m.fitted.model.value_, m.seconds) for m in tried
        ]
        fitted, origins = [member.fitted for member in members], self.data.feature_origins
        names = self.data.feature_names or [f"x{j}" for j in range(self.rows.X.shape[1])]
        names = names if origins is None else [column for column, _ in origins]
        attributes = self._functions(members, weights) | {
            "tasks_": self.data.labels,
            "data_form_": self.data.form,
            "groupings_": self.data.groupings,
            "task_name_": self.data.task_name,
            "members_": tuple(
                {"name": m.structure.name, "weight": m.weight, "error": m.error} for m in members if m.weight
            ),
            "search_results_": dict(zip(columns, map(np.array, zip(*table, strict=True)), strict=True)),
            "best_structure_": members[0].structure.name,
            "is_complete_": search.is_complete,
            "variance_components_": variance_shares(fitted, weights),
            "column_shares_": column_shares(fitted, weights, self.rows, names),
            "features_": self._feature_quality(search),
        }
        if self.classes is not None:
            attributes |= {"classes_": self.classes.classes, "task_classes_": list(self.classes.of_task)}
        return Fitted(attributes, warnings)

    def _place(self, options: RunOptions) -> Place | None:
        """Return where blocks of groups are evaluated; None for threads of this process."""
        if self.fit.device is not None:
            arrays_on(self.fit.device)  # raises if torch cannot use it
        elif options.engine is None:
            return None
        return Place(options.engine or HERE.engine, self.fit.device)

    def _feature_quality(self, search: Search) -> dict[str, float] | None:
        first = search.members[0].fitted
        if not landmark_count(first):
            return None
        found = {"count": landmark_count(first), "missed_variance": missed_variance(first)}
        if search.half_features is not None:
            found |= dict(zip(("error", "error_with_half"), search.half_features, strict=True))
        return found

    def _functions(self, members: Sequence[Member], weights: np.ndarray) -> dict[str, Any]:
        """Return the functions and the held-out predictions used to calibrate them."""
        used = np.concatenate(self.data.rows)
        further = [np.bincount(g.codes[used], minlength=len(g.labels)) for g in self.data.groupings]
        base: dict[str, Any] = {
            "members": tuple(member.fitted for member in members),
            "weights": weights,
            "new_weights": np.array([m.new_weight for m in members]) / sum(m.new_weight for m in members),
            "wide": self.labelled.wide,
            "n_tasks": self.data.n_tasks,
            "kernels": self.given,
            "new_tasks": self.new_tasks if len(self.new_tasks) else None,
            "group_rows": (np.array([len(rows) for rows in self.data.rows]), *further),
            "column_names": self.data.feature_names or tuple(f"x{j}" for j in range(self.rows.X.shape[1])),
        }
        if self.units is not None:
            mean, deviation, units = self.loss.held_out(members, weights, self.labelled, self.units)
            known = ~np.isnan(mean).reshape(len(mean), -1).any(axis=1)
            given = self.labelled.y[known], mean[known], deviation[known]
            scores = Scores.of(self.loss.sizes(*given), (given[0] - given[1]) / given[2], self.rows.weight[known])
            functions = KinFunctions(**base, loss=self.loss, units=units, scores=scores)
            return {"functions_": functions, "held_out_": self._held_out(mean, deviation * scores.scale)}
        each = [self.likelihood.mean(member.mean, member.variance) for member in members]
        p: Any = sum(w * part for w, part in zip(weights, each, strict=True))
        known = ~np.isnan(p).any(axis=1)
        weight = np.repeat(self.rows.weight[known][:, None], p.shape[1], axis=1)
        link = fit_link(p[known].ravel(), (self.rows.z[known] > 0).ravel(), weight.ravel())
        functions = KinFunctions(**base, classes=self.classes, link=link)
        return {"functions_": functions, "held_out_": self._held_out(link(log_odds(p)), None)}

    def _held_out(self, values: np.ndarray, deviations: np.ndarray | None) -> SimpleNamespace:
        """Return predictions of all training rows by fits without them; NaN for rows that were never held out.

        `codes` (N,) are the tasks (zeros on wide data), `y` (N,) or (N, T) the original targets, `values` the predicted
        means in the shape of `y` or the class probabilities (N, r), and `deviations` their standard deviations.
        """
        rows = self.labelled.take(self.place)
        deviations = None if deviations is None else deviations[self.place]
        return SimpleNamespace(codes=rows.codes, y=rows.y, values=values[self.place], deviations=deviations)
