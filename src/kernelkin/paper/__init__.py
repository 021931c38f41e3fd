"""MK-MTRL and the other models of the paper: estimators, searches, and the parts that they are made of."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model_selection import *  # noqa: F403
    from .models import *  # noqa: F403

_MODELS = (
    *("MKMTRLClassifier", "MKMTRLRegressor", "TwoStageMKMTRLClassifier", "TwoStageMKMTRLRegressor"),
    *("STLClassifier", "STLRegressor", "AverageClassifier", "AverageRegressor"),
    *("IMKLClassifier", "IMKLRegressor", "IKLClassifier", "IKLRegressor"),
    *("MKMTFLClassifier", "MKMTFLRegressor", "MKLSAClassifier"),
    *("MTFLClassifier", "MTFLRegressor", "MTRLClassifier", "MTRLRegressor"),
    *("MRCERegressor", "FESRegressor", "LassoRegressor", "OLSRegressor", "MeanRegressor"),
    "MultiTaskKernelEstimator",
)
_SEARCHES = ("MKMTRLClassifierCV", "MKMTRLRegressorCV", "MultiTaskCV")


if not TYPE_CHECKING:
    __all__ = [*_MODELS, *_SEARCHES]

    # Imported when first used: modules below this package import each other by its name.
    def __getattr__(name: str) -> Any:
        if name in _MODELS:
            return getattr(import_module(".models", __name__), name)
        if name in _SEARCHES:
            return getattr(import_module(".model_selection", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODELS, *_SEARCHES})
