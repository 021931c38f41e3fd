"""Multi-task multiple kernel learning with a certificate of optimality."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kernels import (
        Kernel,
        gaussian_kernels,
        linear_kernels,
        nearest_psd,
        polynomial_kernels,
        profile_kernel,
        tanimoto_kernels,
        view_kernels,
    )
    from .kin import KinClassifier, KinRegressor
    from .paper.model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV
    from .paper.models import (
        AverageClassifier,
        AverageRegressor,
        FESRegressor,
        IKLClassifier,
        IKLRegressor,
        IMKLClassifier,
        IMKLRegressor,
        LassoRegressor,
        MeanRegressor,
        MKLSAClassifier,
        MKMTFLClassifier,
        MKMTFLRegressor,
        MKMTRLClassifier,
        MKMTRLRegressor,
        MRCERegressor,
        MTFLClassifier,
        MTFLRegressor,
        MTRLClassifier,
        MTRLRegressor,
        MultiTaskKernelEstimator,
        OLSRegressor,
        STLClassifier,
        STLRegressor,
        TwoStageMKMTRLClassifier,
        TwoStageMKMTRLRegressor,
    )
    from .registry import all_models
    from .relations import SharingReport, TaskRelations, sharing_report, task_relations
    from .report import Report
    from .storage import SavedModel, load_model, save_model
    from .tables import TableEncoder, TableSchema

__version__ = "0.1.0"

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "FESRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "Kernel",
    "KinClassifier",
    "KinRegressor",
    "LassoRegressor",
    "MKLSAClassifier",
    "MKMTFLClassifier",
    "MKMTFLRegressor",
    "MKMTRLClassifier",
    "MKMTRLClassifierCV",
    "MKMTRLRegressor",
    "MKMTRLRegressorCV",
    "MRCERegressor",
    "MTFLClassifier",
    "MTFLRegressor",
    "MTRLClassifier",
    "MTRLRegressor",
    "MeanRegressor",
    "MultiTaskCV",
    "MultiTaskKernelEstimator",
    "OLSRegressor",
    "Report",
    "STLClassifier",
    "STLRegressor",
    "SavedModel",
    "SharingReport",
    "TableEncoder",
    "TableSchema",
    "TaskRelations",
    "TwoStageMKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
    "all_models",
    "gaussian_kernels",
    "linear_kernels",
    "load_model",
    "nearest_psd",
    "polynomial_kernels",
    "profile_kernel",
    "save_model",
    "sharing_report",
    "tanimoto_kernels",
    "task_relations",
    "view_kernels",
]

# Names and modules are imported when they are first used: the command line imports this file before it can handle an
# interrupt, and NumPy, SciPy and scikit-learn take a second.
_SOURCES = (
    "kin",
    "storage",
    "kernels",
    "paper.model_selection",
    "paper.models",
    "registry",
    "relations",
    "tables",
    "report",
)
_MODULES = (
    "data",
    "datasets",
    "engines",
    "exceptions",
    "kernels",
    "kin",
    "mixed",
    "paper",
    "plots",
    "relations",
    "report",
    "storage",
    "tables",
)

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
