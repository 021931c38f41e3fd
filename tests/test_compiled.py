"""Compiled code follows edits of its file, is announced, and needs no writable directory."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernelkin

PACKAGE = Path(kernelkin.__file__).parent
# The mean of a task's pairs is (1 + 10 * 1) / (1 + 10) = 1 after one pair of value 1, which is subtracted.
CENTER = """
import numpy as np
from kernelkin.paper.solvers.online_loops import center_pairs
z = np.ones((1, 1))
center_pairs(np.zeros(1, dtype=np.int64), z, np.zeros((2, 1)), np.zeros(2))
print(z[0, 0])
"""


@pytest.fixture
def package(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "kernelkin", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(folder, code, **environment):
    """Numbers printed by a new process that imports the package from `folder`, and its stderr."""
    environment = {**os.environ, "PYTHONPATH": str(folder), **environment}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return float(done.stdout), done.stderr


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def learn(loops):
    """The first round is a mistake, so the weight of its task increases by sign times value."""
    held, own, late_own, L, late, P = (np.zeros((1, 1)) for _ in range(6))
    one, counts = np.ones(1), np.zeros(4, dtype=np.int64)
    tasks, settings = np.zeros(1, dtype=np.int64), (0, 1.0, 0.0, True, 0)
    loops.run_rounds(tasks, one, np.ones((1, 1)), *settings, held, own, late_own, L, late, P, one, counts)
    return own[0, 0]


def test_an_edit_of_a_helper_takes_effect(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("kernelkin.compiled._announced", set())
    path = tmp_path / "loops.py"
    original = (PACKAGE / "paper" / "solvers" / "online_loops.py").read_text()
    path.write_text(original.replace("from ...compiled", "from kernelkin.compiled"))
    assert learn(load(path)) == 1.0
    announced = "kernelkin: compiling the online solver (first use, about 2 s; cached for later runs)\n"
    assert capsys.readouterr().err == announced
    monkeypatch.setattr("kernelkin.compiled._announced", set())
    assert learn(load(path)) == 1.0
    assert not capsys.readouterr().err
    edited = path.read_text().replace("    array[i, j] += change\n", "    array[i, j] += 2.0 * change\n")
    path.write_text(edited)
    assert learn(load(path)) == 2.0
    assert capsys.readouterr().err == announced


def test_a_damaged_cache_is_not_used(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    path = tmp_path / "twice.py"
    path.write_text(
        "from kernelkin.compiled import compiled\n\n\n"
        "@compiled('(float64,)', 'a test', 1)\ndef twice(x):\n    return 2.0 * x\n"
    )
    assert load(path).twice(3.0) == 6.0
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(b"")
    assert load(path).twice(3.0) == 6.0
    assert capsys.readouterr().err.count("compiling a test") == 1


def test_without_a_writable_directory_it_compiles_without_a_cache(package):
    """A file in the place of __pycache__ and a home in /proc stop every user, root included."""
    for folder in [package / "kernelkin", *(path for path in (package / "kernelkin").rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    value, printed = run(package, CENTER, HOME="/proc/none", XDG_CACHE_HOME="/proc/none")
    assert value == 0.0
    assert "not cached: set NUMBA_CACHE_DIR to a writable directory" in printed
    assert not list(package.rglob("*.nbi"))


def compiled_files():
    return [path for path in PACKAGE.rglob("*.py") if re.search(r"^@(compiled|helper)\b", path.read_text(), re.M)]


@pytest.mark.parametrize("path", compiled_files(), ids=lambda path: path.stem)
def test_compiled_files_use_no_other_module_of_the_package(path):
    """numba's cache would not notice a change there."""
    imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in imports if node.level} == {"compiled"}


def test_all_compilation_goes_through_the_decorators():
    users = {path.name for path in PACKAGE.rglob("*.py") if re.search(r"\bn?jit\b", path.read_text())}
    assert users == {"compiled.py"}
