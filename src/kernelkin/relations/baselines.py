"""Standard models to compare others with, each with `fit(X, y, tasks)` and `predict(X, tasks)`; both take `offset`.

They accept arrays and tables, groups with one row or one class, and groups that were not in training. Parameters are
tuned within the training rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..data.checks import encode_tasks, order_groupings, read_groupings
from ..decompositions import eigh
from ..kin.losses import LOSSES
from ..mixed.likelihoods import Bernoulli, LabelRegression
from ..mixed.structures import FittedStructure, MixedData, Structure
from ..tables.encoder import TableEncoder

SEPARATE = "a separate model for each group"
ONE_FOR_ALL = "one model for all, group as a column"
LINEAR = "a linear mixed model"
BOOSTING = "gradient boosting"
KIN = "Kin"

# Widths of Gaussian kernels, relative to the square root of the number of standardised columns.
WIDTHS = (0.5, 1.0, 2.0, 4.0)
# The last penalty is so large that only the mean remains.
PENALTIES = np.append(np.logspace(-3.0, 3.0, 13), 1e9)
GROUP_WEIGHTS = (0.3, 1.0, 3.0)
LANDMARKS, GROUP_COLUMNS = 300, 500
# Boosting: numbers and sizes of trees to try and, with LightGBM, the smoothing of small groups.
TREES, LEAVES, SMOOTHING, FOLDS = (10, 20, 40, 80, 160), (4, 8, 16), (3.0, 30.0), 4
MANY_ROWS = 20_000


class Baseline(BaseEstimator):
    """A model of rows in groups, for classes or numbers; `random_state` is the seed of landmarks, folds and trees.

    `loss` is that of `KinRegressor`. `tasks_` (T,) are the groups of the fit, `classes_` (C,) its classes.
    """

    def __init__(self, classification=False, random_state=0, loss="squared"):
        self.classification = classification
        self.random_state = random_state
        self.loss = loss

    def fit(self, X: Any, y: Any, tasks: Any, offset: Any = None) -> Self:
        """Fit to rows (n, d) or a table, targets (n,), and the group of each row, or a table of several groupings.

        `offset` (n,) are logarithms of exposures of counts: the rates y / exposure are modelled. Separate models are
        for groups of the first grouping, and use no others.
        """
        plain = isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and bool(np.isfinite(X).all())
        self.encoder_ = None if plain else TableEncoder().fit(X)
        columns = self._columns(X)
        self.center_, spread = columns.mean(axis=0), columns.std(axis=0)
        self.scale_ = np.where(spread > 1e-12 * np.maximum(np.abs(self.center_), 1e-300), spread, 1.0)
        self.groupings_ = {name: np.unique(labels) for name, labels in read_groupings(tasks).items()}
        self.tasks_ = next(iter(self.groupings_.values()))
        y, self.of_counts_ = np.asarray(y).ravel(), not self.classification and LOSSES[self.loss].takes_offset
        if self.classification:
            self.classes_, y = np.unique(y, return_inverse=True)
            if len(self.classes_) == 1:
                return self
        exposure = np.ones(len(y)) if offset is None else np.exp(np.asarray(offset, dtype=np.float64))
        # Small problems are faster with one thread.
        with threadpool_limits(1 if len(y) < MANY_ROWS else None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = y if offset is None else y / exposure
            self._fit((columns - self.center_) / self.scale_, self._codes(tasks), y, exposure)
        return self

    def predict(self, X: Any, tasks: Any, offset: Any = None) -> np.ndarray:
        """Return the mean or the most probable class of each row (q,); groups may be new."""
        if self.classification:
            return self.classes_[self.predict_proba(X, tasks).argmax(axis=1)]
        found = self._values(X, tasks) * (1.0 if offset is None else np.exp(np.asarray(offset, dtype=np.float64)))
        return np.maximum(found, 0.0) if self.of_counts_ else found

    def predict_proba(self, X: Any, tasks: Any) -> np.ndarray:
        """Return the probabilities (q, C) of the classes."""
        check_is_fitted(self, "classes_")
        if len(self.classes_) == 1:
            return np.ones((len(self._columns(X)), 1))
        return self._values(X, tasks)

    def _values(self, X: Any, tasks: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._predict((self._columns(X) - self.center_) / self.scale_, self._codes(tasks))

    def _columns(self, X: Any) -> np.ndarray:
        return np.asarray(X, dtype=np.float64) if self.encoder_ is None else self.encoder_.transform(X)

    def _codes(self, tasks: Any) -> list[np.ndarray]:
        """Return the position of each row's group in every grouping; -1 for groups that were not in training."""
        pairs = zip(order_groupings(read_groupings(tasks), self.groupings_), self.groupings_.values(), strict=True)
        return [encode_tasks(labels, known, allow_unknown=True) for labels, known in pairs]

    # Fits to standardised columns, group codes, targets or class codes, and exposures; predicts means or probabilities.
    _fit: Callable[[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray], None]
    _predict: Callable[[np.ndarray, list[np.ndarray]], np.ndarray]

    def _outputs(self, y: np.ndarray) -> np.ndarray:
        """Return targets (n, 1), or 1 and -1 for classes: one column for two classes, otherwise one per class."""
        if not self.classification:
            return y[:, None].astype(np.float64)
        wanted = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return np.where(y[:, None] == np.array(wanted), 1.0, -1.0)


