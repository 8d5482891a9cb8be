"""The range in which the keys of a part of the change log lie, as a condition that skips files.

Delta's log has the least and the greatest value of each file: a condition on key columns, with
literals, keeps a read or a MERGE from opening files that hold none of the keys. Only columns that
are never null, and whose type Spark and Delta order alike, have a range. A sensitive key has none:
Delta's log records a MERGE's condition. Other columns have none: of the row that a change replaces,
only the key is known.
"""

from datetime import date
from typing import Any, TypeAlias

from pyspark.sql.types import DataType, StructType

from lakehouse.config.table import Table
from lakehouse.storage.delta_log import Action, TableLog
from lakehouse.storage.names import literal, quote

KeyBounds: TypeAlias = dict[str, tuple[Any, Any]]

_SUFFIXES = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}


def list_bounded_keys(table: Table, schema: StructType) -> list[str]:
    """The key columns of the schema that have a range."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    left_out = {key for key in table.keys if table.is_sensitive(key)} | table.nullable_keys
    fit = (*_SUFFIXES, "string", "date")
    return [key for key in table.keys if key not in left_out and types.get(key) in fit]


def unite_bounds(bounds: KeyBounds, others: KeyBounds) -> KeyBounds:
    """The bounds of both, for the columns that both have."""
    shared = [n for n in bounds if n in others]
    return {n: (min(bounds[n][0], others[n][0]), max(bounds[n][1], others[n][1])) for n in shared}


def skips_enough_files(bounds: KeyBounds, log: TableLog | None) -> bool:
    """Whether at least half of the table's files hold no key within the bounds.

    Literals are part of a plan: with new ones Spark compiles it again, which takes longer than to
    read a few files. True of a catalog's table, whose files are not known without a query.
    """
    if log is None:
        return True
    skipped = sum(any(_is_outside(log, f, *item) for item in bounds.items()) for f in log.stats)
    return 2 * skipped >= max(1, len(log.stats))


def _is_outside(log: TableLog, stats: Action, name: str, ends: tuple[Any, Any]) -> bool:
    """Whether all values of a file's column lie outside of the bounds."""
    stored_name = log.physical.get(name, name)
    lowest, highest = (stats.get(k, {}).get(stored_name) for k in ("minValues", "maxValues"))
    if lowest is None or highest is None or None in ends:
        return False
    first, last = (str(end) if isinstance(end, date) else end for end in ends)
    return bool(last < lowest or first > highest)


def build_key_condition(
    bounds: KeyBounds | None, schema: StructType, alias: str = ""
) -> str | None:
    """SQL that is true on rows that may have one of the keys; None where all may."""
    comparisons = (
        f"{alias}{quote(name)} {operator} {_write_literal(value, schema[name].dataType)}"
        for name, ends in (bounds or {}).items()
        if None not in ends
        for operator, value in zip((">=", "<="), ends, strict=True)
    )
    return " AND ".join(comparisons) or None


def _write_literal(value: object, type: DataType) -> str:
    """A literal of exactly the column's type: one that has to be cast skips no file."""
    if isinstance(value, date):
        return f"DATE{literal(value.isoformat())}"
    return literal(value) if isinstance(value, str) else f"{value}{_SUFFIXES[type.simpleString()]}"
