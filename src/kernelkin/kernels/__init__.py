"""Base kernels: specified, fitted on training rows, evaluated together, checked and scaled."""

from .base import FittedKernel, Kernel
from .checks import (
    check_gram,
    check_precomputed,
    check_values,
    precomputed_names,
    project_stack,
)
from .definite import is_psd, nearest_psd, project
from .families import (
    KERNEL_FAMILIES,
    default_kernels,
    gaussian_kernels,
    is_precomputed,
    linear_kernels,
    polynomial_kernels,
    resolve_kernels,
    tanimoto_kernels,
    view_kernels,
)
from .functions import Linear, Polynomial
from .pairwise import diagonals, evaluate, fit_kernels, pairs
from .profiles import profile_kernel
from .scaling import SCALINGS, Scaling, fit_diagonal_scaling, fit_scaling
from .sources import (
    AutoKernels,
    KernelSource,
    ListedKernels,
    RelevanceKernels,
    read_kernels,
)

__all__ = [
    "KERNEL_FAMILIES",
    "SCALINGS",
    "AutoKernels",
    "FittedKernel",
    "Kernel",
    "KernelSource",
    "Linear",
    "ListedKernels",
    "Polynomial",
    "RelevanceKernels",
    "Scaling",
    "check_gram",
    "check_precomputed",
    "check_values",
    "default_kernels",
    "diagonals",
    "evaluate",
    "fit_diagonal_scaling",
    "fit_kernels",
    "fit_scaling",
    "gaussian_kernels",
    "is_precomputed",
    "is_psd",
    "linear_kernels",
    "nearest_psd",
    "pairs",
    "polynomial_kernels",
    "precomputed_names",
    "profile_kernel",
    "project",
    "project_stack",
    "read_kernels",
    "resolve_kernels",
    "tanimoto_kernels",
    "view_kernels",
]
