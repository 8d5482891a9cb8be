"""The house rules that a machine can keep: imports, module size, what runs everywhere."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LAYERS = ("lakehouse", "bronze", "silver", "gold", "cdc_lakehouse")
ALLOWED = {
    "lakehouse": {"lakehouse"},
    "bronze": {"bronze", "lakehouse"},
    "silver": {"silver", "bronze.contract", "lakehouse"},
    "gold": {"gold", "silver.contract", "lakehouse"},
    "cdc_lakehouse": {"cdc_lakehouse", "bronze", "silver", "gold", "lakehouse"},
}
FORBIDDEN = {
    "rdd", "_jvm", "_jsc", "sparkContext", "SparkContext", "DeltaTable",  # Connect has none
    "cache", "persist", "unpersist", "createGlobalTempView", "createOrReplaceGlobalTempView",
    "processingTime", "lastProgress",  # serverless ends its streams; Connect counts no rows there
    "numInputRows",  # serverless says 0 of every batch
}  # fmt: skip
# The settings that serverless takes and the code sets; a local session sets others.
SERVERLESS_SETTINGS = {"spark.sql.session.timeZone"}
LONGEST_MODULE = 400
FRONT = "cdc_lakehouse"
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
    assert module.name == "__main__.py" or wrong == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_only_the_front_prints(module: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    prints = [call for call in calls if ast.unparse(call.func) == "print"]
    assert module.relative_to(ROOT).parts[0] == FRONT or prints == []


def lacking(tree: ast.AST) -> set[str]:
    """Attributes, names and keys of the code that name what is forbidden."""
    used: set[object] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            used.add(node.slice.value)
    return FORBIDDEN & used


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_nothing_is_called_that_spark_connect_or_serverless_lacks(module: Path) -> None:
    """A flow of AUTO CDC keeps its batch where Spark can, and goes without where it cannot.

    A Spark of this process's own is started by its context.
    """
    tried = {
        "cdc_lakehouse/flows/batch.py": {"persist", "unpersist"},
        "lakehouse/spark/session.py": {"SparkContext"},
    }
    found = lacking(ast.parse(module.read_text(encoding="utf-8")))
    assert found == tried.get(named(module), set())


@pytest.mark.parametrize(
    "fault", ['batch["numInputRows"]', "query.lastProgress", "rows.persist()", "DeltaTable(x)"]
)
def test_a_call_that_serverless_lacks_is_found(fault: str) -> None:
    assert len(lacking(ast.parse(fault))) == 1


def refused_settings(tree: ast.AST) -> list[str]:
    """What `….conf.set(…)` sets, and `SET` in SQL, that serverless may refuse."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".conf.set"):
            found.append(ast.unparse(node.args[0]).strip("'"))
        elif isinstance(node, ast.Constant) and str(node.value).startswith("SET spark"):
            found.append(str(node.value))
    return [setting for setting in found if setting not in SERVERLESS_SETTINGS]


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_nothing_depends_on_a_setting_that_serverless_refuses(module: Path) -> None:
    """`interpreting_session` is for local lakes alone; `apply_settings` lets one be refused."""
    found = refused_settings(ast.parse(module.read_text(encoding="utf-8")))
    by_variables = {
        "lakehouse/spark/session.py": ["key"],
        "lakehouse/storage/statements.py": ["name"],
    }
    assert found == by_variables.get(named(module), [])


@pytest.mark.parametrize(
    "fault",
    ['spark.conf.set("spark.sql.shuffle.partitions", 4)', 'spark.sql("SET spark.sql.ansi = 1")'],
)
def test_a_setting_that_serverless_may_refuse_is_found(fault: str) -> None:
    assert len(refused_settings(ast.parse(fault))) == 1


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_module_of_ours_is_imported_by_its_name(module: Path) -> None:
    """A type checker follows import statements only; slow imports stand in the function."""
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    given = [ast.unparse(c.args[0]) for c in calls if "import_module" in ast.unparse(c.func)]
    assert [name for name in given if our_own(name.strip("'"))] == []


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_a_module_can_be_read_in_one_sitting(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_check_is_switched_off(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert [mark for mark in ("# noqa", "type: ignore", "TODO") if mark in text] == []


ROOMS = sorted({module.parent for module in MODULES})
MOST_MODULES, MOST_PARAMETERS = 12, 6


@pytest.mark.parametrize("room", ROOMS, ids=named)
def test_a_folder_has_few_modules(room: Path) -> None:
    assert len([m for m in room.glob("*.py") if m.name != "__init__.py"]) <= MOST_MODULES


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return [each.arg for each in given if each.arg not in ("self", "cls")]


def is_command(function: ast.FunctionDef) -> bool:
    """Whether typer makes the parameters options of a command."""
    return any(ast.unparse(one).startswith("command(") for one in function.decorator_list)


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_no_function_has_many_parameters(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    functions = [function for function in found if not is_command(function)]
    assert [f.name for f in functions if len(parameters(f)) > MOST_PARAMETERS] == []


def test_silvers_rooms_import_downwards_only() -> None:
    """The layers of `[tool.importlinter]` in pyproject.toml."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