class _KernelRidge(Baseline):
    """Kernel ridge regression on the rows of each group or on all rows, tuned by the leave-one-out error.

    For classification, a logistic regression on the leave-one-out values converts values to probabilities.
    """

    separate: ClassVar[bool]

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray, exposure: np.ndarray) -> None:
        Y, codes, best = self._outputs(y), groups[0], np.inf
        blocks = [np.flatnonzero(codes == t) for t in range(len(self.tasks_))] if self.separate else [np.arange(len(X))]
        widths = (None, *WIDTHS) if X.shape[1] else (None,)
        of_widths = {width: [self._landmarks(X[rows], width) for rows in blocks] for width in widths}
        for setting in product(widths, (0.0,) if self.separate else GROUP_WEIGHTS):
            maps = of_widths[setting[0]]
            found = np.full((len(PENALTIES), *Y.shape), np.nan)
            for rows, landmarks in zip(blocks, maps, strict=True):
                if len(rows) > 1:
                    F = self._features(X[rows], [g[rows] for g in groups], landmarks, setting[1])
                    found[:, rows] = leave_one_out(F, Y[rows], PENALTIES)
            errors = np.nansum((found - Y) ** 2, axis=(1, 2))
            if errors.min() < best:
                best, chosen = errors.min(), int(errors.argmin())
                self.maps_, self.weight_, self.penalty_, left_out = maps, setting[1], PENALTIES[chosen], found[chosen]
        self.mean_ = Y.mean(axis=0)
        self.models_ = [
            Ridge(self.penalty_).fit(self._features(X[rows], [g[rows] for g in groups], maps, self.weight_), Y[rows])
            for rows, maps in zip(blocks, self.maps_, strict=True)
        ]
        if self.classification:
            known = np.isfinite(left_out).all(axis=1)
            # With too few rows of some class, values of 1 and -1 mean near certainty.
            enough = len(np.unique(y[known])) == len(self.classes_)
            self.link_ = LogisticRegression(C=10.0).fit(*((left_out[known], y[known]) if enough else (Y, y)))

    def _landmarks(self, X: np.ndarray, width: float | None) -> Nystroem | None:
        """Return the map of a Gaussian kernel to features; None for a linear kernel."""
        if width is None:
            return None
        count, gamma = min(LANDMARKS, len(X)), 0.5 / (width**2 * X.shape[1])
        return Nystroem(gamma=gamma, n_components=count, random_state=self.random_state).fit(X)

    def _features(self, X: np.ndarray, groups: list[np.ndarray], landmarks: Any, weight: float) -> np.ndarray:
        """Return columns, Gaussian kernel features, and group columns of 0 and `weight`; zeros for a new group."""
        parts = [X / np.sqrt(max(X.shape[1], 1))]
        if landmarks is not None:
            parts.append(landmarks.transform(X))
        for codes, known in zip(groups if weight else (), self.groupings_.values(), strict=False):
            size = min(len(known), GROUP_COLUMNS)
            columns = np.vstack([weight * np.eye(size), np.zeros(size)])
            parts.append(columns[np.where(codes >= 0, codes % size, size)])
        # The column of zeros ensures that there is at least one feature.
        return np.hstack([*parts, np.zeros((len(X), 1))])

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        blocks = groups[0] if self.separate else np.zeros(len(X), dtype=np.intp)
        values = np.tile(self.mean_, (len(X), 1))
        for t in np.unique(blocks[blocks >= 0]).tolist():
            rows = np.flatnonzero(blocks == t)
            F = self._features(X[rows], [g[rows] for g in groups], self.maps_[t], self.weight_)
            values[rows] = self.models_[t].predict(F).reshape(len(rows), -1)
        return self.link_.predict_proba(values) if self.classification else values[:, 0]


