"""The columns a batch comes out with: what the table knows, what the batch brings, and their types.

A declared column has its declared type. A learned one keeps its type, or grows to a wider one of
its kind when a schema block says so. A new one takes its type from the schema blocks in order of
arrival, or from the values where there are none.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakehouse.table import LearnedColumn, Table
from silver.debezium_encoding import Encoding
from silver.debezium_schema import Survey, Version

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


class ColumnPlan(NamedTuple):
    """How one column is read.

    `field` is its name in the JSON; `told` are the encodings by the digest of the schema block that
    tells them; `misfits` are digests of blocks whose type cannot become the column's; `learned`
    whether the type was learned.
    """

    name: str
    field: str
    type: str
    told: Mapping[int, Encoding]
    misfits: frozenset[int]
    learned: bool


def unknown(table: Table, seen: Survey) -> set[str]:
    """Fields whose type only the values can tell: keys, and others that may be added."""
    told = {name for version in seen.versions for name in version.fields}
    fields = set(table.keys) | (seen.names if _adds(table) else set())
    return {f for f in fields if not _known(f, [*table.columns, *told])}


def planned(table: Table, seen: Survey, inferred: Mapping[str, str]) -> list[ColumnPlan]:
    """Keys, then the table's columns in their order, then new ones by name.

    Names that differ only in case are one column: Delta cannot hold them apart. Names that begin
    with `_` are the layer's own: such a field is left out.
    """
    told = [name for version in seen.versions for name in version.fields]
    new = sorted({*told, *inferred} if _adds(table) else ())
    fields = [*told, *sorted(seen.names), *inferred]
    plans: dict[str, ColumnPlan] = {}
    for name in [*table.keys, *table.columns, *new]:
        if not _known(name, plans) and not name.startswith("_"):
            plans[name] = _plan(name, _known(name, fields) or name, table, seen.versions, inferred)
    return list(plans.values())


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
    field: str,
    table: Table,
    versions: list[Version],
    inferred: Mapping[str, str],
) -> ColumnPlan:
    told = {v.digest: v.fields[field] for v in versions if field in v.fields}
    column = table.columns.get(name)
    if column is not None and not isinstance(column, LearnedColumn):
        return ColumnPlan(name, field, column.type, told, frozenset(), False)
    grows = table.schema_changes.widen == "apply" or column is None
    start = normal(column.type) if column else None
    type, misfits = _settled(start, told, grows)
    return ColumnPlan(name, field, type or inferred.get(field, "string"), told, misfits, True)


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


def _known(name: str, names: Iterable[str]) -> str | None:
    among = list(names)
    if name in among:
        return name
    return next((each for each in among if each.lower() == name.lower()), None)


def _adds(table: Table) -> bool:
    return table.schema_changes.add_column != "ignore"
