"""Vega-Lite and what it needs, as one script for pages without network.

The script is made by vl-convert-python, which carries the JavaScript of Vega, Vega-Lite and Vega-Embed (BSD 3-Clause).
Making it takes seconds, so it is kept in the user's cache folder.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from ..files import write_whole


@lru_cache(maxsize=1)
def vega_script() -> str:
    """Return the script, which defines `vegaEmbed`, with its licence in front."""
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError("a report needs vl-convert-python: install kernelkin[cli]") from error
    kept = cache_folder() / f"vega-embed-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (text := kept.read_text(encoding="utf-8")).startswith("/*"):
            return text
    script = _licence() + vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Inside a page, nothing in it may end the script element.
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, script)
    return script


def cache_folder() -> Path:
    """Return the folder of the user for files that can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "kernelkin"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelkin"


def _licence() -> str:
    """Return the licence texts that must go with the script, as a comment."""
    folder = Path(__file__).parent / "page"
    return "/* " + (folder / "vega-licence.txt").read_text(encoding="utf-8") + "*/\n"
