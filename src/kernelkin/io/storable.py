"""What a saved model may consist of, derived from the package.

Where fitted models come to hold objects of another module, add that module to `_MODULES`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

from sklearn.base import BaseEstimator

from ..tables import TableEncoder

# Modules of kernelkin, each with its submodules: their dataclasses may be part of a saved model.
_MODULES = (
    "couplings",
    "data",
    "fitting.targets",
    "functions",
    "kernels",
    "penalties",
    "solvers",
    "tables.columns",
    "uncertainty",
)
# Classes that fitted models hold and that are no dataclasses: penalties, and the state of a stream.
_PLAIN_CLASSES = (
    ("penalties.lp", "FixedWeights"),
    ("penalties.lp", "SimplexPenalty"),
    ("penalties.lp", "LpPenalty"),
    ("penalties.relation", "RelationPenalty"),
    ("penalties.lp", "SharedLpPenalty"),
    ("solvers.online.pairs", "PairCenter"),
    ("solvers.online.stream", "Reservoirs"),
    ("solvers.online.stream", "Codes"),
    ("solvers.online.stream", "Stream"),
    ("uncertainty.estimate", "Uncertainty"),
)
# Attributes of estimators that may hold kernel functions: parameters, and what a search reports of parameters.
_FUNCTION_ATTRIBUTES = frozenset({"kernels", "kernel", "grid", "best_params_", "cv_results_"})

Name = tuple[str, str]


class Storable:
    """The classes and functions that a model file may name, each by (module, name).

    Nothing else is looked up when a file is loaded, so a name that is not here is never imported.
    """

    @cached_property
    def estimators(self) -> dict[Name, type]:
        """The estimators of this library: what a model file can be a file of."""
        from .. import auto, model_selection, models

        public = [getattr(module, name) for module in (auto, model_selection, models) for name in module.__all__]
        return _by_name(thing for thing in public if isinstance(thing, type) and issubclass(thing, BaseEstimator))

    @cached_property
    def parts(self) -> dict[Name, type]:
        """Every class whose instances may be part of a model: estimators, those they wrap, and what they hold."""
        from sklearn.linear_model import Lasso, LinearRegression

        wrapped = [TableEncoder, Lasso, LinearRegression]
        return {**_by_name([*_dataclasses(), *_plain_classes(), *wrapped]), **self.estimators}

    @cached_property
    def functions(self) -> dict[Name, Any]:
        """scikit-learn's kernel functions, which a model holds where its kernels were named."""
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

        return _by_name(PAIRWISE_KERNEL_FUNCTIONS.values())

    def has_attribute(self, cls: type, name: str) -> bool:
        """Whether an instance may have this attribute: a field of a dataclass, or data of an estimator."""
        if _is_data(cls):
            return name in {field.name for field in fields(cls)}
        return name.isidentifier() and not name.startswith("__") and not callable(getattr(cls, name, None))

    def may_be_function(self, cls: type, name: str) -> bool:
        """Whether this attribute may hold functions."""
        if _is_data(cls):
            return any(field.name == name and str(field.type).startswith("Callable") for field in fields(cls))
        return name in _FUNCTION_ATTRIBUTES

    def required(self, cls: type) -> frozenset[str]:
        """The attributes that an instance must have: the fields of a dataclass, the parameters of an estimator."""
        if _is_data(cls):
            return frozenset(field.name for field in fields(cls))
        if issubclass(cls, BaseEstimator):
            return frozenset(inspect.signature(cls).parameters)
        return frozenset()


@cache
def storable() -> Storable:
    return Storable()


def _is_data(cls: type) -> bool:
    return is_dataclass(cls) and not issubclass(cls, BaseEstimator)


def _by_name(things: Any) -> dict[Name, Any]:
    return {(thing.__module__, thing.__name__): thing for thing in things}


def _dataclasses() -> Iterator[type]:
    for module in _modules():
        for thing in vars(module).values():
            if isinstance(thing, type) and thing.__module__ == module.__name__ and _is_data(thing):
                yield thing


def _modules() -> Iterator[ModuleType]:
    root = __name__.partition(".")[0]
    for name in _MODULES:
        module = importlib.import_module(f"{root}.{name}")
        yield module
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{module.__name__}."):
            yield importlib.import_module(found.name)


def _plain_classes() -> Iterator[type]:
    root = __name__.partition(".")[0]
    for module, name in _PLAIN_CLASSES:
        yield getattr(importlib.import_module(f"{root}.{module}"), name)
