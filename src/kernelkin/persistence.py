"""Saved models: a skops file that loads without executing code, with the version and the schema it was made with."""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import listing
from .exceptions import ModelFileError
from .model_files import grows_too_much, pack, strange_parts, unpack
from .storage import write_whole
from .tables import TableSchema

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class SavedModel:
    """A model from a file.

    Attributes
    ----------
    model : the fitted estimator.
    schema : the table it was fitted on; None where it was saved without.
    version : the version of kernelkin that saved it.
    about : whatever else was saved with it, such as the scores that `kernelkin fit` measured.

    Examples
    --------
    What `load_model` gives. With the schema of a table it predicts tables:

    >>> import pandas as pd
    >>> from kernelkin import AverageRegressor, SavedModel, TableSchema
    >>> table = pd.DataFrame({"shop": list("aaabbb"), "size": [1.0, 2, 3, 1, 2, 3], "sales": [1.0, 2, 3, 3, 2, 1]})
    >>> schema = TableSchema.fit(table, task="shop", target="sales", regression=True)
    >>> model = AverageRegressor(C=1e3).fit(schema.encode(table), schema.targets(table), tasks=schema.tasks(table))
    >>> SavedModel(model, schema).predict(table[["size", "shop"]]).round(1)
    array([1., 2., 3., 3., 2., 1.])
    """

    model: Any
    schema: TableSchema | None = None
    version: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    def predict(self, frame: DataFrame, **options: Any) -> np.ndarray:
        """Predictions for the rows of a table with the columns of the training data, in any order.

        `options` are those of the estimator's `predict`. A text that training did not have counts as none of the known
        ones; a missing column is an error that names it.
        """
        if self.schema is None:
            raise ValueError("this model was saved without the schema of a table: use model.predict on arrays")
        tasks = self.schema.tasks(frame)
        return self.schema.restore(self.model.predict(self.schema.encode(frame), tasks=tasks, **options))


def save_model(
    model: Any, path: str | os.PathLike[str], *, schema: TableSchema | None = None, about: dict[str, Any] | None = None
) -> None:
    """Save a fitted model; the file is written whole or not at all.

    Parameters
    ----------
    model : fitted estimator of this library
    path : where to; ".skops" is a good ending.
    schema : TableSchema, optional
        The table it was fitted on, so that it can predict other tables.
    about : dict, optional
        What else to keep with it, as far as JSON can.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> from kernelkin import MKMTRLRegressor, load_model, save_model
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    >>> model = MKMTRLRegressor().fit(X, np.sin(X[:, 0]), tasks=tasks)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "model.skops"))
    ...     saved = load_model(os.path.join(folder, "model.skops"))
    >>> bool((saved.model.predict(X, tasks=tasks) == model.predict(X, tasks=tasks)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    from . import __version__

    check_is_fitted(model)
    sio = _skops()
    content = sio.dumps(model, compression=zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if grows_too_much(archive, len(content)):
            content = sio.dumps(model)
        strangers = [*sorted({*sio.get_untrusted_types(data=content)} - {*trusted_types()}), *strange_parts(archive)]
    if strangers:
        raise ValueError(
            f"this model holds {listing(strangers)}, code of yours that a file cannot hold: it would not load again. "
            "Kernels of this library and those named by scikit-learn can be saved; others cannot"
        )
    facts = {
        "kernelkin": __version__,
        "schema": None if schema is None else schema.to_json(),
        "about": about or {},
    }
    write_whole(path, pack(content, facts))


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Load a model that `save_model` wrote. Nothing in the file is executed.

    Only types of this library, of NumPy and of scikit-learn are made; anything else in the file is an error that names
    it, as are a file that was cut short, changed, or made by a version whose files this one cannot read.

    Examples
    --------
    >>> from kernelkin import load_model
    >>> load_model("no such file")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    content, facts = unpack(path)
    model = _read_model(path, content, facts)
    schema = _read_schema(path, facts.get("schema"), model)
    about = facts.get("about", {})
    if not isinstance(about, dict):
        raise ModelFileError(f"{path} was changed or damaged: what it says of the model is no list of names and values")
    return SavedModel(model=model, schema=schema, version=facts["kernelkin"], about=about)


@cache
def trusted_types() -> tuple[str, ...]:
    """The names of everything a saved model may consist of, beside NumPy arrays and Python's own containers."""
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    from . import couplings, data, model_selection, solvers
    from .estimators.two_stage import pairs
    from .grams import expansion, functions
    from .kernels import base, scaling
    from .kernels import functions as kernel_functions
    from .registry import models
    from .solvers import online

    ours = [
        *(estimator for model in models() for estimator in model.estimators),
        *(getattr(model_selection, name) for name in model_selection.__all__),
        *(base.Kernel, base.FittedKernel, *scaling.SCALINGS.values()),
        *(getattr(kernel_functions, name) for name in ("Gaussian", "Polynomial", "Linear", "Custom")),
        *(expansion.Expansion, expansion.Bundle, functions.TaskFunctions, functions.Share),
        *(couplings.Coupling, data.TaskData, pairs.PairCenter, *solvers.SOLVERS.values()),
        *(online.Online, online.OnlineRun, online.OnlineState, online.Relationship),
    ]
    named = [*ours, *PAIRWISE_KERNEL_FUNCTIONS.values()]
    return tuple(sorted({f"{thing.__module__}.{thing.__qualname__}" for thing in named}))


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("saved models need skops: install kernelkin[cli]") from error
    return skops.io


def _read_model(path: Any, content: bytes, facts: dict[str, Any]) -> Any:
    from . import __version__

    sio = _skops()
    try:
        strangers = sorted(set(sio.get_untrusted_types(data=content)) - set(trusted_types()))
        model = None if strangers else sio.loads(content, trusted=list(trusted_types()))
        if model is not None:
            _check_model(model)
    except Exception as error:
        raise ModelFileError(
            f"{path} was saved by kernelkin {facts['kernelkin']} and cannot be read by kernelkin {__version__}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if strangers:
        raise ModelFileError(f"{path} holds types that are no part of a model, and is not loaded: {listing(strangers)}")
    return model


def _check_model(model: Any) -> None:
    """Refuse what is no fitted estimator of this library."""
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, BaseEstimator) or not type(model).__module__.startswith("kernelkin."):
        raise TypeError(f"it holds no model, but {type(model).__name__}")
    model.get_params(deep=False)
    check_is_fitted(model)


def _read_schema(path: Any, fields: Any, model: Any) -> TableSchema | None:
    if fields is None:
        return None
    try:
        schema = TableSchema.from_json(fields)
    except ValueError as error:
        raise ModelFileError(f"{path} was changed or damaged: {error}") from error
    fitted_to = getattr(model, "n_features_in_", None)
    if len(schema.features) != fitted_to:
        raise ModelFileError(
            f"{path} was changed or damaged: its table has {len(schema.features)} features, and its model was fitted "
            f"to {fitted_to!r:.80}"
        )
    return schema
