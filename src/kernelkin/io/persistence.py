"""Saved models: a skops file with the version of kernelkin and the schema of the table, checked before it is loaded."""

from __future__ import annotations

import inspect
import io
import os
import zipfile
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..couplings import plain_task_features
from ..data import listing
from ..exceptions import ModelFileError
from ..tables import TableSchema
from .model_files import expands_too_much, pack, unpack
from .model_tree import check_tree
from .storable import storable
from .storage import write_whole
from .tree_nodes import TreeError

if TYPE_CHECKING:
    from ..report import Report


@dataclass(frozen=True)
class SavedModel:
    """A model from a file.

    Parameters
    ----------
    model : fitted estimator
        What was saved.
    schema : TableSchema, optional
        The table it was fitted on; None where it was saved without.
    version : str
        The version of kernelkin that saved it.
    about : dict
        Whatever else was saved with it, such as the scores that `kernelkin fit` measured.

    Examples
    --------
    What `load_model` returns. With the schema of a table it predicts tables:

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

    def predict(self, X: Any, **options: Any) -> np.ndarray:
        """Predict as the model was fitted: rows of a table if it has a schema, else whatever the estimator takes.

        Parameters
        ----------
        X : DataFrame of pandas, polars or Arrow, dict of columns, or array-like of shape (n, d)
            With a schema, a table with the columns of the training data in any order: it is encoded as for training,
            the tasks are read from its column, and predictions are in the units of the target. A text that training
            did not have counts as none of the known ones; a missing column is an error that names it. Without a
            schema, what `model.predict` takes: an array, or a table with the features that the model was fitted on.
        **options
            Those of the estimator's `predict`; `tasks`, the task of each row, only without a schema.

        Returns
        -------
        array of shape (n,), or (n, T) where the tasks share their rows
        """
        predicted = self._call("predict", X, options)
        return predicted if self.schema is None else self.schema.restore(predicted)

    def predict_proba(self, X: Any, **options: Any) -> np.ndarray:
        """Return the probability of each class, in the order of the model's `classes_`.

        Parameters
        ----------
        X : as for `predict`
        **options
            Those of the estimator's `predict_proba`; `tasks` only without a schema.

        Returns
        -------
        array of shape (n, n_classes), or (n, T, n_classes) where the tasks share their rows
        """
        if not hasattr(self.model, "predict_proba"):
            raise ValueError(f"{type(self.model).__name__} predicts numbers: it has intervals, not probabilities")
        return self._call("predict_proba", X, options)

    def predict_interval(self, X: Any, coverage: float = 0.9, **options: Any) -> np.ndarray:
        """Return intervals that contain the target with the given probability, in its units.

        Parameters
        ----------
        X : as for `predict`
        coverage : float in (0, 1), default 0.9
        **options
            Those of the estimator's `predict_interval`; `tasks` only without a schema.

        Returns
        -------
        array of shape (n, 2), or (n, T, 2) where the tasks share their rows
        """
        if not hasattr(self.model, "predict_interval"):
            raise ValueError(f"{type(self.model).__name__} predicts classes: it has probabilities, not intervals")
        ends = self._call("predict_interval", X, {"coverage": coverage, **options})
        if self.schema is None:
            return ends
        return np.stack([self.schema.restore(ends[..., end]) for end in (0, 1)], axis=-1)

    def report(self, path: str | os.PathLike[str] | None = None, table: Any = None) -> Report:
        """Return a page on how well this model predicts and what drives predictions; a notebook shows it.

        Parameters
        ----------
        path : str or path, optional
            An HTML file to write too; the page needs no network.
        table : DataFrame, optional
            A labelled table to test on, in place of the rows that `kernelkin fit` held out; needs a schema.

        Returns
        -------
        report : Report
        """
        # Reports look at saved models, so that they cannot be imported first.
        from ..report import report_of_files

        report = report_of_files([self], test=table)
        return report if path is None else report.save(path)

    def _call(self, method: str, X: Any, options: dict[str, Any]) -> np.ndarray:
        """Call a method of the model on rows of a table, or on what the model takes."""
        if self.schema is None:
            return getattr(self.model, method)(X, **options)
        if not (hasattr(X, "columns") or hasattr(X, "column_names") or isinstance(X, Mapping)):
            columns = [*([self.schema.task] if self.schema.task else []), *(c.name for c in self.schema.columns)]
            raise TypeError(
                f"this model was fitted on a table with the columns {listing(columns)}: predict a data frame of pandas,"
                f" polars or Arrow, or a dict of columns, with these; got {type(X).__name__}; `.model.predict` takes "
                "arrays of encoded features"
            )
        if "tasks" in options:
            raise ValueError(f"this model reads the tasks from the column {self.schema.task!r}: leave out `tasks`")
        tasks = self.schema.tasks(X)
        return getattr(self.model, method)(self.schema.encode(X), tasks=tasks, **options)


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
    from .. import __version__

    check_is_fitted(model)
    metadata = {
        "kernelkin": __version__,
        "schema": None if schema is None else schema.to_json(),
        "about": about or {},
    }
    write_whole(path, pack(_dump(_without_frames(model)), metadata))


def _without_frames(model: Any) -> Any:
    """Return an estimator, and those it holds, with task features as the tables that they were read as."""
    if "task_features" not in inspect.signature(type(model)).parameters and not hasattr(model, "estimator"):
        return model
    found = copy(model)
    for name, value in vars(model).items():
        if name == "task_features":
            setattr(found, name, plain_task_features(value))
        elif isinstance(value, BaseEstimator):
            setattr(found, name, _without_frames(value))
    return found


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Load a model that `save_model` wrote.

    Before anything is created, every part of the file is compared with a fixed list: estimators of this library and
    the objects that they hold, NumPy arrays and numbers, Python's containers, random generators, and scikit-learn's
    kernel functions where a kernel belongs. Anything else is refused with an error that names it, so that a file cannot
    have code of its own executed; nor can it claim arrays larger than it holds, or expand to more than 200 times its
    size (64 MiB for small files). Files that were cut short, changed, or saved in another format are refused too.

    This does not make the model itself trustworthy: whoever wrote the file decides what it predicts.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    saved : SavedModel

    Raises
    ------
    ModelFileError
        For a file that is not a saved model or cannot be loaded.

    Examples
    --------
    >>> from kernelkin import load_model
    >>> load_model("no such file")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    content, metadata = unpack(path)
    model = _read_model(path, content, metadata)
    schema = _read_schema(path, metadata.get("schema"), model)
    about = metadata.get("about", {})
    if not isinstance(about, dict):
        raise ModelFileError(f"{path} was changed or damaged: its notes about the model are not a JSON object")
    return SavedModel(model=model, schema=schema, version=metadata["kernelkin"], about=about)


def _dump(model: Any) -> bytes:
    """The skops archive of a model that `unpack` accepts; a ValueError where the model holds what a file cannot."""
    sio = _skops()
    _compute_uncertainty(model)
    try:
        content = sio.dumps(model, compression=zipfile.ZIP_DEFLATED)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_tree(archive)
            # Such as an array of zeros, which would be taken for an attack.
            return sio.dumps(model) if expands_too_much(archive, len(content)) else content
    except TreeError as error:
        raise ValueError(
            f"this model cannot be saved: {error}. A file holds kernels of this library and those that scikit-learn "
            "has a name for, but no functions or classes of your own"
        ) from error


def _compute_uncertainty(model: Any) -> None:
    """Compute what would need the training data later: a file does not have them."""
    for part in (model, getattr(model, "best_estimator_", None)):
        if part is not None and hasattr(part, "uncertainty_"):
            part.uncertainty_.compute()


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("saved models need skops: install kernelkin[cli]") from error
    return skops.io


def _read_model(path: Any, content: bytes, metadata: dict[str, Any]) -> Any:
    from .. import __version__

    try:
        # Its tree has been checked; these are the names that the check allows.
        named = [*storable().parts, *storable().functions]
        model = _skops().loads(content, trusted=[f"{module}.{name}" for module, name in named])
        check_is_fitted(model)
    except Exception as error:
        raise ModelFileError(
            f"{path} was saved by kernelkin {metadata['kernelkin']:.40} and cannot be read by kernelkin {__version__}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return model


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
