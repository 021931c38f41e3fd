"""What the results say: means, ranks, regrets, and paired comparisons with Kin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata, t

from .predict_models import KIN
from .predict_sets import DataSet

# A loss twice that of the best counts like any larger one.
MAX_REGRET = 1.0


@dataclass(frozen=True)
class Estimate:
    """A mean with the two ends of an interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Results:
    """Records by data set and contender.

    Attributes
    ----------
    sets : those with results, by name.
    models : names of the contenders with results.
    records : (set, contender) -> records by split, those of missed jobs too.
    """

    sets: dict[str, DataSet]
    models: list[str]
    records: dict[tuple[str, str], dict[int, dict[str, Any]]]

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]], sets: Mapping[str, DataSet], models: Iterable[str]) -> Results:
        """Keep the records of these sets and contenders; of several for one job the last.

        Where Kin takes part, only sets and splits with results of Kin count: all are compared on the same rows.
        """
        wanted = list(models)
        found: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
        for record in records:
            if record["set"] in sets and record["model"] in wanted:
                found.setdefault((record["set"], record["model"]), {})[record["split"]] = record
        scored = {key for key, by_split in found.items() if any("loss" in each for each in by_split.values())}
        judges = [KIN] if any(model == KIN for _, model in scored) else wanted
        used = {name: each for name, each in sets.items() if any((name, model) in scored for model in judges)}
        scored = {key for key in scored if key[0] in used}
        if judges == [KIN]:
            known = {name: set(found[name, KIN]) for name in used}
            found = {
                (name, model): {split: each for split, each in by_split.items() if split in known.get(name, set())}
                for (name, model), by_split in found.items()
            }
        return cls(used, [name for name in wanted if any(key[1] == name for key in scored)], found)

    def values(self, data_set: str, model: str, what: str) -> dict[int, float]:
        """One score of all splits that have it."""
        by_split = self.records.get((data_set, model), {})
        return {split: record[what] for split, record in sorted(by_split.items()) if what in record}

    def mean(self, data_set: str, model: str, what: str) -> float:
        """The mean over splits; NaN where there are none, and where a split was missed."""
        found = self.values(data_set, model, what)
        complete = len(found) == len(self.records.get((data_set, model), {}))
        return float(np.mean(list(found.values()))) if found and complete else float("nan")

    def standard_error(self, data_set: str, model: str, what: str) -> float:
        found = list(self.values(data_set, model, what).values())
        return float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")

    def mean_loss(self, data_set: str, model: str) -> float:
        """The mean loss over the splits of Kin.

        Where a contender has fewer of them, its mean over those is multiplied by the mean of Kin over all of its splits
        and divided by that over the splits of both: some splits are harder than others for everyone.
        """
        mean = self.mean(data_set, model, "loss")
        ours, theirs = self.values(data_set, KIN, "loss"), self.values(data_set, model, "loss")
        both = [ours[split] for split in theirs if split in ours]
        if not both or len(both) == len(ours) or not np.mean(both):
            return mean
        return mean * float(np.mean(list(ours.values())) / np.mean(both))

    def losses(self, models: Sequence[str] | None = None) -> np.ndarray:
        """Mean losses (sets, contenders), NaN where there is none."""
        return np.array(
            [[self.mean_loss(name, model) for model in models or self.models] for name in self.sets]
        ).reshape(len(self.sets), -1)

    def n_splits(self, model: str) -> list[int]:
        """The numbers of splits that a contender has results of, over the sets where it has any."""
        counts = (len(self.values(name, model, "loss")) for name in self.sets)
        return sorted({count for count in counts if count})

    def reasons(self, model: str) -> dict[str, int]:
        """Why jobs of a contender have no result, and of how many sets."""
        found: dict[str, int] = {}
        for name in self.sets:
            reasons = {r["missed"].split(":")[0] for r in self.records.get((name, model), {}).values() if "missed" in r}
            for reason in reasons:
                found[reason] = found.get(reason, 0) + 1
        return found

    def mean_by_source(self, values: np.ndarray) -> float:
        """values (sets,) -> the mean over sources of the means over their sets; NaN is left out."""
        means = list(self.by_source(values).values())
        return float(np.mean(means)) if means else float("nan")

    def by_source(self, values: np.ndarray) -> dict[str, float]:
        """values (sets,) -> the mean over the sets of each source."""
        groups: dict[str, list[float]] = {}
        for each, value in zip(self.sets.values(), values.tolist(), strict=True):
            if np.isfinite(value):
                groups.setdefault(each.source, []).append(value)
        return {source: float(np.mean(found)) for source, found in groups.items()}


def ranks(losses: np.ndarray) -> np.ndarray:
    """losses (sets, contenders) -> rank of each on each set, the best 1; NaN where there is no loss."""
    return np.array([rankdata(row, nan_policy="omit") for row in losses]).reshape(losses.shape)


def regrets(losses: np.ndarray) -> np.ndarray:
    """losses (sets, contenders) -> how much larger than the least loss of the set, as a share of it, at most 1."""
    return np.minimum(losses / np.nanmin(losses, axis=1, keepdims=True) - 1.0, MAX_REGRET)


def differences(results: Results, data_set: str, model: str) -> np.ndarray:
    """The loss of a contender less that of Kin, on the splits that both have."""
    ours, theirs = (results.values(data_set, name, "loss") for name in (KIN, model))
    return np.array([theirs[split] - ours[split] for split in ours if split in theirs])


def interval(values: np.ndarray) -> Estimate:
    """The mean with its 95% interval by Student's t; a single value has none."""
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return Estimate(mean, -np.inf, np.inf)
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half, mean + half)


def wins(results: Results, model: str) -> tuple[int, int, int]:
    """Sets on which Kin is ahead of a contender, level, and behind it: by the sign of the paired interval."""
    found = [differences(results, name, model) for name in results.sets]
    known = [interval(each) for each in found if len(each)]
    ahead, behind = sum(each.low > 0 for each in known), sum(each.high < 0 for each in known)
    return ahead, len(known) - ahead - behind, behind


def relative_loss(results: Results, model: str) -> Estimate | None:
    """The loss relative to that of Kin: the geometric mean over sources, and a 95% interval."""
    pair = results.losses([KIN, model])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = list(results.by_source(np.log(pair[:, 1] / pair[:, 0])).values())
    if not logs:
        return None
    found = interval(np.array(logs))
    return Estimate(*np.exp([found.mean, found.low, found.high]).tolist())


def relative_time(results: Results, model: str) -> float:
    """The median over sets of run time relative to Kin."""
    ratios = [
        results.mean(name, model, "s") / ours
        for name in results.sets
        if (ours := results.mean(name, KIN, "s")) > 0 and np.isfinite(results.mean(name, model, "loss"))
    ]
    return float(np.median(ratios)) if ratios else float("nan")
