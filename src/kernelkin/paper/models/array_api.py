"""Arrays of other libraries, as scikit-learn's `array_api_dispatch` treats them: results are where X is.

Fits and predictions run on the device of a tensor of torch; arrays of other libraries are computed with NumPy. The
functions of a fitted model stay in main memory, so that a saved model can be used on any device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from ...data import Queries, TaskData
from ..fitting import Fitted

Placed = TypeVar("Placed")

# Numbers that a fit leaves behind.
ATTRIBUTES = ("kernel_weights_", "dual_coef_", "intercept_", "coupling_weights_", "task_weights_")


@dataclass(frozen=True)
class ArrayHome:
    """Where arrays of a library are.

    Attributes
    ----------
    namespace : the module with the functions of the library.
    device : as the library names it.
    """

    namespace: Any
    device: Any

    @property
    def torch_device(self) -> str | None:
        """The device of torch on which tasks are solved; None for main memory."""
        return str(self.device) if self.namespace.__name__ == "torch" else None

    def array(self, values: Any) -> Any:
        """Arrays of NumPy, or a list of them, as arrays of the library."""
        if isinstance(values, list):
            return [self.array(each) for each in values]
        return self.namespace.asarray(np.ascontiguousarray(values), device=self.device)

    def place(self, specification: Placed, model: Any) -> Placed:
        """Return the specification that solves tasks where the arrays are; refuse what cannot be solved there."""
        name, given = type(model).__name__, getattr(model, "device", None)
        known: Any = specification
        if not supports_array_api(model) or not hasattr(known, "device"):
            raise ValueError(
                f"{name} with these parameters does not compute on arrays of {self.namespace.__name__}: pass arrays of "
                "NumPy, or turn off array_api_dispatch; models with a parameter `device` do, with the squared loss or, "
                "for classes, the hinge loss"
            )
        if given is not None and given != self.torch_device:
            raise ValueError(f"device={given!r}, but X is on {self.device}: leave out one of them")
        return replace(known, device=self.torch_device)

    def arrange(self, data: TaskData) -> TaskData:
        """Return data as they are solved there: on a device of torch, one task is wide data with one column."""
        return replace(data, form="wide") if self.torch_device is not None and data.form == "single" else data

    def move(self, fitted: Fitted, data: TaskData) -> Fitted:
        """Return what a fit to data has left behind with its numbers as arrays of the library."""
        moved = {name: self.array(fitted.attributes[name]) for name in ATTRIBUTES if name in fitted.attributes}
        return Fitted({**fitted.attributes, **moved, "data_form_": data.form}, fitted.warnings)


def array_home(X: Any) -> ArrayHome | None:
    """Return where X is, if it is an array of another library than NumPy and `array_api_dispatch` is on."""
    if isinstance(X, np.ndarray) or not get_config()["array_api_dispatch"]:
        return None
    if hasattr(X, "detach") and hasattr(X, "layout"):
        import torch

        return ArrayHome(torch, X.device)
    if hasattr(X, "__array_namespace__") and hasattr(X, "device"):
        return ArrayHome(X.__array_namespace__(), X.device)
    return None


def supports_array_api(model: Any) -> bool:
    """Whether the model computes on arrays of other libraries: with the squared loss, and classes with the hinge loss.

    Models that choose for themselves have no loss. Tensors of torch must be wide data, or of one task.
    """
    return hasattr(model, "device") and getattr(model, "loss", "squared") in ("squared", "hinge")


def where_rows_are(queries: Queries, X: Any) -> Queries:
    """Return queries that are computed on the device that X is on."""
    home = array_home(X)
    return queries if home is None else replace(queries, device=home.torch_device)


def as_rows_are(X: Any, prediction: Any) -> Any:
    """Return predictions as arrays of the library of X, where `array_api_dispatch` is on; text stays in NumPy."""
    home = array_home(X)
    return prediction if home is None or prediction.dtype.kind not in "biuf" else home.array(prediction)


def in_main_memory(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an estimator with its numbers as arrays of NumPy."""
    return {name: _numpy(value) if name in ATTRIBUTES else value for name, value in state.items()}


def _numpy(values: Any) -> Any:
    if isinstance(values, list):
        return [_numpy(each) for each in values]
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
