"""Families of kernels, how a user's `kernels` becomes a list of Kernel, and a kernel between columns of targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..decompositions import eigh
from .kernel import (
    CallableKernel,
    Columns,
    GaussianKernel,
    Kernel,
    KernelFunction,
    LinearKernel,
    PolynomialKernel,
    TanimotoKernel,
    freeze_columns,
    label_columns,
)

# Around the median distance, where a Gaussian kernel is neither the identity nor constant.
RELATIVE_BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Those of scikit-learn's named kernels that are positive semi-definite; the others are tested on the training rows.
PSD_METRICS = frozenset({"chi2", "cosine", "laplacian"})


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
        None: 0.25, 0.5, 1, 2 and 4, for relative kernels only.
    relative : bool, default True
        s is the bandwidth times the median distance of the training rows; otherwise s is the bandwidth.
    per_feature : bool, default False
        One kernel per bandwidth and column, each with its own median distance.
    columns : int, str, slice or list, default None
        The columns to look at; None: all.

    Examples
    --------
    >>> from kernelkin import gaussian_kernels
    >>> [kernel.name for kernel in gaussian_kernels((0.5, 2))]
    ['rbf(0.5 x median)', 'rbf(2 x median)']
    >>> [kernel.name for kernel in gaussian_kernels(3.0, relative=False, columns=[0, 2])]
    ['rbf(bandwidth=3)[0, 2]']
    """
    if bandwidths is None and not relative:
        raise ValueError("bandwidths must be given when relative=False: the default ones are relative to the median")
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
        One kernel for each.
    coef0 : float, default 1.0
        What is added to the inner product.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all.

    Examples
    --------
    >>> from kernelkin import polynomial_kernels
    >>> [kernel.name for kernel in polynomial_kernels((1, 2, 3))]
    ['poly1', 'poly2', 'poly3']
    """
    suffix = "" if coef0 == 1 else f"(coef0={coef0:g})"
    powers = np.atleast_1d(degrees).tolist()
    return [_kernel(f"poly{degree}{suffix}", PolynomialKernel(degree, float(coef0)), columns) for degree in powers]


def linear_kernels(per_feature: bool = False, columns: Columns = None) -> list[Kernel]:
    """The linear kernel ``x'z``, or one per column.

    Parameters
    ----------
    per_feature : bool, default False
        Whether to make a kernel for each column.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all.

    Examples
    --------
    >>> from kernelkin import linear_kernels
    >>> [kernel.name for kernel in linear_kernels()]
    ['linear']
    """
    return [_kernel("linear", LinearKernel(), columns, per_feature)]


def tanimoto_kernels(powers: int | Sequence[int] = 1, columns: Columns = None) -> list[Kernel]:
    """Tanimoto kernels ``(x'z / (|x|^2 + |z|^2 - x'z))^power``, one per power: for fingerprints of molecules.

    For rows of zeros and ones it is the share of the ones of either row that both have. Counts and other numbers work
    too: the kernel is positive semi-definite for all of them. Two rows of zeros have the value one.

    Parameters
    ----------
    powers : int or sequence of int, default 1
        One kernel for each; the larger the power, the more alike rows must be.
    columns : int, str, slice or list, default None
        The columns of X that the kernel uses. None: all. Several fingerprints side by side are `view_kernels`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import tanimoto_kernels, view_kernels
    >>> bits = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    >>> tanimoto_kernels()[0].fit(bits)(bits).round(2)
    array([[1.  , 0.33],
           [0.33, 1.  ]])
    >>> kernels = view_kernels({"circular": slice(0, 2), "keys": slice(2, 4)}, tanimoto_kernels((1, 3)))
    >>> [kernel.name for kernel in kernels]
    ['circular: tanimoto', 'circular: tanimoto^3', 'keys: tanimoto', 'keys: tanimoto^3']
    """
    named = [("tanimoto" if power == 1 else f"tanimoto^{power}", power) for power in np.atleast_1d(powers).tolist()]
    return [_kernel(name, TanimotoKernel(power), columns) for name, power in named]


def view_kernels(views: Mapping[str, Columns], kernel: Any = "rbf") -> list[Kernel]:
    """The same kernels on each of several named sets of columns.

    Parameters
    ----------
    views : dict of str to columns
        What each view is called, and its columns by position or name.
    kernel : str, Kernel, callable or list of them, default "rbf"
        Kernels without columns of their own; each view gets all of them, named "view: kernel".

    Examples
    --------
    >>> from kernelkin import gaussian_kernels, view_kernels
    >>> kernels = view_kernels({"shape": [0, 1], "colour": slice(2, 5)}, gaussian_kernels((1, 2)))
    >>> [kernel.name for kernel in kernels]
    ['shape: rbf(1 x median)', 'shape: rbf(2 x median)', 'colour: rbf(1 x median)', 'colour: rbf(2 x median)']
    """
    templates = resolve_kernels(kernel)
    if not views:
        raise ValueError("view_kernels needs one view at least")
    for template in templates:
        if template.columns is not None:
            raise ValueError(f"kernel {template.name!r} has columns of its own, a view would replace them")
    return [
        replace(template, name=f"{view}: {template.name}", columns=columns)
        for view, columns in views.items()
        for template in templates
    ]


def profile_kernel(table: Any) -> np.ndarray:
    """Return how alike the columns of a table are, from values of which some are missing.

    The correlations of columns over the rows that both have, without the means of columns and rows. Correlations of
    columns that have nothing in common are not zero over a finite number of rows: their matrix has eigenvalues of one
    on average, so that one is taken off all eigenvalues before the diagonal is scaled to one.

    Parameters
    ----------
    table : array of shape (n, m)
        Numbers, NaN where they are missing. Tasks are columns of wide targets; for a kernel between rows pass the
        transposed table. Use training values alone.

    Returns
    -------
    kernel : array of shape (m, m)
        Positive semi-definite, with ones on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.kernels import profile_kernel
    >>> rng = np.random.default_rng(0)
    >>> shape = rng.normal(size=(50, 2))
    >>> table = shape[:, [0, 0, 0, 1, 1, 1]] + 0.5 * rng.normal(size=(50, 6))
    >>> table[rng.uniform(size=table.shape) < 0.1] = np.nan
    >>> profile_kernel(table)[0].round(1)
    array([ 1.,  1.,  1., -1., -1., -1.])
    """
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2 or np.isinf(table).any():
        raise ValueError(f"a table of profiles must have two dimensions and no infinite values, got {table.shape}")
    known = np.isfinite(table)
    values = np.where(known, table, 0.0)
    # The means of rows and of columns are taken off in turn: a few times are enough unless most values are missing.
    for axis in (1, 0) * 20:
        mean = values.sum(axis=axis, keepdims=True) / np.maximum(known.sum(axis=axis, keepdims=True), 1.0)
        values = known * (values - mean)
    count = known.T.astype(np.float64) @ known
    spread = np.sqrt((values**2).sum(axis=0) / np.maximum(np.diag(count), 1.0))
    values = values / np.where(spread > 1e-10 * np.abs(table[known]).max(initial=0.0), spread, np.inf)
    # Divided by one row more than there are: a correlation over few rows is drawn towards zero.
    size, vectors = eigh(values.T @ values / (count + 1.0))
    kernel = (vectors * np.maximum(size - 1.0, 0.0)) @ vectors.T
    root = np.sqrt(np.diag(kernel))
    root = np.where(root > 1e-8, root, np.inf)
    kernel = kernel / np.outer(root, root)
    kernel = 0.5 * (kernel + kernel.T)
    # Columns that are like no other are left on their own.
    np.fill_diagonal(kernel, 1.0)
    return kernel


def is_precomputed(kernels: Any) -> bool:
    """Whether a user's `kernels` stands for Gram matrices in the place of X."""
    return isinstance(kernels, str) and kernels == "precomputed"


