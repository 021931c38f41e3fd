"""Structures: sets of terms that are fitted to rows and averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .columns import Columns, GroupMeans
from .covariance import HERE, Layout, Place
from .likelihoods import Gaussian, Likelihood
from .model import MixedModel, Part
from .terms import Additive, Constant, Curves, Given, Level, Linear, Smooth, TaskKernel, Term

# Above this many rows (a third of it with an additive term), common terms are features, and each group is a block.
EXACT_ROWS = 300
# Not so up to this many rows if they are fewer than this share of the features of further groupings, which cost more.
MOST_EXACT_ROWS, FEWER_ROWS = 600, 0.7
# Above these numbers of rows, parameters are well determined and fewer evaluations save time.
MORE_ROWS, MANY_ROWS, MOST_ROWS = 1_000, 5_000, 60_000
# Features of a common smooth. Above `MANY_ROWS` rows, parameters are learned with at most `LEARNING_LANDMARKS` of them,
# since every evaluation costs the square of their number and parameters hardly depend on it; predictions do.
LANDMARKS, FEWER_LANDMARKS, MORE_LANDMARKS, LEARNING_LANDMARKS = 150, 100, 1_000, 300
KNOTS = 12
# Columns with fewer distinct values have slopes in further groupings, but no curves.
CURVE_VALUES = 6


@dataclass(frozen=True)
class Structure:
    """A set of terms. Every structure also has a level for each group and a linear part common to all groups."""

    name: str  # the name in results
    slopes: bool = True  # a linear function for each group
    common: bool = False  # a smooth function of all columns, common to all groups
    own: bool = False  # a smooth function of all columns for each group
    two_lengths: bool = False  # whether the common and the own smooth have different length scales
    additive: bool = False  # a smooth function of each column, common to all groups
    own_additive: bool = False  # a smooth function of each column for each group
    further: bool = False  # a linear function for each group of further groupings
    curves: tuple[int, ...] = ()  # the further groupings whose groups have a smooth function of each column
    means: bool = False  # common functions also depend on the means of columns in the group; needs `two_lengths`
    rho: float = 0.2  # strength of the prior on the parameters
    clip: bool = True  # whether columns with outliers are clipped
    sparse: bool = True  # whether variances may vanish, if the likelihood has a `sparsity`


STRUCTURES = (
    Structure("common and own smooth", slopes=False, common=True, own=True),
    Structure("slopes"),
    Structure("slopes and own smooth", own=True),
    Structure("slopes, additive and own smooth", own=True, additive=True),
    Structure("common and own smooth, loose", slopes=False, common=True, own=True, rho=0.02, clip=False),
    Structure("slopes and own additive, loose", own_additive=True, rho=0.02, clip=False),
)
# Additional structures if there are several groupings.
FURTHER_STRUCTURES = (
    Structure("slopes of all groupings", further=True),
    Structure("slopes of all groupings and common smooth", common=True, further=True),
)
# Another one, for the groupings with enough rows for each group.
FURTHER_CURVES = Structure("slopes and curves of all groupings", own=True, additive=True, further=True)
# Another one, for effects of groups and likelihoods with a `sparsity`: slopes that vanish have no errors.
NOT_SPARSE = Structure("slopes, not sparse", sparse=False)
# Structures for more than `MANY_ROWS` rows.
_LOOSE = replace(STRUCTURES[4], name="slopes, common and own smooth, loose", slopes=True, two_lengths=True)
_MEANS = replace(_LOOSE, name="slopes, common and own smooth, means of groups, loose", means=True)
FEW_STRUCTURES = (_LOOSE, _MEANS, STRUCTURES[3])


@dataclass(frozen=True)
class MixedData:
    """Training rows of mixed models."""

    X: np.ndarray  # (N, d) numbers
    groups: tuple[np.ndarray, ...]  # codes (N,) of each grouping; a single grouping of zeros if there are no groups
    n_groups: tuple[int, ...]  # number of groups of each grouping
    # (N, r) targets: numbers in standard units, 0 and 1 for two classes, -1 and 1 for more classes or wide labels, or
    # counts. Several columns are classes or, with `wide`, tasks on the same rows.
    z: np.ndarray
    weight: np.ndarray  # (N,) weights of rows
    of_column: np.ndarray  # (d,) the family of each column
    wide: bool = False  # whether the columns of z are tasks
    offset: np.ndarray | None = None  # (N,) added to the function inside the likelihood
    kernels: tuple[np.ndarray, ...] = ()  # values (N, N) of user-supplied kernels
    # (G, T) kernels between all groups of the first grouping (those without rows last) and the T training groups.
    task_kernels: tuple[np.ndarray, ...] = ()

    @property
    def n_rows(self) -> int:
        return len(self.X)

    @property
    def blocks(self) -> np.ndarray:
        """The block (N,) of each row with many rows: its group, or the row alone if there is one group."""
        return self.groups[0] if self.wide or self.n_groups[0] > 1 else np.arange(self.n_rows)

    def take(self, rows: np.ndarray) -> MixedData:
        """Return some of the rows."""
        return replace(
            self,
            X=self.X[rows],
            groups=tuple(part[rows] for part in self.groups),
            z=self.z[rows],
            weight=self.weight[rows],
            offset=None if self.offset is None else self.offset[rows],
            kernels=tuple(kernel[np.ix_(rows, rows)] for kernel in self.kernels),
        )


class FittedStructure:
    """A structure fitted to rows; `predict` returns function values in the units of z.

    Attributes
    ----------
    model : the model with its parameters.
    columns : the standardisation of columns.
    means : the means of columns in each group; None if the structure does not use them.
    """

    def __init__(
        self,
        structure: Structure,
        data: MixedData,
        likelihood: Likelihood | None = None,
        *,
        evaluations: int = 50,
        start: np.ndarray | None = None,
        deadline: float = np.inf,
        n_features: int | None = None,
        place: Place = HERE,
    ):
        self.structure, self.wide, self.n_outputs = structure, data.wide, data.z.shape[1]
        self.likelihood: Any = Gaussian() if likelihood is None else likelihood
        self.columns = Columns.fit(data.X, structure.clip, data.of_column, data.weight)
        X = self.columns(data.X)
        of = of_common = self.columns.families(data.of_column)
        self.means = None
        if structure.means and self.columns.axes is None and not data.wide:
            self.means = GroupMeans.fit(X, data.groups[0], data.n_groups[0], of, data.weight)
            X = self.means(X, data.groups[0])
            of_common = np.concatenate([of, of + of.max() + 1])
        n_landmarks = count_features(len(X)) if n_features is None else n_features
        # With an additive term, features at a few knots are cheaper than a matrix of all rows for each column.
        limit = EXACT_ROWS // 3 if structure.additive else EXACT_ROWS
        exact = data.wide or bool(data.kernels) or len(X) <= limit
        if not exact and len(X) <= MOST_EXACT_ROWS and not data.task_kernels:
            features = sum(term.n_sparse for term in self._terms(X, of, of_common, data, False, n_landmarks))
            exact = len(X) < FEWER_ROWS * features
        groups = data.groups
        layout = Layout.dense(X, groups, data.kernels, place) if exact else Layout.blocks(X, groups, place, data.blocks)
        steps = [(n_landmarks, evaluations)]
        if evaluations and n_landmarks > LEARNING_LANDMARKS and structure.common and not exact:
            steps = [(LEARNING_LANDMARKS, evaluations), (n_landmarks, 0)]
        value = np.nan
        for count, most in steps:
            terms = self._terms(X, of, of_common, data, exact, count)
            self.model = MixedModel(terms, structure.rho, self.likelihood, structure.sparse)
            start = self.model.fit(self._parts(layout, data), most, start, deadline).x_
            # The evidence is that of the fit that learned the parameters.
            value = self.model.value_ = self.model.value_ if most else value

    def _terms(
        self, X: np.ndarray, of: np.ndarray, of_common: np.ndarray, data: MixedData, exact: bool, n_landmarks: int
    ) -> list[Term]:
        """Return the terms; `of` are the families of columns in terms of groups, `of_common` those in common terms."""
        structure = self.structure
        grouped = data.wide or data.n_groups[0] > 1
        terms: list[Term] = [Constant()]
        for g, n_groups in enumerate(data.n_groups):
            if n_groups > 1 or data.wide:
                blocked = g > 0 and not exact
                terms.append(Level(g, n_groups if blocked else 0, name="level" if g == 0 else f"level {g + 1}"))
        if X.shape[1]:
            terms.append(Linear(of_common))
            if structure.slopes and grouped:
                terms.append(Linear(of, 0, name="slopes"))
            for g, n_groups in enumerate(data.n_groups[1:] if structure.further else (), start=1):
                if n_groups > 1:
                    terms.append(Linear(of, g, 0 if exact else n_groups, name=f"slopes {g + 1}"))
            for g in structure.curves:
                columns = columns_with_curves(X)
                ends = {"low": X[:, columns].min(0), "high": X[:, columns].max(0)}
                n_groups, name = 0 if exact else data.n_groups[g], f"own additive {g + 1}"
                terms.append(Curves(of, g, n_groups, name, columns=columns, **ends))
            if structure.common or (structure.own and grouped):
                landmarks = None if exact or not structure.common else choose_landmarks(X, n_landmarks)
                own = structure.own and grouped
                shared = own and not structure.two_lengths
                terms.append(Smooth(of if shared else of_common, 0, structure.common, shared, landmarks))
                if own and structure.two_lengths:
                    terms.append(Smooth(of, 0, common=False, name="own smooth"))
            if structure.additive:
                knots = () if exact else tuple(choose_knots(X[:, j]) for j in range(X.shape[1]))
                terms.append(Additive(of, knots))
            if structure.own_additive and grouped:
                terms.append(Additive(of, grouping=0, name="own additive"))
        for k in range(len(data.kernels)):
            terms.append(Given(k, own=grouped, share=1.0 / len(data.kernels), name=f"kernel {k + 1}"))
        for k, values in enumerate(data.task_kernels):
            smooth = exact and X.shape[1] > 0 and (structure.common or structure.own)
            terms.append(TaskKernel(values, of, smooth, name=f"task features {k + 1}"))
        return terms

    def _parts(self, layout: Layout, data: MixedData) -> list[Part]:
        offset: Any = 0.0 if data.offset is None else data.offset
        if not data.wide and self.likelihood.has_noise:
            return [Part(layout, data.z, data.weight, float(data.z.shape[1]), offset)]
        if not data.wide:
            return [Part(layout, column[:, None], data.weight, 1.0, offset) for column in data.z.T]
        # For tasks on the same rows, the scaled mean over tasks has T times the variance of the common part.
        # Differences from the mean contain own parts only.
        T = data.z.shape[1]
        mean = data.z.mean(1, keepdims=True)
        parts = [Part(_with_sharing(layout, float(T)), np.sqrt(T) * mean, data.weight, 1.0)]
        if T > 1:
            parts.append(Part(_with_sharing(layout, 0.0), data.z - mean, data.weight, T - 1.0))
        return parts

    def predict(
        self, X: np.ndarray, groups: Sequence[np.ndarray], kernels: Sequence[np.ndarray] = (), variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (q, r) at rows (q, d) with group codes (q,); zeros without `variance`."""
        X = self.columns(X) if self.means is None else self.means(self.columns(X), groups[0])
        found = [self.model.predict(X, groups, kernels, part, variance) for part in range(len(self.model.parts))]
        variances = [np.zeros(len(X)) if v is None else v for _, v in found]
        if not self.wide:
            means = np.hstack([mean for mean, _ in found])
            return means, np.broadcast_to(np.stack(variances, axis=1), means.shape)
        T = self.n_outputs
        means, total = found[0][0] / np.sqrt(T) + np.zeros(T), variances[0] / T
        if T > 1:
            means, total = means + found[1][0], total + variances[1] * (1.0 - 1.0 / T)
        return means, np.repeat(total[:, None], T, axis=1)


