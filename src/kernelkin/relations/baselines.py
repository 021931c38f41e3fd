"""Models that people know, to compare others with: one class each, with `fit(X, y, tasks)` and `predict(X, tasks)`.

They take arrays and tables, groups of one row or one class, and groups that were not in training. What they tune, they
tune inside the rows that they are given.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ..data.checks import read_groupings
from ..decompositions import eigh
from ..mixed import Bernoulli, FittedStructure, Gaussian, MixedData, Structure
from ..mixed.likelihoods import LabelRegression
from ..tables import TableEncoder

SEPARATE = "a separate model for each group"
ONE_FOR_ALL = "one model for all, group as a column"
LINEAR = "a linear mixed model"
BOOSTING = "gradient boosting"
KIN = "Kin"

# Smooth kernels: Gaussians of these widths, relative to the root of the number of standardised columns.
WIDTHS = (0.5, 1.0, 2.0, 4.0)
# The last penalty leaves the mean alone.
PENALTIES = np.append(np.logspace(-3.0, 3.0, 13), 1e9)
GROUP_WEIGHTS = (0.3, 1.0, 3.0)
LANDMARKS, GROUP_COLUMNS = 300, 500
# Boosting: trees at most, and the sizes of trees and the weights of small groups that are tried.
TREES, RATE, LEAVES, SMOOTHING, FOLDS = 200, 0.1, (4, 16), (1.0, 10.0, 100.0), 4
MANY_ROWS = 20_000


class Baseline(BaseEstimator):
    """A model of rows in groups.

    Parameters
    ----------
    classification : bool, default False
        Whether targets are classes.
    random_state : int, default 0
        Seed of landmarks, folds and trees.

    Attributes
    ----------
    tasks_ : array of shape (T,)
        The groups.
    classes_ : array of shape (C,)
        The classes, for classification.
    """

    def __init__(self, classification=False, random_state=0):
        self.classification = classification
        self.random_state = random_state

    def fit(self, X: Any, y: Any, tasks: Any) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, d), or a table
        y : array of shape (n,)
        tasks : array of shape (n,), or a table with a column for each grouping
            The group of each row; of several groupings the first counts (a linear mixed model uses all).

        Returns
        -------
        self : object
        """
        plain = isinstance(X, np.ndarray) and X.dtype.kind in "fiub" and bool(np.isfinite(X).all())
        self.encoder_ = None if plain else TableEncoder().fit(X)
        columns = self._columns(X)
        self.center_, spread = columns.mean(axis=0), columns.std(axis=0)
        self.scale_ = np.where(spread > 1e-12 * np.maximum(np.abs(self.center_), 1e-300), spread, 1.0)
        self.groupings_ = [np.unique(labels) for labels in read_groupings(tasks).values()]
        self.tasks_ = self.groupings_[0]
        y = np.asarray(y).ravel()
        if self.classification:
            self.classes_, y = np.unique(y, return_inverse=True)
            if len(self.classes_) == 1:
                return self
        # Small problems are solved faster by one thread.
        with threadpool_limits(1 if len(y) < MANY_ROWS else None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._fit((columns - self.center_) / self.scale_, self._codes(tasks), y)
        return self

    def predict(self, X: Any, tasks: Any) -> np.ndarray:
        """Return means of targets, or the most probable class, of each row (q,); groups may be new."""
        if self.classification:
            return self.classes_[self.predict_proba(X, tasks).argmax(axis=1)]
        return self._values(X, tasks)

    def predict_proba(self, X: Any, tasks: Any) -> np.ndarray:
        """Return the probabilities (q, C) of the classes."""
        check_is_fitted(self, "classes_")
        if len(self.classes_) == 1:
            return np.ones((len(X), 1))
        return self._values(X, tasks)

    def _values(self, X: Any, tasks: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._predict((self._columns(X) - self.center_) / self.scale_, self._codes(tasks))

    def _columns(self, X: Any) -> np.ndarray:
        return np.asarray(X, dtype=np.float64) if self.encoder_ is None else self.encoder_.transform(X)

    def _codes(self, tasks: Any) -> list[np.ndarray]:
        """The position of each row's group in every grouping; -1 for groups that were not in training."""
        found = []
        for known, labels in zip(self.groupings_, read_groupings(tasks).values(), strict=True):
            place = {label: k for k, label in enumerate(known.tolist())}
            found.append(np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.intp))
        return found

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray) -> None:
        """Learn from standardised columns, codes of groups, and targets or codes of classes."""
        raise NotImplementedError

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        """Means (q,), or probabilities (q, C)."""
        raise NotImplementedError

    def _outputs(self, y: np.ndarray) -> np.ndarray:
        """Targets (n, 1), or 1 and -1 for classes: one column for two classes, else one for each."""
        if not self.classification:
            return y[:, None].astype(np.float64)
        wanted = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return np.where(y[:, None] == np.array(wanted), 1.0, -1.0)


