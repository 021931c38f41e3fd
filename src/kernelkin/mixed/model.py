"""A mixed kernel model: terms, a likelihood, and parameters that maximise the evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from .batch import covariance, features
from .covariance import HERE, Blocks, Layout, Prior, Solved, flatten, unflatten
from .likelihoods import Gaussian, Likelihood
from .rows import Pairs, Rows
from .terms import Term

NOISE, SLOPES = "noise", "slopes"
# Added to the initial log variances of slopes that may not vanish: too small ones have too small errors.
WIDE = 2.5
# The first words of the names of terms that no structure leaves out; all others are optional.
ALWAYS = ("level", "linear", NOISE)
# Maximum distance of log parameters from their start.
REACH = 8.0
# A fit ends where no derivative of the objective for a log parameter is larger than this: what could still be gained is
# far less than one unit of log evidence.
STEEPNESS = 0.1
# Number of queries predicted at a time.
CHUNK = 2_000


@dataclass
class Part:
    """Targets that share the parameters of a model."""

    layout: Layout  # the rows in blocks
    z: np.ndarray  # (N, r) targets in standard units
    weight: np.ndarray  # (N,) weights of the rows
    multiplicity: float  # number of independent targets that the columns of z represent
    offset: Any = 0.0  # (N,) added to the function inside the likelihood
    state: dict[str, np.ndarray] = field(default_factory=dict)  # values kept between evaluations, such as the last mode
    held: Blocks | None = None  # the batches of rows and targets, in the place where they are evaluated

    def blocks(self, terms: tuple[Term, ...]) -> Blocks:
        """Return the batches of rows and targets for these terms."""
        if self.held is None or self.held.terms is not terms:
            self.held = Blocks(terms, self.layout, self.z, self.weight)
        return self.held

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "held": None}


class OutOfTime(Exception):
    """Raised inside an optimisation when its time limit is reached."""


class MixedModel:
    """Terms with a likelihood; `fit` learns their parameters.

    The objective is the negative log evidence of all parts, plus `rho` times the squared distances of each log
    parameter from its initial value and from the mean of its family. If the likelihood has a `sparsity`, and with
    `sparse`, log variances of optional terms have another prior: `sparsity` times the log, and `rho` times the square
    of its excess over the initial value.

    Names of terms are distinct.

    Attributes
    ----------
    p_ : the logs of the parameters, by term and family.
    noise_ : variance of the noise; 0 if the likelihood has none.
    value_ : the objective at the optimum.
    """

    def __init__(
        self, terms: Sequence[Term], rho: float = 0.2, likelihood: Likelihood | None = None, sparse: bool = True
    ):
        self.terms, self.rho = tuple(terms), rho
        self.likelihood = Gaussian() if likelihood is None else likelihood
        self.sparsity = self.likelihood.sparsity if sparse else 0.0
        self.start = {term.name: term.start() for term in self.terms}
        for part in self.start.values():
            for key in part:
                part[key] = part[key] + (0.0 if key == "lengths" else self.likelihood.log_scale)
        if not sparse and SLOPES in self.start:
            self.start[SLOPES]["variances"] += WIDE
        if self.likelihood.has_noise:
            self.start[NOISE] = {"variance": np.array([-1.0 + self.likelihood.log_scale])}
        is_optional = {
            name: {k: np.full(len(v), name.split()[0] not in ALWAYS and k != "lengths") for k, v in part.items()}
            for name, part in self.start.items()
        }
        self._is_sparse = flatten(is_optional).astype(bool) & (self.sparsity > 0.0)

    def fit(
        self, parts: Sequence[Part], evaluations: int = 50, start: np.ndarray | None = None, deadline: float = np.inf
    ) -> MixedModel:
        """Learn the parameters with at most about `evaluations` evaluations, until `deadline` (of `time.monotonic`).

        With ``evaluations=0``, the parameters are set to `start` without a fit.
        """
        self.parts, self.value_ = tuple(parts), np.nan
        first = flatten(self.start)
        if not evaluations:
            return self.set_parameters(first if start is None else start)
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
                options={"maxfun": evaluations, "maxcor": 20, "gtol": STEEPNESS},
            )
        self.value_ = best["value"]
        # Free the values that batches keep between calls.
        for part in self.parts:
            part.blocks(self.terms).each("forget")
        return self.set_parameters(best["x"])

    def set_parameters(self, x: np.ndarray) -> MixedModel:
        """Set the parameters; posteriors are computed on demand."""
        self.x_, self.p_ = x, unflatten(x, self.start)
        self.noise_ = float(np.exp(self.p_[NOISE]["variance"][0])) if self.likelihood.has_noise else 0.0
        self._solved: list[Solved] = []
        return self

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its gradient at a vector of log parameters."""
        p = unflatten(x, self.start)
        noise = float(np.exp(p[NOISE]["variance"][0])) if self.likelihood.has_noise else 0.0
        try:
            priors = [Prior(part.blocks(self.terms), p) for part in self.parts]
            found = [self.likelihood.evaluate(*each, noise) for each in zip(priors, self.parts, strict=True)]
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
        far, sparse = x - flatten(self.start), self._is_sparse
        spread = flatten({name: {k: v - v.mean() for k, v in part.items()} for name, part in p.items()})
        spread, near = np.where(sparse, 0.0, spread), np.where(sparse & (far < 0.0), 0.0, far)
        value += self.rho * (near @ near + spread @ spread) + self.sparsity * far[sparse].sum()
        return value, slope + 2.0 * self.rho * (near + spread) + self.sparsity * sparse

    @property
    def solved(self) -> list[Solved]:
        """The posterior of each part at the parameters."""
        if not self._solved:
            priors = [Prior(part.blocks(self.terms), self.p_) for part in self.parts]
            self._solved = [self.likelihood.solve(*each, self.noise_) for each in zip(priors, self.parts, strict=True)]
        return self._solved

    def leave_one_out(self, part: int = 0) -> np.ndarray:
        """Return the posterior mean of each row (N, r) without its own target, at the parameters of all rows."""
        solved = self.solved[part]
        return self.parts[part].z - solved.a / solved.diagonal[:, None]

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
        used = [term.name for term in self.terms if terms is None or term.name in terms]
        if self.parts[part].layout.by_features:
            return self.solved[part].predict(X, groups, used, variance)
        chunks = [slice(i, i + CHUNK) for i in range(0, len(X), CHUNK)] or [slice(0, 0)]
        found = [
            self._exactly(used, X[c], tuple(g[c] for g in groups), tuple(k[c] for k in given), part, variance)
            for c in chunks
        ]
        means = np.concatenate([mean for mean, _ in found])
        return means, np.concatenate([v for _, v in found if v is not None]) if variance else None

    def _exactly(self, used, X, groups, given, number, variance):
        part, solved = self.parts[number], self.solved[number]
        inner = part.layout.pairs[0]
        rows = Rows(X[None], tuple(g[None] for g in groups))
        pairs = Pairs(rows, inner.B, inner.sharing, tuple(kernel[None] for kernel in given))
        terms = [term for term in self.terms if term.name in used]
        K = covariance(terms, self.p_, pairs)[0]
        if not variance:
            return K @ solved.a, None
        prior = sum(term.diagonal(self.p_[term.name], rows, inner.sharing)[0] for term in terms)
        return K @ solved.a, np.maximum(prior - ((K @ solved.inverse) * K).sum(1), 0.0)

    def term_features(self, terms: Sequence[Term], rows: Rows) -> np.ndarray:
        """Return the features (b, q, f) of the model's terms; those of terms not in `terms` are zero."""
        return features(self.terms, self.p_, rows, [term.name for term in terms]).full()

    def bring_here(self) -> None:
        """Use this process and main memory for all further evaluations."""
        self._solved = []
        for part in self.parts:
            part.layout, part.held = replace(part.layout, place=HERE), None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_solved": []}