def _with_sharing(layout: Layout, sharing: float) -> Layout:
    return replace(layout, pairs=tuple(replace(pairs, sharing=sharing) for pairs in layout.pairs))


def count_features(n_rows: int) -> int:
    """Return the default number of features of a common smooth."""
    if MANY_ROWS < n_rows <= MOST_ROWS:
        return MORE_LANDMARKS
    return FEWER_LANDMARKS if MORE_ROWS < n_rows <= MANY_ROWS else LANDMARKS


def landmark_count(fitted: FittedStructure) -> int:
    """Return the number of features that represent the common smooth; 0 if it is exact, or there is none."""
    found = [term.n_dense for term in fitted.model.terms if isinstance(term, Smooth)]
    return max(found, default=0) if fitted.model.parts[0].layout.by_features else 0


def columns_with_curves(X: np.ndarray) -> np.ndarray:
    """Return the positions (c,) of the columns that may have a smooth function for each group."""
    return np.flatnonzero([len(np.unique(column)) >= CURVE_VALUES for column in X.T])


def choose_landmarks(X: np.ndarray, count: int) -> np.ndarray:
    """Return at most `count` distinct rows (m, d), drawn at random."""
    distinct = np.unique(X, axis=0)
    if len(distinct) <= count:
        return distinct
    return distinct[np.random.RandomState(0).permutation(len(distinct))[:count]]


def choose_knots(x: np.ndarray, count: int = KNOTS) -> np.ndarray:
    """Return at most `count` distinct quantiles of a column (N,)."""
    distinct = np.unique(x)
    if len(distinct) <= count:
        return distinct
    return np.unique(np.quantile(distinct, np.linspace(0.0, 1.0, count)))
