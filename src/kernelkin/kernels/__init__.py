"""Base kernels: how to specify, fit, evaluate, check and scale them."""

from .families import gaussian_kernels, linear_kernels, polynomial_kernels, tanimoto_kernels, view_kernels
from .grams import nearest_psd
from .kernel import Kernel, evaluate

__all__ = [
    "Kernel",
    "evaluate",
    "gaussian_kernels",
    "linear_kernels",
    "nearest_psd",
    "polynomial_kernels",
    "tanimoto_kernels",
    "view_kernels",
]
