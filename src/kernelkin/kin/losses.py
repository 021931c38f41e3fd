"""Losses of KinRegressor: likelihoods, what targets may be, and how functions become means, intervals and scores.

A loss is registered in `LOSSES`. Other modules use its attributes and methods; they do not compare names of losses.
What belongs to a single loss, such as its likelihood, is also defined here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln, xlogy
from scipy.stats import nbinom, norm

from ..calibration import TargetUnits, choose_units, pooled_units
from ..data.forms import Queries, TaskData
from ..estimators import r2_of_targets
from ..mixed.average import Member, average
from ..mixed.covariance import Solved
from ..mixed.likelihoods import Gaussian, Laplace, Likelihood
from .data import LabelledRows

if TYPE_CHECKING:
    from .functions import KinFunctions


class SquaredLoss:
    """Numbers with normal noise; they are standardised."""

    name: ClassVar[str] = "squared"
    about: ClassVar[str] = "normal noise."  # for the docstring of the parameter
    kind: ClassVar[str] = "regression"  # the kind of problem, in messages
    target: ClassVar[str] = "number"  # what a target must be, in messages
    is_linear: ClassVar[bool] = True  # whether functions have the scale of the targets, so that these have units
    takes_offset: ClassVar[bool] = False  # whether rows may have a logarithm of exposure
    least: ClassVar[float] = -np.inf  # the least mean of a target
    likelihood: ClassVar[type[Likelihood]] = Gaussian

    def faults(self, y: np.ndarray) -> np.ndarray:
        """Return which of these numbers (n,) cannot be targets; NaN can."""
        return np.zeros(len(y), dtype=bool)

    def scale_name(self, unit: str = "") -> str:
        """Return the name of the scale of functions, for targets with a name or unit, if that is known."""
        return unit or "units of the target"

    def score(self, y: np.ndarray, predicted: np.ndarray, sample_weight: Any = None) -> float:
        return r2_of_targets(y, predicted, sample_weight)

    def prepare(
        self, labelled: LabelledRows, data: TaskData, weight: np.ndarray, has_features: bool
    ) -> tuple[TargetUnits, np.ndarray, np.ndarray | None]:
        """Return the units of targets, the targets (N, r) of mixed models, and the offsets (N,) of rows, if any.

        If the columns of y are tasks, each task has its own units. `has_features` is whether tasks have features.
        """
        T = data.n_tasks
        if has_features:
            # Levels and spreads of tasks must stay comparable, because they depend on the features.
            units = pooled_units(labelled.y, T, weight)
        elif not labelled.wide:
            units = choose_units(labelled.y, labelled.codes, T, weight)
        else:
            codes, weights = np.repeat(np.arange(T), len(labelled.y)), np.tile(weight, T)
            units = choose_units(labelled.y.T.ravel(), codes, T, weights, own=True)
        location, spread = _of_rows(units, labelled)
        return units, ((labelled.y - location) / spread).reshape(len(labelled.y), -1), None

    def held_out(
        self, members: Sequence[Member], weights: np.ndarray, labelled: LabelledRows, units: TargetUnits
    ) -> tuple[np.ndarray, np.ndarray, TargetUnits]:
        """Return means and deviations of targets by fits without them, for weights (M,) of members, and final units."""
        parts = [(member.mean, member.variance + member.noise[:, None]) for member in members]
        mean, variance = (part.reshape(labelled.y.shape) for part in average(parts, weights.tolist()))
        location, spread = _of_rows(units, labelled)
        return location + spread * mean, spread * np.sqrt(variance), units

    def sizes(self, y: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
        """Return the normal quantile at which the interval of each target just contains it."""
        return np.abs((y - mean) / deviation)

    def moments(
        self, functions: KinFunctions, queries: Queries, offset: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of targets (q,), or (q, T) for wide data without codes."""
        codes, units = queries.codes, functions.units
        assert units is not None
        if codes is None:
            queries = queries._replace(codes=np.zeros(len(queries.X), dtype=np.intp))
        means, variances = functions.latent(queries.X, functions.groups_of(queries))
        noise = np.array([member.model.noise_ for member in functions.members])[:, None, None]
        weights = functions.weights_of(codes)[:, :, None]
        mean, variance = average(list(zip(means, variances + noise, strict=True)), list(weights))
        if functions.wide:
            location, spread = units.location, units.spread
            if codes is not None:
                # For a task that was not in training, all outputs are the same.
                rows = np.arange(len(queries.X))
                mean, variance = mean[rows, codes], variance[rows, codes]
                location, spread = units.of(codes)
        else:
            assert codes is not None
            mean, variance = mean[:, 0], variance[:, 0]
            location, spread = units.of(np.where(codes < functions.n_tasks, codes, -1))
        deviation = spread * np.sqrt(variance)
        if codes is not None:
            deviation = np.hypot(deviation, np.where(codes < 0, units.new_deviation, 0.0))
        return location + spread * mean, deviation

    def ends(self, mean: np.ndarray, deviation: np.ndarray, quantile: float) -> np.ndarray:
        """Return intervals (..., 2) up to a normal quantile."""
        return np.stack([mean - quantile * deviation, mean + quantile * deviation], axis=-1)


