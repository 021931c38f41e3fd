"""Saved models: a skops file that loads without executing code, with the version and the schema it was made with."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import listing
from .exceptions import ModelFileError
from .schema import TableSchema
from .storage import write_whole

if TYPE_CHECKING:
    from pandas import DataFrame

# The layout of `kernelkin.json`, which is counted up when older readers would misread it.
FORMAT = 1
OLDEST_FORMAT = 1
_FACTS = "kernelkin.json"


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
    strangers = sorted(set(sio.get_untrusted_types(data=content)) - set(trusted_types()))
    if strangers:
        raise ValueError(
            f"this model holds {listing(strangers)}, code of yours that a file cannot hold: it would not load again. "
            "Kernels of this library and those named by scikit-learn can be saved; others cannot"
        )
    facts = {
        "format": FORMAT,
        "kernelkin": __version__,
        "digest": _digest(content),
        "schema": None if schema is None else schema.to_json(),
        "about": about or {},
    }
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_FACTS, json.dumps(facts, default=_plain))
    write_whole(path, buffer.getvalue())


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
    content = Path(path).read_bytes()
    facts = _read_facts(path, content)
    _check_format(path, facts)
    if facts.get("digest") != _digest(content):
        raise ModelFileError(f"{path} was changed after it was saved: its contents are not those it had then")
    schema = facts.get("schema")
    return SavedModel(
        model=_read_model(path, content, facts),
        schema=None if schema is None else TableSchema.from_json(schema),
        version=facts["kernelkin"],
        about=facts.get("about", {}),
    )


@cache
def trusted_types() -> tuple[str, ...]:
    """The names of everything a saved model may consist of, beside NumPy arrays and Python's own containers."""
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

    from . import couplings, data, model_selection, solvers
    from .estimators import pairs
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


def _read_facts(path: Any, content: bytes) -> dict[str, Any]:
    """What `save_model` wrote beside the model; errors for files it did not write."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            if _FACTS in names:
                return json.loads(archive.read(_FACTS))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, EOFError) as error:
        raise ModelFileError(f"{path} is not a saved model, or was cut short or damaged ({error})") from error
    what = "a skops file, but not one that kernelkin saved" if "schema.json" in names else "not a saved model"
    raise ModelFileError(f"{path} is {what}")


def _check_format(path: Any, facts: dict[str, Any]) -> None:
    from . import __version__

    theirs, version = facts.get("format"), facts.get("kernelkin")
    if not isinstance(theirs, int) or not isinstance(version, str):
        raise ModelFileError(f"{path} does not say which version of kernelkin saved it: it was changed or damaged")
    if theirs > FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version} in format {theirs}; this is kernelkin {__version__}, which reads "
            f"formats up to {FORMAT}: install kernelkin {version} or later"
        )
    if theirs < OLDEST_FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version} in format {theirs}; this is kernelkin {__version__}, which reads "
            f"formats from {OLDEST_FORMAT}: fit it again, or load it with kernelkin {version}"
        )


def _read_model(path: Any, content: bytes, facts: dict[str, Any]) -> Any:
    from . import __version__

    sio = _skops()
    try:
        strangers = sorted(set(sio.get_untrusted_types(data=content)) - set(trusted_types()))
        if not strangers:
            return sio.loads(content, trusted=list(trusted_types()))
    except Exception as error:
        raise ModelFileError(
            f"{path} was saved by kernelkin {facts['kernelkin']} and cannot be read by kernelkin {__version__}: "
            f"{type(error).__name__}: {error}"
        ) from error
    raise ModelFileError(f"{path} holds types that are no part of a model, and is not loaded: {listing(strangers)}")


def _digest(content: bytes) -> str:
    """A checksum of everything in the archive but the facts. It finds damage, not malice: the trusted types do."""
    found = hashlib.sha256()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in sorted(set(archive.namelist()) - {_FACTS}):
                found.update(name.encode() + b"\0" + hashlib.sha256(archive.read(name)).digest())
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"the file is damaged: {error}") from error
    return found.hexdigest()


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be saved with a model")
