"""Kernel functions, families of them, and the conversion of the parameter `kernels` to fitted kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import Any, ClassVar

import numpy as np

from ..data.forms import TaskData
from .grams import check_values, mirror
from .kernel import Columns, FittedKernel, Kernel, KernelFunction, fit_kernels, label_columns

# Around the median distance, where a Gaussian kernel is neither the identity nor constant.
RELATIVE_BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Kernels of scikit-learn that are always positive semi-definite; others are tested on the training rows.
PSD_METRICS = frozenset({"chi2", "cosine", "laplacian"})
# A callable returns only matrices: values at pairs are the diagonal of a block of this many pairs.
PAIR_BLOCK = 64


@dataclass(frozen=True)
class GaussianKernel(KernelFunction):
    """exp(-|x - z|^2 / (2 s^2)), s = bandwidth, or bandwidth x the median training distance when relative."""

    bandwidth: float
    relative: bool = True  # type: ignore[misc]
    base: ClassVar[str] = "squared distances"
    of_distances: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth < np.inf:
            raise ValueError(f"the bandwidth of a Gaussian kernel must be positive and finite, got {self.bandwidth!r}")

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        """Squared distances >= 0; among the rows of X they are symmetric, with a diagonal of exact zeros."""
        other = X if Y is None else Y
        if X.shape[1] == 1:
            np.subtract(X, other.T, out=out)
            np.square(out, out=out)
            return
        # |x|^2 + |y|^2 - 2 x'y loses digits when the rows are far from the origin, so subtract the mean first.
        center = other.mean(axis=0)
        left, right = X - center, other - center
        np.matmul(-2.0 * left, right.T, out=out)
        out += np.einsum("ij,ij->i", left, left)[:, None]
        out += np.einsum("ij,ij->i", right, right)
        np.maximum(out, 0.0, out=out)
        if Y is None:
            np.fill_diagonal(out, 0.0)
            mirror(out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        difference = X - Y
        return np.einsum("ij,ij->i", difference, difference)

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.multiply(values, -0.5 / self.bandwidth / self.bandwidth, out=out)
        np.exp(out, out=out)

    def scaled(self, median: float) -> GaussianKernel:
        return GaussianKernel(self.bandwidth * median, relative=False)


@dataclass(frozen=True)
class PolynomialKernel(KernelFunction):
    """(x'z + coef0)^degree; positive semi-definite for coef0 >= 0 and integer degrees."""

    degree: int
    coef0: float = 1.0

    def __post_init__(self) -> None:
        _check_whole("degree of a polynomial", self.degree)
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of a polynomial kernel must be finite and not negative, got {self.coef0!r}")

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.add(values, self.coef0, out=out)
        # Ten times faster than np.power for degrees above 2. Blocks keep the copy small.
        for start in range(0, len(out), 64):
            block = out[start : start + 64]
            factor = block.copy()
            for _ in range(self.degree - 1):
                block *= factor

    def n_features(self, d: int) -> float:
        return comb(d + self.degree, self.degree)

    def features(self, X: np.ndarray) -> np.ndarray:
        # Products of columns, times roots of multinomial coefficients. The root of coef0 counts as a further column.
        parts = np.column_stack([X, np.full(len(X), sqrt(self.coef0))])
        chosen = np.array(list(combinations_with_replacement(range(parts.shape[1]), self.degree)))
        repeats = [prod(factorial(int(n)) for n in np.unique(row, return_counts=True)[1]) for row in chosen]
        found = np.tile(np.sqrt(factorial(self.degree) / np.array(repeats)), (len(parts), 1))
        for column in chosen.T:
            found *= parts[:, column]
        return found


@dataclass(frozen=True)
class LinearKernel(KernelFunction):
    """x'z."""

    def n_features(self, d: int) -> float:
        return d

    def features(self, X: np.ndarray) -> np.ndarray:
        return X


@dataclass(frozen=True)
class TanimotoKernel(KernelFunction):
    """An integer power of x'z / (|x|^2 + |z|^2 - x'z), which is one between two rows of zeros.

    Positive semi-definite for all real rows: with s = |x|^2 + |z|^2 - x'z, 1/s is the integral over t > 0 of
    exp(-t |x|^2) exp(t x'z) exp(-t |z|^2), each of which is a kernel, and products of kernels are kernels.
    """

    power: int = 1
    base: ClassVar[str] = "Tanimoto similarities"

    def __post_init__(self) -> None:
        _check_whole("power of a Tanimoto", self.power)

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        super().matrix(X, Y, out, name)
        left = np.einsum("ij,ij->i", X, X)
        right = left if Y is None else np.einsum("ij,ij->i", Y, Y)
        # Blocks keep the matrix of denominators small.
        for start in range(0, len(out), 64):
            rows = slice(start, start + 64)
            out[rows] = self._similarity(out[rows], left[rows, np.newaxis] + right)
        if Y is None:
            # matmul and einsum add in different orders, so the diagonal may differ from one by rounding.
            np.fill_diagonal(out, 1.0)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        squares = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Y, Y)
        return self._similarity(np.einsum("ij,ij->i", X, Y), squares)

    @staticmethod
    def _similarity(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
        empty = squares == 0
        return np.where(empty, 1.0, products / np.where(empty, 1.0, squares - products))

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.power(values, self.power, out=out)


@dataclass(frozen=True)
class CallableKernel(KernelFunction):
    """A callable (X, Y) -> matrix (n, m). Two are equal if their callables are equal."""

    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(hash=False)  # a callable need not be hashable
    known_psd: bool = False  # type: ignore[misc]
    base: ClassVar[str] = ""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        try:
            # Some compiled functions, such as scikit-learn's chi2, reject read-only arrays.
            X = np.require(X, requirements="W")
            values = np.asarray(self.function(X, X if Y is None else np.require(Y, requirements="W")))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"kernel {name!r}: {error}") from error
        if values.dtype.kind not in "biuf":
            raise TypeError(f"kernel {name!r} returned values of type {values.dtype}, not real numbers")
        check_values(name, values, out.shape)
        out[...] = values

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        values = np.empty(len(X), dtype=X.dtype)
        for start in range(0, len(X), PAIR_BLOCK):
            rows = slice(start, start + PAIR_BLOCK)
            block = np.empty((len(X[rows]), len(X[rows])), dtype=X.dtype)
            self.matrix(X[rows], Y[rows], block, name)
            values[rows] = block.diagonal()
        return values


