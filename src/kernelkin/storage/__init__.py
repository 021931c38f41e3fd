"""Saved models: write them to files and load them."""

from .model_files import SavedModel, load_model, save_model

__all__ = ["SavedModel", "load_model", "save_model"]