class Poisson(Laplace):
    """Counts with a logarithmic link; the noise makes their variance larger than their mean."""

    has_noise = True
    # Differences of log rates are smaller than those of standardised targets.
    log_scale = -1.0
    # Most of the deviance of a row is due to chance, and is the same for all structures.
    weight_scale = 0.2
    # Counts of a few rows hardly show that a slope or smooth is absent; the usual prior would then add some of it.
    sparsity = 0.25

    def log_density(self, y, f):
        return y * f - self.inverse_link(f) - gammaln(y + 1.0)

    def derivatives(self, y, f):
        rate = self.inverse_link(f)
        return y - rate, rate, -rate

    def start(self, y, offset):
        # The first Newton step from here is a regression on log counts.
        return np.log(y + 0.5) - offset

    def solve(self, prior, part, noise=0.0):
        # The posterior of a log rate is skewed: its mean is below its mode, where expected counts would be too large. A
        # Newton step with the expected first derivative leads to the mean.
        f, solved, _ = self._mode(prior, part, noise)
        g, curvature, skew = self._skew(part, f, solved)
        return Solved(prior, noise / part.weight + 1.0 / curvature, (f + (g + skew) / curvature)[:, None])

    def noise_variance(self, model):
        # The second part is the variance of the logarithm of a count of this size.
        part = model.parts[0]
        return model.noise_ + float(np.log1p(1.0 / np.average(part.z[:, 0], weights=part.weight)))

    def mean(self, f, variance):
        return self.inverse_link(f + 0.5 * variance)

    def inverse_link(self, f):
        return np.exp(np.minimum(f, 50.0))

    def loss(self, y, mean):
        # Half the deviance.
        mean = np.maximum(mean, 1e-12)
        return xlogy(y, y / mean) - y + mean


