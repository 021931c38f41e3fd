"""What fitted structures say: shares of variance by term and by column, and contrasts between groups.

The variance of a term common to all groups is that of its posterior mean over the training rows. (Its prior variance is
not used: a smooth function with a large prior variance and long length scales can be flat.) The variance of a term of
groups is its prior variance, since each group has its own function. The part that shifts the whole function of a group,
averaged over training rows, counts as a level for smooth and additive terms.

A functional is a row of a matrix A (k, q): a weighted sum of the values of a function at q rows, such as its mean or
its slope. The function of a group includes the part common to all groups. `GroupPosterior` computes the posterior mean
and variance of contrasts between the functionals of groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..decompositions import pseudo_inverse, solve_symmetric
from .batch import covariance
from .rows import Pairs, Rows, take
from .structures import FittedStructure, MixedData
from .terms import Curves, Given, Linear, Smooth, TaskKernel, Term

NOISE = "noise"
# Maximum number of rows that are used to compute variances.
SAMPLE = 300
# Number of contrasts, and of training rows, that are computed at a time.
CONTRASTS, CHUNK = 64, 100


def training_rows(fitted: FittedStructure) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the training rows (N, d) in standard units, and their codes (N,) in each grouping."""
    layout = fitted.model.parts[0].layout
    X = np.empty((layout.n_rows, layout.pairs[0].A.X.shape[2]))
    codes = [np.empty(layout.n_rows, dtype=np.intp) for _ in layout.pairs[0].A.groups]
    for table, pairs in zip(layout.tables, layout.pairs, strict=True):
        there = table >= 0
        X[table[there]] = pairs.A.X[there]
        for part, own in zip(codes, pairs.A.groups, strict=True):
            part[table[there]] = own[there]
    return X, codes


def mean_and_slopes(X: np.ndarray, weight: np.ndarray, at: Any, columns: Any) -> np.ndarray:
    """Return the functionals (1 + c, q) of the rows `at` of X (n, d): the mean, and slopes along these columns (c,).

    The slopes are those of the closest linear function of all columns. Weights of the mean move it to the means of the
    columns over all rows, so that it has no error in what is linear.
    """
    own = weight[at] / weight[at].sum()
    root, centre = np.sqrt(own)[:, None], own @ X[at]
    Z = root * (X[at] - centre)
    ridge = np.eye(len(Z)) / len(Z)  # below the precision of the means of q rows; there may be more columns than rows
    shift = solve_symmetric(Z @ Z.T + ridge, Z @ (weight @ X / weight.sum() - centre))
    return np.vstack([own + root[:, 0] * shift, (pseudo_inverse(Z, 1e-8) * root.T)[columns]])


