"""Names of functions begin with a verb and need no module to be understood; variables say what."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("bronze", "silver", "gold", "lakehouse", "cdc_lakehouse")
TREES = [ast.parse(f.read_text()) for p in PACKAGES for f in sorted((ROOT / p).rglob("*.py"))]
_VERBS = """
    accept acknowledge add advance agree answer append apply are ask assume begin bind build
    call can cast check choose clean close cluster collect compare complete connect convert
    count create cut decode declare delete describe digest discover do draw drop emit end ensure
    equal erase evaluate exit explain extend fetch fill find finish fit fold follow forget get
    go handle has hash hide hold identify infer ingest is join judge keep land leave let list
    load lock look make mark match may measure merge move name note observe open pad parse pin
    place plan prepare print publish purge quote raise read rebuild recover refresh refuse
    register reject remove rename render renumber replace replay report resolve restore rewrite
    run save say select send serve set settle shorten show skip sort split start stop strip sum
    swap take tell tend test to translate try unite unpack unwrap update validate verify wait
    warn watch widen wrap write
"""
VERBS = frozenset(_VERBS.split())
VAGUE = ("found", "known", "own", "told")


def functions() -> list[str]:
    """The names of the functions and methods that are neither properties nor Python's own."""
    return [
        node.name.strip("_")
        for tree in TREES
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not node.name.startswith("__")
        if not any("property" in ast.unparse(each) for each in node.decorator_list)
    ]


def test_few_functions_have_a_name_of_one_word() -> None:
    names = functions()
    assert sum("_" not in name for name in names) <= 0.2 * len(names)


def test_most_functions_begin_with_a_verb() -> None:
    names = functions()
    assert sum(name.split("_")[0] in VERBS for name in names) >= 0.5 * len(names)


def test_variables_are_named_after_what_they_hold() -> None:
    vague = [
        node
        for tree in TREES
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in VAGUE)
        or (isinstance(node, ast.arg) and node.arg in VAGUE)
    ]
    assert len(vague) < 40


def test_every_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name for tree in TREES for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