def default_kernels() -> list[Kernel]:
    """A ladder of Gaussian bandwidths around the median distance, and a linear kernel."""
    return [*gaussian_kernels(), *linear_kernels()]


KERNEL_FAMILIES: dict[str, Callable[..., list[Kernel]]] = {
    "gaussian": gaussian_kernels,
    "polynomial": polynomial_kernels,
    "linear": linear_kernels,
    "tanimoto": tanimoto_kernels,
    "view": view_kernels,
    "default": default_kernels,
}


def resolve_kernels(kernels: Any = None) -> list[Kernel]:
    """What a user may pass as `kernels` -> a flat list of Kernel with unique names.

    None is `default_kernels()`. Otherwise a Kernel, the name of one ("rbf", "linear", "poly" are ours; the others are
    scikit-learn's), a callable (X, Y) -> matrix, or a list of these, nested as you like. The second kernel of a name
    gets the suffix " (2)", and so on.
    """
    left, unique = [default_kernels() if kernels is None else kernels], []
    # A per-feature kernel gets its column after its name, so it may share that with one on all columns.
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
        raise ValueError("kernels is an empty list: give one kernel at least, or None for the default ones")
    return unique


def _one_kernel(given: Any) -> Kernel:
    """A kernel from its name or from a callable."""
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    if isinstance(given, str):
        ours = {
            "rbf": gaussian_kernels(1.0),
            "linear": linear_kernels(),
            "poly": polynomial_kernels(3),
            "polynomial": polynomial_kernels(3),
            "tanimoto": tanimoto_kernels(),
        }
        if given in ours:
            return ours[given][0]
        if given not in PAIRWISE_KERNEL_FUNCTIONS:
            raise ValueError(f"no kernel is named {given!r}; there are {sorted({*ours, *PAIRWISE_KERNEL_FUNCTIONS})}")
        return Kernel(given, CallableKernel(PAIRWISE_KERNEL_FUNCTIONS[given], known_psd=given in PSD_METRICS))
    if isinstance(given, type) or any(given is family for family in KERNEL_FAMILIES.values()):
        raise TypeError(f"kernels has {given.__name__} itself, which makes kernels: call it")
    if not callable(given):
        raise TypeError(f"a kernel is a name, a Kernel or a callable (X, Y) -> matrix; got {given!r}")
    function = getattr(given, "func", given)  # functools.partial
    return Kernel(getattr(function, "__name__", type(function).__name__), CallableKernel(given))


def _kernel(name: str, function: KernelFunction, columns: Columns = None, per_feature: bool = False) -> Kernel:
    # The kernels that a per-feature one stands for add their own column to the name.
    if columns is not None and not per_feature:
        columns = freeze_columns(columns, name)
        name += label_columns(columns)
    return Kernel(name, function, columns, per_feature)
