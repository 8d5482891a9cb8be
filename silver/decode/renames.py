"""Fields of records by the names of their columns: `renamed_from` says what the source called them.

A field with an old name is the column, unless the record has a field with the column's own name, or
with a newer one of its old names: the older field is then no column. Only names decide, so that a
null in the newer field is a null of the column.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

from lakehouse.config.table import Table

_Value = TypeVar("_Value")


def column_names(table: Table, fields: Collection[str]) -> Collection[str]:
    """The names of the columns that fields of a record are, in the fields' order.

    A field that is no column, or none that is renamed, keeps its name.
    """
    renamed = table.renamed
    there = {table.fold(field) for field in fields} if renamed else set()
    if there.isdisjoint(renamed):
        return fields
    named = [renamed.get(table.fold(field), field) for field in fields]
    pairs = zip(fields, named, strict=True)
    return [f if there & _newer_names(table, column, f) else column for f, column in pairs]


def by_column(table: Table, row: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """A record's members, or what is said of its fields, by the names of the columns."""
    fields = row.keys()
    names = column_names(table, fields)
    return row if names is fields else dict(zip(names, row.values(), strict=True))


def _newer_names(table: Table, column: str, field: str) -> set[str]:
    """The names of a column that count more than one of its old names; none for another field."""
    declared = table.columns.get(column)
    old = [table.fold(name) for name in (declared.renamed_from if declared else ())]
    if table.fold(field) not in old:
        return set()
    return {table.fold(column), *old[: old.index(table.fold(field))]}
