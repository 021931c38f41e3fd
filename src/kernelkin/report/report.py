"""`Report`: an HTML page, usable offline, on a fitted model and how well it predicts."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..data.arrays import listing
from ..files import write_whole
from ..relations.analysis import TaskRelations
from ..relations.scores import HeldOutRows
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel
from .content import model_content
from .evaluation import evaluation_content, out_of_sample_rows, rows_of_arrays, rows_of_table

STYLES = ("theme", "layout", "parts", "tables", "media")
SCRIPTS = ("dom", "charts", "tables", "answer", "groups", "drivers", "predictions", "tasks", "relations", "fit", "main")
# Height of the page inside a notebook, in pixels.
NOTEBOOK_HEIGHT = 860


@dataclass(frozen=True)
class Report:
    """A report on one fitted model, or on two side by side.

    The method `report()` of estimators returns one. A notebook displays it; `save` writes an offline HTML file.

    Parameters
    ----------
    title : str
        The headline.
    models : list of dict
        The content shown for each model, as plain lists, numbers and texts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> X, tasks = np.linspace(0, 1, 20)[:, np.newaxis], np.repeat(["a", "b"], 10)
    >>> report = MKMTRLRegressor().fit(X, X[:, 0], tasks=tasks).report()
    >>> report.title
    'MKMTRLRegressor: 2 tasks'
    >>> report.models[0]["evaluation"]["question"], report.models[0]["evaluation"]["n_rows"]
    ('new rows of known groups', 20)
    """

    title: str
    models: list[dict[str, Any]]

    @cached_property
    def html(self) -> str:
        """The page."""
        page = files(__package__).joinpath("page")
        parts = {
            "TITLE": escape(self.title),
            "STYLE": "\n".join(page.joinpath(f"{name}.css").read_text(encoding="utf-8") for name in STYLES),
            "CONTENT": _json({"title": self.title, "models": self.models}),
            "VEGA": vega_script(),
            "SCRIPT": "\n".join(page.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS),
        }
        html = page.joinpath("report.html").read_text(encoding="utf-8")
        for name, text in parts.items():
            before, after = html.split(f"<!--{name}-->", 1)
            html = before + text + after
        return html

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the page to a file. If writing is interrupted, no partial file remains.

        Parameters
        ----------
        path : str or path
            The file, usually with the ending ".html".

        Returns
        -------
        self : object
        """
        write_whole(path, self.html)
        return self

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: show it in a notebook, or save it with .save('report.html')>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"></iframe>'
        )


def report_of_fit(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    tasks: Any = None,
    *,
    sharing: SharingReport | None = None,
    relations: TaskRelations | None = None,
    title: str | None = None,
) -> Report:
    """Return the report of a fitted estimator; see `MultiTaskEstimator.report`."""
    saved = _as_saved(model)
    about = {"relations": relations, "sharing": sharing and sharing.without_rows()}
    saved = replace(saved, about={key: found for key, found in about.items() if found is not None})
    rows = {} if sharing is None or X is not None else sharing.held_out()
    evaluations = _evaluated(rows or _rows_of_fit(model, X, y, tasks))
    content = model_content(saved, evaluations, name=type(model).__name__, title=title, file="model.kin")
    report = Report(content["title"], [content])
    return report if path is None else report.save(path)


def _evaluated(rows: dict[str, HeldOutRows]) -> list[dict[str, Any]]:
    return [evaluation_content(question, part) for question, part in rows.items()]


def _rows_of_fit(model: Any, X: Any, y: Any, tasks: Any) -> dict[str, HeldOutRows]:
    if X is not None and y is not None:
        return rows_of_arrays(model, X, y, tasks, "rows passed to the report")
    if X is not None or y is not None or tasks is not None:
        raise ValueError("a report on given rows needs both X and y, and tasks as for predict")
    rows = out_of_sample_rows(model)
    if not rows:
        raise ValueError(
            f"this {type(model).__name__} has no held-out values, because it was copied or loaded from a file: pass "
            "labelled rows that were not used in fit, as report(X=..., y=..., tasks=...)"
        )
    return rows


def report_of_files(
    models: Sequence[SavedModel], *, names: Sequence[str] = ("model.kin",), test: Any = None, title: str | None = None
) -> Report:
    """Return the report of one saved model, or of two side by side.

    Parameters
    ----------
    models : results of `load_model`, or fitted estimators
    names : file names of the models
    test : a labelled table to use instead of the rows that were held out when a model was saved, or None
    title : the title, or None for the target and the task
    """
    found = [_as_saved(model) for model in models]
    if len(models) > 2:
        raise ValueError(f"a report shows one model, or two side by side, not {len(models)}")
    targets = [(saved.schema.target, saved.schema.regression) for saved in found if saved.schema is not None]
    if len(set(targets)) > 1:
        raise ValueError(f"{listing(names)} predict different things ({targets[0][0]!r} and {targets[1][0]!r})")
    contents = []
    for saved, name in zip(found, names, strict=True):
        label = os.path.basename(name) if len(found) > 1 else type(saved.model).__name__
        contents.append(model_content(saved, _evaluations(saved, test), name=label, title=title, file=name))
    return Report(contents[0]["title"], contents)


def _evaluations(saved: SavedModel, test: Any) -> list[dict[str, Any]]:
    """Return the evaluations of a saved model: on the table `test`, those stored with it, or those of its folds."""
    if test is not None:
        return _evaluated(rows_of_table(saved, test, "a labelled table passed to this report"))
    if "evaluations" in saved.about:
        return saved.about["evaluations"]
    return _evaluated(out_of_sample_rows(saved.model, saved.schema))


def _as_saved(model: Any) -> SavedModel:
    """Return a saved model; an estimator is wrapped in one without a schema."""
    saved = model if isinstance(model, SavedModel) else SavedModel(model, version=__version__)
    if not isinstance(saved.model, BaseEstimator):
        raise TypeError(f"a report needs a fitted model or the result of load_model, not {type(saved.model).__name__}")
    check_is_fitted(saved.model)
    if not hasattr(saved.model, "tasks_"):
        raise TypeError(f"a report needs a model of kernelkin, not {type(saved.model).__name__}")
    return saved


def _json(content: dict[str, Any]) -> str:
    """Return JSON that cannot close the script element that contains it."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@lru_cache(maxsize=1)
def vega_script() -> str:
    """Return one script with Vega-Lite and its dependencies, which defines `vegaEmbed`, preceded by its licence.

    The script comes from vl-convert-python, which includes Vega, Vega-Lite and Vega-Embed (BSD 3-Clause). Bundling it
    takes seconds, so it is stored in the user's cache folder.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError("a report needs vl-convert-python: install kernelkin[cli]") from error
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    kept = folder / "kernelkin" / f"vega-embed-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (text := kept.read_text(encoding="utf-8")).startswith("/*"):
            return text
    licence = files(__package__).joinpath("page", "vega-licence.txt").read_text(encoding="utf-8")
    script = f"/* {licence}*/\n" + vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # The script must not close the script element that contains it.
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    with suppress(OSError):
        # Without a home, `folder` begins with "~": it is not made.
        kept.parent.mkdir(parents=folder.is_absolute(), exist_ok=True)
        write_whole(kept, script)
    return script
