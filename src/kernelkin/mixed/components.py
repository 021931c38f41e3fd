"""Shares of variance by term and by column.

The variance of a term common to all groups is that of its posterior mean over the training rows. (Its prior variance is
not used: a smooth function with a large prior variance and long length scales can be flat.) The variance of a term of
groups is its prior variance, since each group has its own function. The part that shifts the whole function of a group,
averaged over training rows, counts as a level for smooth and additive terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .batch import covariance
from .effects import training_rows
from .rows import Pairs, Rows
from .structures import FittedStructure
from .terms import Additive, Curves, Given, Linear, Smooth, TaskKernel, Term

NOISE = "noise"
# Maximum number of rows that are used to compute variances.
SAMPLE = 300


def variance_shares(
    fitted: Sequence[FittedStructure], weights: np.ndarray, likelihood: Any, names: Sequence[str] = ()
) -> tuple[dict[str, float], dict[str, float]]:
    """Return shares of terms and noise in the variance of the targets, and of columns in the explained variance.

    Both are averages over structures with these weights, sum to one, and are in descending order. Without `names` of
    columns (d,), or with columns that were rotated, there are no shares of columns.
    """
    terms, columns = Counter[str](), Counter[str]()
    for member, weight in zip(fitted, weights.tolist(), strict=True):
        parts = _of_structure(member)
        if len(names) and member.columns.axes is None:
            for variance, shares in _by_column(member, parts):
                for name, share in zip(names, shares.tolist(), strict=True):
                    columns[name] += weight * variance * share
        parts[NOISE] = likelihood.noise_variance(member.model)
        whole = sum(parts.values())
        for name, value in parts.items():
            terms[name] += weight * value / whole
    explained = sum(columns.values())
    by_column = {name: value / explained for name, value in columns.most_common()} if explained else {}
    return dict(terms.most_common()), by_column


def term_kind(name: str) -> str:
    """Return what the term of a share describes: "levels" of groups, "common" or "own" functions, or "noise"."""
    if name == NOISE:
        return name
    if name.startswith("level"):
        return "levels"
    return "own" if name.startswith(("slopes", "own ", "task features")) else "common"


def _of_structure(member: FittedStructure) -> dict[str, float]:
    """Return the variance over the training rows of each term: common parts, levels, and other parts of groups."""
    X, codes = training_rows(member)
    at = np.random.RandomState(0).permutation(len(X))[:SAMPLE]
    found = _common(member, X[at], at)
    # The share of the variance of group levels that is variance between rows, given the shares of groups in the rows.
    shares = [np.bincount(part) / len(X) for part in codes]
    if member.wide:
        shares = [np.full(member.n_outputs, 1.0 / member.n_outputs)]
    differ = [1.0 - float(part @ part) for part in shares]
    for term in member.model.terms:
        grouping = getattr(term, "grouping", None)
        if grouping is None or not getattr(term, "own", True):
            continue
        level, other = _own(member, term, X[at], at)
        name = "level" if grouping == 0 else f"level {grouping + 1}"
        if level:
            found[name] = found.get(name, 0.0) + differ[grouping] * level
        if other:
            found[_name(term, "own")] = differ[grouping] * other
    return found


def _name(term: Term, part: str) -> str:
    both = isinstance(term, Smooth | Given) and not term.name.startswith(part)
    return f"{part} {term.name}" if both else term.name


def _common(member: FittedStructure, X: np.ndarray, at: np.ndarray) -> dict[str, float]:
    """Return the variance of the posterior mean of each common term over rows (q, d).

    The variance of the sum of all terms is divided in proportion to the covariance of each term with the sum, so terms
    that cancel each other do not count.
    """
    model, unknown = member.model, [np.full(len(X), -1) for _ in member.model.parts[0].layout.pairs[0].A.groups]
    parts = range(1) if member.wide else range(len(model.parts))
    terms = [t for t in model.terms if getattr(t, "common", getattr(t, "grouping", None) is None) and t.start()]
    means = {}
    for term in terms:
        given = [kernel[0][at] for kernel in model.parts[0].layout.pairs[0].given]
        found = [model.predict(X, unknown, given, part, variance=False, terms=[term.name])[0] for part in parts]
        mean = np.hstack(found) / np.sqrt(member.n_outputs if member.wide else 1.0)
        means[_name(term, "common")] = mean - mean.mean(0)
    whole: Any = sum(means.values())
    shares = {name: max(float((mean * whole).mean()), 0.0) for name, mean in means.items()}
    scale = float((whole * whole).mean()) / max(sum(shares.values()), 1e-300) if means else 0.0
    return {name: scale * share for name, share in shares.items()}


def _own(member: FittedStructure, term: Term, X: np.ndarray, at: np.ndarray) -> tuple[float, float]:
    """Return the variances of the mean of a group's function over rows (q, d), and of its values around that mean."""
    p = {name: np.array([-np.inf]) if name == "common" else v for name, v in member.model.p_[term.name].items()}
    inner = member.model.parts[0].layout.pairs[0]
    rows = Rows(X[None], tuple(np.zeros((1, len(X)), dtype=np.intp) for _ in inner.A.groups))
    pairs = Pairs(rows, rows, 1.0, tuple(kernel[:, at[:, None], at] for kernel in inner.given))
    K = covariance([term], {term.name: p}, pairs)[0]
    level = float(K.mean())
    other = max(float(np.diag(K).mean()) - level, 0.0)
    if isinstance(term, Linear | TaskKernel) and not isinstance(term, Curves):
        # Standardised columns have mean zero up to sampling, and terms of task features are not divided.
        return 0.0, level + other
    return level, other if other > 1e-12 * level else 0.0


def _by_column(member: FittedStructure, variances: dict[str, float]) -> Iterator[tuple[float, np.ndarray]]:
    """Yield the variance of each term, and the share (d,) of each column in it.

    The variance of linear and additive terms is divided in proportion to the variances of columns, that of smooth terms
    in proportion to the inverse squared length scales.
    """
    for term in member.model.terms:
        p = member.model.p_[term.name]
        if isinstance(term, Linear | Additive):
            own = np.exp(p["variances"])[term.of_column]
        elif isinstance(term, Smooth) or (isinstance(term, TaskKernel) and term.smooth):
            own = np.exp(-2.0 * p["lengths"])[term.of_column]
        else:
            continue
        # The means of columns in groups count with their columns.
        own = own.reshape(-1, len(member.columns.center)).sum(0)
        yield sum(variances.get(name, 0.0) for name in {_name(term, "common"), _name(term, "own")}), own / own.sum()


def missed_variance(member: FittedStructure, likelihood: Any) -> float:
    """Return the share of the prior variance of the targets that the features cannot represent."""
    model, (X, codes) = member.model, training_rows(member)
    at = np.random.RandomState(0).permutation(len(X))[:SAMPLE]
    rows = Rows(X[None, at], tuple(part[None, at] for part in codes))
    missed, total = 0.0, likelihood.noise_variance(model)
    for term in (term for term in model.terms if term.start()):
        p = model.p_[term.name]
        prior = term.diagonal(p, rows, 1.0)
        total += float(prior.mean())
        if term.n_dense:
            common = prior - term.diagonal(p, rows, 0.0)
            missed += float((common - (term.features(p, rows)[0] ** 2).sum(2)).mean())
    return max(missed / total, 0.0)
