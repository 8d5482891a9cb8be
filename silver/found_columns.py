"""Which columns a batch of rows has, and of which types: declared, learned before, or found now."""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.table import Table
from silver.changes import ORIGIN
from silver.column_lists import adds
from silver.inference import by_arrival, room, settle, types, unknown_names
from silver.json_text import elements

DOCUMENT = "__document"
_WITHOUT_ANY_VALUE = "string"


class Layout(NamedTuple):
    """Types of all members to read, and names.

    The table's columns in order, keys first; all that rows may name, where some row names another
    one that is wanted and fits no column; new ones that the table ignores.
    """

    types: dict[str, T.DataType]
    columns: list[str]
    allowed: list[str] | None
    ignored: list[str]


def layout(
    frame: DataFrame, table: Table, protocol: Mapping[str, str | None], keys: Column | None = None
) -> Layout:
    """Settle the columns of a frame whose `__document` holds rows as JSON objects.

    Undeclared names with an underscore in front are a protocol's and no columns. A member with
    nulls only has no type yet and is left out; a key without a type is a string.
    """
    declared = declared_types(table) | {name: type for name, type in protocol.items() if type}
    known = list(dict.fromkeys([*declared, *table.keys]))
    names = unknown_names(frame, F.col(DOCUMENT), known)
    wanted = [name for name in names if _wanted(name, table, protocol)]
    usable, unfit = settle(wanted, known)
    if unfit:  # which of them are, their order tells
        arrival = F.col(ORIGIN)["_arrival"]
        arrived = by_arrival(frame, F.col(DOCUMENT), arrival, wanted, room(known))
        usable, unfit = settle(arrived, known)
    ignored = [name for name in names if name and name not in wanted and not name.startswith("_")]
    asked = [name for name in table.keys if name not in declared] if keys is None else []
    found = types(frame, F.col(DOCUMENT), [*asked, *usable], _undeclared_keys(table, keys))
    columns = _order(table, [name for name in found if name not in protocol])
    ddl = dict.fromkeys(table.keys, _WITHOUT_ANY_VALUE) | found | declared
    allowed = [*known, *usable] if unfit else None
    return Layout(data_types(frame, ddl), columns, allowed, ignored)


def declared_types(table: Table) -> dict[str, str]:
    """The SQL types of the columns that the table declares or has learned."""
    return {name: column.type for name, column in table.columns.items()}


def data_types(frame: DataFrame, sql_types: Mapping[str, str]) -> dict[str, T.DataType]:
    """SQL types as data types; looks at the plan only, no job."""
    nulls = (F.lit(None).cast(type).alias(f"c{n}") for n, type in enumerate(sql_types.values()))
    schema = frame.select(*nulls).schema
    return {name: field.dataType for name, field in zip(sql_types, schema, strict=True)}


def _wanted(name: str, table: Table, protocol: Mapping[str, str | None]) -> bool:
    if name in protocol:
        return True
    return adds(table) and not name.startswith("_")


def _undeclared_keys(table: Table, keys: Column | None) -> dict[str, Column]:
    if keys is None:
        return {}
    parts = elements(keys, T.VariantType())
    return {n: F.get(parts, place) for place, n in enumerate(table.keys) if n not in table.columns}


def _order(table: Table, found: list[str]) -> list[str]:
    return list(dict.fromkeys([*table.keys, *table.columns, *sorted(found)]))
