"""Shares of variance by term and by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .batch import features
from .covariance import Layout
from .rows import Rows
from .structures import FittedStructure
from .terms import Additive, Given, Linear, Smooth, TaskKernel, Term

NOISE = "noise"


def variance_components(fitted: Sequence[FittedStructure], weights: np.ndarray, likelihood: Any) -> dict[str, float]:
    """Return the share of each term, including noise, in the variance of the targets; the shares sum to one.

    The variance of a term is its expected contribution to the variance of the training rows.
    """
    total: dict[str, float] = {}
    for member, weight in zip(fitted, weights.tolist(), strict=True):
        parts = _of_structure(member)
        model = member.model
        parts[NOISE] = model.noise_ if likelihood.has_noise else likelihood.noise_variance(model.parts[0])
        whole = sum(parts.values())
        for name, value in parts.items():
            total[name] = total.get(name, 0.0) + weight * value / whole
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _of_structure(member: FittedStructure) -> dict[str, float]:
    model, found = member.model, {}
    # With tasks as columns, the rows of one task suffice for both own and common terms.
    layout = model.parts[0].layout
    for term in model.terms:
        for name, p in _parts(term, model.p_[term.name]):
            found[name] = _variance(term, p, layout)
    return found


def _parts(term: Term, p: dict[str, np.ndarray]) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Return name and parameters of the common and own parts of a term, with the variance of the other part zero."""
    if isinstance(term, Smooth | Given):
        return [
            (
                f"{part} {term.name}",
                {**p, **{other: np.array([-np.inf]) for other in ("common", "own") if other in p and other != part}},
            )
            for part in ("common", "own")
            if getattr(term, part)
        ]
    return [(term.name, p)] if term.start() else []


def _variance(term: Term, p: dict[str, np.ndarray], layout: Layout) -> float:
    """Return the expected variance of a function of the term over the training rows: mean diagonal minus mean entry."""
    n, total, inside = layout.n_rows, 0.0, 0.0
    for pairs in layout.pairs:
        mask = np.ones(pairs.A.X.shape[:2], bool) if pairs.A.mask is None else pairs.A.mask
        total += float(term.diagonal(p, pairs.A, 1.0)[mask].sum())
        block = term.block(p, replace(pairs, sharing=min(pairs.sharing, 1.0)))[0]
        if block is not None:
            inside += float((block if pairs.both is None else block * pairs.both).sum())
    if layout.by_features:
        sums: Any = sum(_feature_sums(term, p, pairs.A) for pairs in layout.pairs)
        inside += float(np.sum(np.square(sums)))
    return max(total / n - inside / n**2, 0.0)


def _feature_sums(term: Term, p: dict[str, np.ndarray], rows: Rows) -> np.ndarray:
    """Return the sums (f,) of the features of a term over rows."""
    found = features([term], {term.name: p}, rows)
    return (
        found.dense.sum((0, 1))
        if found.index is None
        else found.sums(np.ones((*found.index.shape[:2], 1)), term.n_sparse)
    )


def column_shares(fitted: Sequence[FittedStructure], weights: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Return the share of each column in the explained variance, in descending order.

    Linear and additive terms are divided by the variances of columns, smooth terms by their rate of change along each.
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
