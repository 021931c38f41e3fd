"""What a search has chosen, in words and by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels import FittedKernel
from ..kernels.functions import ScaledGaussian
from ..kernels.groups import group_name

ALL_COLUMNS = "all columns together"


def column_shares(
    members: Sequence[dict[str, Any]], weights: Sequence[float], feature_names: Sequence[str] | None, n_columns: int
) -> dict[str, float]:
    """Return the share of the kernel weights on each column or group of columns, the largest first.

    Kernels on all columns count as one group; a kernel with learned length scales is shared out by how fast it varies
    along each column.
    """
    total: dict[str, float] = {}
    for attributes, weight in zip(members, weights, strict=True):
        kernels, mix = attributes["kernels_"], _mean_mix(attributes)
        for kernel, share in zip(kernels, mix, strict=True):
            for name, part in _by_column(kernel, feature_names, n_columns).items():
                total[name] = total.get(name, 0.0) + weight * share * part
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _mean_mix(attributes: dict[str, Any]) -> np.ndarray:
    """Return the mean over tasks and couplings of the kernel weights (K,), of sum one."""
    own, shared = attributes["kernel_weights_"], attributes.get("coupling_weights_", ())
    mix = (np.vstack([own, shared]) if len(shared) else own).mean(axis=0)
    return mix / mix.sum() if mix.sum() > 0 else mix


def _by_column(kernel: FittedKernel, feature_names: Sequence[str] | None, n_columns: int) -> dict[str, float]:
    if isinstance(kernel.function, ScaledGaussian):
        speed = np.square(kernel.function.scales)
        return {group_name((j,), feature_names): float(part) for j, part in enumerate(speed / speed.sum())}
    if len(kernel.columns) == n_columns and n_columns > 1:
        return {ALL_COLUMNS: 1.0}
    return {group_name(kernel.columns, feature_names): 1.0}


def explain(model: Any) -> str:
    """Return what was tried, what came out best, and what is averaged, in a few sentences."""
    table = model.search_results_
    names = list(dict.fromkeys(table["candidate"].tolist()))
    complete = table["n_folds"] == table["n_folds"].max()
    errors = np.where(complete, table["error"], np.inf)
    best = {name: float(errors[table["candidate"] == name].min()) for name in names}
    leader = min(best, key=lambda name: best[name])
    first = errors.argmin()
    lines = [
        f"{len(names)} candidates were compared by their out-of-fold errors, pooled over {len(model.tasks_)} tasks.",
        f"The best is {leader}: {best[leader]:.4g} ± {table['standard_error'][first]:.2g} (C={table['C'][first]:.3g}).",
    ]
    plain = {name: value for name, value in best.items() if name.startswith("average kernel")}
    if plain and np.inf > min(plain.values()) > best[leader]:
        lines.append(f"The best average kernel has {min(plain.values()):.4g}.")
    if len(model.members_) > 1:
        parts = ", ".join(f"{member['name']} {member['weight']:.0%}" for member in model.members_)
        lines.append(f"Predictions are the average of {len(model.members_)} models: {parts}.")
    if not model.is_complete_:
        lines.append("The search was not complete.")
    top = [f"{name} {share:.0%}" for name, share in list(model.column_shares_.items())[:5] if share >= 0.01]
    lines.append(f"Kernel weights by column: {', '.join(top)}.")
    return " ".join(lines)