class SeparateModels(_KernelRidge):
    """A separate model for each group: kernel ridge on the rows of the group alone.

    The kernel (linear, or linear and Gaussian) and the penalty are chosen for all groups together, by the leave-one-out
    error. A group with one row predicts its target; a new group predicts the mean of all rows.
    """

    separate = True


class OneModel(_KernelRidge):
    """One model for all groups, with the group as columns of 0 and 1: kernel ridge on all rows.

    The kernel (linear, or linear and Gaussian), the weight of the group columns and the penalty minimise the
    leave-one-out error. More than 300 rows are represented by 300 landmarks; more than 500 groups share columns.
    """

    separate = False


def leave_one_out(F: np.ndarray, Y: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Return leave-one-out values (P, n, r) of ridge regressions with an intercept on features (n, m)."""
    (n, m), mean = F.shape, Y.mean(axis=0)
    F = F - F.mean(axis=0)
    squares, U = eigh(F.T @ F if m < n else F @ F.T)
    kept = squares > 1e-10 * max(squares[-1], 1e-300)
    squares, U = squares[kept], U[:, kept]
    if m < n:
        U = F @ (U / np.sqrt(squares))
    shrink = squares / (squares + penalties[:, None])
    fitted = mean + np.einsum("nk,pk,kr->pnr", U, shrink, U.T @ (Y - mean), optimize=True)
    leverage = 1.0 / n + shrink @ np.square(U).T
    return Y - (Y - fitted) / np.maximum(1.0 - leverage, 1e-6)[:, :, None]


class LinearMixedModel(Baseline):
    """A linear mixed model: a level and linear slopes for each group, with variances by maximum evidence.

    Two classes use a logistic likelihood, counts that of Kin; more classes use regression on class indicators. Further
    groupings have levels only. A new group uses the coefficients common to all groups.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.relations import LinearMixedModel
    >>> X, groups = np.tile(np.arange(9.0), 3)[:, None], np.repeat(["a", "b", "c"], 9)
    >>> y = X[:, 0] + np.repeat([0.0, 5.0, 10.0], 9)
    >>> LinearMixedModel().fit(X, y, groups).predict(X[:2], ["b", "new"]).round()
    array([5., 6.])
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray, exposure: np.ndarray) -> None:
        Y, offset = self._outputs(y), None
        likelihood: Any = LOSSES[self.loss].likelihood()
        self.location_, self.spread_ = 0.0, 1.0
        if self.of_counts_:
            Y = Y * exposure[:, None]
            self.location_ = float(np.log(max(Y.sum(), 0.5) / exposure.sum()))
            offset = np.log(exposure) + self.location_
        elif not self.classification:
            self.location_, self.spread_ = float(Y.mean()), float(Y.std()) or 1.0
        elif len(self.classes_) == 2:
            Y, likelihood = (Y + 1.0) / 2.0, Bernoulli()
        else:
            likelihood = LabelRegression()
        z = Y if self.of_counts_ else (Y - self.location_) / self.spread_
        sizes = tuple(map(len, self.groupings_.values()))
        data = MixedData(X, tuple(groups), sizes, z, np.ones(len(X)), np.arange(X.shape[1]), offset=offset)
        self.fitted_ = FittedStructure(Structure("slopes"), data, likelihood)

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        mean, variance = self.fitted_.predict(X, groups)
        if self.of_counts_:
            found = self.fitted_.likelihood.mean(mean + self.location_, variance + self.fitted_.model.noise_)
            return found[:, 0]
        if not self.classification:
            return self.location_ + self.spread_ * mean[:, 0]
        p = self.fitted_.likelihood.mean(mean, variance)
        p = np.hstack([1.0 - p, p]) if len(self.classes_) == 2 else p
        return p / p.sum(axis=1, keepdims=True)


