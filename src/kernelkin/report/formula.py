"""A fitted model as plain numbers, small enough for a page that predicts by itself."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..kernels import Gaussian, Linear, Polynomial
from ..kin.functions import KinFunctions
from ..paper.functions import Expansion, LinearFunctions, TaskFunctions
from .held_out import COVERAGE
from .reference import Reference

# Numbers that a page may hold for predictions of its own: 0.6 MB.
MAX_NUMBERS = 60_000


class Unavailable(Exception):
    """A page cannot predict by itself; the text is the reason."""


class _Arrays:
    """Arrays by position, each kept once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.size = 0
        self._known: dict[bytes, int] = {}

    def add(self, values: np.ndarray) -> int:
        content = np.ascontiguousarray(values, dtype="<f8").tobytes()
        if content not in self._known:
            self._known[content] = len(self.texts)
            self.texts.append(base64.b64encode(content).decode("ascii"))
            self.size += len(content) // 8
            if self.size > MAX_NUMBERS:
                raise Unavailable(
                    f"the model needs more than {MAX_NUMBERS:,} numbers, and the page would become too large"
                )
        return self._known[content]


def formula_content(reference: Reference) -> dict[str, Any]:
    """What the page needs to predict as the model does.

    Raises
    ------
    Unavailable
        For kernels that the page does not know, scalings that look at rows, more than two classes, and large models.
    """
    model, arrays = reference.model, _Arrays()
    if is_classifier(model) and len(model.classes_) > 2:
        raise Unavailable("the model has more than two classes")
    if is_classifier(model) and any(len(classes) != 2 for classes in model.task_classes_):
        raise Unavailable("a task has one class only")
    functions = _functions(model.functions_, arrays)
    location, scale = reference.units()
    return {
        "functions": functions,
        "location": arrays.add(location),
        "scale": arrays.add(scale),
        "output": _link(model, arrays) if is_classifier(model) else _intervals(model, arrays),
        "arrays": arrays.texts,
    }


def _functions(functions: Any, arrays: _Arrays) -> dict[str, Any]:
    if isinstance(functions, LinearFunctions):
        coef, intercept = arrays.add(functions.coef), arrays.add(functions.intercept)
        return {"kind": "linear", "coef": coef, "intercept": intercept}
    if isinstance(functions, KinFunctions):
        raise Unavailable("an average of mixed models is computed from all training rows")
    if isinstance(functions, TaskFunctions):
        return _tasks(functions, arrays)
    raise Unavailable(f"the page cannot evaluate {type(functions).__name__}")


def _tasks(functions: TaskFunctions, arrays: _Arrays) -> dict[str, Any]:
    return {
        "kind": "expansions",
        "expansions": [_expansion(expansion, arrays) for expansion in functions.expansions],
        "shares": [
            [[share.expansion, share.outputs.start, share.outputs.stop, share.weights.tolist()] for share in shares]
            for shares in functions.shares
        ],
    }


def _expansion(expansion: Expansion, arrays: _Arrays) -> dict[str, Any]:
    bundles = []
    for bundle in expansion.bundles:
        if bundle.kernels is None or bundle.rows is None:
            raise Unavailable("kernels are precomputed")
        if not bundle.scaling.factor_only:
            raise Unavailable("the scaling of kernels depends on rows")
        weights = expansion.b[bundle.active] * bundle.scaling.factor[:, np.newaxis]
        bundles.append(
            {
                "kernels": [_kernel(kernel, arrays) for kernel in bundle.kernels],
                "weights": arrays.add(weights),
                "rows": arrays.add(bundle.rows),
                "n": len(bundle.rows),
                "a": arrays.add(bundle.a),
            }
        )
    return {"bundles": bundles, "intercept": arrays.add(expansion.intercept)}


def _kernel(kernel: Any, arrays: _Arrays) -> dict[str, Any]:
    function, columns = kernel.function, list(kernel.columns)
    if isinstance(function, Gaussian):
        return {"kind": "gaussian", "columns": columns, "width": function.bandwidth}
    if isinstance(function, Linear):
        return {"kind": "polynomial", "columns": columns, "degree": 1, "coef0": 0.0}
    if isinstance(function, Polynomial):
        return {"kind": "polynomial", "columns": columns, "degree": function.degree, "coef0": function.coef0}
    raise Unavailable(f"the page does not know the kernel {kernel.name!r}")


def _link(model: Any, arrays: _Arrays) -> dict[str, Any]:
    link = model.uncertainty_.link
    return {
        "kind": "probability",
        "slope": float(link.slope),
        "between": float(link.between),
        "offsets": arrays.add(np.array([offset[0] for offset in link.offsets])),
        "centers": arrays.add(np.array([center[0] for center in link.centers])),
        "covariances": arrays.add(link.covariances),
        "shift": float(link.shift),
    }


def _intervals(model: Any, arrays: _Arrays) -> dict[str, Any]:
    """Half the widths of intervals, where deviations are constant and a page can compute them."""
    found = {"kind": "number", "coverage": COVERAGE}
    if not hasattr(model, "uncertainty_"):
        return found
    intervals = model.uncertainty_.intervals
    if intervals.variance is not None:
        return found
    return {**found, "half": arrays.add(intervals.residuals.quantiles(COVERAGE))}
