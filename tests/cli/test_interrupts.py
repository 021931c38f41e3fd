"""An interrupt at any moment of the program's life ends it in one line or in silence."""

import ast
import inspect
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kernelkin

# Runs in the program before anything else: Python imports `sitecustomize` by itself.
INTERRUPT_AT_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_IMPORT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""
# An empty command line in place of the one that takes seconds to import.
EMPTY = """
import atexit, os, signal, sys, types
cli = sys.modules["kernelkin.cli.main"] = types.ModuleType("kernelkin.cli.main")
"""
INTERRUPT_AT_EXIT = f"""{EMPTY}
cli.main = lambda: atexit.register(os.kill, os.getpid(), signal.SIGINT) and 7
"""
INTERRUPTS_OFF = f"""{EMPTY}
signal.signal(signal.SIGINT, signal.SIG_IGN)
cli.main = lambda: os.kill(os.getpid(), signal.SIGINT) or 7
"""
MAIN = [sys.executable, "-m", "kernelkin"]
# What pip writes as the program `kernelkin`.
SCRIPT = [sys.executable, "-c", "import sys; from kernelkin.__main__ import main; sys.exit(main())"]


def run(folder, code, command, **environment):
    (folder / "sitecustomize.py").write_text(code)
    paths = os.pathsep.join([str(folder), str(Path(kernelkin.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths, **environment}
    # A suite that runs in the background may ignore interrupts, and its children with it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("command", "name"), [(SCRIPT, "kernelkin.cli"), (MAIN, "kernelkin.cli")])
def test_during_its_first_imports_the_program_ends_in_silence(tmp_path, command, name):
    outcome = run(tmp_path, INTERRUPT_AT_IMPORT, [*command, "models"], INTERRUPTED_IMPORT=name)
    assert outcome == (-signal.SIGINT, "")


def test_during_a_command_the_program_reports_the_interrupt(tmp_path):
    outcome = run(tmp_path, INTERRUPT_AT_IMPORT, [*MAIN, "models"], INTERRUPTED_IMPORT="scipy.linalg")
    assert outcome == (130, "kernelkin: interrupted\n")


def test_after_the_command_the_program_ends_in_silence(tmp_path):
    assert run(tmp_path, INTERRUPT_AT_EXIT, MAIN) == (-signal.SIGINT, "")


def test_interrupts_that_were_switched_off_stay_off(tmp_path):
    assert run(tmp_path, INTERRUPTS_OFF, MAIN) == (7, "")


def test_the_package_itself_imports_nothing_large():
    code = "import sys, kernelkin; print(*sys.modules)"
    imported = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not {name for name in imported if name.partition(".")[0] in ("numpy", "scipy", "sklearn")}
    assert {name for name in imported if name.startswith("kernelkin")} == {"kernelkin"}


def test_names_that_are_imported_on_first_use_are_those_that_type_checkers_see():
    tree = ast.parse(inspect.getsource(kernelkin))
    sources = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.level == 1
    }
    assert sorted(sources) == sorted(kernelkin.__all__)
    for name, module in sources.items():
        assert getattr(kernelkin, name) is getattr(import_module(f"kernelkin.{module}"), name)
    assert set(sources) < set(dir(kernelkin))
    with pytest.raises(AttributeError, match="module 'kernelkin' has no attribute 'MKMTRL'"):
        _ = kernelkin.MKMTRL