class GradientBoosting(Baseline):
    """Gradient boosting on all rows with the group as a category, by LightGBM if installed, else scikit-learn.

    scikit-learn's trees ignore categories with fewer than ten rows, so there the group is replaced by its mean target
    or the frequencies of classes (`TargetEncoder`). The number of trees, their size and (LightGBM) the smoothing of
    groups are chosen by 4-fold cross-validation, with the squared error, the log loss, or the deviance of counts.
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray, exposure: np.ndarray) -> None:
        Z, errors = np.column_stack([*groups, X]), dict[Any, float]()
        # Each fold has targets of all sizes or classes; the only row of a class is never held out.
        folds, order = np.empty(len(y), dtype=np.intp), np.random.RandomState(self.random_state).permutation(len(y))
        folds[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % FOLDS
        if self.classification:
            folds[np.bincount(y)[y] == 1] = -1
        for setting in product(LEAVES, SMOOTHING if find_spec("lightgbm") else SMOOTHING[:1]):
            loss = np.zeros(len(TREES))
            for k in range(FOLDS) if len(y) >= 2 * FOLDS else ():
                held, kept = folds == k, folds != k
                model = self._trees(Z[kept], y[kept], exposure[kept], *setting, TREES[-1])
                # Predictions with each number of trees.
                name = "predict_proba" if self.classification else "predict"
                if hasattr(model, "booster_"):
                    stages = {count: getattr(model, name)(Z[held], num_iteration=count) for count in TREES}
                else:
                    parts = getattr(model[-1], f"staged_{name}")(model[:-1].transform(Z[held]))
                    stages = dict(enumerate(parts, start=1))
                for i, found in enumerate(stages[count] for count in TREES):
                    if self.classification:
                        loss[i] -= np.log(np.maximum(found[np.arange(len(found)), y[held]], 1e-12)).sum()
                    else:
                        e = exposure[held]
                        loss[i] += LOSSES[self.loss].likelihood().loss(e * y[held], e * found).sum()
            errors |= {(*setting, count): each for count, each in zip(TREES, loss.tolist(), strict=True)}
        self.model_ = self._trees(Z, y, exposure, *min(errors, key=errors.__getitem__))

    def _trees(
        self, Z: np.ndarray, y: np.ndarray, exposure: np.ndarray, leaves: int, smoothing: float, count: int
    ) -> Any:
        """Return fitted trees; rates with their exposures as weights have the deviance of counts."""
        kind, places = "Classifier" if self.classification else "Regressor", list(range(len(self.groupings_)))
        if find_spec("lightgbm") is not None:
            import lightgbm

            # LightGBM's default for min_data_per_group suits groups with hundreds of rows.
            small = {"min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": smoothing, "verbosity": -1}
            sizes = {"n_estimators": count, "num_leaves": leaves, "random_state": self.random_state, "n_jobs": 1}
            sizes |= {"objective": "poisson"} if self.of_counts_ and y.any() else {}
            trees = getattr(lightgbm, f"LGBM{kind}")(**sizes, **small)
            return trees.fit(Z, y, sample_weight=exposure, categorical_feature=places)
        from sklearn import compose, ensemble, pipeline, preprocessing

        sizes = {"max_iter": count, "max_leaf_nodes": leaves, "random_state": self.random_state}
        sizes |= {"loss": "poisson"} if self.of_counts_ and y.any() else {}
        trees = getattr(ensemble, f"HistGradientBoosting{kind}")(min_samples_leaf=5, early_stopping=False, **sizes)
        target = "multiclass" if self.classification and len(self.classes_) > 2 else "continuous"
        # The encoder needs rows of every class in each of its folds.
        cv = 2 if self.classification and np.bincount(y).min() < 2 * FOLDS else 5
        means = preprocessing.TargetEncoder(
            target_type=target, smooth=1.0, cv=cv, shuffle=True, random_state=self.random_state
        )
        first = compose.ColumnTransformer([("means", means, places)], remainder="passthrough")
        found = pipeline.Pipeline([("encode", first if len(y) >= 2 * FOLDS else "passthrough"), ("trees", trees)])
        return found.fit(Z, y, trees__sample_weight=exposure)

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        # Both libraries treat the code -1 of a new group as unknown.
        Z = np.column_stack([*groups, X])
        return self.model_.predict_proba(Z) if self.classification else self.model_.predict(Z)


BASELINES = {SEPARATE: SeparateModels, ONE_FOR_ALL: OneModel, LINEAR: LinearMixedModel, BOOSTING: GradientBoosting}


def make_baselines(
    classification: bool, names: Any = None, random_state: int = 0, loss: str = "squared"
) -> dict[str, Baseline]:
    """Return unfitted baselines by name: all of `BASELINES`, or those in `names`."""
    names = list(BASELINES if names is None else names)
    for name in names:
        if name not in BASELINES:
            raise ValueError(f"no baseline is named {name!r}; there are: {'; '.join(BASELINES)}")
    return {name: BASELINES[name](classification, random_state, loss) for name in names}
