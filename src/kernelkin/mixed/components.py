"""Shares of variance by term and by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .batch import covariance, features
from .covariance import Layout
from .rows import Pairs, Rows
from .structures import FittedStructure
from .terms import Additive, Given, Linear, Smooth, TaskKernel, Term

NOISE = "noise"
# With more batches than this, a subset of at most this many is used.
BATCHES = 24


def variance_components(fitted: Sequence[FittedStructure], weights: np.ndarray, likelihood: Any) -> dict[str, float]:
    """Return the share of each term, including noise, in the variance of the targets; the shares sum to one.

    The variance of a term is its expected contribution to the variance of the training rows.
    """
    total: dict[str, float] = {}
    for member, weight in zip(fitted, weights.tolist(), strict=True):
        parts = _of_structure(member, likelihood)
        whole = sum(parts.values())
        for name, value in parts.items():
            total[name] = total.get(name, 0.0) + weight * value / whole
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _of_structure(member: FittedStructure, likelihood: Any) -> dict[str, float]:
    """Return the variance of each term and of the noise."""
    model, found = member.model, {}
    # If tasks are columns, the rows of one task are enough for both own and common terms.
    layout = model.parts[0].layout
    for term in model.terms:
        for name, p in _parts(term, model.p_[term.name]):
            found[name] = _variance(term, p, layout)
    found[NOISE] = model.noise_ if likelihood.has_noise else likelihood.noise_variance(model.parts[0])
    return found


def _parts(term: Term, p: dict[str, np.ndarray]) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Return names and parameters of the common and own part of a term; the variance of the other part is zero."""
    if isinstance(term, Smooth | Given):
        return [
            (
                term.name if term.name.startswith(part) else f"{part} {term.name}",
                {**p, **{other: np.array([-np.inf]) for other in ("common", "own") if other in p and other != part}},
            )
            for part in ("common", "own")
            if getattr(term, part)
        ]
    return [(term.name, p)] if term.start() else []


def _sample(layout: Layout) -> list[tuple[Pairs, np.ndarray]]:
    """Return evenly spaced batches, which have blocks of all sizes, with the masks (b, n) of their rows."""
    pairs = layout.pairs[:: -(-len(layout.pairs) // BATCHES)]
    return [(part, np.ones(part.A.X.shape[:2], bool) if part.A.mask is None else part.A.mask) for part in pairs]


def _variance(term: Term, p: dict[str, np.ndarray], layout: Layout) -> float:
    """Return the expected variance of a function of the term over the training rows: mean diagonal minus mean entry."""
    n, total, inside, sums = 0, 0.0, 0.0, np.zeros(term.n_dense + term.n_sparse)
    for pairs, mask in _sample(layout):
        n += int(mask.sum())
        total += float(term.diagonal(p, pairs.A, 1.0)[mask].sum())
        inside += float(covariance([term], {term.name: p}, replace(pairs, sharing=min(pairs.sharing, 1.0))).sum())
        if layout.by_features:
            sums += _feature_sums(term, p, pairs.A)
    return max(total / n - (inside + float(sums @ sums)) / n**2, 0.0)


def missed_variance(member: FittedStructure, likelihood: Any) -> float:
    """Return the share of the prior variance of the targets that the features cannot represent."""
    model = member.model
    whole = sum(_of_structure(member, likelihood).values())
    missed, n = 0.0, 0
    for pairs, mask in _sample(model.parts[0].layout):
        n += int(mask.sum())
        for term in model.terms:
            if term.n_dense:
                p = model.p_[term.name]
                common = term.diagonal(p, pairs.A, 1.0) - term.diagonal(p, pairs.A, 0.0)
                missed += float((common - (term.features(p, pairs.A)[0] ** 2).sum(2))[mask].sum())
    return max(missed / n / whole, 0.0)


def _feature_sums(term: Term, p: dict[str, np.ndarray], rows: Rows) -> np.ndarray:
    """Return the sums (f,) of the features of a term over rows."""
    found = features([term], {term.name: p}, rows)
    if found.index is None:
        return found.dense.sum((0, 1))
    return found.sums(np.ones((*found.index.shape[:2], 1)), term.n_sparse)[:, 0]


def column_shares(fitted: Sequence[FittedStructure], weights: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Return the share of each column in the explained variance, in descending order.

    The variance of linear and additive terms is divided in proportion to the variances of columns, that of smooth terms
    in proportion to the inverse squared length scales.
    """
    total: dict[str, float] = {}
    for member, weight in zip(fitted, weights.tolist(), strict=True):
        if member.columns.axes is not None:
            return {}
        for share, by_column in _by_column(member):
            for name, part in zip(names, by_column.tolist(), strict=True):
                total[name] = total.get(name, 0.0) + weight * share * part
    whole = sum(total.values())
    if not whole:
        return {}
    return dict(sorted(((name, value / whole) for name, value in total.items()), key=lambda item: -item[1]))


def _by_column(member: FittedStructure) -> list[tuple[float, np.ndarray]]:
    """Return the variance of each term, and the share (d,) of each column in it."""
    model, found = member.model, []
    layout = model.parts[0].layout
    for term in model.terms:
        p = model.p_[term.name]
        if isinstance(term, Linear | Additive):
            own = np.exp(p["variances"])[term.of_column]
        elif isinstance(term, Smooth) or (isinstance(term, TaskKernel) and term.smooth):
            own = np.exp(-2.0 * p["lengths"])[term.of_column]
        else:
            continue
        found.append((_variance(term, p, layout), own / own.sum()))
    return found
