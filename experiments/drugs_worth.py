"""What each source of data is worth: the error without it, run by run, against that of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import t as student

from .drugs_data import RUNS
from .store import Result
from .tables import Table

EXPLANATION = (
    "RMSE of the model with the row's change less that of the whole model, run by run with the same training entries "
    "and the parameters chosen for the whole; positive: the source is worth something. Here the whole has one kernel "
    "for each measurement and one between drugs, the means of those there are. 95% intervals by Student's t, with the "
    "variance of Nadeau and Bengio (2003), since the training entries of k runs overlap: 1/k + 1/9 in place of 1/k. "
    "Bold: the interval does not contain zero."
)


def paired_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half the 95% interval of differences (k,) over k of ten folds."""
    k = len(differences)
    spread = float(np.std(differences, ddof=1)) * np.sqrt(1 / k + 1 / (RUNS - 1))
    return float(np.mean(differences)), float(student.ppf(0.975, k - 1)) * spread


def worth_table(results: Sequence[Result], whole: str, rows: Iterable[str], settings: Iterable[str]) -> Table:
    """A row for each change, a column for each setting: difference of the RMSE and its interval."""
    errors: dict[tuple[str, str], dict[int, float]] = {}
    for result in results:
        errors.setdefault((result.setting, result.model), {})[result.run] = result.figures["RMSE"]
    settings = [setting for setting in settings if (setting, whole) in errors]
    lines: list[tuple[str, ...]] = []
    bold = set()
    for name in rows:
        cells = [name]
        for setting in settings:
            runs = errors.get((setting, name), {})
            shared = sorted(runs.keys() & errors[setting, whole].keys())
            if len(shared) < 2:
                cells.append("-")
                continue
            mean, half = paired_interval([runs[run] - errors[setting, whole][run] for run in shared])
            if abs(mean) > half:
                bold.add((len(lines), len(cells)))
            cells.append(f"{mean:+.3f} ± {half:.3f}")
        lines.append(tuple(cells))
    return Table(("change of the RMSE", *settings), tuple(lines), frozenset(bold))
