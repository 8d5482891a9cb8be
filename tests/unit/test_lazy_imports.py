"""What is called of a module that is imported by name exists: no type checker looks there."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("lakehouse/**/*.py"))


def used(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and attribute: `import_module("m").a`, and `n.a` after `n = import_module("m")`."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef):
            continue
        nodes = list(ast.walk(scope))
        named = {
            node.targets[0].id: imported(node.value)
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in nodes:
            if isinstance(node, ast.Attribute):
                value = node.value
                module = named.get(value.id) if isinstance(value, ast.Name) else imported(value)
                if module is not None:
                    yield module, node.attr


def imported(node: ast.AST) -> str | None:
    """The name in `importlib.import_module("NAME")`, or None for anything else."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "importlib.import_module"):
        return None
    (name,) = node.args
    return name.value if isinstance(name, ast.Constant) else None


def test_a_use_that_is_not_there_is_seen() -> None:
    code = 'def f():\n    a = importlib.import_module("m")\n    a.b(importlib.import_module("n").c)'
    assert sorted(used(ast.parse(code))) == [("m", "b"), ("n", "c")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_attribute_of_a_module_that_is_imported_by_name_exists(file: Path) -> None:
    wanted = sorted(set(used(ast.parse(file.read_text(encoding="utf-8")))))
    absent = [f"{m}.{a}" for m, a in wanted if m != "databricks.connect"
              and not hasattr(import_module(m), a)]  # fmt: skip
    assert absent == []
