"""The console sessions of the guide, with the output of their commands.

`python docs/console.py` runs the sessions and writes their pages again, and the picture of a report on the sleep data
if Chromium is installed; the test suite compares the pages with what the commands print.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from kernelkin.cli.main import main

DOCS = Path(__file__).parent
PAGES = (DOCS / "guide" / "command_line.md", DOCS / "guide" / "messy_data.md")
PICTURE = DOCS / "images" / "report.png"
BLOCK = re.compile(r"```(?P<kind>python|console)\n(?P<body>.*?)```", re.DOTALL)


def rerun(text: str, folder: Path) -> str:
    """Run the Python blocks of a page in a folder, and fill in the output of its console blocks."""
    with chdir(folder):
        return BLOCK.sub(_rerun_block, text)


def _rerun_block(match: re.Match[str]) -> str:
    if match["kind"] == "python":
        exec(match["body"], {})
        return match[0]
    commands = [line.removeprefix("$ ") for line in match["body"].splitlines() if line.startswith("$ ")]
    return "```console\n" + "\n".join(f"$ {command}\n{_run(command)}".rstrip() for command in commands) + "\n```"


def _run(command: str) -> str:
    """What a command prints, without its progress."""
    program, *arguments = shlex.split(command)
    if program == "head":
        return "".join(Path(arguments[-1]).read_text().splitlines(keepends=True)[: int(arguments[1])])
    assert program == "kernelkin", command
    out, err = io.StringIO(), io.StringIO()
    # Pages show what everybody gets: LightGBM is used where it is installed, and a busy machine leaves out questions.
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch("kernelkin.relations.baselines.find_spec", return_value=None),
        patch("kernelkin.cli.fit.SECONDS", None),
    ):
        code = main(arguments)
    return out.getvalue() if not code else err.getvalue()


def picture_report(report: Path) -> None:
    """A screenshot with few colours, so that the file is small."""
    from PIL import Image

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium: the picture of the report is not updated", file=sys.stderr)
        return
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1300,1000"]
    # Pictures are drawn after the page has loaded.
    flags.append("--virtual-time-budget=20000")
    subprocess.run([browser, *flags, f"--screenshot={PICTURE}", report.as_uri()], check=True, capture_output=True)
    Image.open(PICTURE).convert("RGB").quantize(96, Image.Quantize.MAXCOVERAGE).save(PICTURE, optimize=True)


def picture_sleep(folder: Path) -> None:
    """The picture of a report on real data: reaction times of 18 people over ten days with little sleep."""
    source = Path(os.environ.get("KERNELKIN_DATA", ""), "grouped.zip")
    if not source.exists():
        print(
            "KERNELKIN_DATA names no folder with grouped.zip: the picture of the report is not updated", file=sys.stderr
        )
        return
    with zipfile.ZipFile(source) as packed:
        table = packed.read("sleepstudy.csv").decode().replace("task,target", "Subject,Reaction", 1)
    (folder / "sleep.csv").write_text(table)
    with chdir(folder):
        _run("kernelkin fit sleep.csv --task Subject --target Reaction --time Days -o sleep.kin")
        _run("kernelkin report sleep.kin -o report.html")
    picture_report(folder / "report.html")


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(rerun(page.read_text(), Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        picture_sleep(Path(folder))
