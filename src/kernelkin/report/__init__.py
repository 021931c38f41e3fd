"""The report: what a saved model has learned, as one HTML file that needs no network."""

from __future__ import annotations

import json
import os
from html import escape
from importlib.resources import files
from typing import Any

from ..persistence import SavedModel
from ..storage import write_whole
from .content import report_content

__all__ = ["render_report", "report_content", "write_report"]


def write_report(
    saved: SavedModel, path: str | os.PathLike[str], *, title: str | None = None, file: str = "model.skops"
) -> None:
    """Write the report of a saved model; `file` is where the model is, for the lines that say how to load it."""
    write_whole(path, render_report(saved, title=title, file=file))


def render_report(saved: SavedModel, *, title: str | None = None, file: str = "model.skops") -> str:
    """The report of a saved model as HTML."""
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
