"""The columns a batch comes out with: what the table knows, what the batch brings, and their types.

A declared column has its declared type. A learned one keeps its type, or grows to a wider one of
its kind when a schema block says so. A new one takes its type from the schema blocks in order of
arrival, or from the values where there are none.

Fields whose names differ only in case are one column, as Delta cannot hold them apart; a record
that has two of them cannot be read, nor can one with more new columns than a table has room for.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from lakehouse.table import LearnedColumn, Table
from silver.column_lists import adds, published
from silver.debezium_encoding import Encoding
from silver.debezium_schema import Survey
from silver.inference import room, settle
from silver.shapes import Shape

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATING = ("float", "double")
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)")
_ARRAY = re.compile(r"array<(.*)>")
_WITHOUT_ANY_VALUE = "string"


class ColumnPlan(NamedTuple):
    """How one column is read.

    `fields` are its names in the JSON; `told` are the encodings by the digest of the schema block
    that tells them; `misfits` are digests of blocks whose type cannot become the column's;
    `learned` whether the type was learned.
    """

    name: str
    fields: tuple[str, ...]
    type: str
    told: Mapping[int, Encoding]
    misfits: frozenset[int]
    learned: bool


class Columns(NamedTuple):
    """The fields of each column that a batch can have, by the column's name.

    Keys first, then the table's columns, then new ones by name. `unfit` tells whether some record
    has a field that no column can hold beside its others.
    """

    fields: Mapping[str, tuple[str, ...]]
    unfit: bool


def columns_of(table: Table, seen: Survey, of_keys: Iterable[str] = ()) -> Columns:
    """The columns of a batch, those included whose type is not known yet.

    New ones have the names that came first, and are so many at most that the table has
    `MOST_COLUMNS`. Names that begin with `_` are the layer's own: such a field is left out.
    `of_keys` are the fields of keys that no row shows.
    """
    own: dict[str, str] = {}
    for name in [*table.keys, *table.columns]:
        own.setdefault(name.lower(), name)
    shapes = [sorted(one.fields) for one in seen.shapes]
    sound = [names for names in shapes if len(names) <= room(own)]
    fields: dict[str, list[str]] = {}
    for field in dict.fromkeys([*chain(*sound), *of_keys]):
        if not field.startswith("_"):
            fields.setdefault(field.lower(), []).append(field)
    arrived = [first for lower, (first, *_) in fields.items() if lower not in own]
    new = settle(arrived if adds(table) else [], own)
    names = [*own.values(), *sorted(new.usable)]
    found = {n: tuple(fields.get(n.lower(), [n])) for n in names if not n.startswith("_")}
    held = held_by(table, found)
    beyond = bool(new.unfit) or (adds(table) and sound != shapes)
    return Columns(found, beyond or any(_doubled(held, names) for names in sound))


def held_by(table: Table, names: Iterable[str]) -> list[str]:
    """Those of the columns that the table keeps, in lower case."""
    return [n.lower() for n in names if n in table.keys or published(table, n)]


def renamed(shapes: Iterable[Shape], columns: Columns, table: Table) -> list[Shape]:
    """The shapes with the columns' names for their fields, without what becomes no column.

    A field that the table ignores keeps its name, so that it is told.
    """
    names = {field: name for name, fields in columns.fields.items() for field in fields}
    return [
        one._replace(
            fields={
                names.get(f, f): t for f, t in one.fields.items() if f in names or not adds(table)
            }
        )
        for one in shapes
    ]


def unknown(table: Table, seen: Survey, columns: Columns) -> set[str]:
    """Fields whose type only the values can tell."""
    told = {name for version in seen.versions for name in version.fields}
    untold = [name for name in columns.fields if name not in table.columns]
    fields = [columns.fields[name] for name in untold]
    return {field for one in fields if told.isdisjoint(one) for field in one}


def planned(
    table: Table, seen: Survey, columns: Columns, inferred: Mapping[str, str]
) -> list[ColumnPlan]:
    """How each column is read; one whose type nothing tells yet is left out, but for keys.

    `inferred` are the types that values tell, by the field's name in lower case.
    """
    plans = []
    for name, fields in columns.fields.items():
        told = {v.digest: v.fields[f] for v in seen.versions for f in fields if f in v.fields}
        shown = inferred.get(name.lower())
        if told or shown or name in table.keys or name in table.columns:
            plans.append(_plan(name, fields, table, told, shown or _WITHOUT_ANY_VALUE))
    return plans


def wider(type: str, other: str) -> str | None:
    """The type of the same kind that holds both without loss; None when there is none."""
    for kind in (_WHOLE, _FLOATING):
        if type in kind and other in kind:
            return max(type, other, key=kind.index)
    first, second = _ARRAY.fullmatch(type), _ARRAY.fullmatch(other)
    if first and second:
        element = wider(first[1], second[1])
        return element and f"array<{element}>"
    return type if type == other else _wider_decimal(type, other)


def normal(type: str) -> str:
    """A type as Spark prints it: `INTEGER` is int, `Decimal(10, 2)` is decimal(10,2)."""
    compact = re.sub(r"\s+", "", type.lower())
    decimal = _DECIMAL.fullmatch(compact)
    if decimal:
        return f"decimal({decimal[1]},{decimal[2] or 0})"
    return _ALIASES.get(compact, compact)


def _plan(
    name: str,
    fields: tuple[str, ...],
    table: Table,
    told: Mapping[int, Encoding],
    otherwise: str,
) -> ColumnPlan:
    column = table.columns.get(name)
    if column is not None and not isinstance(column, LearnedColumn):
        return ColumnPlan(name, fields, column.type, told, frozenset(), False)
    grows = table.schema_changes.widen == "apply" or column is None
    start = normal(column.type) if column else None
    type, misfits = _settled(start, told, grows)
    return ColumnPlan(name, fields, type or otherwise, told, misfits, True)


def _settled(
    type: str | None, told: Mapping[int, Encoding], grows: bool
) -> tuple[str | None, frozenset[int]]:
    misfits = set()
    for digest, encoding in told.items():
        both = wider(type, encoding.type) if type else encoding.type
        if both is None:
            misfits.add(digest)
        elif grows or type is None:
            type = both
    return type, frozenset(misfits)


def _wider_decimal(type: str, other: str) -> str | None:
    first, second = _DECIMAL.fullmatch(type), _DECIMAL.fullmatch(other)
    if not first or not second:
        return None
    scale = max(int(first[2]), int(second[2]))
    whole = max(int(first[1]) - int(first[2]), int(second[1]) - int(second[2]))
    return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else None


def _doubled(held: Collection[str], names: Iterable[str]) -> bool:
    """Whether two of the names are one column that is held."""
    columns = [name.lower() for name in names if name.lower() in held]
    return len(set(columns)) < len(columns)
