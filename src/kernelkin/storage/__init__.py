"""Files: saved models, folders of finished results, and writing that leaves no half-written file."""

from .model_files import SavedModel, load_model, save_model

__all__ = ["SavedModel", "load_model", "save_model"]
