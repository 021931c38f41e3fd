"""Run the worked cases and write what they print and draw: `python -m docs.cases [name ...]`.

The Python blocks of a page in docs/cases run in order. What a block prints goes into the text block after it, and a
figure that it draws into docs/images/cases, where the page shows it. Data are read from the addresses that the pages
name or, without network, from a copy: RDATASETS names a folder that has, for example, lme4/sleepstudy.csv.
"""

import io
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

from docs.readme import _shrink

FOLDER = Path(__file__).parent / "cases"
PICTURES = Path(__file__).parent / "images" / "cases"
SOURCE = re.compile(r"https://raw\.githubusercontent\.com/vincentarelbundock/Rdatasets/\w+/csv/")
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n.*?```)?", re.DOTALL)
STAMP = re.compile(r"^\*Made with .*\*$", re.MULTILINE)


def rerun(page: Path) -> str:
    """Run the blocks of a page in one namespace; return the page with their output."""
    names: dict[str, object] = {}
    pictures = iter(range(1, 100))

    def run(match: re.Match[str]) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(match["code"], str(page), "exec"), names)
        if plt.get_fignums():
            _save(PICTURES / f"{page.stem}{next(pictures)}.png")
        text = f"```python\n{match['code']}```"
        return text + (f"\n\n```text\n{out.getvalue().rstrip()}\n```" if out.getvalue() else "")

    commit = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=True)
    text = BLOCK.sub(run, page.read_text())
    return STAMP.sub(f"*Made with kernelkin at {commit.stdout.strip()} by `python -m docs.cases {page.stem}`.*", text)


def _save(path: Path) -> None:
    plt.gcf().savefig(path, dpi=100, bbox_inches="tight")
    plt.close("all")
    _shrink(path, path)


def read_csv(source: str, **options: object) -> pd.DataFrame:
    """pandas' reader, from a copy of the data if RDATASETS names one."""
    if "RDATASETS" in os.environ:
        source = SOURCE.sub(os.environ["RDATASETS"].rstrip("/") + "/", source)
    return ORIGINAL(source, **options)


ORIGINAL = pd.read_csv

if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    wanted = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
    with patch.object(pd, "read_csv", read_csv):
        for name in wanted:
            page = FOLDER / f"{name}.md"
            page.write_text(rerun(page))
