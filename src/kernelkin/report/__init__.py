"""The report: what a saved model has learned, as one HTML file that needs no network."""

from __future__ import annotations

import json
import os
from html import escape
from importlib.resources import files
from typing import Any

from ..io import SavedModel
from ..io.storage import write_whole
from .content import report_content

__all__ = ["render_report", "write_report"]


def write_report(
    saved: SavedModel, path: str | os.PathLike[str], *, title: str | None = None, file: str = "model.skops"
) -> None:
    """Write the report of a saved model to one HTML file.

    Parameters
    ----------
    saved : SavedModel
        What `load_model` gives.
    path : where to.
    title : str, optional
        The headline; by default the target and the task.
    file : str
        Where the model is, for the lines that say how to load it.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from kernelkin import MKMTRLRegressor, SavedModel
    >>> from kernelkin.report import write_report
    >>> X, tasks = np.linspace(0, 1, 20)[:, np.newaxis], np.repeat(["a", "b"], 10)
    >>> model = MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(SavedModel(model), os.path.join(folder, "report.html"))
    ...     os.listdir(folder)
    ['report.html']
    """
    write_whole(path, render_report(saved, title=title, file=file))


def render_report(saved: SavedModel, *, title: str | None = None, file: str = "model.skops") -> str:
    """The report of a saved model as HTML; arguments are those of `write_report`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor, SavedModel
    >>> from kernelkin.report import render_report
    >>> X, tasks = np.linspace(0, 1, 20)[:, np.newaxis], np.repeat(["a", "b"], 10)
    >>> page = render_report(SavedModel(MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks)), title="Two tasks")
    >>> "<title>Two tasks</title>" in page
    True
    """
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


def _json(content: dict[str, Any]) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
