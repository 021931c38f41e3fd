"""What a search has chosen, in words and by columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data import TaskData
from ..kernels import FittedKernel, Kernel
from ..kernels.encoded import on_encoded_columns
from ..kernels.functions import Linear, ScaledGaussian
from ..kernels.groups import group_name
from .candidates import OWN_CHOICE

ALL_COLUMNS = "all columns together"


def column_shares(
    members: Sequence[dict[str, Any]], weights: Sequence[float], data: TaskData, kernels: Any = None
) -> dict[str, float]:
    """Return the share of the kernel weights on each column or group of columns, the largest first.

    Columns of an encoded table are those of the table. Kernels on all columns count as one group; a kernel with learned
    length scales is shared out by how fast it varies along each column. Where `kernels` is a mapping from names to
    columns, these are the names of the groups.
    """
    named = _named_groups(kernels, data) if isinstance(kernels, Mapping) else {}
    total: dict[str, float] = {}
    for attributes, weight in zip(members, weights, strict=True):
        mix = _mean_mix(attributes)
        for kernel, share in zip(attributes["kernels_"], mix.tolist(), strict=True):
            for name, part in _by_column(kernel, data, named).items():
                total[name] = total.get(name, 0.0) + weight * share * part
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _mean_mix(attributes: dict[str, Any]) -> np.ndarray:
    """Return the mean over tasks and couplings of the kernel weights (K,), of sum one."""
    own, shared = attributes["kernel_weights_"], attributes.get("coupling_weights_", ())
    mix = (np.vstack([own, shared]) if len(shared) else own).mean(axis=0)
    return mix / mix.sum() if mix.sum() > 0 else mix


def _named_groups(groups: Mapping[str, Any], data: TaskData) -> dict[tuple[int, ...], str]:
    """The positions of the columns of each group -> its name."""
    kernels = [Kernel(name, Linear(), columns) for name, columns in groups.items()]
    kernels = on_encoded_columns(kernels, data.feature_origins)
    found = [target for kernel in kernels for target in kernel.targets(data.X.shape[1], data.feature_names)]
    return {positions: name for name, positions in found}


def _by_column(kernel: FittedKernel, data: TaskData, named: Mapping[tuple[int, ...], str]) -> dict[str, float]:
    if kernel.columns in named:
        return {named[kernel.columns]: 1.0}
    names, origins = data.feature_names, data.feature_origins
    if isinstance(kernel.function, ScaledGaussian):
        speed = np.square(kernel.function.scales)
        found: dict[str, float] = {}
        for j, part in enumerate((speed / speed.sum()).tolist()):
            name = group_name((j,), names, origins)
            found[name] = found.get(name, 0.0) + part
        return found
    name = group_name(kernel.columns, names, origins)
    if len(kernel.columns) == data.X.shape[1] > 1 and (origins is None or len(set(origins)) > 1):
        return {ALL_COLUMNS: 1.0}
    return {name: 1.0}


def explain(model: Any) -> str:
    """Return what was tried, what came out best, and what is averaged, in a few sentences."""
    table = model.search_results_
    names = list(dict.fromkeys(table["candidate"].tolist()))
    complete = table["n_folds"] == table["n_folds"].max()
    errors = np.where(complete, table["error"], np.inf)
    best = {name: float(errors[table["candidate"] == name].min()) for name in names}
    leader = min(best, key=lambda name: best[name])
    first = int(errors.argmin())
    counted = "1 candidate was" if len(names) == 1 else f"{len(names)} candidates were"
    lines = [
        f"{counted} compared by their out-of-fold errors, pooled over {len(model.tasks_)} tasks.",
        f"The best is {leader}: {best[leader]:.4g} ± {table['standard_error'][first]:.2g} ({_cost(table, first)}).",
    ]
    own = {name: value for name, value in best.items() if name.startswith(OWN_CHOICE) and np.isfinite(value)}
    if own and not leader.startswith(OWN_CHOICE):
        lines.append(f"Kernel weights and strength chosen for each task have {min(own.values()):.4g}.")
    plain = {name: value for name, value in best.items() if name.startswith("average kernel")}
    if plain and np.inf > min(plain.values()) > best[leader]:
        lines.append(f"The best average kernel has {min(plain.values()):.4g}.")
    if len(model.members_) > 1:
        parts = ", ".join(f"{member['name']} {member['weight']:.0%}" for member in model.members_)
        lines.append(f"Predictions are the average of {len(model.members_)} models: {parts}.")
    functions = model.functions_
    n_own = int((functions.task_weights != functions.weights[:, np.newaxis]).any(axis=0).sum())
    if n_own:
        lines.append(f"Tasks that take another model than the average, by their own held-out rows: {n_own}.")
    if not model.is_complete_:
        lines.append("The search was not complete.")
    top = [f"{name} {share:.0%}" for name, share in list(model.column_shares_.items())[:5] if share >= 0.01]
    lines.append(f"Kernel weights by column: {', '.join(top)}.")
    return " ".join(lines)


def _cost(table: Mapping[str, np.ndarray], row: int) -> str:
    """The C of a row of the search's results, in words."""
    if str(table["candidate"][row]).startswith(OWN_CHOICE):
        return "strengths of their own"
    return f"C={table['C'][row]:.3g}"
