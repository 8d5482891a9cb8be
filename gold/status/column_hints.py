"""Columns to look at: of another type than declared, that never came, that look encoded.

Also those that have the name of a column that gold adds. Reads the log and the file footers of a
table's change log, without Spark. Tables in a catalog, and change logs of very many files, are not
looked at.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from gold.status.plan import Held, plan_changes
from gold.views.selects import added_columns, source_names
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.delta_log import ColumnValues, read_column_values, read_table_log

TICKS = (
    ("milliseconds", 10**12, 4 * 10**12),
    ("microseconds", 10**15, 4 * 10**15),
    ("nanoseconds", 10**18, 4 * 10**18),
)
"""Ticks since 1970 of the years 2001 to 2096."""
DAYS = (3_000, 40_000)
"""Days since 1970 of the years 1978 to 2079."""

_DAY_NAME = re.compile(r"(^|_)(date|day|dob|birthday|born|joined|due|on)($|_)", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{2,22}={1,2}")


def encoded_numbers(name: str, least: int, largest: int) -> tuple[str, str] | None:
    """What whole numbers between two bounds look like, and the type to declare.

    None for plain numbers. Days are recognised by the column's name and the size together.
    """
    for unit, low, high in TICKS:
        if low <= least <= largest <= high:
            return f"{unit} since 1970", "timestamp"
    if DAYS[0] <= least <= largest <= DAYS[1] and _DAY_NAME.search(name):
        return "days since 1970", "date"
    return None


def encoded_texts(least: str, largest: str) -> tuple[str, str] | None:
    """What texts between two bounds look like, and the type to declare; None for plain ones."""
    if all(_BASE64.fullmatch(text) and len(text) % 4 == 0 for text in (least, largest)):
        return "base64, as decimals and bytes are sent", "decimal(…) or binary"
    return None


CHANGES = "_changes"
INTEGERS = ("byte", "short", "integer", "long")


def column_hints(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a warning per column that wants looking at; tables without are left out."""
    hints_of = {table.table: list(_find_hints(target, table)) for table in tables}
    return {name: hints for name, hints in hints_of.items() if hints}


def planned_rebuilds(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a warning if its YAML does not fit the columns of its change log any more."""
    columns = {table.table: list_log_columns(target, table) for table in tables}
    return {table.table: find_rebuild(table, columns[table.table]) for table in tables}


def list_log_columns(target: Target, table: Table) -> dict[str, str]:
    """The change log's columns with their types; none without rows, and none in a catalog."""
    log = read_table_log(target, "silver", f"{table.table}{CHANGES}")
    return log.columns if log and log.rows else {}


def find_rebuild(table: Table, columns: Mapping[str, str]) -> list[str]:
    """A warning if the YAML needs a rebuild of a table whose change log has these columns."""
    planned = plan_changes(table, Held(columns, (), None, None)) if columns else None
    if planned is None or planned.effect != "rebuild":
        return []
    action = f"put the YAML back, or `lakehouse rebuild {table.table}`"
    return [f"{'; '.join(planned.why)}; do: {action}"]


def encoded_as(name: str, kind: str, column: ColumnValues) -> tuple[str, str] | None:
    """What a column's values look like, and the type to declare; None for plain values.

    `kind` is the column's type as Delta's log writes it.
    """
    if kind in INTEGERS and column.numbers is not None:
        return encoded_numbers(name, *column.numbers)
    if kind == "string" and column.texts is not None:
        return encoded_texts(*column.texts)
    return None


def _find_hints(target: Target, table: Table) -> Iterator[str]:
    log = read_table_log(target, "silver", f"{table.table}{CHANGES}")
    columns = read_column_values(log) if log else None
    if not (log and columns and log.rows):
        return
    business = {name: column for name, column in columns.items() if not name.startswith("_")}
    yield from _find_never_came(table, business)
    yield from _find_renamed(table, list(business))
    for name in [name for name in business if name not in table.columns]:
        encoded = encoded_as(name, log.columns[name], business[name])
        if encoded is not None:
            looks, declared = encoded
            action = f"declare it, `{name}: {declared}`, or its own type if it is none"
            yield f"column {name} looks like {looks}; do: {action}"


def _find_renamed(table: Table, columns: list[str]) -> Iterator[str]:
    """Columns that are called otherwise where gold adds a column of their name."""
    for view, added in added_columns(table).items():
        for name, called in source_names(columns, added).items():
            if called != name:
                why = f"which adds a {name} itself"
                yield f"column {name} is shown as {called} in gold.{view}, {why}"


def _find_never_came(table: Table, there: Mapping[str, ColumnValues]) -> Iterator[str]:
    """Declared columns without any value, keys apart: a table of deletes alone has no others."""
    if not any(column.values for name, column in there.items() if name not in table.keys):
        return
    undeclared = [name for name in there if name not in table.columns]
    for name in table.columns:
        column = there.get(name)
        if name in table.keys or column is None or column.values:
            continue
        close = get_close_matches(name, undeclared, n=1)
        action = "do: check its name and type, or remove it"
        never = f"no record has had a value of type {table.columns[name].type} for it"
        meant = f"did you mean {close[0]}?" if close else action
        yield f"column {name} is declared, but {never}; {meant}"
