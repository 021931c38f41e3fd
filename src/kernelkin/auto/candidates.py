"""The models that are tried: kernels x model x parsimony x shared parts, each along values of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..data import TaskData
from ..fitting import Fit, PooledFit, Shape, Specification, Targets
from ..kernels import AutoKernels, JoinedKernels, ListedKernels, RelevanceKernels, default_kernels, read_kernels
from ..models.mkmtrl import relation_penalty
from ..penalties import FixedWeights, MixedNorm, SpectralNorm

# Gaps that candidates are solved to: they are compared by errors that are far less certain.
SEARCH_TOL = 1e-2
# Rows of all tasks above which one machine over all of them is too slow to be tried along a path.
MAX_COUPLED_ROWS, MAX_POOLED_ROWS = 2500, 600
WIDE_GRID = tuple(np.logspace(-2, 3, 11).tolist())
SHORT_GRID = tuple(np.logspace(-1, 2, 4).tolist())


@dataclass(frozen=True)
class Candidate:
    """A model with everything chosen but C.

    Attributes
    ----------
    name : in words.
    make : from C and tol to its specification.
    grid : values of C.
    group : candidates of the same group are solved on the same Gram matrices.
    params : what decides about Gram matrices and their scaling; see `model_selection.grid.identity`.
    """

    name: str
    make: Callable[[float, float], Specification]
    grid: tuple[float, ...]
    group: str
    params: dict[str, Any]


def make_candidates(
    data: TaskData, targets: Targets, kernels: Any = None, common_only: bool = False
) -> list[Candidate]:
    """Return the candidates for these data, the most promising first.

    `kernels` None stands for all dictionaries; others are the only ones. `common_only` keeps those that can predict
    tasks never seen.
    """
    dictionaries = _dictionaries(data, kernels)
    n_rows = sum(map(len, data.rows))
    found: list[Candidate] = []
    if not common_only:
        for name, source in dictionaries.items():
            found += _uncoupled(name, source, targets)
    if data.n_tasks > 1 and data.form != "wide" and n_rows <= MAX_COUPLED_ROWS:
        for name, source in dictionaries.items():
            found += _coupled(name, source, targets)
    if data.n_tasks > 1 and n_rows <= MAX_POOLED_ROWS and not common_only:
        name, source = next(iter(dictionaries.items()))
        found.append(_shared_features(name, source, targets))
    if not found:
        raise ValueError(
            "unknown_tasks='common' needs tasks with rows of their own, and no more than "
            f"{MAX_COUPLED_ROWS} rows in all for now"
        )
    return found


def _dictionaries(data: TaskData, kernels: Any) -> dict[str, Any]:
    if kernels is not None:
        return {"the given kernels": read_kernels(kernels)}
    plain = ListedKernels(tuple(default_kernels()))
    found: dict[str, Any] = {"all columns": plain}
    if data.X.shape[1] > 1:
        found["groups of columns"] = AutoKernels()
        found["relevance"] = JoinedKernels((RelevanceKernels(), plain))
    return found


def _uncoupled(name: str, source: Any, targets: Targets) -> list[Candidate]:
    found = [
        _candidate(f"MK-MTRL on {name}, parsimony {parsimony:g}", name, WIDE_GRID, _mkmtrl, targets, source, parsimony)
        for parsimony in (0.5, 1.0, 0.0)
    ]
    found.append(_candidate(f"MK-MTFL on {name}, parsimony 0.5", name, WIDE_GRID[2::2], _mkmtfl, targets, source, 0.5))
    found.append(_candidate(f"average kernel on {name}", name, WIDE_GRID, _average, targets, source, 0.0))
    return found


def _coupled(name: str, source: Any, targets: Targets) -> list[Candidate]:
    return [
        _candidate(
            f"MK-MTRL on {name} with a common part, sharing {sharing:g}",
            f"{name}, common",
            SHORT_GRID,
            partial(_mkmtrl, couplings="common", sharing=sharing),
            targets,
            source,
            0.5,
            couplings="common",
            sharing=sharing,
        )
        for sharing in (0.5,)
    ]


def _shared_features(name: str, source: Any, targets: Targets) -> Candidate:
    return _candidate(f"MTFL on {name}", f"{name}, shared features", SHORT_GRID, _mtfl, targets, source, 0.0)


def _candidate(
    name: str,
    group: str,
    grid: Sequence[float],
    make: Callable[..., Specification],
    targets: Targets,
    source: Any,
    parsimony: float,
    **scaling: Any,
) -> Candidate:
    params = {"kernels": source, "parsimony": parsimony, **scaling}
    return Candidate(name, partial(make, targets, source, parsimony), tuple(grid), group, params)


def _mkmtrl(
    targets: Targets,
    source: Any,
    parsimony: float,
    C: float,
    tol: float,
    couplings: str | None = None,
    sharing: float = 1.0,
) -> Fit:
    return Fit(
        targets=targets,
        penalty=relation_penalty,
        has_path=True,
        kernels=source,
        C=C,
        parsimony=parsimony,
        couplings=couplings,
        sharing=sharing,
        solver="joint",
        tol=tol,
    )


def _mkmtfl(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> Fit:
    return Fit(targets=targets, penalty=_mixed_norm, kernels=source, C=C, parsimony=parsimony, tol=tol)


def _average(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> Fit:
    return Fit(targets=targets, penalty=_even_weights, kernels=source, C=C, tol=tol)


def _mtfl(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> PooledFit:
    return PooledFit(targets=targets, norm=SpectralNorm(l1=0.0, l2=1.0), kernels=source, C=C, solver="joint", tol=tol)


def _mixed_norm(shape: Shape) -> MixedNorm:
    return MixedNorm()


def _even_weights(shape: Shape) -> FixedWeights:
    return FixedWeights(np.full((shape.n_kernels, shape.n_components), 1.0 / shape.n_kernels))
