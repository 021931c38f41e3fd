"""Deviations of an average of models: noise, and what its members differ by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..couplings import predict_levels
from ..functions import CombinedFunctions, NewTask
from .held_out import HeldOut, LeftOutTasks
from .machines import MachinesHeldOut

# The least share of the mean squared residual that is noise, not disagreement of the members.
LEAST_NOISE = 0.1


@dataclass(frozen=True)
class MemberDeviations:
    """Deviations sqrt(noise + spread^2), times the spread of each task's targets."""

    functions: CombinedFunctions
    noise: float

    def deviations(
        self, X: np.ndarray, codes: np.ndarray | None, new: Mapping[int, NewTask] | None = None
    ) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q,); without codes, every task on every row -> (q, T)."""
        T = len(self.functions.spread)
        spread = np.append(self.functions.spread, self.functions.spread.mean())
        rows = np.arange(T) if codes is None else np.where(codes < T, codes, -1)
        return spread[rows] * np.sqrt(self.noise + self.functions.spreads(X, codes) ** 2)


@dataclass(frozen=True)
class AverageHeldOut:
    """Held-out values of an average of models.

    Attributes
    ----------
    functions : the average.
    known : those of rows, which a search has left behind.
    machines : of each member.
    tasks : (T,) labels.
    """

    functions: CombinedFunctions
    known: HeldOut
    machines: tuple[MachinesHeldOut, ...]
    tasks: np.ndarray

    def held_out(self) -> HeldOut:
        found = [member.left_out() for member in self.machines]
        names = set(found[0]).intersection(*found[1:])
        return replace(self.known, new_tasks={name: self._average(name, [f[name] for f in found]) for name in names})

    def _average(self, name: str, members: Sequence[LeftOutTasks]) -> LeftOutTasks:
        """Average the values of members as the average does, in the units of the targets."""
        functions, weights = self.functions, self.functions.weights
        similarity = functions.task_similarities(self.tasks) if name == "features" else None
        locations = left_out_levels(similarity, functions.location)
        values, deviations = [], []
        for t, parts in enumerate(zip(*(member.values for member in members), strict=True)):
            others = np.delete(functions.spread, t).mean()
            links = zip(parts, functions.slopes, functions.offsets, strict=True)
            linked = np.array([slope * part + offset for part, slope, offset in links])
            mean = np.tensordot(weights, linked, axes=1)
            spread = np.tensordot(weights, (linked - mean) ** 2, axes=1)[:, 0]
            values.append(locations[t] + others * mean)
            noise = self.known.variance.noise if isinstance(self.known.variance, MemberDeviations) else 1.0
            deviations.append(others * np.sqrt(noise + spread))
        return LeftOutTasks(values, deviations)


def left_out_levels(similarity: np.ndarray | None, levels: np.ndarray) -> np.ndarray:
    """Levels (T,) -> what those of the other tasks say about each: their mean, or by similarity (T, T)."""
    found = np.empty(len(levels))
    for t in range(len(levels)):
        others = np.delete(np.arange(len(levels)), t)
        if similarity is None:
            found[t] = levels[others].mean()
            continue
        known, new = similarity[np.ix_(others, others)], similarity[t, others][np.newaxis]
        found[t] = predict_levels(known, new, levels[others, np.newaxis])[0, 0]
    return found


def average_held_out(
    functions: CombinedFunctions, values: Sequence[Sequence[np.ndarray]], y: Sequence[np.ndarray] | None
) -> HeldOut:
    """Average the held-out values of the members of an average as the average does.

    Parameters
    ----------
    functions : the average
    values : for each member and task (n_t, m), in standard units
    y : for each task (n_t,), standardised targets; None for classes
    """
    linked = [
        [slope * part + offset for part in member]
        for member, slope, offset in zip(values, functions.slopes, functions.offsets, strict=True)
    ]
    stacked = [np.array(parts) for parts in zip(*linked, strict=True)]
    weights = functions.task_weights.T
    means = [np.tensordot(own, parts, axes=1) for own, parts in zip(weights, stacked, strict=True)]
    if y is None:
        return HeldOut.constant(means)
    spreads = [
        np.tensordot(own, (parts - mean) ** 2, axes=1)[:, 0]
        for own, parts, mean in zip(weights, stacked, means, strict=True)
    ]
    residuals = np.concatenate([part - mean[:, 0] for part, mean in zip(y, means, strict=True)])
    total = float(np.nanmean(residuals**2))
    noise = max(total - float(np.nanmean(np.concatenate(spreads))), LEAST_NOISE * total, np.finfo(float).tiny)
    units = list(zip(functions.location, functions.spread, strict=True))
    return HeldOut(
        [location + spread * mean for mean, (location, spread) in zip(means, units, strict=True)],
        [spread * np.sqrt(noise + part) for part, (_, spread) in zip(spreads, units, strict=True)],
        MemberDeviations(functions, noise),
    )
