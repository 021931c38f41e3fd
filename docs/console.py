"""The console sessions of the documentation: each is run, and what it prints is what the page says.

`python docs/console.py` writes the pages anew after a change to what commands print; the test suite compares them.
"""

import io
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from kernelkin.cli import main

PAGES = (Path(__file__).parent / "guide" / "command_line.md",)
BLOCK = re.compile(r"```(?P<kind>python|console)\n(?P<body>.*?)```", re.DOTALL)


def rerun(text: str) -> str:
    """A page with its Python blocks run, and its console blocks with what their commands print."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return BLOCK.sub(_rerun_block, text)


def _rerun_block(match: re.Match[str]) -> str:
    if match["kind"] == "python":
        exec(match["body"], {})
        return match[0]
    commands = [line.removeprefix("$ ") for line in match["body"].splitlines() if line.startswith("$ ")]
    return "```console\n" + "\n".join(f"$ {command}\n{_run(command)}".rstrip() for command in commands) + "\n```"


def _run(command: str) -> str:
    """What a command prints, its progress aside."""
    program, *arguments = shlex.split(command)
    if program == "head":
        return "".join(Path(arguments[-1]).read_text().splitlines(keepends=True)[: int(arguments[1])])
    assert program == "kernelkin", command
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return out.getvalue() if not code else err.getvalue()


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rerun(page.read_text()))
        print(f"wrote {page}", file=sys.stderr)
