"""Configuration of the documentation; `make docs` builds it, with warnings as errors."""

import re
import subprocess
import sys
import warnings
from importlib.resources import files
from pathlib import Path

import matplotlib
import numpy as np
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError

import kernelkin
import kernelkin.paper

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).parent))

project = "kernelkin"
author = "The kernelkin developers"
version = release = kernelkin.__version__
# What is drawn by the gallery and printed on these pages was made at this commit.
_git = subprocess.run(
    ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=Path(__file__).parent
)
commit = _git.stdout.strip() or "an unknown commit"
copyright = f"{author}. Version {release}, made at {commit}"

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = [
    "_build",
    "results/README.md",
    "results/*/units",
    "images",
    "gallery/*.ipynb",
    "gallery/*.md5",
    "gallery/*.py",
]
templates_path = ["_templates"]
# Browsers draw MathML well only in a font with a table of mathematical constants, which few systems have. ziamath
# brings one, STIX Two Math (SIL Open Font License, as the font states); it is copied beside the style sheet.
html_static_path = ["_static", str(files("ziamath") / "fonts")]
html_css_files = ["kernelkin.css"]
html_theme = "furo"
html_title = "kernelkin"
html_copy_source = html_show_sourcelink = False

# A name in single backticks that the reference knows becomes a link.
default_role = "py:obj"
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(Path(__file__).parents[1] / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    # The demo is a program of its own: `make demo` runs it.
    "ignore_pattern": r"\bdemo\.py$",
    "within_subsection_order": "gallery_order.GalleryOrder",
    "matplotlib_animations": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 1,
    "parallel": 2,
    "show_memory": False,
    # Its page loads scripts from the network.
    "write_computation_times": False,
    "doc_module": ("kernelkin",),
    "backreferences_dir": "generated/backreferences",
    "reference_url": {"kernelkin": None},
}
# Figures are saved, not shown.
warnings.filterwarnings("ignore", message=".*non-interactive.*")


# What docutils reads otherwise than LaTeX, or not at all.
TEX = (
    (r"\\([td]?)frac(\d)(\d)", r"\\\1frac{\2}{\3}"),
    (r"\\[bB]ig\s*([(\[])", r"\\left\1"),
    (r"\\[bB]ig\s*([)\]])", r"\\right\1"),
    (r"\\dots\b", r"\\ldots"),
)


def to_mathml(tex: str, block: bool) -> str:
    """LaTeX as MathML, which browsers draw without any script or network."""
    for pattern, ours in TEX:
        tex = re.sub(pattern, ours, tex)
    mathml = tex2mathml(tex, as_block=block)
    # The bars of a norm would stretch to the height of its indices, on one side only.
    return re.sub(r"<mo([^>]*)>‖</mo>", r'<mo\1 stretchy="false">‖</mo>', mathml)


def visit_math(translator, node):
    translator.body.append(to_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def visit_displaymath(translator, node):
    translator.body.append(f'<div class="math">{to_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


# What a browser fetches by itself: scripts, images, style sheets, fonts.
RESOURCE = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc=["'](?:https?:)?//[^>]*>"""
    r"""|<link\b[^>]*\bhref=["'](?:https?:)?//[^>]*>|@import[^;]*//[^;]*;|url\(["']?(?:https?:)?//[^)]*\)"""
)


def check_offline(app, error):
    """Fail where a page or a style sheet loads anything from the network; links are fine."""
    if error is not None or app.builder.format != "html":
        return
    # Not every page in the folder: an older build may have left others there.
    pages = [Path(app.builder.get_outfilename(name)) for name in app.env.found_docs]
    pages += Path(app.outdir, "_static").rglob("*.css")
    found = [f"{path.name}: {match}" for path in pages for match in RESOURCE.findall(path.read_text(encoding="utf-8"))]
    if found:
        raise ExtensionError("resources from the network: " + "; ".join(found))


def compile_loops():
    """Fill the cache of compiled code, so that each example takes the time of its own code, whichever runs first."""
    X, tasks = np.random.default_rng(0).normal(size=(40, 2)), np.repeat([0, 1], 20)
    for model in (kernelkin.paper.STLClassifier(), kernelkin.paper.TwoStageMKMTRLClassifier(n_rounds=10)):
        model.fit(X, X[:, 0] > 0, tasks=tasks)


def setup(app):
    compile_loops()
    app.connect("build-finished", check_offline)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
    app.config.html_math_renderer = "mathml"