class GroupPosterior:
    """Posterior of functionals of the functions of all groups of a grouping.

    Parameters
    ----------
    fitted : the structure; its targets have one column.
    grouping : the number of the grouping. Groups of other groupings count as unknown.
    Q : (b, q, d) batches of rows in standard units.
    A : (b, k, q) functionals of each batch; their values have b k columns.
    at : (b, q) positions of Q among the training rows, needed for user-supplied kernels.
    """

    def __init__(
        self, fitted: FittedStructure, grouping: int, Q: np.ndarray, A: np.ndarray, at: np.ndarray | None = None
    ):
        self.model, self.layout, self.A = fitted.model, fitted.model.parts[0].layout, A
        self.X, groups = training_rows(fitted)
        self.codes, self.solved = groups[grouping], self.model.solved[0]
        self.kernels = [term for term in self.model.terms if isinstance(term, TaskKernel)] if grouping == 0 else []
        asked = [_codes(Q, len(groups), group) for group in (None, grouping)]
        inner = replace(self.layout.pairs[0], sharing=1.0)
        priors, cross = [], []
        for terms, codes in self._parts(*asked):
            priors.append(((A @ _prior(terms, self.model.p_, Rows(Q, codes), Q, inner, (at, at))) * A).sum(2).ravel())
            cross.append(np.empty((len(priors[-1]), len(self.X))))
            for begin in range(0, len(self.X), CHUNK):
                rows = np.arange(begin, min(begin + CHUNK, len(self.X)))
                X = np.broadcast_to(self.X[rows], (len(Q), len(rows), Q.shape[2]))
                found = A @ _prior(terms, self.model.p_, Rows(Q, codes), X, inner, (at, rows))
                cross[-1][:, rows] = found.reshape(-1, len(rows))
        self.prior_common, self.prior_own, *self.prior_kernels = priors[0], priors[1] - priors[0], *priors[2:]
        self.common, self.own, *self.by_kernels = cross[0], cross[1] - cross[0], *cross[2:]
        self.by_blocks = self.layout.by_features and grouping == 0
        if self.by_blocks:
            self._add_up_blocks(Rows(Q, asked[0]))

    def _parts(self, apart: tuple, together: tuple) -> list[tuple[list[Any], tuple]]:
        """Return pairs of terms and codes of rows: for different groups, for one group, and for each task kernel."""
        usual = [term for term in self.model.terms if not isinstance(term, TaskKernel)]
        kernels = [[replace(term, values=np.ones((1, 1)))] for term in self.kernels]
        return [(usual, apart), (usual, together), *((term, together) for term in kernels)]

    def contrasts(self, M: Any, minus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance (C, k) of contrasts whose weights are M (C, G), sparse, minus `minus` (G,)."""
        find = self._from_blocks if self.by_blocks else self._from_rows
        found = [find(M[i : i + CONTRASTS].toarray() - minus) for i in range(0, M.shape[0], CONTRASTS)]
        return np.concatenate([mean for mean, _ in found]), np.concatenate([v for _, v in found])

    def _from_rows(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = M.sum(1)
        W = total[:, None, None] * self.common + M[:, None, self.codes] * self.own
        prior = np.outer(total**2, self.prior_common) + np.outer((M * M).sum(1), self.prior_own)
        for term, cross, own in zip(self.kernels, self.by_kernels, self.prior_kernels, strict=True):
            related = M @ term.values[: M.shape[1], : M.shape[1]]
            W += related[:, None, self.codes] * cross
            prior += np.outer((related * M).sum(1), own)
        flat = W.reshape(-1, W.shape[2])
        explained = (flat * self.solved.apply(np.ascontiguousarray(flat.T))[0].T).sum(1).reshape(prior.shape)
        return W @ self.solved.a[:, 0], np.maximum(prior - explained, 0.0)

    def _add_up_blocks(self, unknown: Rows) -> None:
        """Compute the mean (k,) and variance of the own part of each group, and its link (k, f) with the features."""
        model, solved, G, n = self.model, self.solved, int(self.codes.max()) + 1, len(unknown.groups)
        self.features = (self.A @ model.term_features(model.terms, unknown)).reshape(len(self.own), -1)
        self.of_group, self.left = np.zeros((G, len(self.own))), np.zeros((G, len(self.own)))
        self.linked = np.zeros((G, *self.features.shape))
        if self.kernels:
            rows = Rows(np.zeros((1, G, self.X.shape[1])), (np.arange(G)[None], *(np.full((1, G), -1),) * (n - 1)))
            self.linked += self.A.sum(2).reshape(-1, 1) * model.term_features(self.kernels, rows)[0][:, None, :]
            self.of_group += (self.linked @ solved.beta)[:, :, 0]
        each = [np.swapaxes(take(np.ascontiguousarray(self.own.T), table), 1, 2) for table in self.layout.tables]
        found = solved.explained(each)
        for table, pairs, B, (linked, explained) in zip(
            self.layout.tables, self.layout.pairs, each, found, strict=True
        ):
            at = pairs.A.groups[0][:, 0]
            self.of_group[at] += (B @ take(solved.a, table))[:, :, 0]
            self.linked[at] -= linked
            self.left[at] = self.prior_own - explained

    def _from_blocks(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total, solved = M.sum(1), self.solved
        mean = M @ self.of_group + np.outer(total, self.features @ solved.beta)
        R = np.tensordot(M, self.linked, axes=1) + total[:, None, None] * self.features
        variance = (M * M) @ self.left + ((R @ solved.A_inverse) * R).sum(2)
        beyond = np.maximum(self.prior_common - (self.features**2).sum(1), 0.0)
        return mean, np.maximum(variance + np.outer(total**2, beyond), 0.0)

    def residuals(self, n_groups: int) -> np.ndarray:
        """Return the mean residual (G,) of the rows of each group, weighted by their precision."""
        precision = row_precision(self.model)
        sums = np.bincount(self.codes, self.solved.a[:, 0], n_groups)
        return sums / np.maximum(np.bincount(self.codes, precision, n_groups), 1e-300)


def row_precision(model: Any) -> np.ndarray:
    """Return the precision (N,) of each training row, given its function."""
    assert model.solved
    return 1.0 / model.likelihood.row_noise(model.parts[0], model.noise_)


def _codes(Q: np.ndarray, n_groupings: int, known: int | None) -> tuple[np.ndarray, ...]:
    """Return codes (b, q) for each grouping: 0 for the grouping `known`, -1 for the others."""
    return tuple(np.full(Q.shape[:2], 0 if g == known else -1) for g in range(n_groupings))


def _prior(terms: Any, p: Any, rows: Rows, X: np.ndarray, inner: Pairs, at: Any) -> np.ndarray:
    """Return the covariance (b, q, m) between rows and rows X (b, m, d) of group 0, at these training rows."""
    given = tuple(kernel[:, at[0][0][:, None], at[1].ravel()] for kernel in inner.given)
    others = Rows(X, tuple(np.zeros(X.shape[:2], dtype=np.intp) for _ in rows.groups))
    return covariance(terms, p, Pairs(rows, others, inner.sharing, given))


def wide_contrasts(fitted: FittedStructure, Q, A, at, M) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean and variance (C, k) of contrasts M (C, T) between tasks on the same rows, and residuals (T,).

    The other arguments are those of `GroupPosterior`.
    """
    model, T, found = fitted.model, fitted.n_outputs, []
    rows, X = Rows(Q, _codes(Q, 1, 0)), training_rows(fitted)[0]
    known = np.broadcast_to(X, (len(Q), *X.shape))
    for solved, part in zip(model.solved, model.parts, strict=True):
        inner = part.layout.pairs[0]
        prior = ((A @ _prior(model.terms, model.p_, rows, Q, inner, (at, at))) * A).sum(2).ravel()
        B = (A @ _prior(model.terms, model.p_, rows, known, inner, (at, np.arange(len(X))))).reshape(-1, len(X))
        found.append((B @ solved.a, np.maximum(prior - ((B @ solved.inverse) * B).sum(1), 0.0)))
    means, variance = found[0][0] / np.sqrt(T) + np.zeros((1, T)), np.outer(M.sum(1) ** 2, found[0][1]) / T
    left = model.solved[0].a / np.sqrt(T)
    if T > 1:
        means, left = means + found[1][0], left + model.solved[1].a
        variance = variance + np.outer((M * M).sum(1) - M.sum(1) ** 2 / T, found[1][1])
    return M @ means.T, variance, left.sum(0) / row_precision(model).sum()


def variance_shares(fitted: Sequence[FittedStructure], weights: np.ndarray) -> dict[str, float]:
    """Return shares of terms and noise in the variance of targets, in descending order, averaged over structures."""
    terms = Counter[str]()
    for member, weight in zip(fitted, weights.tolist(), strict=True):
        parts = _of_structure(member)
        parts[NOISE] = member.likelihood.noise_variance(member.model)
        whole = sum(parts.values())
        for name, value in parts.items():
            terms[name] += weight * value / whole
    return dict(terms.most_common())


def column_shares(
    fitted: Sequence[FittedStructure], weights: np.ndarray, data: MixedData, names: Sequence[str]
) -> dict[str, float]:
    """Return the share of each column in the variance that columns explain, in descending order.

    The variance of a column is half the mean squared change of the function if a row gets the value that the column
    has in another row, at random training rows. `names` (d,) are the columns that features were made from. Columns that
    were rotated have no shares.
    """
    d = data.X.shape[1]
    if not d or any(member.columns.axes is not None for member in fitted):
        return {}
    each = {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}
    at = np.random.RandomState(0).permutation(data.n_rows)[: min(200, max(20, 10_000 // len(each)))]
    # Some columns are changed at a time, to limit memory.
    step, squares = max(1, 2_000_000 // (len(at) * d)), Counter[str]()
    for begin in range(0, len(each), step):
        chosen = list(each)[begin : begin + step]
        rows = np.repeat(data.X[None, at], 1 + len(chosen), axis=0)
        for k, name in enumerate(chosen, start=1):
            rows[k][:, each[name]] = data.X[np.roll(at, 1)][:, each[name]]
        groups = [np.tile(part[at], len(rows)) for part in data.groups]
        parts = [member.predict(rows.reshape(-1, d), groups, variance=False)[0] for member in fitted]
        f: Any = sum(w * part.reshape(len(rows), len(at), -1) for w, part in zip(weights.tolist(), parts, strict=True))
        squares.update(dict(zip(chosen, (((f[1:] - f[0]) ** 2).mean(2) @ data.weight[at]).tolist(), strict=True)))
    whole = sum(squares.values())
    return {name: value / whole for name, value in squares.most_common()} if whole else {}


def term_kind(name: str) -> str:
    """Return what the term of a share describes: "levels" of groups, "common" or "own" functions, or "noise"."""
    if name == NOISE:
        return name
    if name.startswith("level"):
        return "levels"
    return "own" if name.startswith(("slopes", "own ", "task features")) else "common"


def _of_structure(member: FittedStructure) -> dict[str, float]:
    """Return the variance over the training rows of each term: common parts, levels, and other parts of groups."""
    (X, codes), weight = training_rows(member), member.model.parts[0].weight
    at = np.random.RandomState(0).permutation(len(X))[:SAMPLE]
    share = weight[at] / weight[at].sum()
    found = _common(member, X[at], at, share)
    # The share of the variance of group levels that is variance between rows, given the shares of groups in the rows.
    shares = [np.bincount(part, weight) / weight.sum() for part in codes]
    if member.wide:
        shares = [np.full(member.n_outputs, 1.0 / member.n_outputs)]
    differ = [1.0 - float(part @ part) for part in shares]
    for term in member.model.terms:
        grouping = term.grouping
        if grouping is None or not getattr(term, "own", True):
            continue
        level, other = _own(member, term, X[at], at, share)
        name = "level" if grouping == 0 else f"level {grouping + 1}"
        if level:
            found[name] = found.get(name, 0.0) + differ[grouping] * level
        if other:
            found[_name(term, "own")] = differ[grouping] * other
    return found


def _name(term: Term, part: str) -> str:
    both = isinstance(term, Smooth | Given) and not term.name.startswith(part)
    return f"{part} {term.name}" if both else term.name


def _common(member: FittedStructure, X: np.ndarray, at: np.ndarray, share: np.ndarray) -> dict[str, float]:
    """Return the variance of the posterior mean of each common term over rows (q, d) with these shares of the weight.

    The variance of the sum of all terms is divided in proportion to the covariance of each term with the sum, so terms
    that cancel each other do not count.
    """
    model, unknown = member.model, [np.full(len(X), -1) for _ in member.model.parts[0].layout.pairs[0].A.groups]
    columns = range(1) if member.wide else range(len(model.parts))
    terms = [t for t in model.terms if getattr(t, "common", t.grouping is None) and t.start()]
    means = {}
    for term in terms:
        given = [kernel[0][at] for kernel in model.parts[0].layout.pairs[0].given]
        found = [model.predict(X, unknown, given, part, variance=False, terms=[term.name])[0] for part in columns]
        mean = np.hstack(found) / np.sqrt(member.n_outputs if member.wide else 1.0)
        means[_name(term, "common")] = mean - share @ mean
    whole: Any = sum(means.values())
    shares = {name: max(float((share @ (mean * whole)).mean()), 0.0) for name, mean in means.items()}
    scale = float((share @ (whole * whole)).mean()) / max(sum(shares.values()), 1e-300) if means else 0.0
    return {name: scale * share for name, share in shares.items()}


def _own(member: FittedStructure, term: Term, X: np.ndarray, at: np.ndarray, share: np.ndarray) -> tuple[float, float]:
    """Return the variances of the mean of a group's function over rows (q, d), and of its values around that mean."""
    p = {name: np.array([-np.inf]) if name == "common" else v for name, v in member.model.p_[term.name].items()}
    inner = member.model.parts[0].layout.pairs[0]
    rows = Rows(X[None], tuple(np.zeros((1, len(X)), dtype=np.intp) for _ in inner.A.groups))
    pairs = Pairs(rows, rows, 1.0, tuple(kernel[:, at[:, None], at] for kernel in inner.given))
    K = covariance([term], {term.name: p}, pairs)[0]
    level = float(share @ K @ share)
    other = max(float(share @ np.diag(K)) - level, 0.0)
    if isinstance(term, Linear | TaskKernel) and not isinstance(term, Curves):
        # Standardised columns have mean zero up to sampling, and terms of task features are not divided.
        return 0.0, level + other
    return level, other if other > 1e-12 * level else 0.0


def missed_variance(member: FittedStructure) -> float:
    """Return the share of the prior variance of the targets that the features cannot represent."""
    model, (X, codes) = member.model, training_rows(member)
    at = np.random.RandomState(0).permutation(len(X))[:SAMPLE]
    share = model.parts[0].weight[at] / model.parts[0].weight[at].sum()
    rows = Rows(X[None, at], tuple(part[None, at] for part in codes))
    missed, total = 0.0, member.likelihood.noise_variance(model)
    for term in (term for term in model.terms if term.start()):
        p = model.p_[term.name]
        prior = term.diagonal(p, rows, 1.0)
        total += float(prior[0] @ share)
        if term.n_dense:
            common = prior - term.diagonal(p, rows, 0.0)
            missed += float((common - (term.features(p, rows)[0] ** 2).sum(2))[0] @ share)
    return max(missed / total, 0.0)
