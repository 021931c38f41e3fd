"""Count the size of the library, and what one fit passes through: `python -m docs.call_path` prints all counts.

`--list` also names the functions that each of the three fits calls, in the order in which they are first called;
`--write` writes the counts into CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import CodeType

import numpy as np

import kernelkin

ROOT = Path(kernelkin.__file__).parent
Calls = list[tuple[str, str]]


def counts() -> dict[str, int]:
    """Return every figure that `tests/test_size.py` holds a ceiling for."""
    trees = [ast.parse(path.read_text()) for path in ROOT.rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = {
        "files": len(trees),
        "lines": sum(path.read_text().count("\n") for path in ROOT.rglob("*.py")),
        "dataclasses": sum(any("dataclass" in ast.unparse(d) for d in c.decorator_list) for c in classes),
        "public names": len(kernelkin.__all__),
        "import chain": len(import_chain()),
    }
    for name, fit in FITS.items():
        calls = called_by(fit)
        found[f"{name}, functions"], found[f"{name}, files"] = len(calls), len({file for file, _ in calls})
    return found


def imports(path: Path, functions: bool = False) -> set[str]:
    """Return the modules of the library that a file imports; imports for type checkers are left out.

    `functions` says whether those inside functions count.
    """
    package = ("kernelkin", *path.relative_to(ROOT).parts[:-1])
    found: set[str] = set()
    stack: list[ast.AST] = [ast.parse(path.read_text())]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("kernelkin")):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*base, *((node.module,) if node.module else ())))
            names = [f"{module}.{alias.name}" for alias in node.names]
            found |= {name if is_module(name) else module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("kernelkin")}
        elif functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack += ast.iter_child_nodes(node)
    return found


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def module_name(path: Path) -> str:
    """The name of the module in a file: `kernelkin.paper.fitting` for that of a package."""
    parts = ("kernelkin", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_chain() -> list[str]:
    """Return the longest chain of modules of which each imports the next when it is imported."""
    graph = {module_name(path): imports(path) for path in ROOT.rglob("*.py")}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        if name in under_way:
            return ()
        under_way.add(name)
        following = max((chain(other) for other in sorted(graph.get(name, set()) - {name})), key=len, default=())
        under_way.discard(name)
        return (name, *following)

    under_way: set[str] = set()
    return list(max((chain(name) for name in sorted(graph)), key=len))


def called_by(make: Callable[[], Callable[[], object]]) -> Calls:
    """Return the files and functions of the library that a fit calls, in the order in which they are first called."""
    make()()  # imports and compiles what it needs
    fit = make()
    codes: dict[CodeType, None] = {}

    def record(frame, event, argument):
        if event == "call":
            codes.setdefault(frame.f_code)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        fit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    # Comprehensions and functions that dataclasses generate are not counted.
    own = [code for code in codes if code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<")]
    return list(dict.fromkeys((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname) for code in own))


def _rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    return X, X[:, 0] + 0.1 * rng.normal(size=60), tasks


def _mkmtrl() -> Callable[[], object]:
    X, y, tasks = _rows()
    return partial(kernelkin.MKMTRLClassifier().fit, X, y > 0, tasks=tasks)


def _kin() -> Callable[[], object]:
    X, y, tasks = _rows()
    return partial(kernelkin.KinRegressor(random_state=0).fit, X, y, tasks=tasks)


def _command() -> None:
    """Run `kernelkin fit` on a small table."""
    from kernelkin.cli.main import main

    X, y, tasks = _rows()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        table = Path(folder, "rows.csv")
        lines = [f"{task},{','.join(map(str, row))},{target}" for task, row, target in zip(tasks, X, y, strict=True)]
        table.write_text("\n".join(["shop,u,v,w,sales", *lines, ""]))
        arguments = ["fit", str(table), "--task", "shop", "--target", "sales", "-o", str(Path(folder, "model.kin"))]
        with contextlib.redirect_stdout(io.StringIO()):
            main(arguments)


FITS = {"MK-MTRL": _mkmtrl, "Kin": _kin, "kernelkin fit": lambda: _command}


def main() -> None:
    figures = counts()
    for name, figure in figures.items():
        print(f"{name:24} {figure:6,}")
    if "--write" in sys.argv:
        write_table(figures)
    for name, fit in FITS.items():
        found = called_by(fit)
        if "--list" in sys.argv:
            print(f"\n{name}", *(f"{file}: {function}" for file, function in found), sep="\n")
        packages = Counter("/".join(file.split("/")[:-1]) or "." for file, _ in found)
        print(f"\n{name}:", ", ".join(f"{package} {count}" for package, count in packages.most_common()))
    print("\nimport chain:", " -> ".join(import_chain()))


def write_table(figures: dict[str, int]) -> None:
    """Write the figures as a table into CONTRIBUTING.md, between its marks."""
    page = Path(__file__).parents[1] / "CONTRIBUTING.md"
    before, _, rest = page.read_text().partition("<!--counts-->")
    table = "".join(f"| {name} | {figure:,} |\n" for name, figure in figures.items())
    after = rest.partition("<!--/counts-->")[2]
    page.write_text(f"{before}<!--counts-->\n\n| | |\n|---|---|\n{table}\n<!--/counts-->{after}")


if __name__ == "__main__":
    main()
