"""What begins with an underscore is used in its own module only, and no code uses the `__dict__` of another object."""

import ast
from pathlib import Path

import pytest

import kernelkin

ROOT = Path(kernelkin.__file__).parent
# scikit-learn and Python have no public names for these.
ALLOWED = {
    "_actions",
    "_getframe",
    "_kwargs",
    "_asdict",
    "_replace",
    "_response_method",
    "_score_func",
    "_sign",
    "_validate_params",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined_names(tree: ast.AST) -> set[str]:
    """Private functions, classes and attributes that a module itself defines."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return names


def is_own(value: ast.expr) -> bool:
    """Whether an attribute is looked up on the object, its class or its base classes."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def faults(source: str) -> list[str]:
    """Uses of others' private names in a module, as `line: expression`."""
    tree = ast.parse(source)
    known, found = defined_names(tree) | ALLOWED, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            foreign = is_private(node.attr) and not is_own(node.value) and node.attr not in known
            if foreign or node.attr == "__dict__":
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.ImportFrom) and node.level:
            found += [f"{node.lineno}: {alias.name}" for alias in node.names if is_private(alias.name)]
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("model._fit(X)", ["1: model._fit"]),
        ("other.__dict__", ["1: other.__dict__"]),
        ("self.plan()._solve()", ["1: self.plan()._solve"]),
        ("from .base import _read", ["1: _read"]),
        ("self._fit(X); super()._fit(X)", []),
        ("class A:\n def _fit(self): ...\n def both(self, other): return other._fit()", []),
    ],
)
def test_the_check_finds_private_names_of_others(source, expected):
    assert faults(source) == expected


def test_nobody_uses_private_names_of_other_modules():
    found = {str(path.relative_to(ROOT)): faults(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    assert {path: lines for path, lines in found.items() if lines} == {}
