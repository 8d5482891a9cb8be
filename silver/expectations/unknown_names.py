"""What is wrong with the names in a table's expectations: their types, and columns nobody knows.

Both checks give lines such as `expectations[0].column: found 'a', expected b`, as `unpacking` takes
them.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path

from lakehouse.config.table import Expectation, Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.delta_log import read_log

COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")
ABOUT_OTHER_COLUMNS = ("expect_column_to_exist", "expect_table_columns_")
"""Expectations that may name a column which is not there: that is what they are about."""


def unknown_types(table: Table, known: Collection[str]) -> list[str]:
    """A line per expectation whose type is none of the `known`.

    The nearest name that says yes or no as the written one does is suggested, never its opposite.
    """
    return [
        f"expectations[{place}].type: found {each.type!r}, {_suggested(each.type, known)}"
        for place, each in enumerate(table.expectations)
        if each.type not in known
    ]


def unknown_columns(target: Target, table: Table) -> list[str]:
    """A line per column that an expectation names and that the table cannot have.

    A table's columns are known when its change log exists in a local lake, or when the YAML
    declares all keys and more: it then must declare every column that a rule names. Elsewhere, any
    name may be that of an undeclared column, and nothing is said.
    """
    logged = logged_columns(target, table)
    declared = set(table.columns)
    if not (table.keys and table.is_declared) and logged is None:
        return []
    there = declared | set(table.keys) | (logged or set())
    return [
        f"expectations[{place}].{argument}: found {name!r}, {_nearest_column(name, there)}"
        for place, each in enumerate(table.expectations)
        for argument, name in _columns(each)
        if name not in there
    ]


def logged_columns(target: Target, table: Table) -> set[str] | None:
    """The business columns of the table's change log; None where there is none on this machine."""
    folder = names.location(target, "silver", f"{table.table}_changes")
    known = None if folder is None or "://" in folder else read_log(Path(folder))
    return None if known is None else {n for n in known.columns if not n.startswith("_")}


def _suggested(written: str, known: Collection[str]) -> str:
    alike = [name for name in known if _denies(name) == _denies(written)]
    close = get_close_matches(written, sorted(alike), n=1)
    if close:
        return f"expected {close[0]}"
    return "expected a name of Great Expectations, such as expect_column_values_to_not_be_null"


def _denies(name: str) -> bool:
    """Whether a name says that something must not be so."""
    return any(word.startswith("not") for word in name.split("_"))


def _columns(expectation: Expectation) -> Iterator[tuple[str, str]]:
    if expectation.type.startswith(ABOUT_OTHER_COLUMNS):
        return
    for argument in COLUMN_ARGUMENTS:
        given = expectation.arguments.get(argument)
        for name in given if isinstance(given, list) else [given]:
            if isinstance(name, str):
                yield argument, name


def _nearest_column(name: str, there: Collection[str]) -> str:
    close = get_close_matches(name, sorted(there), n=1)
    return f"expected {close[0] if close else 'a declared column'}, or declare it in `columns`"
