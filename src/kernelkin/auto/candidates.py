"""The models that are tried: kernels x model x parsimony x shared parts, each along values of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..couplings import has_new_tasks, read_couplings
from ..data import TaskData
from ..fitting import Classification, Fit, PooledFit, Regression, Shape, Specification, Targets, TaskMixFit
from ..fitting.task_mixes import unsuited
from ..kernels import (
    AutoKernels,
    JoinedKernels,
    ListedKernels,
    RelevanceKernels,
    RememberedKernels,
    default_kernels,
    gaussian_kernels,
    linear_kernels,
    read_kernels,
)
from ..model_selection.default_grid import COSTS, COUPLED_COSTS, MAX_COUPLED_ROWS, PARSIMONY, SHARING
from ..models.average import even_weights
from ..models.composed import mixed_norm
from ..models.mkmtrl import relation_penalty
from ..penalties import Penalty, RelationPenalty, SharedOnlyPenalty, SpectralNorm

# Gaps that candidates are solved to: they are compared by errors that are far less certain.
SEARCH_TOL = 1e-2
# The same for the machines of MTFL.
MAX_POOLED_ROWS = 600
# On classes with few rows MTFL takes more iterations than other models.
MTFL_MAX_ITER = 500
# Values of C for models without a path along it.
COARSE_GRID = tuple(np.logspace(-1, 3, 4).tolist())

ALL, SMOOTH, GROUPS, RELEVANCE = "all columns", "all columns, smooth", "groups of columns", "relevance"
LINEAR = "a linear kernel"

# Labels of wide data above which MK-MTFL is not tried, as it takes some 30 times as long as MK-MTRL there, and a choice
# for each task, which takes the least time, is tried first.
MAX_MKMTFL_LABELS = 30_000

# Rows of all tasks above which one function for all tasks is tried on learned length scales alone.
MAX_ONE_FUNCTION_ROWS = 1000

# A choice of kernel weights and strength for each task: what such candidates are called, and rows of wide data and
# tasks from which on they are tried.
OWN_CHOICE = "a choice for each task"
OWN_CHOICE_ROWS, OWN_CHOICE_TASKS = 30, 4

# Dictionaries on which fewer degrees of parsimony are tried.
FEWER = {SMOOTH: PARSIMONY[:1], GROUPS: PARSIMONY[:2], RELEVANCE: PARSIMONY[:2]}


@dataclass(frozen=True)
class Candidate:
    """A model with everything chosen but C.

    Attributes
    ----------
    name : in words.
    make : from C and tol to its specification.
    grid : values of C.
    group : candidates of the same group are solved on the same Gram matrices.
    is_costly : whether one machine has the rows of all tasks.
    params : what decides about Gram matrices and their scaling; see `model_selection.grid.identity`.
    """

    name: str
    make: Callable[[float, float], Specification]
    grid: tuple[float, ...]
    group: str
    params: dict[str, Any]
    is_costly: bool = False


def make_candidates(
    data: TaskData,
    targets: Targets,
    kernels: Any = None,
    task_features: Any = None,
    unknown_tasks: str = "error",
    device: str | None = None,
) -> list[Candidate]:
    """Return the candidates for these data, the most promising first.

    `kernels` None stands for all dictionaries; others are the only ones. Where tasks without rows have features, or
    `unknown_tasks` is "common", those candidates are kept that can predict tasks never seen. Those that can be solved
    on a device of torch are solved on `device`.
    """
    coupled_only = unknown_tasks == "common" or has_new_tasks(task_features, data.labels)
    dictionaries = _dictionaries(data, kernels)
    n_rows = sum(map(len, data.rows))
    is_large = data.form == "wide" and n_rows > MAX_MKMTFL_LABELS
    own_choices = [] if coupled_only else _own_choices(data, dictionaries, targets)
    found = [*own_choices] if is_large else []
    for name, source in () if coupled_only else dictionaries.items():
        found += _uncoupled(name, source, targets, tries_mkmtfl=not is_large)
    if data.n_tasks > 1 and (data.form != "wide" or task_features is not None) and _have_same_classes(data, targets):
        found += _coupled(data, dictionaries, targets, n_rows, task_features)
    if not is_large:
        found += own_choices
    if data.n_tasks > 1 and n_rows <= MAX_POOLED_ROWS and not coupled_only:
        name, source = next(iter(dictionaries.items()))
        found.append(_candidate(f"MTFL on {name}", f"{name}, MTFL", COUPLED_COSTS, _mtfl, targets, source, 0.0))
    if not found:
        raise ValueError(
            "unknown_tasks='common' and task_features of tasks without rows need several tasks with the same classes "
            f"and rows of their own, and no more than {MAX_COUPLED_ROWS} rows in all where kernels have no low rank"
        )
    return found if device is None else [replace(each, make=partial(_on_device, each.make, device)) for each in found]


def _on_device(make: Callable[[float, float], Specification], device: str, C: float, tol: float) -> Specification:
    """Return a specification on a device; machines of coupled tasks are solved there with the squared loss alone."""
    found = make(C, tol)
    if isinstance(found, TaskMixFit):
        return replace(found, device=device)
    if not isinstance(found, Fit) or (found.couplings is not None and isinstance(found.targets, Classification)):
        return found
    return replace(found, device=device)


def _dictionaries(data: TaskData, kernels: Any) -> dict[str, Any]:
    """Return the sources of kernels by name; each is fitted once to the same rows."""
    sources = _all_sources(data) if kernels is None else {"the given kernels": read_kernels(kernels)}
    return {name: RememberedKernels(source, name) for name, source in sources.items()}


def _all_sources(data: TaskData) -> dict[str, Any]:
    found: dict[str, Any] = {ALL: ListedKernels(tuple(default_kernels()))}
    if data.X.shape[1] > 1:
        found[GROUPS] = AutoKernels()
        found[RELEVANCE] = JoinedKernels((RelevanceKernels(), ListedKernels(tuple(default_kernels()))))
    found[SMOOTH] = ListedKernels((*gaussian_kernels((1.0, 2.0, 4.0, 8.0)), *linear_kernels()))
    found[LINEAR] = ListedKernels(tuple(linear_kernels()))
    return found


def _uncoupled(name: str, source: Any, targets: Targets, *, tries_mkmtfl: bool) -> list[Candidate]:
    if name == LINEAR:
        return [_candidate("linear kernel", name, COSTS, _average, targets, source, 0.0)]
    found = [
        _candidate(f"MK-MTRL on {name}, parsimony {parsimony:g}", name, COSTS, _mkmtrl, targets, source, parsimony)
        for parsimony in FEWER.get(name, PARSIMONY)
    ]
    if name != RELEVANCE:
        found.append(_candidate(f"average kernel on {name}", name, COSTS, _average, targets, source, 0.0))
    if tries_mkmtfl and name not in (ALL, SMOOTH):
        found.append(_candidate(f"MK-MTFL on {name}", name, COARSE_GRID, _mkmtfl, targets, source, 0.5))
    return found


def _own_choices(data: TaskData, dictionaries: dict[str, Any], targets: Targets) -> list[Candidate]:
    """Return candidates that choose for each task by its own held-out errors; see `kernelkin.mixes`."""
    few = len(data.X) < OWN_CHOICE_ROWS or data.n_tasks < OWN_CHOICE_TASKS
    if few or unsuited(data, targets):
        return []
    names = [name for name in (ALL, GROUPS, "the given kernels") if name in dictionaries]
    return [
        _candidate(f"{OWN_CHOICE} on {name}", f"{name}, {OWN_CHOICE}", (1.0,), _mixes, targets, dictionaries[name], 0.0)
        for name in names
    ]


def _have_same_classes(data: TaskData, targets: Targets) -> bool:
    """Whether tasks can share parts: their classes are the same, but for tasks that have one class only."""
    if not isinstance(targets, Classification):
        return True
    classes = {tuple(np.unique(y).tolist()) for y in data.y}
    several = {each for each in classes if len(each) > 1}
    return len(several) == 1 and all(set(each) <= set(next(iter(several))) for each in classes)


def _coupled(
    data: TaskData, dictionaries: dict[str, Any], targets: Targets, n_rows: int, task_features: Any
) -> list[Candidate]:
    """Return candidates with parts that tasks share; where rows are many, only on kernels of low rank."""
    if n_rows > MAX_COUPLED_ROWS:
        sources = {"each column": RememberedKernels(AutoKernels(whole=False), "each column")}
        sources |= {name: source for name, source in dictionaries.items() if name == LINEAR}
        return [
            _shared(name, source, targets, "common", task_features)
            for name, source in sources.items()
            if _mkmtrl(targets, source, 0.5, 1.0, SEARCH_TOL, "common").plan(data).gram_plan().low_rank is not None
        ]
    finds_more = len(read_couplings("auto", data)) > 1
    one = () if task_features is not None else _one_function_names(dictionaries, n_rows)
    return [_one_function(name, dictionaries[name], targets) for name in one] + [
        _shared(name, source, targets, couplings, task_features)
        for name, source in dictionaries.items()
        if name != SMOOTH
        for couplings in (("common", "auto") if name in (ALL, "the given kernels") and finds_more else ("common",))
    ]


def _shared(name: str, source: Any, targets: Targets, couplings: str, task_features: Any) -> Candidate:
    words = {"common": "a common part", "auto": "a common part and parts by likeness of tasks"}[couplings]
    if task_features is not None:
        words += ", and parts by task features"
    return _candidate(
        f"MK-MTRL on {name} with {words}",
        f"{name}, {couplings}",
        COUPLED_COSTS,
        partial(_mkmtrl, couplings=couplings, sharing=SHARING, task_features=task_features),
        targets,
        source,
        0.5,
        couplings=couplings,
        sharing=SHARING,
    )


def _one_function_names(dictionaries: dict[str, Any], n_rows: int) -> list[str]:
    """Return the dictionaries on which one function for all tasks is tried."""
    if RELEVANCE not in dictionaries:
        return list(dictionaries)[:1]
    return [RELEVANCE] if n_rows > MAX_ONE_FUNCTION_ROWS else [GROUPS, RELEVANCE]


def _one_function(name: str, source: Any, targets: Targets) -> Candidate:
    return _candidate(
        f"one function for all tasks on {name}",
        f"{name}, common",
        COUPLED_COSTS,
        partial(_mkmtrl, couplings="common", penalty=shared_part_only),
        targets,
        source,
        0.5,
        couplings="common",
        sharing=1.0,
    )


def shared_part_only(shape: Shape) -> SharedOnlyPenalty:
    """Return the penalty of tasks that share one function and have no parts of their own."""
    return SharedOnlyPenalty(shape.n_tasks, RelationPenalty(shape.n_couplings))


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
    costly = "couplings" in scaling or make is _mtfl
    return Candidate(name, partial(make, targets, source, parsimony), tuple(grid), group, params, costly)


def _mkmtrl(
    targets: Targets,
    source: Any,
    parsimony: float,
    C: float,
    tol: float,
    couplings: str | None = None,
    sharing: float = 1.0,
    task_features: Any = None,
    penalty: Callable[[Shape], Penalty] = relation_penalty,
) -> Fit:
    return Fit(
        targets=targets,
        penalty=penalty,
        has_path=True,
        kernels=source,
        C=C,
        parsimony=parsimony,
        couplings=couplings,
        sharing=sharing,
        task_features=task_features,
        solver="joint",
        tol=tol,
    )


def _mkmtfl(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> Fit:
    return Fit(targets=targets, penalty=mixed_norm, kernels=source, C=C, parsimony=parsimony, tol=tol)


def _average(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> Fit:
    return Fit(targets=targets, penalty=even_weights, kernels=source, C=C, tol=tol)


def _mixes(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> TaskMixFit:
    """Return a specification whose weights are at C = 1: there is no other."""
    assert isinstance(targets, Regression)
    return TaskMixFit(targets=targets, kernels=source, parsimony=parsimony, tol=tol)


def _mtfl(targets: Targets, source: Any, parsimony: float, C: float, tol: float) -> PooledFit:
    norm = SpectralNorm(l1=0.0, l2=1.0)
    return PooledFit(targets=targets, norm=norm, kernels=source, C=C, solver="joint", tol=tol, max_iter=MTFL_MAX_ITER)
