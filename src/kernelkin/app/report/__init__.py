"""The report: what a fitted model has learned, as one HTML file that needs no network."""

from __future__ import annotations

import json
import os
from html import escape
from importlib.resources import files
from typing import Any

from ... import __version__
from ...io import SavedModel
from ...io.storage import write_whole
from .content import report_content

__all__ = ["render_report", "write_report"]


def write_report(
    model: Any, path: str | os.PathLike[str], *, title: str | None = None, file: str = "model.skops"
) -> None:
    """Write the report of a model to one HTML file.

    Parameters
    ----------
    model : SavedModel or fitted estimator
        What `load_model` gives, or an estimator of this library. Without the schema of a table, or without test scores,
        the report has fewer sections.
    path : str or path
        The file to write.
    title : str, optional
        The headline; by default the target and the task.
    file : str
        The file of the model, for the lines that explain how to load it.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.app.report import write_report
    >>> X, tasks = np.linspace(0, 1, 20)[:, np.newaxis], np.repeat(["a", "b"], 10)
    >>> model = MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, os.path.join(folder, "report.html"))
    ...     os.listdir(folder)
    ['report.html']
    """
    write_whole(path, render_report(model, title=title, file=file))


def render_report(model: Any, *, title: str | None = None, file: str = "model.skops") -> str:
    """The report of a model as HTML; the parameters are those of `write_report`.

    Parameters
    ----------
    model : SavedModel or fitted estimator
        What `load_model` gives, or an estimator of this library.
    title : str, optional
        The headline; by default the target and the task.
    file : str
        The file of the model, for the lines that explain how to load it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.app.report import render_report
    >>> X, tasks = np.linspace(0, 1, 20)[:, np.newaxis], np.repeat(["a", "b"], 10)
    >>> page = render_report(MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks), title="Two tasks")
    >>> "<title>Two tasks</title>" in page
    True
    """
    saved = _as_saved(model)
    content = report_content(saved, title=title, file=file)
    page = files(__package__).joinpath("page")
    parts: dict[str, str] = {
        "TITLE": escape(content["title"]),
        "STYLE": page.joinpath("report.css").read_text(encoding="utf-8"),
        "SCRIPT": page.joinpath("report.js").read_text(encoding="utf-8"),
        "CONTENT": _json(content),
    }
    html = page.joinpath("report.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        html = html.replace(f"<!--{name}-->", text, 1)
    return html


def _as_saved(model: Any) -> SavedModel:
    """A saved model; an estimator becomes one without a schema."""
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

    saved = model if isinstance(model, SavedModel) else SavedModel(model, version=__version__)
    if not isinstance(saved.model, BaseEstimator):
        raise TypeError(f"a report needs a fitted model or what load_model gives, not {type(saved.model).__name__}")
    check_is_fitted(saved.model)
    if not hasattr(saved.model, "tasks_"):
        raise TypeError(f"a report needs a model of kernelkin, not {type(saved.model).__name__}")
    return saved


def _json(content: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
