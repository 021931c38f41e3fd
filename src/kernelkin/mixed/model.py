"""A mixed kernel model: terms, a likelihood, and parameters that maximise the evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .covariance import Layout, Parameters, Prior, Solved, features
from .likelihoods import Evaluated, Gaussian, Likelihood
from .rows import Pairs, Rows, rows_of_table
from .terms import Term

NOISE = "noise"
# Maximum distance of log parameters from their start.
REACH = 8.0
# Number of queries predicted at a time.
CHUNK = 2_000


@dataclass
class Part:
    """Targets that share the parameters of a model.

    Attributes
    ----------
    layout : the rows in blocks.
    z : (N, r) targets in standard units.
    weight : (N,) weights of the rows.
    multiplicity : how many independent targets the columns of z stand for.
    offset : (N,) added to the function inside the likelihood.
    state : values kept from one evaluation for the next.
    """

    layout: Layout
    z: np.ndarray
    weight: np.ndarray
    multiplicity: float
    offset: Any = 0.0
    state: dict[str, np.ndarray] = field(default_factory=dict)


class OutOfTime(Exception):
    """Raised inside an optimisation when its time limit is reached."""


class MixedModel:
    """Terms with a likelihood; `fit` learns their parameters.

    The objective is the negative log evidence of all parts, plus `rho` times the squared distance of each parameter
    from its start, and from the mean of its family.

    Parameters
    ----------
    terms : the terms of the covariance; their names are distinct.
    rho : strength of the prior on the parameters.
    likelihood : the likelihood of the targets.

    Attributes
    ----------
    p_ : the logs of the parameters, by term and family.
    noise_ : variance of the noise; 0 if the likelihood has none.
    value_ : the objective at the optimum.
    n_evaluations_ : number of evaluations.
    """

    def __init__(self, terms: Sequence[Term], rho: float = 0.2, likelihood: Likelihood | None = None):
        self.terms, self.rho = tuple(terms), rho
        self.likelihood = Gaussian() if likelihood is None else likelihood
        self.start = {term.name: term.start() for term in self.terms}
        for part in self.start.values():
            for key in part:
                part[key] = part[key] + (0.0 if key == "lengths" else self.likelihood.log_scale)
        if self.likelihood.has_noise:
            self.start[NOISE] = {"variance": np.array([-1.0])}

    def fit(
        self,
        parts: Sequence[Part],
        evaluations: int = 50,
        start: np.ndarray | None = None,
        deadline: float = np.inf,
    ) -> MixedModel:
        """Learn the parameters, with a maximum number of evaluations and until `deadline` (of `time.monotonic`)."""
        self.parts = tuple(parts)
        first = flatten(self.start)
        best: dict[str, Any] = {"value": np.inf, "x": first if start is None else start}
        self.n_evaluations_ = 0

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            if np.isfinite(best["value"]) and time.monotonic() > deadline:
                raise OutOfTime
            self.n_evaluations_ += 1
            value, gradient = self.objective(x)
            if value < best["value"]:
                best.update(value=value, x=x.copy())
            return value, gradient

        with suppress(OutOfTime):
            minimize(
                objective,
                best["x"],
                jac=True,
                method="L-BFGS-B",
                bounds=[(s - REACH, s + REACH) for s in first],
                options={"maxfun": evaluations, "maxcor": 20},
            )
        self.value_ = best["value"]
        return self.set_parameters(best["x"])

    def set_parameters(self, x: np.ndarray) -> MixedModel:
        """Set the parameters; posteriors are computed on demand."""
        self.x_, self.p_ = x, unflatten(x, self.start)
        self.noise_ = float(np.exp(self.p_[NOISE]["variance"][0])) if self.likelihood.has_noise else 0.0
        self._solved: list[Solved] = []
        return self

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its gradient at the logs of the parameters, in one vector."""
        p = unflatten(x, self.start)
        noise = float(np.exp(p[NOISE]["variance"][0])) if self.likelihood.has_noise else 0.0
        try:
            found = self._evaluate(p, noise)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(x)
        gradient = {name: {k: np.zeros_like(v) for k, v in part.items()} for name, part in self.start.items()}
        for _, by_term, by_noise, _ in found:
            for name, part in by_term.items():
                for k, v in part.items():
                    gradient[name][k] += v
            if self.likelihood.has_noise:
                gradient[NOISE]["variance"] += by_noise
        value, slope = sum(each[0] for each in found), flatten(gradient)
        far = x - flatten(self.start)
        spread = flatten({name: {k: v - v.mean() for k, v in part.items()} for name, part in p.items()})
        return value + self.rho * (far @ far + spread @ spread), slope + 2.0 * self.rho * (far + spread)

    def _evaluate(self, p: Parameters, noise: float) -> list[Evaluated]:
        priors: dict[int, Prior] = {}
        found = []
        for part in self.parts:
            key = id(part.layout)
            if key not in priors:
                priors[key] = Prior(self.terms, p, part.layout)
            found.append(self.likelihood.evaluate(priors[key], part, noise))
        return found

    @property
    def solved(self) -> list[Solved]:
        """The posterior of each part at the parameters."""
        if not self._solved:
            self._solved = [each[3] for each in self._evaluate(self.p_, self.noise_)]
        return self._solved

    def leave_one_out(self, part: int = 0) -> np.ndarray:
        """Return the posterior mean of each row (N, r) without its own target, at the parameters of all rows."""
        solved = self.solved[part]
        return self.parts[part].z - solved.a / solved.diagonal()[:, None]

    def predict(
        self,
        X: np.ndarray,
        groups: Sequence[np.ndarray],
        given: Sequence[np.ndarray] = (),
        part: int = 0,
        variance: bool = True,
        terms: Sequence[str] | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the posterior mean (q, r) and variance (q,) of the function at rows.

        Parameters
        ----------
        X : (q, d) columns in standard units.
        groups : for each grouping (q,) positions of the groups in training; -1 for others.
        given : values (q, N) of each user-supplied kernel.
        part : the part to predict with.
        variance : whether variances are needed.
        terms : only the contribution of these terms, by name.
        """
        used = self.terms if terms is None else tuple(term for term in self.terms if term.name in terms)
        find = self._by_blocks if self.parts[part].layout.by_features else self._exactly
        chunks = [slice(i, i + CHUNK) for i in range(0, len(X), CHUNK)] or [slice(0, 0)]
        found = [
            find(used, X[c], tuple(g[c] for g in groups), tuple(k[c] for k in given), part, variance) for c in chunks
        ]
        means = np.concatenate([mean for mean, _ in found])
        return means, np.concatenate([v for _, v in found if v is not None]) if variance else None

    def _exactly(self, terms, X, groups, given, number, variance):
        part, solved = self.parts[number], self.solved[number]
        inner = part.layout.pairs[0]
        rows = Rows(X[None], tuple(g[None] for g in groups))
        pairs = Pairs(rows, inner.B, inner.sharing, tuple(kernel[None] for kernel in given))
        K = np.zeros((len(X), part.layout.n_rows))
        for term in terms:
            K += term.block(self.p_[term.name], pairs)[0][0]
        if not variance:
            return K @ solved.a, None
        prior = sum(term.diagonal(self.p_[term.name], rows, inner.sharing)[0] for term in terms)
        return K @ solved.a, np.maximum(prior - ((K @ solved.inverses[0][0]) * K).sum(1), 0.0)

    def _by_blocks(self, terms, X, groups, given, number, variance):
        part, solved = self.parts[number], self.solved[number]
        everyone = Rows(X[None], tuple(g[None] for g in groups))
        Phi = self.term_features(terms, everyone)[0]
        mean = Phi @ solved.beta
        # Use the full prior variance: far from the landmarks, the features do not cover it.
        prior = sum(term.diagonal(self.p_[term.name], everyone, 1.0)[0] for term in terms) - (Phi * Phi).sum(1)
        rest, reduced = Phi.copy(), np.zeros(len(X))
        for i, (table, inner) in enumerate(zip(part.layout.tables, part.layout.pairs, strict=True)):
            asked = _queries_of_blocks(inner.A.groups[0][:, 0], groups[0])
            if asked is None:
                continue
            blocks, queries = asked
            Q = rows_of_table(X, groups, queries)
            inside = Rows(inner.A.X[blocks], tuple(g[blocks] for g in inner.A.groups), _at(inner.A.mask, blocks))
            pairs = Pairs(Q, inside, 0.0)
            C = sum(term.block(self.p_[term.name], pairs)[0] for term in terms)
            if pairs.both is not None:
                C = C * pairs.both
            there = queries >= 0
            a = solved.a[np.maximum(table[blocks], 0)] * (table[blocks] >= 0)[..., None]
            mean[queries[there]] += (C @ a)[there]
            if variance:
                reduced[queries[there]] = ((C @ solved.inverses[i][blocks]) * C).sum(2)[there]
                rest[queries[there]] -= (C @ solved.white[i][blocks])[there]
        if not variance:
            return mean, None
        return mean, np.maximum(prior - reduced + ((rest @ solved.A_inverse) * rest).sum(1), 0.0)

    def term_features(self, terms, rows: Rows) -> np.ndarray:
        """Return the features (1, q, f) of all terms, zero for terms that were not requested."""
        Phi, _, widths = features(self.terms, self.p_, rows)
        names = {term.name for term in terms}
        return Phi * np.repeat([term.name in names for term in self.terms], widths)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_solved": []}


def _at(mask: np.ndarray | None, blocks: np.ndarray) -> np.ndarray | None:
    return None if mask is None else mask[blocks]


def _queries_of_blocks(codes: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the blocks (c,) that have queries, and a table (c, m) of these queries, from codes (b,) and (q,)."""
    order = np.argsort(codes)
    at = np.minimum(np.searchsorted(codes[order], asked), len(codes) - 1)
    rows = np.flatnonzero(codes[order][at] == asked)
    if not len(rows):
        return None
    blocks, position = np.unique(order[at[rows]], return_inverse=True)
    counts = np.bincount(position)
    table = np.full((len(blocks), counts.max()), -1)
    by_block = np.argsort(position, kind="stable")
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[position[by_block], within] = rows[by_block]
    return blocks, table


def flatten(parameters: Parameters) -> np.ndarray:
    """Return all parameters in one vector."""
    return np.concatenate([np.zeros(0), *(values for part in parameters.values() for values in part.values())])


def unflatten(x: np.ndarray, like: Parameters) -> Parameters:
    """Return the inverse of `flatten`, with the names and shapes of `like`."""
    found: Parameters = {}
    begin = 0
    for name, part in like.items():
        found[name] = {}
        for key, values in part.items():
            found[name][key] = x[begin : begin + len(values)]
            begin += len(values)
    return found
