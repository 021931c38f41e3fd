"""MK-MTRL and the other models of the paper: estimators, searches and their components."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model_selection import *  # noqa: F403
    from .models import *  # noqa: F403

_SEARCHES = ("MKMTRLClassifierCV", "MKMTRLRegressorCV", "MultiTaskCV")

if not TYPE_CHECKING:
    # Imported when first used, to avoid circular imports.
    def __getattr__(name: str) -> Any:
        if name in _SEARCHES:
            return getattr(import_module(".model_selection", __name__), name)
        models = import_module(".models", __name__) if name[:1].isupper() or name == "__all__" else None
        if name == "__all__":
            return [*(each for each in dir(models) if each[:1].isupper()), *_SEARCHES]
        if models is not None and hasattr(models, name):
            return getattr(models, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