def _check_whole(what: str, value: object) -> None:
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"the {what} kernel must be a positive integer, got {value!r}")


def _kernel(name: str, function: KernelFunction, columns: Columns = None, per_feature: bool = False) -> Kernel:
    kernel = Kernel(name, function, columns, per_feature)
    # Per-feature kernels get their column in the name when they are expanded.
    return kernel if columns is None or per_feature else replace(kernel, name=name + label_columns(kernel.columns))


def gaussian_kernels(
    bandwidths: float | Sequence[float] | None = None,
    *,
    relative: bool = True,
    per_feature: bool = False,
    columns: Columns = None,
) -> list[Kernel]:
    """Gaussian kernels ``exp(-|x - z|^2 / (2 s^2))``, one per bandwidth.

    Parameters
    ----------
    bandwidths : float or sequence of float, default None
        One kernel per bandwidth. None: 0.25, 0.5, 1, 2 and 4, which needs ``relative=True``.
    relative : bool, default True
        If True, s is the bandwidth times the median distance between training rows. Otherwise s is the bandwidth.
    per_feature : bool, default False
        If True, make one kernel per bandwidth and column, each with its own median distance.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all.

    Examples
    --------
    >>> from kernelkin import gaussian_kernels, linear_kernels, polynomial_kernels
    >>> [kernel.name for kernel in [*gaussian_kernels((0.5, 2)), *polynomial_kernels((1, 2)), *linear_kernels()]]
    ['rbf(0.5 x median)', 'rbf(2 x median)', 'poly1', 'poly2', 'linear']
    >>> [kernel.name for kernel in gaussian_kernels(3.0, relative=False, columns=[0, 2])]
    ['rbf(bandwidth=3)[0, 2]']
    """
    if bandwidths is None and not relative:
        raise ValueError("relative=False needs bandwidths: the default bandwidths are relative to the median")
    name = "rbf({:g} x median)" if relative else "rbf(bandwidth={:g})"
    ladder = np.atleast_1d(RELATIVE_BANDWIDTHS if bandwidths is None else bandwidths).tolist()
    return [_kernel(name.format(s), GaussianKernel(float(s), bool(relative)), columns, per_feature) for s in ladder]


