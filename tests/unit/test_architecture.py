"""The house rules that a machine can keep: imports, module size, what runs everywhere."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("lakehouse", "bronze", "silver", "gold")
ALLOWED = {
    "lakehouse": {"lakehouse"},
    "bronze": {"bronze", "lakehouse"},
    "silver": {"silver", "bronze.contract", "lakehouse"},
    "gold": {"gold", "silver.contract", "lakehouse"},
}
FRONT_DOOR = ROOT / "lakehouse" / "cli"
FORBIDDEN = {
    "rdd", "_jvm", "_jsc", "sparkContext", "SparkContext", "DeltaTable",  # Connect has none
    "cache", "persist", "unpersist", "createGlobalTempView", "createOrReplaceGlobalTempView",
    "processingTime", "lastProgress",  # serverless ends its streams; Connect counts no rows there
}  # fmt: skip
LONGEST_MODULE = 400
MODULES = sorted(module for layer in LAYERS for module in (ROOT / layer).rglob("*.py"))


def named(module: Path) -> str:
    return str(module.relative_to(ROOT))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def our_own(name: str) -> bool:
    return name.partition(".")[0] in LAYERS


def is_allowed(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in allowed)


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_layer_imports_only_the_contract_below_it(module: Path) -> None:
    layer = module.relative_to(ROOT).parts[0]
    names = imported(ast.parse(module.read_text(encoding="utf-8")))
    wrong = [name for name in names if our_own(name) and not is_allowed(name, ALLOWED[layer])]
    assert module.is_relative_to(FRONT_DOOR) or wrong == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_nothing_is_called_that_spark_connect_or_serverless_lacks(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert (attributes | names) & FORBIDDEN == set()


def spark_settings(tree: ast.AST) -> Iterator[ast.AST]:
    """Calls of `….conf.set(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "set":
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr == "conf":
                yield node


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_spark_is_configured_only_where_its_session_is_made(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    assert named(module) == "lakehouse/session.py" or list(spark_settings(tree)) == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_module_can_be_read_in_one_sitting(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_check_is_switched_off(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert [mark for mark in ("# noqa", "type: ignore", "TODO") if mark in text] == []


ROOMS = sorted({module.parent for module in MODULES if module.is_relative_to(ROOT / "silver")})
MOST_MODULES, MOST_PARAMETERS = 12, 6


@pytest.mark.parametrize("room", ROOMS, ids=named)
def test_a_room_of_silver_has_few_modules(room: Path) -> None:
    assert len([m for m in room.glob("*.py") if m.name != "__init__.py"]) <= MOST_MODULES


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return [each.arg for each in given if each.arg not in ("self", "cls")]


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m.is_relative_to(ROOT / "silver")], ids=named
)
def test_no_function_of_silver_has_many_parameters(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [f.name for f in functions if len(parameters(f)) > MOST_PARAMETERS] == []


def test_silvers_rooms_import_downwards_only() -> None:
    """The layers of `[tool.importlinter]` in pyproject.toml."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
