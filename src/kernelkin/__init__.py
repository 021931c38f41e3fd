"""Models for data with groups, and multi-task multiple kernel learning with a certificate of optimality."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kernels import Kernel, gaussian_kernels, linear_kernels, polynomial_kernels, tanimoto_kernels, view_kernels
    from .kin import KinClassifier, KinRegressor
    from .paper import (
        AverageClassifier,
        AverageRegressor,
        IMKLClassifier,
        IMKLRegressor,
        MKMTRLClassifier,
        MKMTRLClassifierCV,
        MKMTRLRegressor,
        MKMTRLRegressorCV,
        MultiTaskCV,
        STLClassifier,
        STLRegressor,
        TwoStageMKMTRLClassifier,
        TwoStageMKMTRLRegressor,
    )
    from .registry import all_models
    from .relations import sharing_report, task_relations
    from .storage import load_model, save_model
    from .tables import TableEncoder

__version__ = "0.1.0"

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "Kernel",
    "KinClassifier",
    "KinRegressor",
    "MKMTRLClassifier",
    "MKMTRLClassifierCV",
    "MKMTRLRegressor",
    "MKMTRLRegressorCV",
    "MultiTaskCV",
    "STLClassifier",
    "STLRegressor",
    "TableEncoder",
    "TwoStageMKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
    "all_models",
    "gaussian_kernels",
    "linear_kernels",
    "load_model",
    "polynomial_kernels",
    "save_model",
    "sharing_report",
    "tanimoto_kernels",
    "task_relations",
    "view_kernels",
]

# Names and modules are imported when they are first used: the command line imports this file before it can handle an
# interrupt, and NumPy, SciPy and scikit-learn take a second.
_SOURCES = ("kin", "storage", "kernels", "paper", "registry", "relations", "tables")
_MODULES = (*_SOURCES, "data", "datasets", "exceptions", "mixed", "plots", "report")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = (import_module(f".{source}", __name__) for source in _SOURCES)
        value = next(getattr(module, name) for module in modules if hasattr(module, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
