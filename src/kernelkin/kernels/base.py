"""Kernel, as specified by a user, and FittedKernel, the same fitted on training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .columns import Columns, freeze_columns, resolve_columns
from .functions import KernelFunction
from .pairwise import evaluate, fit_kernels, pairs


@dataclass(frozen=True)
class Kernel:
    """A base kernel before it has seen data; immutable, compared by value.

    Parameters
    ----------
    name : str
        Readable, such as "rbf(0.5 x median)"; errors and results use it.
    function : KernelFunction
        Gaussian, Polynomial, Linear or Custom.
    columns : int, str, slice or list of them, default None
        The columns it looks at, by position or by name; None: all.
    per_feature : bool, default False
        Stand for one kernel per column, named "name[column]"; `fit_kernels` expands it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import gaussian_kernels
    >>> kernel = gaussian_kernels(0.5)[0]
    >>> kernel.name
    'rbf(0.5 x median)'
    >>> kernel.fit(np.array([[0.0], [1.0]]))(np.array([[0.0]]), np.array([[0.5]])).round(4)
    array([[0.6065]])
    """

    name: str
    function: KernelFunction
    columns: Columns = field(default=None, hash=False)  # slices have no hash before Python 3.12
    per_feature: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", freeze_columns(self.columns, self.name))

    def targets(self, n_features: int, feature_names: Sequence[str] | None = None) -> list[tuple[str, tuple[int, ...]]]:
        """Return the kernels this stands for: the name and the positions of the columns of each.

        Parameters
        ----------
        n_features : int
            Number of columns of X.
        feature_names : sequence of str, optional
            Their names.
        """
        positions = resolve_columns(freeze_columns(self.columns, self.name), n_features, feature_names, self.name)
        if not self.per_feature:
            return [(self.name, positions)]
        labels = range(n_features) if feature_names is None else feature_names
        return [(f"{self.name}[{labels[p]}]", (p,)) for p in positions]

    def fit(
        self,
        X: np.ndarray,
        feature_names: Sequence[str] | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> FittedKernel:
        """Resolve columns and median-relative bandwidths on the training rows.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows.
        feature_names : sequence of str, optional
            Names of the columns.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        """
        if self.per_feature:
            raise ValueError(f"kernel {self.name!r} stands for one kernel per feature: fit it with fit_kernels")
        return fit_kernels([self], X, feature_names, sample_weight)[0]


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with every column and number resolved; `function` on the `columns` (positions) of X."""

    name: str
    function: KernelFunction
    columns: tuple[int, ...]

    @property
    def known_psd(self) -> bool:
        """Whether theory says that its Gram matrices are positive semi-definite."""
        return self.function.known_psd

    def select(self, X: np.ndarray) -> np.ndarray:
        """X (n, d) -> (n, len(columns)); X itself when the kernel looks at all of it."""
        return X if self.columns == tuple(range(X.shape[1])) else X[:, self.columns]

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """X (n, d), Y (m, d) -> (n, m); Y=None stands for X."""
        return evaluate([self], X, Y)[0]

    def diagonal(self, X: np.ndarray) -> np.ndarray:
        """k(x, x) for the rows of X (n, d) -> (n,)."""
        every = np.arange(len(X))
        return self.pairs(X, every, every)

    def pairs(self, X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """k(X[i], X[j]) -> (len(i),), without a matrix. A callable costs 64 evaluations a pair."""
        return pairs([self], X, i, j)[0]
