"""Saved models: one line of text, then JSON, then the bytes of arrays, without compression and without code."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..exceptions import ModelFileError
from ..files import write_whole
from ..tables.schema import TableSchema
from .values import ValueFault, dump, load

if TYPE_CHECKING:
    from ..report.report import Report

# The version of the file format, raised when older readers could misread a file.
FORMAT = 1
_FIRST_LINE = "kernelkin model, format {}, kernelkin {}, {} bytes of JSON, {} of arrays, sha256 {}\n"
_PATTERN = re.compile(
    r"kernelkin model, format (\d{1,9}), kernelkin ([\w.+-]{1,40}), (\d{1,18}) bytes of JSON, (\d{1,18}) of arrays, "
    r"sha256 ([0-9a-f]{64})\n"
)
_LONGEST_LINE = 300


@dataclass(frozen=True)
class SavedModel:
    """A model from a file.

    Parameters
    ----------
    model : fitted estimator
        The saved estimator.
    schema : TableSchema, optional
        The schema of the table it was fitted on; None if it was saved without one.
    version : str
        The version of kernelkin that saved it.
    about : dict
        Other information saved with it, such as the scores from `kernelkin fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelkin import AverageRegressor
    >>> from kernelkin.storage import SavedModel
    >>> from kernelkin.tables import TableSchema
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
        """Predict rows of a table, in the units of the target; without a schema, X is as for `model.predict`.

        Parameters
        ----------
        X : DataFrame of pandas, polars or Arrow, or dict of columns
            The columns of the training data in any order, with the tasks in their column. Texts that were not in
            training are encoded as none of the known texts.
        **options : options of the estimator's `predict`

        Returns
        -------
        array of shape (n,), or (n, T) if the tasks share their rows
        """
        predicted = self._call("predict", X, options)
        return predicted if self.schema is None else self.schema.restore(predicted)

    def predict_proba(self, X: Any, **options: Any) -> np.ndarray:
        """Return the probabilities of the classes `model.classes_`: (n, n_classes), or (n, T, n_classes) on wide data.

        Parameters
        ----------
        X, **options : as for `predict`
        """
        if not hasattr(self.model, "predict_proba"):
            raise ValueError(f"{type(self.model).__name__} predicts numbers: it has intervals, not probabilities")
        p, fitted = self._call("predict_proba", X, options), getattr(self.model, "best_estimator_", self.model)
        second_only = fitted.data_form_ == "wide" and "tasks" not in options and len(fitted.classes_) == 2
        return np.stack([1.0 - p, p], axis=-1) if second_only else p

    def predict_interval(self, X: Any, coverage: float = 0.9, **options: Any) -> np.ndarray:
        """Return intervals that contain the target with this probability, in its units: (n, 2), or (n, T, 2).

        Parameters
        ----------
        X : as for `predict`
        coverage : float in (0, 1), default 0.9
        **options : options of the estimator's `predict_interval`
        """
        if not hasattr(self.model, "predict_interval"):
            raise ValueError(f"{type(self.model).__name__} predicts classes: it has probabilities, not intervals")
        ends = self._call("predict_interval", X, {"coverage": coverage, **options})
        if self.schema is None:
            return ends
        return np.stack([self.schema.restore(ends[..., end]) for end in (0, 1)], axis=-1)

    def report(self, path: str | os.PathLike[str] | None = None, table: Any = None) -> Report:
        """Return an HTML report on how well this model predicts and what drives its predictions.

        Parameters
        ----------
        path : str or path, optional
            Also write the report to this HTML file. The file works offline.
        table : DataFrame, optional
            A labelled table to test on, instead of the rows that `kernelkin fit` held out; needs a schema.
        """
        # Imported here because reports import saved models.
        from ..report.report import report_of_files

        report = report_of_files([self], test=table)
        return report if path is None else report.save(path)

    def _call(self, method: str, X: Any, options: dict[str, Any]) -> np.ndarray:
        """Call a method of the model on rows of a table, or on input for the estimator."""
        if self.schema is None:
            return getattr(self.model, method)(X, **options)
        if "tasks" in options:
            raise ValueError(f"this model reads the tasks from the column {self.schema.task!r}: leave out `tasks`")
        rows, options = self.schema.encode(X), options | self.schema.options(X)
        return getattr(self.model, method)(rows, tasks=self.schema.tasks(X), **options)


def save_model(
    model: Any, path: str | os.PathLike[str], *, schema: TableSchema | None = None, about: dict[str, Any] | None = None
) -> None:
    """Save a fitted model to a file. An interrupted write leaves no partial file.

    A callback, or a generator given as `random_state`, is not saved; a seed that is a number is.

    Parameters
    ----------
    model : fitted estimator of this library
    path : the file, usually with the ending ".kin"
    schema : TableSchema, optional
        The schema of the table it was fitted on, so that it can predict other tables.
    about : dict, optional
        Other information to save with it: numbers, texts, arrays, and lists and dicts of these.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> from kernelkin import MKMTRLRegressor, load_model, save_model
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    >>> model = MKMTRLRegressor().fit(X, np.sin(X[:, 0]), tasks=tasks)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "model.kin"))
    ...     saved = load_model(os.path.join(folder, "model.kin"))
    >>> bool((saved.model.predict(X, tasks=tasks) == model.predict(X, tasks=tasks)).all())
    True
    """
    check_is_fitted(model)
    # The file does not contain the training data, so all that needs them is computed now.
    for part in (model, getattr(model, "best_estimator_", None)):
        if part is not None and hasattr(part, "uncertainty_"):
            part.uncertainty_.compute()
    try:
        parts = dump([model, schema, about or {}])
        load(*parts)
    except ValueFault as error:
        raise ValueError(
            f"this model cannot be saved: {str(error).replace('[0]', 'model', 1)}. A file can hold kernels of this "
            "library and named kernels of scikit-learn, but no functions or classes of your own"
        ) from error
    write_whole(path, seal(*parts))


def seal(text: bytes, arrays: bytes) -> bytes:
    """Return the content of a file with this JSON and these arrays. The checksum detects damage, not tampering."""
    digest = hashlib.sha256(text + arrays).hexdigest()
    return _FIRST_LINE.format(FORMAT, __version__, len(text), len(arrays), digest).encode() + text + arrays


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Load a model written by `save_model`.

    A file holds numbers, texts, arrays, and objects of this library's classes made of these. Loading it cannot execute
    code, and memory use is bounded by its size. Files that are truncated, changed, or saved in another format are
    refused, and so are values that no model has. The model itself is only as trustworthy as its source: whoever wrote
    the file decides what it predicts.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    saved : SavedModel

    Raises
    ------
    ModelFileError
        For a file that is not a saved model or cannot be loaded.
    """
    with open(path, "rb") as file:
        first = _PATTERN.fullmatch(file.readline(_LONGEST_LINE).decode("ascii", "replace"))
        # Read on only if the first line is that of a model: /dev/zero has no end.
        content = file.read() if first else b""
    if first is None:
        raise ModelFileError(f"{path} is not a saved model")
    form, version, n_text, n_arrays, digest = first.groups()
    if int(form) != FORMAT:
        raise ModelFileError(
            f"{path} was saved by kernelkin {version} in format {form}; this is kernelkin {__version__}, which reads "
            f"format {FORMAT}: load it with kernelkin {version}, or fit the model again"
        )
    if len(content) != int(n_text) + int(n_arrays):
        raise ModelFileError(f"{path} is truncated or damaged: it has {len(content)} bytes after its first line")
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelFileError(f"{path} was damaged or changed after it was saved: its checksum does not match")
    try:
        return _checked(load(content[: int(n_text)], content[int(n_text) :]), version)
    except ValueFault as error:
        raise ModelFileError(f"{path} cannot be loaded: {error}") from error


def _checked(content: Any, version: str) -> SavedModel:
    """Return the saved model from the parts of a file, if they belong together."""
    match content:
        case [BaseEstimator() as model, TableSchema() | None as schema, dict() as about]:
            pass
        case _:
            raise ValueFault("it does not hold an estimator of this library, its table, and notes about it")
    try:
        check_is_fitted(model)
        n_features = model.n_features_in_ if schema is None else len(schema.features)
    except Exception as error:
        raise ValueFault(f"its model or table is not complete ({type(error).__name__}: {error})") from error
    if n_features != model.n_features_in_:
        raise ValueFault(f"its table has {n_features} features, its model {model.n_features_in_!r:.80}")
    return SavedModel(model, schema, version, about)
