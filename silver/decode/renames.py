"""Finds the columns of a record's fields, also by the old names that `renamed_from` declares.

A field with an old name is the column's, unless the record also has a field with the column's own
name or a newer old name: the older field is then of no column and keeps its name. Only names
decide: a null in the newer field makes the column null.
"""

from collections.abc import Collection, Mapping
from typing import TypeVar

from lakehouse.config.table import Table

_Value = TypeVar("_Value")


def column_names(table: Table, fields: Collection[str]) -> Collection[str]:
    """The name of the column that each field of a record belongs to, in the fields' order.

    A field that belongs to no column, or to one without old names, keeps its name.
    """
    renamed = table.renamed
    present = {table.fold(field) for field in fields} if renamed else set()
    if present.isdisjoint(renamed):
        return fields
    columns = [renamed.get(table.fold(field), field) for field in fields]
    pairs = zip(fields, columns, strict=True)
    return [f if present & _list_newer_names(table, c, f) else c for f, c in pairs]


def by_column(table: Table, row: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """A mapping by fields, such as a row, with the columns' names in place of the fields'."""
    fields = row.keys()
    names = column_names(table, fields)
    return row if names is fields else dict(zip(names, row.values(), strict=True))


def _list_newer_names(table: Table, column: str, field: str) -> set[str]:
    """The column's own name and those of its old names that are newer than `field`.

    Empty where `field` is not one of the column's old names.
    """
    declared = table.columns.get(column)
    old = [table.fold(name) for name in (declared.renamed_from if declared else ())]
    if table.fold(field) not in old:
        return set()
    return {table.fold(column), *old[: old.index(table.fold(field))]}
