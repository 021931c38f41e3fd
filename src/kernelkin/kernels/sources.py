"""Where a model's kernels come from: a list, or a dictionary that is made from the training rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..data import TaskData
from .base import FittedKernel, Kernel
from .columns import Columns
from .encoded import on_encoded_columns
from .families import default_kernels, gaussian_kernels, linear_kernels, resolve_kernels
from .functions import Gaussian, ScaledGaussian
from .groups import column_groups, group_name
from .pairwise import fit_kernels
from .relevance import length_scales, make_sample

# Kernels on groups of columns that a dictionary has at most.
MAX_GROUPS = 50
# Widths of the kernels with learned length scales, relative to these.
RELEVANCE_WIDTHS = (0.5, 1.0, 2.0, 4.0)


class KernelSource(Protocol):
    """Makes fitted kernels from training data."""

    @property
    def uses_targets(self) -> bool:
        """Whether it looks at the targets, so that every fold needs kernels of its own."""
        ...

    def fit(self, data: TaskData) -> list[FittedKernel]:
        """Return the kernels, fitted on the training rows."""
        ...


@dataclass(frozen=True)
class ListedKernels:
    """Kernels that are given."""

    kernels: tuple[Kernel, ...]
    uses_targets: bool = False

    def fit(self, data: TaskData) -> list[FittedKernel]:
        kernels = on_encoded_columns(self.kernels, data.feature_origins)
        return fit_kernels(kernels, data.X, data.feature_names, data.sample_weight)


@dataclass(frozen=True)
class AutoKernels:
    """Gaussians of several widths on all columns, a linear kernel, and Gaussians on groups of columns.

    Parameters
    ----------
    groups : mapping from names to columns, optional
        The groups, by position or name. None: each column, categories (neighbouring indicator columns) as one, and
        blocks of highly correlated columns.
    max_groups : int
        Kernels on groups at most.
    whole : bool
        Whether there are Gaussians on all columns together too.
    """

    groups: Mapping[str, Columns] | None = field(default=None, hash=False)
    max_groups: int = MAX_GROUPS
    whole: bool = True
    uses_targets: bool = False

    def fit(self, data: TaskData) -> list[FittedKernel]:
        whole = default_kernels() if self.whole else linear_kernels()
        kernels = resolve_kernels([*whole, *(self._named() if self.groups is not None else self._found(data))])
        kernels = on_encoded_columns(kernels, data.feature_origins)
        return fit_kernels(kernels, data.X, data.feature_names, data.sample_weight)

    def _named(self) -> list[Kernel]:
        assert self.groups is not None
        return [
            Kernel(f"{name}: {kernel.name}", kernel.function, columns)
            for name, columns in self.groups.items()
            for kernel in (*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels())
        ]

    def _found(self, data: TaskData) -> list[Kernel]:
        rows = np.flatnonzero(data.sample_weight > 0)
        groups = column_groups(np.asarray(data.X[rows], dtype=np.float64), self.max_groups, data.feature_origins)
        if len(groups) == 1 and len(groups[0]) == data.X.shape[1]:
            return []  # the kernels on all columns are those
        label = Gaussian(1.0).label
        names = [group_name(group, data.feature_names, data.feature_origins) for group in groups]
        return [Kernel(f"{label}[{name}]", Gaussian(1.0), group) for name, group in zip(names, groups, strict=True)]


@dataclass(frozen=True)
class RelevanceKernels:
    """Gaussians with a length scale for each column, learned from all tasks together, at several widths; and linear."""

    widths: tuple[float, ...] = RELEVANCE_WIDTHS
    uses_targets: bool = True

    def fit(self, data: TaskData) -> list[FittedKernel]:
        targets = [_numbers(y) for y in data.y]
        X = np.asarray(data.X, dtype=np.float64)
        scales = length_scales(make_sample(X, data.rows, targets, data.form == "wide"))
        columns = tuple(range(X.shape[1]))
        found = [
            FittedKernel(
                f"relevance({width:g})",
                ScaledGaussian(tuple((1.0 / scales).tolist()), width),
                columns,
            )
            for width in self.widths
        ]
        return [*found, *fit_kernels(linear_kernels(), data.X, data.feature_names, data.sample_weight)]


def read_kernels(kernels: Any) -> KernelSource:
    """What a user passes as `kernels` -> a source: "auto", "relevance", a mapping of groups, or a list of kernels."""
    if isinstance(kernels, AutoKernels | RelevanceKernels | ListedKernels):
        return kernels
    if isinstance(kernels, str) and kernels == "auto":
        return AutoKernels()
    if isinstance(kernels, str) and kernels == "relevance":
        return RelevanceKernels()
    if isinstance(kernels, Mapping):
        if not kernels:
            raise ValueError("kernels is an empty dict: name one group of columns at least")
        return AutoKernels(dict(kernels))
    return ListedKernels(tuple(resolve_kernels(kernels)))


def _numbers(y: np.ndarray) -> np.ndarray:
    """Return targets (n, m): numbers as they are, classes as indicators (one column for two classes)."""
    if y.dtype.kind == "f":
        return y[:, np.newaxis]
    classes, codes = np.unique(y, return_inverse=True)
    positive = codes[:, np.newaxis] == (np.arange(len(classes)) if len(classes) > 2 else [1])
    return positive.astype(np.float64)