class _RidgeBaseline(Baseline):
    """Kernel ridge regression; kernel and penalty have the least leave-one-out error.

    Classes are regressed on, and a logistic regression on leave-one-out values turns values into probabilities.
    """

    def _read_link(self, left_out: np.ndarray, y: np.ndarray) -> None:
        if self.classification:
            known = np.isfinite(left_out).all(axis=1)
            # Without enough rows of two classes, values of 1 and -1 are nearly certain.
            is_known = len(np.unique(y[known])) == len(self.classes_)
            rows = (left_out[known], y[known]) if is_known else (self._outputs(y), y)
            self.link_ = LogisticRegression(C=10.0).fit(*rows)

    def _linked(self, values: np.ndarray) -> np.ndarray:
        return self.link_.predict_proba(values) if self.classification else values[:, 0]


class SeparateModels(_RidgeBaseline):
    """A separate model for each group: kernel ridge on the rows of the group alone.

    The kernel (linear, or linear and Gaussian) and the penalty are chosen for all groups together, by the leave-one-out
    error. A group of one row has its target; a new group has the mean of all rows.

    Parameters
    ----------
    classification : bool, default False
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.relations import SeparateModels
    >>> X, groups = np.arange(6.0)[:, None], np.repeat(["a", "b"], 3)
    >>> SeparateModels().fit(X, np.array([0.0, 1, 2, 7, 8, 9]), groups).predict(X[:1], ["b"]).round()
    array([4.])
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray) -> None:
        Y, T = self._outputs(y), len(self.tasks_)
        self.rows_ = [np.flatnonzero(groups[0] == t) for t in range(T)]
        best = np.inf
        for width in (None, *WIDTHS) if X.shape[1] else (None,):
            features = [_Features(X[rows], width, self.random_state) for rows in self.rows_]
            left_out = np.full((len(PENALTIES), *Y.shape), np.nan)
            for rows, part in zip(self.rows_, features, strict=True):
                if len(rows) > 1:
                    left_out[:, rows] = leave_one_out(part(X[rows]), Y[rows], PENALTIES)
            errors = np.nansum((left_out - Y) ** 2, axis=(1, 2))
            if errors.min() < best:
                best, chosen = errors.min(), int(errors.argmin())
                self.features_, self.penalty_, kept = features, float(PENALTIES[chosen]), left_out[chosen]
        self.solutions_ = [
            solve_ridge(part(X[rows]), Y[rows], self.penalty_)
            for rows, part in zip(self.rows_, self.features_, strict=True)
        ]
        self.mean_ = Y.mean(axis=0)
        self._read_link(kept, y)

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        values = np.tile(self.mean_, (len(X), 1))
        for t in np.unique(groups[0][groups[0] >= 0]).tolist():
            rows = np.flatnonzero(groups[0] == t)
            coefficients, intercept = self.solutions_[t]
            values[rows] = self.features_[t](X[rows]) @ coefficients + intercept
        return self._linked(values)


class OneModel(_RidgeBaseline):
    """One model for all groups, with the group as columns of 0 and 1: kernel ridge on all rows.

    The kernel (linear, or linear and Gaussian), the weight of the columns of groups and the penalty have the least
    leave-one-out error. More than 300 rows are represented by 300 landmarks; more than 500 groups share columns.

    Parameters
    ----------
    classification : bool, default False
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.relations import OneModel
    >>> X, groups = np.tile(np.arange(9.0), 2)[:, None], np.repeat(["a", "b"], 9)
    >>> y = X[:, 0] + np.where(groups == "b", 5.0, 0.0)
    >>> OneModel().fit(X, y, groups).predict(X[:1], ["b"]).round()
    array([5.])
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray) -> None:
        Y, indicators, best = self._outputs(y), self._indicators(groups[0]), np.inf
        for width in (None, *WIDTHS) if X.shape[1] else (None,):
            features = _Features(X, width, self.random_state)
            columns = features(X)
            for weight in GROUP_WEIGHTS:
                left_out = leave_one_out(np.hstack([columns, weight * indicators]), Y, PENALTIES)
                errors = ((left_out - Y) ** 2).sum(axis=(1, 2))
                if errors.min() < best:
                    best, chosen = errors.min(), int(errors.argmin())
                    self.features_, self.weight_, kept = features, weight, left_out[chosen]
                    self.penalty_ = float(PENALTIES[chosen])
        design = np.hstack([self.features_(X), self.weight_ * indicators])
        self.solution_ = solve_ridge(design, Y, self.penalty_)
        self._read_link(kept, y)

    def _indicators(self, codes: np.ndarray) -> np.ndarray:
        """(n, min(T, GROUP_COLUMNS)), zeros for a new group."""
        size = min(len(self.tasks_), GROUP_COLUMNS)
        return np.vstack([np.eye(size), np.zeros(size)])[np.where(codes >= 0, codes % size, size)]

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        coefficients, intercept = self.solution_
        design = np.hstack([self.features_(X), self.weight_ * self._indicators(groups[0])])
        return self._linked(design @ coefficients + intercept)