def polynomial_kernels(
    degrees: int | Sequence[int] = (1, 2, 3), coef0: float = 1.0, columns: Columns = None
) -> list[Kernel]:
    """Polynomial kernels ``(x'z + coef0)^degree``, one per degree.

    Parameters
    ----------
    degrees : int or sequence of int
    coef0 : float, default 1.0
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all.
    """
    suffix = "" if coef0 == 1 else f"(coef0={coef0:g})"
    powers = np.atleast_1d(degrees).tolist()
    return [_kernel(f"poly{degree}{suffix}", PolynomialKernel(degree, float(coef0)), columns) for degree in powers]


def linear_kernels(per_feature: bool = False, columns: Columns = None) -> list[Kernel]:
    """Linear kernel ``x'z``, or one linear kernel per column.

    Parameters
    ----------
    per_feature : bool, default False
        Whether to make one kernel per column.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all.
    """
    return [_kernel("linear", LinearKernel(), columns, per_feature)]


def tanimoto_kernels(powers: int | Sequence[int] = 1, columns: Columns = None) -> list[Kernel]:
    """Tanimoto kernels ``(x'z / (|x|^2 + |z|^2 - x'z))^power``, one per power, for molecular fingerprints.

    For rows of zeros and ones, this is the number of ones in both rows divided by the number of ones in either row.
    The kernel is positive semi-definite for counts and other real numbers too. Its value at two rows of zeros is one.

    Parameters
    ----------
    powers : int or sequence of int, default 1
        With larger powers, only very similar rows have large values.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all. `view_kernels` makes kernels of several fingerprints.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import tanimoto_kernels
    >>> bits = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    >>> tanimoto_kernels()[0].fit(bits)(bits).round(2)
    array([[1.  , 0.33],
           [0.33, 1.  ]])
    """
    named = [("tanimoto" if power == 1 else f"tanimoto^{power}", power) for power in np.atleast_1d(powers).tolist()]
    return [_kernel(name, TanimotoKernel(power), columns) for name, power in named]


def view_kernels(views: Mapping[str, Columns], kernel: Any = "rbf") -> list[Kernel]:
    """Make the same kernels for each of several named sets of columns.

    Parameters
    ----------
    views : dict of str to columns
        The name of each view and its columns, by position or name.
    kernel : str, Kernel, callable or list of them, default "rbf"
        Kernels that do not specify columns. Each view gets all of them, named "view: kernel".

    Examples
    --------
    >>> from kernelkin import gaussian_kernels, view_kernels
    >>> kernels = view_kernels({"shape": [0, 1], "colour": slice(2, 5)}, gaussian_kernels((1, 2)))
    >>> [kernel.name for kernel in kernels]
    ['shape: rbf(1 x median)', 'shape: rbf(2 x median)', 'colour: rbf(1 x median)', 'colour: rbf(2 x median)']
    """
    templates = resolve_kernels(kernel)
    if not views:
        raise ValueError("the dict of columns is empty: name at least one group of columns")
    for template in templates:
        if template.columns is not None:
            raise ValueError(f"kernel {template.name!r} already has columns; pass kernels without columns")
    return [
        replace(template, name=f"{view}: {template.name}", columns=columns)
        for view, columns in views.items()
        for template in templates
    ]


def is_precomputed(kernels: Any) -> bool:
    """Return True if the parameter `kernels` says that X holds Gram matrices."""
    return isinstance(kernels, str) and kernels == "precomputed"


_DEFAULT = (*gaussian_kernels(), *linear_kernels())


