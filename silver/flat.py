"""Rows of JSON objects as typed columns, with what they lack and what in them does not fit.

The frames here have a column `__document`, the JSON text of a row, and any others whose names
begin with two underscores, which are passed on.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import quote
from lakehouse.table import LearnedColumn, Table
from silver.casting import reading, typed
from silver.changes import fault
from silver.found_columns import DOCUMENT, Layout, layout
from silver.inference import UNFIT
from silver.json_text import UNREADABLE, elements, is_object, object_members

_LONGEST_SHOWN = 80


class Rows(NamedTuple):
    """Typed rows, which of their columns are the table's (keys first), and ignored new members.

    Beside those, the frame has the protocol's columns, `__names` (the members present), `__whole`
    (whether the document is one readable JSON object), and the faults `__key_fault` and
    `__value_fault`, null where there is none.
    """

    frame: DataFrame
    columns: list[str]
    ignored: list[str]


def rows(
    frame: DataFrame,
    table: Table,
    protocol: Mapping[str, str | None],
    keys: Column | None = None,
) -> Rows:
    """Type every member that the table declares, has learned or that this batch is found to have.

    `protocol` names members that are read but are no columns of the table, with their types (None:
    as found). `keys` is the JSON array of the keys, where the document does not hold them.
    """
    found = layout(frame, table, protocol, keys)
    apart = {} if keys is None else _by_place(table, keys)
    read = frame.select("*", *_read({n: t for n, t in found.types.items() if n not in apart}))
    texts = read.select("*", _whole(), F.struct(*_texts(found, apart)).alias("__texts"))
    values = (typed(_text(name), type).alias(name) for name, type in found.types.items())
    faults = (_key_fault(table, found), _value_fault(table, found))
    return Rows(texts.select("*", *values).select("*", *faults), found.columns, found.ignored)


def absent(columns: Iterable[str], keys: Iterable[str], *parts: Column) -> Column:
    """The non-key columns that are in one of the arrays of names; null when there are none."""
    others = names_array(name for name in columns if name not in set(keys))
    found = F.array_intersect(others, F.array_distinct(F.concat(*parts)))
    return F.when(F.size(found) > 0, found)


def lacking(columns: Iterable[str]) -> Column:
    """The columns that are no members of the row's document."""
    return F.array_except(names_array(columns), F.col("__names"))


def names_array(names: Iterable[str]) -> Column:
    """Names as an array of strings, also when there are none."""
    return F.array(*map(F.lit, names)).cast("array<string>")


def _by_place(table: Table, keys: Column) -> dict[str, Column]:
    texts = elements(keys, T.StringType())
    return {name: F.get(texts, place) for place, name in enumerate(table.keys)}


def _read(types: Mapping[str, T.DataType]) -> list[Column]:
    members = object_members(F.col(DOCUMENT), {n: reading(type) for n, type in types.items()})
    return [
        members.alias("__members"),
        F.json_object_keys(DOCUMENT).alias("__names"),
        is_object(F.col(DOCUMENT)).alias("__object"),
    ]


def _whole() -> Column:
    unreadable = F.col("__members").getField(UNREADABLE).isNotNull()
    return (F.col("__object") & ~unreadable).alias("__whole")


def _texts(found: Layout, apart: Mapping[str, Column]) -> list[Column]:
    members = F.col("__members")
    inside = {name: members.getField(name) for name in found.types if name not in apart}
    texts = {
        name: one
        if isinstance(reading(found.types[name]), T.StringType)
        else one.try_cast("string")
        for name, one in inside.items()
    }
    return [one.alias(name) for name, one in {**texts, **apart}.items()]


def _text(name: str) -> Column:
    return F.col("__texts").getField(name)


def _key_fault(table: Table, found: Layout) -> Column:
    checks = [
        F.when(_text(name).isNull(), fault("no_key", f"key column {name}: missing or null")).when(
            F.col(quote(name)).isNull(), fault("bad_value", _misfit(table, name, found))
        )
        for name in table.keys
    ]
    return F.coalesce(*checks, F.lit(None)).alias("__key_fault")


def _value_fault(table: Table, found: Layout) -> Column:
    checks = []
    if found.allowed is not None:
        others = F.array_except("__names", names_array(found.allowed))
        unfit = F.exists(others, lambda name: ~name.startswith("_"))
        checks.append(F.when(unfit, fault("incompatible_schema", UNFIT)))
    checks += [
        F.when(
            _text(name).isNotNull() & F.col(quote(name)).isNull(),
            fault(_misfit_reason(table, name), _misfit(table, name, found)),
        )
        for name in found.columns
        if name not in table.keys
    ]
    return F.coalesce(*checks, F.lit(None)).alias("__value_fault")


def _misfit_reason(table: Table, name: str) -> str:
    learned = isinstance(table.columns.get(name), LearnedColumn)
    return "incompatible_schema" if learned else "bad_value"


def _misfit(table: Table, name: str, found: Layout) -> Column:
    column = table.columns.get(name)
    hidden = column is not None and column.sensitive
    shown = (
        F.lit("a value that is not shown")
        if hidden
        else F.concat(F.lit("'"), F.substring(_text(name), 1, _LONGEST_SHOWN), F.lit("'"))
    )
    expected = found.types[name].simpleString()
    return F.concat(F.lit(f"column {name}: found "), shown, F.lit(f", expected {expected}"))