class PoissonLoss(SquaredLoss):
    """Counts, with a logarithmic link and normal noise of the logarithm; rows may have exposures."""

    name: ClassVar[str] = "poisson"
    about: ClassVar[str] = (
        "y holds counts, which may vary more than Poisson's distribution allows, and the logarithm of their expected "
        "value is modelled. Predictions are means, intervals end at whole numbers, and scores are shares of deviance "
        "explained."
    )
    kind: ClassVar[str] = "counts"
    target: ClassVar[str] = "count"
    is_linear: ClassVar[bool] = False
    takes_offset: ClassVar[bool] = True
    least: ClassVar[float] = 0.0
    likelihood: ClassVar[type[Likelihood]] = Poisson

    def faults(self, y):
        return (y < 0) | (y % 1 > 0)

    def scale_name(self, unit: str = "") -> str:
        return f"log({unit})" if unit else "logarithm of the count"

    def score(self, y: np.ndarray, predicted: np.ndarray, sample_weight: Any = None) -> float:
        """Return D^2, the explained share of the deviance from the mean; NaN if all counts are equal."""
        deviance, mean = self.likelihood().loss, np.average(y, weights=sample_weight)
        found, null = (np.average(deviance(y, m), weights=sample_weight) for m in (predicted, mean))
        return float(1.0 - found / null) if np.ptp(y) else float("nan")

    def prepare(self, labelled, data, weight, has_features):
        """Check the counts. The location is the log of the mean rate, and offsets are relative to it."""
        if (wrong := self.faults(labelled.y)).any():
            at = int(wrong.argmax())
            what = "negative" if labelled.y[at] < 0 else "not a whole number"
            where = f"in {wrong.sum()} rows, such as {labelled.y[at]:g} in row {labelled.rows[at]}"
            raise ValueError(f'loss="{self.name}" needs counts, but y is {what} {where}')
        offset = np.zeros(len(labelled.rows)) if data.offset is None else data.offset[labelled.rows]
        # Half a count where all are zero, as may happen in a fold.
        center, T = float(np.log(max(weight @ labelled.y, 0.5) / (weight @ np.exp(offset)))), data.n_tasks
        return TargetUnits(np.full(T, center), np.ones(T), center, 1.0), labelled.y[:, None], offset + center

    def held_out(self, members, weights, labelled, units):
        f, variance = (np.array([getattr(m, name)[:, 0] for m in members]) for name in ("mean", "variance"))
        variance, weights = variance + [m.noise for m in members], weights[:, None]
        mean = self.count_moments(f, variance, weights)[0]
        factor = log_factor(labelled.y, mean, members[0].fitted.model.parts[0].weight)
        # Predictions are relative to `location`, offsets of training rows to `new_location`.
        units = replace(units, location=units.location + factor)
        return *self.count_moments(f + factor, variance, weights), units

    def sizes(self, y, mean, deviation):
        # Rows take even places in the probability of their counts (multiples of the golden ratio). If zeros that all
        # intervals contain had size 0, many of them would narrow the intervals of groups with larger counts.
        counts, place = count_distribution(mean, deviation), 0.618034 * np.arange(1, y.size + 1).reshape(y.shape) % 1.0
        own = counts.pmf(y)
        tail = np.minimum(counts.cdf(y - 1.0) + place * own, counts.sf(y) + (1.0 - place) * own)
        return norm.isf(np.maximum(tail, 1e-300))

    def moments(self, functions, queries, offset):
        f, variance = functions.latent(queries.X, functions.groups_of(queries))
        f = f[:, :, 0] + functions.units.location[0] + (0.0 if offset is None else offset)
        noise = np.array([member.model.noise_ for member in functions.members])[:, None]
        return self.count_moments(f, variance[:, :, 0] + noise, functions.weights_of(queries.codes))

    def count_moments(self, f: np.ndarray, variance: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and deviations (q,) of counts whose log rates are mixtures of normals (M, q), weights (M, q)."""
        rate, variance = np.exp(np.minimum(f + 0.5 * variance, 50.0)), np.minimum(variance, 50.0)
        mean = (weights * rate).sum(0)
        return mean, np.sqrt(mean + np.maximum((weights * rate**2 * np.exp(variance)).sum(0) - mean**2, 0.0))

    def ends(self, mean, deviation, quantile):
        """Return intervals of whole numbers."""
        counts, level = count_distribution(mean, deviation), norm.sf(quantile)
        return np.stack([counts.ppf(level), counts.isf(level)], axis=-1)


LOSSES: dict[str, SquaredLoss] = {loss.name: loss for loss in (SquaredLoss(), PoissonLoss())}


def _of_rows(units: TargetUnits, labelled: LabelledRows) -> tuple[np.ndarray, np.ndarray]:
    """Return location and spread of each row (N,) or, if the columns of y are tasks, of each task (T,)."""
    return (units.location, units.spread) if labelled.wide else units.of(labelled.codes)


def count_distribution(mean: np.ndarray, deviation: np.ndarray) -> Any:
    """Return negative binomial distributions with these means and deviations; nearly Poisson without overdispersion."""
    mean = np.maximum(mean, 1e-12)
    size = np.maximum(mean**2 / np.maximum(deviation**2 - mean, 1e-9 * mean), 1e-9)
    return nbinom(size, size / (size + mean))


def log_factor(y: np.ndarray, mean: np.ndarray, weight: np.ndarray) -> float:
    """Return the log of the ratio of held-out counts (n,) and their predicted means, shrunk towards 0 by its error.

    Means are too large, for example, if the noise of log rates has shorter tails than a normal distribution.
    """
    y, mean, weight = (part[~np.isnan(mean)] for part in (y, mean, weight))
    log = np.log((1.0 + weight @ y) / (1.0 + weight @ mean))
    variance = weight @ (y - mean) ** 2 / (1.0 + weight @ mean) ** 2
    return float(log * max(0.0, 1.0 - variance / max(log**2, 1e-300)))