def default_kernels() -> list[Kernel]:
    """Return Gaussian kernels of five bandwidths around the median distance, and a linear kernel."""
    return list(_DEFAULT)


KERNEL_FAMILIES: dict[str, Callable[..., list[Kernel]]] = {
    "gaussian": gaussian_kernels,
    "polynomial": polynomial_kernels,
    "linear": linear_kernels,
    "tanimoto": tanimoto_kernels,
    "view": view_kernels,
    "default": default_kernels,
}


NAMED_KERNELS: dict[str, Kernel] = {
    "rbf": gaussian_kernels(1.0)[0],
    "linear": linear_kernels()[0],
    **dict.fromkeys(("poly", "polynomial"), polynomial_kernels(3)[0]),
    "tanimoto": tanimoto_kernels()[0],
}


def resolve_kernels(kernels: Any = None) -> list[Kernel]:
    """Convert the parameter `kernels` to a flat list of Kernel with unique names.

    `kernels` is None (for `default_kernels()`), a Kernel, a name (such as "rbf", "linear", "poly", "tanimoto" or a
    kernel of scikit-learn), a callable (X, Y) -> matrix, or a nested list of these. "auto" adds to the default kernels
    a Gaussian for each column; a mapping from names to columns adds three Gaussians and a linear kernel for each name.
    Duplicate names get the suffixes " (2)", " (3)" and so on.
    """
    if kernels is None:
        kernels = _DEFAULT
    elif isinstance(kernels, str) and kernels == "auto":
        kernels = [_DEFAULT, gaussian_kernels(1.0, per_feature=True)]
    elif isinstance(kernels, Mapping):
        kernels = [_DEFAULT, view_kernels(kernels, [*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels()])]
    left, unique = [kernels], []
    # The column is appended to the name of a per-feature kernel, so it may have the name of another kernel.
    taken: set[tuple[str, bool]] = set()
    while left:
        item = left.pop()
        if isinstance(item, list | tuple):
            left += reversed(item)
            continue
        kernel = item if isinstance(item, Kernel) else _one_kernel(item)
        name, count = kernel.name, 1
        while (name, kernel.per_feature) in taken:
            count += 1
            name = f"{kernel.name} ({count})"
        taken.add((name, kernel.per_feature))
        unique.append(kernel if count == 1 else replace(kernel, name=name))
    if not unique:
        raise ValueError("kernels is an empty list: pass at least one kernel, or None for the default kernels")
    return unique


def _one_kernel(given: Any) -> Kernel:
    """Return a kernel from its name or from a callable."""
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS as METRICS

    if isinstance(given, str):
        if given in NAMED_KERNELS:
            return NAMED_KERNELS[given]
        if given not in METRICS:
            raise ValueError(f"unknown kernel {given!r}; known names: {sorted({*NAMED_KERNELS, *METRICS})}")
        return Kernel(given, CallableKernel(METRICS[given], known_psd=given in PSD_METRICS))
    if isinstance(given, type) or any(given is family for family in KERNEL_FAMILIES.values()):
        raise TypeError(f"kernels contains {given.__name__} itself; call it: {given.__name__}()")
    if not callable(given):
        raise TypeError(f"a kernel must be a name, a Kernel or a callable (X, Y) -> matrix; got {given!r}")
    function = getattr(given, "func", given)  # functools.partial
    return Kernel(getattr(function, "__name__", type(function).__name__), CallableKernel(given))


def source_kernels(kernels: Any, data: TaskData) -> list[FittedKernel]:
    """Return the kernels that a user means by `kernels`, fitted on the training rows."""
    found = resolve_kernels(kernels)
    return fit_kernels(found, data.X, data.feature_names, data.sample_weight, data.feature_origins)


def refuse_positions(kernels: Any) -> None:
    """Raise if `kernels` gives columns by position: encoding a table changes positions."""
    for columns in () if is_precomputed(kernels) else (kernel.columns for kernel in resolve_kernels(kernels)):
        if isinstance(columns, slice) or any(isinstance(column, int) for column in columns or ()):  # type: ignore
            raise ValueError("columns of a table must be given by name, not by position")