class _Features:
    """Columns (n, d) -> features whose inner products are a linear kernel, or the sum of it and a Gaussian one."""

    def __init__(self, X: np.ndarray, width: float | None, random_state: int) -> None:
        self.width, self.root = width, np.sqrt(max(X.shape[1], 1))
        if width is not None:
            chosen = np.random.RandomState(random_state).permutation(len(X))[:LANDMARKS]
            self.landmarks = X[np.sort(chosen)]
            values, vectors = eigh(self._gaussian(self.landmarks))
            kept = values > 1e-8 * values[-1]
            self.map = vectors[:, kept] / np.sqrt(values[kept])

    def _gaussian(self, X: np.ndarray) -> np.ndarray:
        return np.exp(-cdist(X, self.landmarks, "sqeuclidean") / (2.0 * (self.width * self.root) ** 2))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        linear = X / self.root
        return linear if self.width is None else np.hstack([linear, self._gaussian(X) @ self.map])


def leave_one_out(F: np.ndarray, Y: np.ndarray, penalties: np.ndarray) -> np.ndarray:
    """Values (P, n, r) of each row by ridge regressions with an intercept on features (n, m) without that row."""
    n = len(F)
    U, squares = _left_vectors(F - F.mean(axis=0))
    mean = Y.mean(axis=0)
    shrink = squares / (squares + penalties[:, None])
    fitted = mean + np.einsum("nk,pk,kr->pnr", U, shrink, U.T @ (Y - mean), optimize=True)
    leverage = 1.0 / n + shrink @ np.square(U).T
    return Y - (Y - fitted) / np.maximum(1.0 - leverage, 1e-6)[:, :, None]


