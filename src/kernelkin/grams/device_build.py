"""Precomputed Gram matrices of wide data, checked and scaled on a device.

In main memory this reads them a dozen times and factorises them on few threads, which takes longer than a fit on the
device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import TaskData
from ..kernels import check_gram, precomputed_names
from ..kernels.checks import ASYMMETRY
from ..kernels.definite import rounding_shift
from ..kernels.scaling import SCALINGS, fit_diagonal_scaling
from .arrays import Arrays
from .build import KernelBank, check_scaled, stack_weights
from .collections import SharedGrams
from .operator import SharedOperator


def scales_on_device(data: TaskData, normalize: str | None) -> bool:
    """Whether `device_grams` is for these precomputed data: a factor is all of their scaling."""
    return data.form == "wide" and normalize in SCALINGS and SCALINGS[normalize].factor_only


def device_grams(data: TaskData, normalize: str | None, arrays: Arrays) -> tuple[SharedGrams, KernelBank]:
    """Check and scale the precomputed Gram matrices data.X (n, n, K) of wide data where `arrays` are."""
    values = arrays.array(np.moveaxis(data.X, 2, 0))
    names = precomputed_names(len(values))
    values = list(values)
    checked = [_checked(name, G, arrays) for name, G in zip(names, values, strict=True)]
    diagonal = np.stack([arrays.numpy(G.diagonal()) for G in checked])
    scaling = fit_diagonal_scaling(normalize, diagonal, stack_weights(data)[0], names)
    clipped = any(one is not other for one, other in zip(checked, values, strict=True))
    bank = KernelBank(tuple(names), None, (scaling,), clipped=clipped)
    check_scaled(bank)
    # The mean of both halves: exactly symmetric, whatever the values are.
    halves = (0.5 * scaling.factor).tolist()
    operator = SharedOperator(arrays, arrays.stack([f * (G + G.T) for f, G in zip(halves, checked, strict=True)]))
    return SharedGrams(operator, data.rows), bank


def _checked(name: str, G: Any, arrays: Arrays) -> Any:
    """G (n, n), refused or clipped by `check_gram` unless it is plainly the Gram matrix of a kernel."""
    dtype = np.dtype(np.float32 if arrays.is_single(G) else np.float64)
    largest = float(abs(G).max())
    if 0 < largest < np.inf and float(abs(G - G.T).max()) <= ASYMMETRY[dtype] * largest:
        shift = rounding_shift(len(G), float(arrays.numpy(G.diagonal()).mean()))
        if arrays.is_definite(G, shift):
            return G
    return arrays.array(check_gram(name, arrays.numpy(G).astype(dtype), known_psd=False))