def _left_vectors(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The left singular vectors (n, k) of features (n, m), and the squares of the singular values (k,)."""
    n, m = F.shape
    if m == 0:
        return np.empty((n, 0)), np.empty(0)
    values, vectors = eigh(F.T @ F if m < n else F @ F.T)
    kept = values > 1e-10 * max(values[-1], 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    return (F @ (vectors / np.sqrt(values)) if m < n else vectors), values


def solve_ridge(F: np.ndarray, Y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (m, r) and intercepts (r,) of ridge regression on features (n, m)."""
    center, mean = F.mean(axis=0), Y.mean(axis=0)
    U, squares = _left_vectors(F - center)
    coefficients = (F - center).T @ (U / (squares + penalty)) @ (U.T @ (Y - mean))
    return coefficients, mean - center @ coefficients


class LinearMixedModel(Baseline):
    """A linear mixed model: a level and linear slopes for each group, their variances by maximum evidence.

    Two classes have a logistic likelihood, more are regressed on. Further groupings have levels. A new group has the
    coefficients that all groups share.

    Parameters
    ----------
    classification : bool, default False
    random_state : int, default 0
        Not used.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.relations import LinearMixedModel
    >>> X, groups = np.tile(np.arange(9.0), 3)[:, None], np.repeat(["a", "b", "c"], 9)
    >>> y = X[:, 0] + np.repeat([0.0, 5.0, 10.0], 9)
    >>> LinearMixedModel().fit(X, y, groups).predict(X[:2], ["b", "new"]).round()
    array([5., 6.])
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray) -> None:
        Y = self._outputs(y)
        self.location_, self.spread_ = np.zeros(1), np.ones(1)
        if not self.classification:
            self.location_, self.spread_ = Y.mean(axis=0), np.where(Y.std(axis=0) > 0, Y.std(axis=0), 1.0)
        likelihood = Gaussian() if not self.classification else Bernoulli()
        if self.classification and len(self.classes_) == 2:
            Y = (Y + 1.0) / 2.0
        elif self.classification:
            likelihood = LabelRegression()
        data = MixedData(
            X,
            tuple(groups),
            tuple(map(len, self.groupings_)),
            (Y - self.location_) / self.spread_,
            np.ones(len(X)),
            np.arange(X.shape[1]),
        )
        self.fitted_ = FittedStructure(Structure("slopes"), data, likelihood)

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        mean, variance = self.fitted_.predict(X, groups)
        if not self.classification:
            return (self.location_ + self.spread_ * mean)[:, 0]
        p = self.fitted_.likelihood.mean(mean, variance)
        if len(self.classes_) == 2:
            return np.hstack([1.0 - p, p])
        return p / p.sum(axis=1, keepdims=True)


class GradientBoosting(Baseline):
    """Gradient boosting on all rows, with the group as a category: LightGBM where it is installed, else scikit-learn's.

    The number of trees, their size and (LightGBM) the smoothing of groups are chosen by four folds.

    Parameters
    ----------
    classification : bool, default False
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.relations import GradientBoosting
    >>> X, groups = np.tile(np.arange(20.0), 2)[:, None], np.repeat(["a", "b"], 20)
    >>> y = np.where(X[:, 0] > 9, 4.0, 0.0)
    >>> GradientBoosting().fit(X, y, groups).predict(X[[0, 19]], ["a", "new"]).round()
    array([0., 4.])
    """

    def _fit(self, X: np.ndarray, groups: list[np.ndarray], y: np.ndarray) -> None:
        Z = np.column_stack([np.where(groups[0] >= 0, groups[0], np.nan), X])
        self.uses_lightgbm_ = find_spec("lightgbm") is not None
        smoothing = SMOOTHING if self.uses_lightgbm_ else SMOOTHING[:1]
        candidates = [(leaves, smooth) for leaves in LEAVES for smooth in smoothing]
        splitter = KFold
        if self.classification and np.bincount(y).min() >= FOLDS:
            splitter = StratifiedKFold
        best, chosen, trees = np.inf, candidates[0], TREES // 4
        if len(y) >= 2 * FOLDS:
            folds = list(splitter(FOLDS, shuffle=True, random_state=self.random_state).split(Z, y))
            for candidate in candidates:
                losses = sum(self._losses(candidate, Z, y, *fold) for fold in folds)
                if losses.min() < best:
                    best, chosen, trees = losses.min(), candidate, int(losses.argmin()) + 1
        self.model_ = self._make(chosen, trees).fit(Z, y, **self._options())

    def _make(self, candidate: tuple[int, float], trees: int) -> Any:
        leaves, smooth = candidate
        if self.uses_lightgbm_:
            import lightgbm

            made = lightgbm.LGBMClassifier if self.classification else lightgbm.LGBMRegressor
            return made(
                n_estimators=trees,
                learning_rate=RATE,
                num_leaves=leaves,
                min_child_samples=5,
                # LightGBM's default is for groups with hundreds of rows.
                min_data_per_group=5,
                cat_smooth=smooth,
                n_jobs=1,
                random_state=self.random_state,
                verbosity=-1,
            )
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        # Categories are limited to the number of bins; more groups are an ordered column.
        category = [0] if len(self.tasks_) <= 255 else None
        return (HistGradientBoostingClassifier if self.classification else HistGradientBoostingRegressor)(
            max_iter=trees,
            learning_rate=RATE,
            max_leaf_nodes=leaves,
            min_samples_leaf=5,
            early_stopping=False,
            categorical_features=category,
            random_state=self.random_state,
        )

    def _options(self) -> dict[str, Any]:
        return {"categorical_feature": [0]} if self.uses_lightgbm_ else {}

    def _losses(self, candidate: tuple[int, float], Z: np.ndarray, y: np.ndarray, kept: Any, held: Any) -> np.ndarray:
        """The loss (TREES,) of held-out rows after each tree; rows of classes that are not in training are left out."""
        held = held[np.isin(y[held], y[kept])] if self.classification else held
        model = self._make(candidate, TREES)
        if self.uses_lightgbm_:
            model.fit(Z[kept], y[kept], eval_set=[(Z[held], y[held])], **self._options())
            (path,) = model.evals_result_["valid_0"].values()
            return len(held) * np.array(path)
        model.fit(Z[kept], y[kept])
        if not self.classification:
            return np.array([np.square(y[held] - values).sum() for values in model.staged_predict(Z[held])])
        at = np.arange(len(held)), np.searchsorted(model.classes_, y[held])
        return np.array([-np.log(np.maximum(p[at], 1e-12)).sum() for p in model.staged_predict_proba(Z[held])])

    def _predict(self, X: np.ndarray, groups: list[np.ndarray]) -> np.ndarray:
        Z = np.column_stack([np.where(groups[0] >= 0, groups[0], np.nan), X])
        return self.model_.predict_proba(Z) if self.classification else self.model_.predict(Z)


BASELINES = {
    SEPARATE: SeparateModels,
    ONE_FOR_ALL: OneModel,
    LINEAR: LinearMixedModel,
    BOOSTING: GradientBoosting,
}


def make_baselines(classification: bool, names: Any = None, random_state: int = 0) -> dict[str, Baseline]:
    """Return baselines, unfitted, by their plain names: all of `BASELINES`, or those of `names`."""
    names = list(BASELINES if names is None else names)
    for name in names:
        if name not in BASELINES:
            raise ValueError(f"no baseline is named {name!r}; there are: {'; '.join(BASELINES)}")
    return {name: BASELINES[name](classification, random_state) for name in names}


def how_to_make(name: str, classification: bool = False) -> str:
    """Return the class, and the command where there is one, that makes the model of a plain name."""
    if name == KIN:
        return f"`kernelkin fit`, or kernelkin.{'KinClassifier' if classification else 'KinRegressor'}"
    if name not in BASELINES:
        return name
    return f"kernelkin.relations.{BASELINES[name].__name__}" + ("(classification=True)" if classification else "")
